/* An answer of the API server: the first byte chooses its code, the rest is its
 * body. Whatever comes: a status that fits the code, and a message for all but
 * success. */
#include <stdint.h>
#include <string.h>

#include "k8s/api/api_answer.h"
#include "pool/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int codes[] = {200, 201, 204, 400, 401, 403, 404,
                                409, 410, 422, 429, 500, 503, 504};
    struct wp_http_answer answer = {.status = WP_OK, .retry_after_ns = -1};
    struct wp_api_result result;
    struct wp_api_words words;

    if (size == 0) {
        return 0;
    }
    answer.code = codes[data[0] % WP_ARRAY_LEN(codes)];
    answer.body = (struct wp_str){(const char *)data + 1, size - 1};
    wp_api_answer_read(&answer, &result, &words);
    WP_ASSERT(result.code == answer.code);
    WP_ASSERT(result.status != WP_OK || answer.code < 300);
    WP_ASSERT(result.status == WP_OK || strlen(result.message) > 0);
    WP_ASSERT(result.object == NULL || json_is_object(result.object));
    WP_ASSERT(result.retry_after_ns >= -1);
    json_decref(result.object);
    return 0;
}
