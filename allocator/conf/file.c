/* The configuration file: one YAML mapping from setting names to values. Much
 * of YAML is refused on purpose: what is not a flat list of settings is a
 * mistake, and what expands (anchors, aliases, tags) can be an attack. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <yaml.h>

#include "allocator/conf/conf.h"
#include "allocator/conf/value.h"

struct reader {
    struct wp_conf *conf;
    const char *file;
    yaml_parser_t parser;
    yaml_event_t event; /* The current one; freed by next. */
    bool have_event;
    bool seen[WP_SETTINGS];
    struct wp_err *err;
};

static uint32_t
line_of(const struct reader *r)
{
    return (uint32_t)r->event.start_mark.line + 1;
}

static enum wp_status
fail(struct reader *r, const char *what)
{
    return wp_err_set(r->err, WP_INVALID_ARGUMENT, "%s:%u: %s", r->file,
                      line_of(r), what);
}

static void
drop_event(struct reader *r)
{
    if (r->have_event) {
        yaml_event_delete(&r->event);
        r->have_event = false;
    }
}

static enum wp_status
next(struct reader *r)
{
    drop_event(r);
    if (yaml_parser_parse(&r->parser, &r->event) == 0) {
        const char *problem = r->parser.problem;

        memset(&r->event, 0, sizeof r->event);
        return wp_err_set(r->err, WP_INVALID_ARGUMENT, "%s:%zu: not YAML: %s",
                          r->file, r->parser.problem_mark.line + 1,
                          problem != NULL ? problem : "unreadable");
    }
    r->have_event = true;
    return WP_OK;
}

static bool
is(const struct reader *r, yaml_event_type_t type)
{
    return r->event.type == type;
}

static struct wp_str
scalar(const struct reader *r)
{
    return (struct wp_str){(const char *)r->event.data.scalar.value,
                           r->event.data.scalar.length};
}

/* A plain scalar without anchor or tag? Else *status holds the refusal. */
static bool
plain_scalar(struct reader *r, enum wp_status *status)
{
    if (!is(r, YAML_SCALAR_EVENT)) {
        *status = fail(r, "expected a text, a number or a list of texts");
        return false;
    }
    if (r->event.data.scalar.anchor != NULL ||
        r->event.data.scalar.tag != NULL) {
        *status = fail(r, "anchors and tags are not allowed here");
        return false;
    }
    return true;
}

static enum wp_status
read_name(struct reader *r, enum wp_setting_id *id)
{
    enum wp_status status = WP_OK;
    struct wp_str name;
    const char *near;

    if (!plain_scalar(r, &status)) {
        return status;
    }
    name = scalar(r);
    *id = wp_setting_find(name);
    if (*id == WP_SETTINGS) {
        near = wp_setting_nearest(name);
        return wp_err_set(r->err, WP_INVALID_ARGUMENT,
                          "%s:%u: unknown setting '%.*s'%s%s%s", r->file,
                          line_of(r), name.len < 40 ? (int)name.len : 40,
                          name.ptr, near != NULL ? "; did you mean '" : "",
                          near != NULL ? near : "", near != NULL ? "'?" : "");
    }
    if (*id == WP_SET_config) {
        return fail(r, "setting 'config' is only a flag");
    }
    if (r->seen[*id]) {
        return wp_err_set(r->err, WP_INVALID_ARGUMENT,
                          "%s:%u: setting '%s' is given twice", r->file,
                          line_of(r), wp_setting_get(*id)->name);
    }
    r->seen[*id] = true;
    return WP_OK;
}

static enum wp_status
wrap(struct reader *r, enum wp_status status, uint32_t line)
{
    return status == WP_OK ? WP_OK
                           : wp_err_wrap(r->err, "%s:%u", r->file, line);
}

static enum wp_status
read_list(struct reader *r, enum wp_setting_id id)
{
    struct wp_conf_origin origin = {WP_CONF_FILE, line_of(r)};
    struct wp_str items[WP_CONF_LIST_MAX];
    uint32_t n = 0;
    enum wp_status status = WP_OK;

    if (wp_setting_get(id)->type != WP_SETTING_LIST) {
        return wp_err_set(r->err, WP_INVALID_ARGUMENT,
                          "%s:%u: setting '%s': expected one value, got a list",
                          r->file, line_of(r), wp_setting_get(id)->name);
    }
    if (r->event.data.sequence_start.anchor != NULL ||
        r->event.data.sequence_start.tag != NULL) {
        return fail(r, "anchors and tags are not allowed here");
    }
    status = next(r);
    while (status == WP_OK && !is(r, YAML_SEQUENCE_END_EVENT)) {
        if (!plain_scalar(r, &status)) {
            break;
        }
        if (n == WP_CONF_LIST_MAX) {
            status = fail(r, "too many items in this list");
            break;
        }
        items[n].len = scalar(r).len;
        items[n].ptr = strndup(scalar(r).ptr, scalar(r).len);
        if (items[n].ptr == NULL || strlen(items[n].ptr) != items[n].len) {
            n += items[n].ptr != NULL ? 1 : 0;
            status = fail(r, "expected a text without NUL");
            break;
        }
        n++;
        status = next(r);
    }
    if (status == WP_OK) {
        status = wrap(r, wp_conf_set(r->conf, id, items, n, origin, r->err),
                      origin.line);
    }
    for (uint32_t i = 0; i < n; i++) {
        free((void *)(uintptr_t)items[i].ptr);
    }
    return status;
}

