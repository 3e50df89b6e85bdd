#include "proto/formats/yaml_tree.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <yaml.h>

#include "pool/base/assert.h"

struct wp_yaml_reader {
    yaml_parser_t parser;
    const struct wp_yaml_rules *rules;
    uint32_t documents;
};

/* One collection that is being filled. */
struct level {
    struct wp_yaml *node;
    struct wp_yaml *last;
    uint32_t keys;
    struct wp_str key; /* Read, its value not yet. */
    uint32_t key_line;
    bool has_key;
};

struct builder {
    struct wp_yaml_reader *reader;
    const struct wp_yaml_rules *rules; /* The reader's. */
    struct wp_region *region;
    struct wp_err *err;
    struct wp_yaml *root;
    struct level levels[WP_YAML_DEPTH_MAX];
    uint32_t depth;
    uint32_t nodes;
};

const char *
wp_yaml_kind_text(enum wp_yaml_kind kind)
{
    switch (kind) {
    case WP_YAML_NULL:
        return "nothing";
    case WP_YAML_BOOL:
        return "a boolean";
    case WP_YAML_INT:
        return "a whole number";
    case WP_YAML_FLOAT:
        return "a fraction";
    case WP_YAML_STRING:
        return "a string";
    case WP_YAML_MAP:
        return "a map";
    case WP_YAML_LIST:
        return "a list";
    default:
        return "something else";
    }
}

struct wp_yaml_reader *
wp_yaml_open(const struct wp_yaml_rules *rules, struct wp_str bytes)
{
    struct wp_yaml_reader *reader = calloc(1, sizeof *reader);

    WP_ASSERT(rules->depth_max <= WP_YAML_DEPTH_MAX);
    if (reader == NULL || yaml_parser_initialize(&reader->parser) == 0) {
        free(reader);
        return NULL;
    }
    reader->rules = rules;
    yaml_parser_set_input_string(
        &reader->parser,
        (const unsigned char *)(bytes.len > 0 ? bytes.ptr : ""), bytes.len);
    return reader;
}

void
wp_yaml_close(struct wp_yaml_reader *reader)
{
    if (reader != NULL) {
        yaml_parser_delete(&reader->parser);
        free(reader);
    }
}

const struct wp_yaml *
wp_yaml_find(const struct wp_yaml *map, const char *key)
{
    const struct wp_yaml *node =
        map != NULL && map->kind == WP_YAML_MAP ? map->first : NULL;

    while (node != NULL && !wp_str_is(node->key, key)) {
        node = node->next;
    }
    return node;
}

bool
wp_yaml_is_scalar(const struct wp_yaml *node)
{
    return node->kind > WP_YAML_NULL && node->kind < WP_YAML_MAP;
}

static uint32_t
line_of(const yaml_event_t *event)
{
    return (uint32_t)event->start_mark.line + 1;
}

WP_PRINTF(4, 5)
static enum wp_status
refuse_line(const struct wp_yaml_rules *rules, struct wp_err *err, size_t line,
            const char *fmt, ...)
{
    char why[sizeof err->msg];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    if (rules->file == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "line %zu: %s", line, why);
    }
    return wp_err_set(err, WP_INVALID_ARGUMENT, "%s:%zu: %s", rules->file, line,
                      why);
}

static enum wp_status
refuse(struct builder *b, const yaml_event_t *event, const char *why)
{
    return refuse_line(b->rules, b->err, line_of(event), "%s", why);
}

static enum wp_status
refuse_more(struct builder *b, const yaml_event_t *event, const char *what,
            uint32_t max, const char *of)
{
    return refuse_line(b->rules, b->err, line_of(event),
                       "%s more than %" PRIu32 " %s", what, max, of);
}

static enum wp_status
no_memory(struct wp_err *err)
{
    return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
}

