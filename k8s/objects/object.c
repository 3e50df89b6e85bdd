#include "k8s/objects/object.h"

#include <inttypes.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json_read.h"
#include "k8s/objects/view.h"
#include "k8s/objects/view_read.h"
#include "pool/base/assert.h"

/* What is kept of each kind. */
struct kept {
    void (*read)(struct wp_view_reader *reader, void *view); /* NULL: none. */
    size_t view_size;
    bool no_text; /* Nothing is needed but what is parsed. */
};

static const struct kept kept_of[WP_KIND_COUNT] = {
    [WP_KIND_SANDBOX] = {wp_view_read_sandbox, sizeof(struct wp_sandbox_view),
                         false},
    [WP_KIND_SANDBOX_CLAIM] = {wp_view_read_claim, sizeof(struct wp_claim_view),
                               false},
    [WP_KIND_SANDBOX_TEMPLATE] = {wp_view_read_template,
                                  sizeof(struct wp_template_view), false},
    [WP_KIND_SANDBOX_WARM_POOL] = {wp_view_read_warm_pool,
                                   sizeof(struct wp_warm_pool_view), false},
    [WP_KIND_POD] = {wp_view_read_pod, sizeof(struct wp_pod_view), true},
    [WP_KIND_EVENT] = {NULL, 0, true},
};

/* Room for any view while measuring. */
union any_view {
    struct wp_sandbox_view sandbox;
    struct wp_claim_view claim;
    struct wp_warm_pool_view warm_pool;
    struct wp_template_view tmpl;
    struct wp_pod_view pod;
};

/* --- Reading --- */

static void
read_controller(struct wp_view_reader *reader, struct wp_owner *out)
{
    static const char path[] = "metadata.ownerReferences";
    static const char *const keys[] = {"apiVersion", "kind", "name", "uid"};
    const char **fields[] = {&out->api_version, &out->kind, &out->name,
                             &out->uid};
    const json_t *array = wp_view_array(reader, path);
    const json_t *reference;
    size_t i;

    *out = (struct wp_owner){"", "", "", ""};
    json_array_foreach(array, i, reference)
    {
        if (!json_is_object(reference)) {
            wp_view_wrong(reader, path, "objects");
            return;
        }
        if (!json_is_true(json_object_get(reference, "controller"))) {
            continue;
        }
        for (size_t k = 0; k < WP_ARRAY_LEN(keys); k++) {
            const json_t *value = json_object_get(reference, keys[k]);

            if (!json_is_string(value)) {
                wp_view_wrong(reader, path, "apiVersion, kind, name and uid");
                return;
            }
            *fields[k] = wp_view_copy(reader, json_string_value(value));
        }
        return; /* There is one at most. */
    }
}

static void
read_metadata(struct wp_view_reader *reader, struct wp_object *out)
{
    out->ns = wp_view_text(reader, "metadata.namespace");
    out->name = wp_view_text(reader, "metadata.name");
    out->uid = wp_view_text(reader, "metadata.uid");
    out->resource_version = wp_view_text(reader, "metadata.resourceVersion");
    out->generation =
        wp_view_number(reader, "metadata.generation", 0, INT64_MAX, 0);
    out->created_wall_ms = wp_view_time(reader, "metadata.creationTimestamp");
    (void)wp_view_time(reader, "metadata.deletionTimestamp");
    out->deleting = wp_view_at(reader, "metadata.deletionTimestamp") != NULL;
    read_controller(reader, &out->controller);
    wp_view_pairs(reader, "metadata.labels", &out->labels, &out->labels_len);
    wp_view_pairs(reader, "metadata.annotations", &out->annotations,
                  &out->annotations_len);
}

