/* Any bytes as a ConversionReview: refused with a reason, or answered; and what
 * was converted goes the same way back and there again. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/convert/convert.h"
#include "k8s/convert/review.h"
#include "k8s/objects/json.h"
#include "pool/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *
other_of(const char *api_version)
{
    const char *slash = strchr(api_version, '/');
    bool core = slash != NULL && strncmp(api_version, "agents.", 7) == 0;
    bool alpha = slash != NULL && strcmp(slash, "/v1alpha1") == 0;

    if (core) {
        return alpha ? "agents.x-k8s.io/v1beta1" : "agents.x-k8s.io/v1alpha1";
    }
    return alpha ? "extensions.agents.x-k8s.io/v1beta1"
                 : "extensions.agents.x-k8s.io/v1alpha1";
}

/* Converted twice, it stays what it is. */
static void
check_stable(json_t *object)
{
    const char *version = wp_json_text(object, "apiVersion", NULL);
    struct wp_err err;
    json_t *back = wp_convert(object, other_of(version), &err);
    json_t *again;
    json_t *once_more;

    if (back == NULL) {
        return; /* It came through as it was, of another group. */
    }
    again = wp_convert(back, version, &err);
    WP_ASSERT(again != NULL);
    once_more = wp_convert(again, other_of(version), &err);
    WP_ASSERT(once_more != NULL);
    json_decref(once_more);
    json_decref(again);
    json_decref(back);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_err err = {.status = WP_OK};
    size_t len = 0;
    char *text =
        wp_review_answer((struct wp_str){(const char *)data, size}, &len, &err);
    json_t *answer;
    json_t *object;
    size_t i;

    if (text == NULL) {
        WP_ASSERT(err.status != WP_OK && err.msg[0] != '\0');
        return 0;
    }
    answer = json_loadb(text, len, JSON_ALLOW_NUL, NULL);
    WP_ASSERT(answer != NULL);
    json_array_foreach(wp_json_at(answer, "response", "convertedObjects", NULL),
                       i, object)
    {
        check_stable(object);
    }
    json_decref(answer);
    free(text);
    return 0;
}
