#include "k8s/objects/trace.h"

#include <string.h>

#include "k8s/objects/names.h"

enum {
    CARRIER_MAX = 4096, /* Some carriers bring more than we read. */
};

bool
wp_object_trace(const struct wp_object *object, struct wp_trace_context *out)
{
    const char *text = wp_object_annotation(object, WP_ANNOTATION_TRACE);
    json_t *carrier = text != NULL && strlen(text) <= CARRIER_MAX
                          ? json_loads(text, JSON_REJECT_DUPLICATES, NULL)
                          : NULL;
    const char *parent =
        json_string_value(json_object_get(carrier, "traceparent"));
    bool found = wp_trace_context_parse(
        parent != NULL ? wp_str_from(parent) : WP_STR(""), out);

    json_decref(carrier);
    return found;
}
