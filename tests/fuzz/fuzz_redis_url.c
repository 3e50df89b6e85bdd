/* Any bytes as the setting redis_url: refused with a message that does not hold
 * them, or a server that can be connected to. */
#include <stdlib.h>

#include "allocator/redis_url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_redis_url url;
    struct wp_err err = {.msg = ""};
    struct wp_str text = {(const char *)data, size};

    if (wp_redis_url_parse(text, &url, &err) == WP_OK) {
        bool tcp = url.server.host[0] != '\0' && url.server.port != 0;
        bool local = url.server.path[0] == '/';

        if (tcp == local || url.db < 0 || url.db > WP_REDIS_DB_MAX) {
            abort();
        }
    } else if (err.msg[0] == '\0') {
        abort();
    }
    return 0;
}