static enum wp_status
read_value(struct reader *r, enum wp_setting_id id)
{
    enum wp_status status = WP_OK;
    uint32_t line = line_of(r);

    if (is(r, YAML_SEQUENCE_START_EVENT)) {
        return read_list(r, id);
    }
    if (!plain_scalar(r, &status)) {
        return is(r, YAML_SCALAR_EVENT)
                   ? status
                   : wp_err_set(r->err, WP_INVALID_ARGUMENT,
                                "%s:%u: setting '%s': expected a text, a "
                                "number or a list of texts",
                                r->file, line, wp_setting_get(id)->name);
    }
    return wrap(r,
                wp_conf_set_text(r->conf, id, scalar(r),
                                 (struct wp_conf_origin){WP_CONF_FILE, line},
                                 r->err),
                line);
}

static enum wp_status
read_mapping(struct reader *r)
{
    enum wp_status status = next(r);

    while (status == WP_OK && !is(r, YAML_MAPPING_END_EVENT)) {
        enum wp_setting_id id = WP_SETTINGS;

        status = read_name(r, &id);
        if (status == WP_OK) {
            status = next(r);
        }
        if (status == WP_OK) {
            status = read_value(r, id);
        }
        if (status == WP_OK) {
            status = next(r);
        }
    }
    return status;
}

/* stream start, then nothing or one document holding one mapping. */
static enum wp_status
read_stream(struct reader *r)
{
    enum wp_status status = next(r);

    if (status == WP_OK) {
        status = next(r);
    }
    if (status != WP_OK || is(r, YAML_STREAM_END_EVENT)) {
        return status; /* An empty file says nothing, which is fine. */
    }
    status = next(r);
    if (status == WP_OK && is(r, YAML_SCALAR_EVENT) && scalar(r).len == 0) {
        return WP_OK; /* "---" alone. */
    }
    if (status == WP_OK && (!is(r, YAML_MAPPING_START_EVENT) ||
                            r->event.data.mapping_start.anchor != NULL ||
                            r->event.data.mapping_start.tag != NULL)) {
        status = fail(r, "expected settings, each as 'name: value'");
    }
    if (status == WP_OK) {
        status = read_mapping(r);
    }
    if (status == WP_OK) {
        status = next(r); /* The document's end. */
    }
    if (status == WP_OK) {
        status = next(r);
    }
    if (status == WP_OK && !is(r, YAML_STREAM_END_EVENT)) {
        status = fail(r, "expected one document, got a second");
    }
    return status;
}

enum wp_status
wp_conf_read_text(struct wp_conf *conf, struct wp_str text, const char *file,
                  struct wp_err *err)
{
    struct reader r = {.conf = conf, .file = file, .err = err};
    enum wp_status status;

    if (text.len > WP_CONF_FILE_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: a configuration file has at most %d bytes", file,
                          WP_CONF_FILE_MAX);
    }
    if (yaml_parser_initialize(&r.parser) == 0) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "%s: no memory", file);
    }
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text.ptr,
                                 text.len);
    status = read_stream(&r);
    drop_event(&r);
    yaml_parser_delete(&r.parser);
    return status;
}

enum wp_status
wp_conf_read_file(struct wp_conf *conf, const char *path, struct wp_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    char *text = NULL;
    size_t len = 0;
    enum wp_status status = WP_OK;

    if (fd < 0) {
        return wp_err_sys(err, WP_NOT_FOUND, errno,
                          "configuration file '%.120s'", path);
    }
    text = malloc(WP_CONF_FILE_MAX + 1);
    if (text == NULL) {
        status = wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    while (status == WP_OK && len <= WP_CONF_FILE_MAX) {
        ssize_t n = read(fd, text + len, WP_CONF_FILE_MAX + 1 - len);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            status = wp_err_sys(err, WP_UNAVAILABLE, errno,
                                "configuration file '%.120s'", path);
        }
        if (n <= 0) {
            break;
        }
        len += (size_t)n;
    }
    if (status == WP_OK) {
        status = wp_conf_read_text(conf, (struct wp_str){text, len}, path, err);
    }
    free(text);
    (void)close(fd);
    return status;
}