/* Reads all into the reader's block, or only measures. */
static void
read_object(struct wp_view_reader *reader, enum wp_kind kind, char *text,
            size_t text_len)
{
    const struct kept *kept = &kept_of[kind];
    struct wp_object scratch = {.kind = kind};
    union any_view any_view;
    struct wp_object *object =
        wp_view_room(reader, sizeof *object, alignof(struct wp_object));
    void *view = kept->read == NULL
                     ? NULL
                     : wp_view_room(reader, kept->view_size, alignof(int64_t));
    char *room;

    object = object != NULL ? object : &scratch;
    *object = scratch;
    read_metadata(reader, object);
    if (kept->read != NULL) {
        object->view = view;
        view = view != NULL ? view : &any_view;
        memset(view, 0, kept->view_size);
        kept->read(reader, view);
    }
    if (text != NULL) {
        room = wp_view_room(reader, text_len + 1, 1);
        if (room != NULL) {
            memcpy(room, text, text_len + 1);
            object->text = (struct wp_str){room, text_len};
        }
    }
}

/* --- The whole --- */

/* Is it nested no deeper than it may? Iterative, as depth is the question. */
static bool
is_flat(const json_t *root)
{
    struct {
        json_t *node;
        void *member;
        size_t item;
    } stack[WP_OBJECT_DEPTH_MAX];
    int depth = 0;

    stack[0].node = (json_t *)(uintptr_t)(const void *)root;
    stack[0].member = json_object_iter(stack[0].node);
    stack[0].item = 0;
    while (depth >= 0) {
        json_t *child = NULL;

        if (json_is_array(stack[depth].node)) {
            child = json_array_get(stack[depth].node, stack[depth].item);
            stack[depth].item++;
        } else if (stack[depth].member != NULL) {
            child = json_object_iter_value(stack[depth].member);
            stack[depth].member =
                json_object_iter_next(stack[depth].node, stack[depth].member);
        }
        if (child == NULL) {
            depth--;
        } else if (json_is_object(child) || json_is_array(child)) {
            if (++depth == WP_OBJECT_DEPTH_MAX) {
                return false;
            }
            stack[depth].node = child;
            stack[depth].member = json_object_iter(child);
            stack[depth].item = 0;
        }
    }
    return true;
}

/* NULL when memory lacks for one of its members: jansson leaves that out. */
static json_t *
copy_of(json_t *object)
{
    json_t *copy = json_copy(object);

    if (json_object_size(copy) != json_object_size(object)) {
        json_decref(copy);
        copy = NULL;
    }
    return copy;
}