static bool
one_of(const char *text, const char *const *list, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (strcasecmp(text, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* What an unquoted word means, as the YAML library of Kubernetes sees it (YAML
 * 1.1: "yes" and "off" are booleans too). */
static enum wp_yaml_kind
plain_kind(const char *text)
{
    static const char *const nulls[] = {"", "~", "null"};
    static const char *const bools[] = {"true", "false", "yes", "no",
                                        "on",   "off",   "y",   "n"};
    const char *c = text + (*text == '-' || *text == '+' ? 1 : 0);
    bool digits = false;
    bool fraction = false;

    if (one_of(text, nulls, sizeof nulls / sizeof *nulls)) {
        return WP_YAML_NULL;
    }
    if (one_of(text, bools, sizeof bools / sizeof *bools)) {
        return WP_YAML_BOOL;
    }
    if (c[0] == '0' && (c[1] == 'x' || c[1] == 'o') && c[2] != '\0') {
        return WP_YAML_INT;
    }
    for (; *c != '\0'; c++) {
        if (*c >= '0' && *c <= '9') {
            digits = true;
        } else if (*c == '.' && !fraction) {
            fraction = true;
        } else if (digits && (*c == 'e' || *c == 'E') && c[1] != '\0') {
            c += c[1] == '-' || c[1] == '+' ? 1 : 0;
            fraction = true;
        } else {
            return WP_YAML_STRING;
        }
    }
    if (!digits) {
        return WP_YAML_STRING;
    }
    return fraction ? WP_YAML_FLOAT : WP_YAML_INT;
}

static struct wp_yaml *
new_node(struct builder *b, enum wp_yaml_kind kind, uint32_t line)
{
    struct wp_yaml *node = wp_region_alloc(b->region, sizeof *node);

    if (node != NULL) {
        node->kind = kind;
        node->line = line;
        b->nodes++;
    }
    return node;
}

/* Puts a finished scalar, or a collection just begun, where it belongs. */
static void
attach(struct builder *b, struct wp_yaml *node)
{
    struct level *level;

    if (b->depth == 0) {
        b->root = node;
        return;
    }
    level = &b->levels[b->depth - 1];
    if (level->node->kind == WP_YAML_MAP) {
        node->key = level->key;
        node->line = level->key_line; /* Where people look for a field. */
        level->has_key = false;
    }
    if (level->last == NULL) {
        level->node->first = node;
    } else {
        level->last->next = node;
    }
    level->last = node;
}

static bool
expects_key(const struct builder *b)
{
    const struct level *level = b->depth > 0 ? &b->levels[b->depth - 1] : NULL;

    /* A level is opened with its node.
     * NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    return level != NULL && level->node->kind == WP_YAML_MAP && !level->has_key;
}

static enum wp_status
take_key(struct builder *b, const yaml_event_t *event, struct wp_str text)
{
    struct level *level = &b->levels[b->depth - 1];
    const struct wp_yaml *first =
        b->rules->repeats ? NULL : wp_yaml_find(level->node, text.ptr);

    if (wp_str_is(text, "<<")) {
        return refuse(b, event, "merge keys (<<) are not allowed");
    }
    if (++level->keys > b->rules->keys_max) {
        return refuse_more(b, event, "a map has", b->rules->keys_max, "keys");
    }
    if (first != NULL && b->rules->file == NULL) {
        return refuse(b, event, "a key is in its map twice");
    }
    if (first != NULL) {
        return refuse_line(
            b->rules, b->err, line_of(event),
            "the key '%.60s' is there twice (first in line %" PRIu32 ")",
            text.ptr, first->line);
    }
    level->key = text;
    level->key_line = line_of(event);
    level->has_key = true;
    return WP_OK;
}

static enum wp_status
take_scalar(struct builder *b, const yaml_event_t *event)
{
    struct wp_str raw = {(const char *)event->data.scalar.value,
                         event->data.scalar.length};
    struct wp_str text = {wp_region_str(b->region, raw), raw.len};
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    struct wp_yaml *node;

    if (event->data.scalar.anchor != NULL) {
        return refuse(b, event, "anchors are not allowed");
    }
    if (event->data.scalar.tag != NULL) {
        return refuse(b, event, "tags are not allowed");
    }
    if (text.ptr == NULL) {
        return no_memory(b->err);
    }
    if (memchr(text.ptr, '\0', text.len) != NULL) {
        return refuse(b, event, "expected a text without NUL");
    }
    if (expects_key(b)) {
        return take_key(b, event, text);
    }
    node = new_node(b, plain ? plain_kind(text.ptr) : WP_YAML_STRING,
                    line_of(event));
    if (node == NULL) {
        return no_memory(b->err);
    }
    node->text = text;
    attach(b, node);
    return WP_OK;
}

static enum wp_status
begin(struct builder *b, const yaml_event_t *event, enum wp_yaml_kind kind,
      bool decorated)
{
    struct wp_yaml *node;

    if (decorated) {
        return refuse(b, event, "anchors and tags are not allowed here");
    }
    if (expects_key(b)) {
        return refuse(b, event, "a key was expected to be a word");
    }
    if (b->depth == b->rules->depth_max) {
        return refuse_more(b, event, "nested", b->rules->depth_max, "deep");
    }
    node = new_node(b, kind, line_of(event));
    if (node == NULL) {
        return no_memory(b->err);
    }
    attach(b, node);
    b->levels[b->depth++] = (struct level){.node = node};
    return WP_OK;
}

static enum wp_status
take_document(struct builder *b, const yaml_event_t *event)
{
    uint32_t max = b->rules->documents_max;

    if (b->reader->documents++ < max) {
        return WP_OK;
    }
    return max == 1 ? refuse(b, event, "expected one document, got a second")
                    : refuse_more(b, event, "the file has", max, "documents");
}

/* One event of a document; *done at its end. */
static enum wp_status
take(struct builder *b, const yaml_event_t *event, bool *done)
{
    if (b->nodes >= b->rules->nodes_max) {
        return refuse_more(b, event, "a document has", b->rules->nodes_max,
                           "values");
    }
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return refuse(b, event, "aliases are not allowed");
    case YAML_SCALAR_EVENT:
        return take_scalar(b, event);
    case YAML_MAPPING_START_EVENT:
        return begin(b, event, WP_YAML_MAP,
                     event->data.mapping_start.anchor != NULL ||
                         event->data.mapping_start.tag != NULL);
    case YAML_SEQUENCE_START_EVENT:
        return begin(b, event, WP_YAML_LIST,
                     event->data.sequence_start.anchor != NULL ||
                         event->data.sequence_start.tag != NULL);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        b->depth--;
        return WP_OK;
    case YAML_DOCUMENT_END_EVENT:
    case YAML_STREAM_END_EVENT:
        *done = true;
        return WP_OK;
    case YAML_DOCUMENT_START_EVENT:
        return take_document(b, event);
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    default:
        return WP_OK;
    }
}

enum wp_status
wp_yaml_next(struct wp_yaml_reader *reader, struct wp_region *region,
             struct wp_yaml **root, struct wp_err *err)
{
    struct builder b = {
        .reader = reader, .rules = reader->rules, .region = region, .err = err};
    enum wp_status status = WP_OK;
    bool done = false;

    while (!done && status == WP_OK) {
        yaml_event_t event;

        if (yaml_parser_parse(&reader->parser, &event) == 0) {
            const char *problem = reader->parser.problem;
            size_t line = reader->parser.problem_mark.line;

            if (line == 0) {
                line = reader->parser.mark.line;
            }
            /* Its words about the problem quote nothing of the file. */
            return refuse_line(reader->rules, err, line + 1, "not YAML: %s",
                               problem != NULL ? problem : "unreadable");
        }
        if (event.type == YAML_STREAM_END_EVENT) {
            yaml_event_delete(&event);
            return WP_NOT_FOUND;
        }
        status = take(&b, &event, &done);
        yaml_event_delete(&event);
    }
    *root = b.root;
    return status;
}

enum wp_status
wp_yaml_read_one(const struct wp_yaml_rules *rules, struct wp_str bytes,
                 struct wp_region *region, struct wp_yaml **root,
                 struct wp_err *err)
{
    struct wp_yaml_reader *reader = wp_yaml_open(rules, bytes);
    struct wp_yaml *more;
    enum wp_status status;

    *root = NULL;
    if (reader == NULL) {
        return no_memory(err);
    }
    status = wp_yaml_next(reader, region, root, err);
    if (status == WP_OK) {
        status = wp_yaml_next(reader, region, &more, err);
    }
    wp_yaml_close(reader);
    return status == WP_NOT_FOUND ? WP_OK : status;
}
