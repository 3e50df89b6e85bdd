#include "k8s/api/api_config_yaml.h"

#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "pool/base/assert.h"

/* A collection that is being filled. */
struct level {
    struct wp_kube_yaml *node;
    struct wp_kube_yaml *last;
    uint32_t keys;
    char *key; /* Read, its value not yet. Owned. */
};

struct builder {
    struct wp_kube_yaml_doc *doc;
    struct wp_err *err;
    struct level levels[WP_KUBE_YAML_DEPTH_MAX];
    uint32_t depth;
    uint32_t documents;
};

static enum wp_status
refuse(struct builder *b, const yaml_event_t *event, const char *why)
{
    return wp_err_set(b->err, WP_INVALID_ARGUMENT, "line %zu: %s",
                      event->start_mark.line + 1, why);
}

static enum wp_status
no_memory(struct builder *b)
{
    return wp_err_set(b->err, WP_RESOURCE_EXHAUSTED, "no memory");
}

static void
wipe(char *text)
{
    if (text != NULL) {
        explicit_bzero(text, strlen(text));
        free(text);
    }
}

/* A null, too. */
static const struct wp_kube_yaml *
child(const struct wp_kube_yaml *map, const char *key)
{
    const struct wp_kube_yaml *node = map->first;

    while (node != NULL && strcmp(node->key, key) != 0) {
        node = node->next;
    }
    return node;
}

static struct level *
top(struct builder *b)
{
    return b->depth > 0 ? &b->levels[b->depth - 1] : NULL;
}

static bool
expects_key(struct builder *b)
{
    const struct level *level = top(b);

    /* A level is opened with its node.
     * NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    return level != NULL && level->node->kind == WP_KUBE_YAML_MAP &&
           level->key == NULL;
}

/* Makes a value and puts it where it belongs. */
static struct wp_kube_yaml *
add(struct builder *b, enum wp_kube_yaml_kind kind, const yaml_event_t *event)
{
    struct wp_kube_yaml *node = calloc(1, sizeof *node);
    struct level *level = top(b);

    if (node == NULL) {
        return NULL;
    }
    node->kind = kind;
    node->line = (uint32_t)event->start_mark.line + 1;
    node->made = b->doc->made;
    b->doc->made = node;
    b->doc->len++;
    if (level == NULL) {
        b->doc->root = node;
        return node;
    }
    node->key = level->key;
    level->key = NULL;
    *(level->last == NULL ? &level->node->first : &level->last->next) = node;
    level->last = node;
    return node;
}

static enum wp_status
take_key(struct builder *b, const yaml_event_t *event)
{
    const char *key = (const char *)event->data.scalar.value;
    struct level *level = top(b);

    WP_ASSERT(level != NULL);
    if (strcmp(key, "<<") == 0) {
        return refuse(b, event, "merge keys (<<) are not allowed");
    }
    if (++level->keys > WP_KUBE_YAML_KEYS_MAX) {
        return refuse(b, event, "a map has more than 256 keys");
    }
    if (child(level->node, key) != NULL) {
        return refuse(b, event, "a key is in its map twice");
    }
    level->key = strdup(key);
    return level->key != NULL ? WP_OK : no_memory(b);
}

static bool
is_null(const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;

    return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (text[0] == '\0' || strcmp(text, "~") == 0 ||
            strcmp(text, "null") == 0);
}

static enum wp_status
take_scalar(struct builder *b, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    struct wp_kube_yaml *node;

    if (event->data.scalar.anchor != NULL || event->data.scalar.tag != NULL) {
        return refuse(b, event, "anchors and tags are not allowed");
    }
    if (strlen(text) != event->data.scalar.length) {
        return refuse(b, event, "a value holds a NUL character");
    }
    if (expects_key(b)) {
        return take_key(b, event);
    }
    node =
        add(b, is_null(event) ? WP_KUBE_YAML_NULL : WP_KUBE_YAML_TEXT, event);
    if (node != NULL) {
        node->text = strdup(text);
    }
    return node != NULL && node->text != NULL ? WP_OK : no_memory(b);
}

static enum wp_status
begin(struct builder *b, const yaml_event_t *event, enum wp_kube_yaml_kind kind,
      bool decorated)
{
    struct wp_kube_yaml *node;

    if (decorated) {
        return refuse(b, event, "anchors and tags are not allowed");
    }
    if (expects_key(b)) {
        return refuse(b, event, "a key was expected to be a word");
    }
    if (b->depth == WP_KUBE_YAML_DEPTH_MAX) {
        return refuse(b, event, "nested more than 16 deep");
    }
    node = add(b, kind, event);
    if (node == NULL) {
        return no_memory(b);
    }
    b->levels[b->depth++] = (struct level){.node = node};
    return WP_OK;
}

static enum wp_status
take(struct builder *b, const yaml_event_t *event)
{
    if (b->doc->len >= WP_KUBE_YAML_NODES_MAX) {
        return refuse(b, event, "more than 50000 values");
    }
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return refuse(b, event, "aliases are not allowed");
    case YAML_SCALAR_EVENT:
        return take_scalar(b, event);
    case YAML_MAPPING_START_EVENT:
        return begin(b, event, WP_KUBE_YAML_MAP,
                     event->data.mapping_start.anchor != NULL ||
                         event->data.mapping_start.tag != NULL);
    case YAML_SEQUENCE_START_EVENT:
        return begin(b, event, WP_KUBE_YAML_LIST,
                     event->data.sequence_start.anchor != NULL ||
                         event->data.sequence_start.tag != NULL);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        b->depth--;
        return WP_OK;
    case YAML_DOCUMENT_START_EVENT:
        return ++b->documents == 1
                   ? WP_OK
                   : refuse(b, event, "one document was expected");
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
    default:
        return WP_OK;
    }
}

