/* Any bytes as a line of a watch: refused with a message, or an event that has
 * all that the reflector relies on. */
#include <stdlib.h>
#include <string.h>

#include "k8s/watch/watch_event.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool truth)
{
    if (!truth) {
        abort();
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_watch_event event;
    struct wp_err err = {.msg = ""};

    if (size == 0) {
        return 0;
    }
    if (wp_watch_event_read(&event, (struct wp_str){(const char *)data, size},
                            &err) != WP_OK) {
        check(err.msg[0] != '\0' && event.root == NULL);
        return 0;
    }
    check(json_is_object(event.object));
    check((event.type == WP_WATCH_ERROR) == (event.version[0] == '\0'));
    check(strlen(event.version) < WP_VERSION_MAX);
    check(event.code >= 0 && event.message != NULL);
    wp_watch_event_fini(&event);
    return 0;
}