/* Compact JSON without managedFields, which nobody here reads. */
static char *
dump_kept(const json_t *json)
{
    json_t *root = (json_t *)(uintptr_t)(const void *)json;
    json_t *metadata = json_object_get(root, "metadata");
    char *text;

    if (json_object_get(metadata, "managedFields") == NULL) {
        return json_dumps(root, JSON_COMPACT);
    }
    /* Copies of the two levels that change; the rest is shared. */
    root = copy_of(root);
    metadata = copy_of(metadata);
    (void)json_object_del(metadata, "managedFields");
    if (root == NULL || json_object_set(root, "metadata", metadata) != 0) {
        json_decref(root);
        json_decref(metadata);
        return NULL;
    }
    json_decref(metadata);
    text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

/* What everything that is kept needs; and the names, for errors about it. */
static bool
has_identity(struct wp_view_reader *reader, struct wp_object *about)
{
    const json_t *metadata = wp_view_object(reader, "metadata");
    const char *ns = json_string_value(json_object_get(metadata, "namespace"));
    const char *name = json_string_value(json_object_get(metadata, "name"));
    const char *uid = json_string_value(json_object_get(metadata, "uid"));

    if (name == NULL || name[0] == '\0') {
        wp_view_wrong(reader, "metadata.name", "a name");
        return false;
    }
    about->ns = ns != NULL ? ns : "";
    about->name = name;
    if (uid == NULL || uid[0] == '\0') {
        wp_view_wrong(reader, "metadata.uid", "a uid");
        return false;
    }
    return true;
}

/* The second reading; text is borrowed. */
static struct wp_object *
build(struct wp_view_reader *reader, enum wp_kind kind, char *text,
      size_t text_len)
{
    size_t size = reader->used;
    struct wp_object *object;

    reader->block = malloc(size);
    if (reader->block == NULL) {
        (void)wp_err_set(reader->err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    reader->used = 0;
    read_object(reader, kind, text, text_len);
    WP_ASSERT(reader->used == size && !reader->failed);
    object = (struct wp_object *)(void *)reader->block;
    object->bytes = (uint32_t)size;
    object->refs = 1;
    return object;
}

struct wp_object *
wp_object_create(enum wp_kind kind, const json_t *json, struct wp_err *err)
{
    struct wp_object about = {.kind = kind, .ns = "", .name = ""};
    struct wp_view_reader reader = {.root = json, .about = &about, .err = err};
    struct wp_object *object = NULL;
    char *text = NULL;
    size_t text_len = 0;

    WP_ASSERT(kind < WP_KIND_COUNT);
    if (!json_is_object(json)) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT, "%s: expected an object",
                         wp_kind_info(kind)->kind);
        return NULL;
    }
    if (!has_identity(&reader, &about)) {
        return NULL;
    }
    if (!is_flat(json)) {
        wp_view_wrong(&reader, "the whole", "at most 256 levels");
        return NULL;
    }
    if (!kept_of[kind].no_text) {
        text = dump_kept(json);
        if (text == NULL) {
            (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
            return NULL;
        }
        text_len = strlen(text);
    }
    read_object(&reader, kind, text, text_len);
    if (!reader.failed && reader.used > WP_OBJECT_BYTES_MAX) {
        wp_view_wrong(&reader, "the whole", "at most 2 MiB");
    }
    if (!reader.failed) {
        object = build(&reader, kind, text, text_len);
    }
    free(text);
    return object;
}

/* --- Its life --- */

struct wp_object *
wp_object_ref(const struct wp_object *object)
{
    struct wp_object *own = (struct wp_object *)(uintptr_t)(const void *)object;

    own->refs++;
    return own;
}

void
wp_object_unref(const struct wp_object *object)
{
    struct wp_object *own = (struct wp_object *)(uintptr_t)(const void *)object;

    if (own == NULL) {
        return;
    }
    WP_ASSERT(own->refs > 0);
    if (--own->refs == 0) {
        free(own);
    }
}

json_t *
wp_object_json(const struct wp_object *object)
{
    return object->text.len == 0 ? NULL : wp_json_read(object->text, NULL);
}

/* --- Questions --- */

static const char *
find_pair(const struct wp_pair *pairs, uint32_t len, const char *key)
{
    for (uint32_t i = 0; i < len; i++) {
        if (strcmp(pairs[i].key, key) == 0) {
            return pairs[i].value;
        }
    }
    return NULL;
}

const char *
wp_object_label(const struct wp_object *object, const char *key)
{
    return find_pair(object->labels, object->labels_len, key);
}

const char *
wp_object_annotation(const struct wp_object *object, const char *key)
{
    return find_pair(object->annotations, object->annotations_len, key);
}

bool
wp_object_controlled_by_kind(const struct wp_object *object, enum wp_kind kind)
{
    return strcmp(object->controller.kind, wp_kind_info(kind)->kind) == 0 &&
           wp_kind_is_group(kind, wp_str_from(object->controller.api_version));
}

bool
wp_object_controlled_by(const struct wp_object *object, const char *uid)
{
    return uid[0] != '\0' && strcmp(object->controller.uid, uid) == 0;
}

bool
wp_object_is_older(const struct wp_object *a, const struct wp_object *b)
{
    uint64_t version_a;
    uint64_t version_b;

    return wp_str_to_u64(wp_str_from(a->resource_version), &version_a) &&
           wp_str_to_u64(wp_str_from(b->resource_version), &version_b) &&
           version_a < version_b;
}
