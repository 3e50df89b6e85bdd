/* tests/fuzz/k8s/objects/fuzz_k8s_object.c - any JSON as an object of any kind: taken or
 * refused with words, and what is taken can be read from end to end.
 *
 * The first byte chooses the kind: 'A' is the first of the table. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "k8s/objects/object.h"
#include "k8s/objects/trace.h"
#include "k8s/objects/view.h"
#include "pool/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t total; /* Keeps the reads below from being optimized away. */

static void
read_text(const char *text)
{
    WP_ASSERT(text != NULL);
    total += strlen(text);
}

static void
read_texts(const char *const *texts)
{
    WP_ASSERT(texts != NULL);
    for (; *texts != NULL; texts++) {
        read_text(*texts);
    }
}

static void
read_condition(const struct wp_condition *condition)
{
    read_text(condition->reason);
    read_text(condition->message);
    read_text(condition->transition);
}

static void
read_views(const struct wp_object *object)
{
    const struct wp_sandbox_view *sandbox = wp_sandbox_view(object);
    const struct wp_claim_view *claim = wp_claim_view(object);
    const struct wp_warm_pool_view *pool = wp_warm_pool_view(object);
    const struct wp_pod_view *pod = wp_pod_view(object);

    if (sandbox != NULL) {
        read_condition(&sandbox->ready);
        read_condition(&sandbox->finished);
        read_condition(&sandbox->suspended);
        read_text(sandbox->pod_ip);
        read_texts(sandbox->pod_ips);
        read_text(sandbox->node_name);
    }
    if (claim != NULL) {
        read_text(claim->pool);
        read_text(claim->sandbox);
        read_texts(claim->pod_ips);
        read_condition(&claim->ready);
        WP_ASSERT(claim->ttl_after_finished_s >= -1);
    }
    if (pool != NULL) {
        read_text(pool->template_name);
        read_text(pool->status_selector);
        WP_ASSERT(pool->replicas >= 0);
    }
    if (pod != NULL) {
        read_condition(&pod->ready);
        read_text(pod->pod_ip);
        read_texts(pod->pod_ips);
    }
}

static void
read_all(const struct wp_object *object)
{
    WP_ASSERT(object->name[0] != '\0' && object->uid[0] != '\0');
    WP_ASSERT(object->bytes <= WP_OBJECT_BYTES_MAX);
    read_text(object->ns);
    read_text(object->resource_version);
    read_text(object->controller.kind);
    for (uint32_t i = 0; i < object->labels_len; i++) {
        WP_ASSERT(wp_object_label(object, object->labels[i].key) != NULL);
        read_text(object->labels[i].value);
    }
    for (uint32_t i = 0; i < object->annotations_len; i++) {
        read_text(object->annotations[i].key);
        read_text(object->annotations[i].value);
    }
    read_views(object);
}

/* What was kept as text makes the same object again. */
static void
read_again(const struct wp_object *object)
{
    json_t *json = wp_object_json(object);
    struct wp_object *again;

    if (json == NULL) {
        WP_ASSERT(object->text.len == 0);
        return;
    }
    again = wp_object_create(object->kind, json, NULL);
    WP_ASSERT(again != NULL && wp_str_eq(again->text, object->text));
    WP_ASSERT(wp_json_at(json, "metadata", "managedFields", NULL) == NULL);
    wp_object_unref(again);
    json_decref(json);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_err err = {.status = WP_OK, .msg = ""};
    struct wp_trace_context trace;
    struct wp_object *object;
    enum wp_kind kind;
    json_t *json;

    if (size < 1) {
        return 0;
    }
    kind = (enum wp_kind)((uint8_t)(data[0] - 'A') % WP_KIND_COUNT);
    json = json_loadb((const char *)data + 1, size - 1,
                      JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (json == NULL) {
        return 0;
    }
    (void)wp_json_hash(json);
    object = wp_object_create(kind, json, &err);
    if (object == NULL) {
        WP_ASSERT(err.status != WP_OK && err.msg[0] != '\0');
    } else {
        (void)wp_object_trace(object, &trace);
        read_all(object);
        read_again(object);
        wp_object_unref(object);
    }
    json_decref(json);
    return 0;
}
