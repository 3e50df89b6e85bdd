#include "k8s/watch/watch_event.h"

#include <string.h>

#include "k8s/objects/json_read.h"
#include "pool/base/compiler.h"

static const char *const types[] = {
    [WP_WATCH_ADDED] = "ADDED",     [WP_WATCH_MODIFIED] = "MODIFIED",
    [WP_WATCH_DELETED] = "DELETED", [WP_WATCH_BOOKMARK] = "BOOKMARK",
    [WP_WATCH_ERROR] = "ERROR",
};

static const char *
text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

static bool
find_type(const json_t *root, enum wp_watch_event_type *out)
{
    const char *type = text_of(root, "type");

    for (size_t i = 0; i < WP_ARRAY_LEN(types); i++) {
        if (strcmp(type, types[i]) == 0) {
            *out = (enum wp_watch_event_type)i;
            return true;
        }
    }
    return false;
}

static enum wp_status
check(struct wp_watch_event *event, struct wp_err *err)
{
    json_int_t code;

    if (!find_type(event->root, &event->type)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "type is '%.32s', expected ADDED, MODIFIED, "
                          "DELETED, BOOKMARK or ERROR",
                          text_of(event->root, "type"));
    }
    event->object = json_object_get(event->root, "object");
    if (!json_is_object(event->object)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "object is missing or no object");
    }
    if (event->type == WP_WATCH_ERROR) {
        code = json_integer_value(json_object_get(event->object, "code"));
        event->code = code > 0 && code < 1000 ? (int)code : 0;
        event->message = text_of(event->object, "message");
        return WP_OK;
    }
    event->version =
        text_of(json_object_get(event->object, "metadata"), "resourceVersion");
    if (event->version[0] == '\0' || strlen(event->version) >= WP_VERSION_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "object.metadata.resourceVersion is missing or "
                          "longer than %d bytes",
                          WP_VERSION_MAX - 1);
    }
    return WP_OK;
}

enum wp_status
wp_watch_event_read(struct wp_watch_event *event, struct wp_str line,
                    struct wp_err *err)
{
    struct wp_err why = {.msg = ""};

    *event = (struct wp_watch_event){.version = "", .message = ""};
    event->root = wp_json_read(line, &why);
    if (event->root == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "%s", why.msg);
    }
    if (check(event, err) != WP_OK) {
        wp_watch_event_fini(event);
        return WP_INVALID_ARGUMENT;
    }
    return WP_OK;
}

void
wp_watch_event_fini(struct wp_watch_event *event)
{
    json_decref(event->root);
    event->root = NULL;
    event->object = NULL;
}