enum wp_status
wp_kube_yaml_read(struct wp_kube_yaml_doc *doc, struct wp_str bytes,
                  struct wp_err *err)
{
    struct builder b = {.doc = doc, .err = err};
    enum wp_status status = WP_OK;
    yaml_parser_t parser;
    bool ended = false;

    *doc = (struct wp_kube_yaml_doc){NULL, NULL, 0};
    if (yaml_parser_initialize(&parser) == 0) {
        return no_memory(&b);
    }
    yaml_parser_set_input_string(
        &parser, (const unsigned char *)(bytes.len > 0 ? bytes.ptr : ""),
        bytes.len);
    while (!ended && status == WP_OK) {
        yaml_event_t event;

        if (yaml_parser_parse(&parser, &event) == 0) {
            /* Its words about the problem quote nothing of the file. */
            status = wp_err_set(
                err, WP_INVALID_ARGUMENT, "line %zu: not YAML: %s",
                parser.problem_mark.line + 1,
                parser.problem != NULL ? parser.problem : "unreadable");
            break;
        }
        status = take(&b, &event);
        ended = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    for (uint32_t i = 0; i < b.depth; i++) {
        wipe(b.levels[i].key);
    }
    yaml_parser_delete(&parser);
    return status;
}

void
wp_kube_yaml_free(struct wp_kube_yaml_doc *doc)
{
    struct wp_kube_yaml *node = doc->made;

    while (node != NULL) {
        struct wp_kube_yaml *made = node->made;

        wipe(node->key);
        wipe(node->text);
        free(node);
        node = made;
    }
    *doc = (struct wp_kube_yaml_doc){NULL, NULL, 0};
}

const struct wp_kube_yaml *
wp_kube_yaml_at(const struct wp_kube_yaml *map, const char *key)
{
    const struct wp_kube_yaml *node =
        map != NULL && map->kind == WP_KUBE_YAML_MAP ? child(map, key) : NULL;

    return node != NULL && node->kind != WP_KUBE_YAML_NULL ? node : NULL;
}
