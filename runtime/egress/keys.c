#include "runtime/egress/keys.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "pool/egress/policy.h"

struct wp_egress_keys {
    char *text; /* What the keys view; NULs end its parts. */
    size_t size;
    size_t len;
    struct wp_egress_key keys[WP_EGRESS_KEYS_MAX];
};

/* The part of *line up to the first blank, ended in place; NULL: none. */
static char *
next_part(char **line)
{
    char *part = *line + strspn(*line, " \t");
    size_t len = strcspn(part, " \t");

    *line = part + len;
    if (**line != '\0') {
        *(*line)++ = '\0';
    }
    return len > 0 ? part : NULL;
}

/* Printable characters, none of which ends a part of a request. */
static bool
is_plain(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text <= ' ' || *text >= 0x7F) {
            return false;
        }
    }
    return true;
}

static bool
parse_url(char *url, struct wp_egress_key *key)
{
    static const char https[] = "https://";
    static const char http[] = "http://";
    const char *why;
    char *at;
    size_t len;

    key->secure = strncmp(url, https, sizeof https - 1) == 0;
    if (!key->secure && strncmp(url, http, sizeof http - 1) != 0) {
        return false;
    }
    at = url + (key->secure ? sizeof https : sizeof http) - 1;
    len = strcspn(at, "/");
    key->path = at + len;
    if (!is_plain(at) || strpbrk(key->path, "?#") != NULL ||
        !wp_host_port_parse((struct wp_str){at, len},
                            key->secure ? WP_EGRESS_TLS_PORT
                                        : WP_EGRESS_HTTP_PORT,
                            &key->host, &key->port, &why)) {
        return false;
    }
    len = strlen(at);
    if (at[len - 1] == '/') {
        at[len - 1] = '\0';
    }
    return true;
}

/* "Authorization: Bearer s3cret" */
static bool
parse_field(char *text, struct wp_egress_key *key)
{
    static const char token[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    size_t name_len = strspn(text, token);

    if (name_len == 0 || text[name_len] != ':') {
        return false;
    }
    text[name_len] = '\0';
    key->field = text;
    key->value = text + name_len + 1;
    key->value += strspn(key->value, " \t");
    for (const char *c = key->value; *c != '\0'; c++) {
        if (*c < ' ' || *c >= 0x7F) {
            return false;
        }
    }
    return key->value[0] != '\0';
}

static enum wp_status
add_line(struct wp_egress_keys *keys, char *line, unsigned number,
         struct wp_err *err)
{
    struct wp_egress_key *key = &keys->keys[keys->len];
    const char *name = next_part(&line);
    char *url;

    if (name == NULL || name[0] == '#') {
        return WP_OK;
    }
    if (keys->len == WP_EGRESS_KEYS_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "keys, line %u: at most %d keys were expected",
                          number, WP_EGRESS_KEYS_MAX);
    }
    url = next_part(&line);
    line += strspn(line, " \t");
    if (!wp_str_is_dns_name(wp_str_from(name), sizeof key->name - 1) ||
        wp_egress_keys_find(keys, wp_str_from(name)) != NULL || url == NULL ||
        !parse_url(url, key) || !parse_field(line, key)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "keys, line %u: a new NAME, an http or https URL and "
                          "FIELD: VALUE were expected",
                          number);
    }
    memcpy(key->name, name, strlen(name) + 1);
    keys->len++;
    return WP_OK;
}

struct wp_egress_keys *
wp_egress_keys_parse(struct wp_str text, struct wp_err *err)
{
    struct wp_egress_keys *keys = calloc(1, sizeof *keys);
    unsigned number = 0;
    char *next;

    if (keys != NULL) {
        keys->size = text.len + 1;
        keys->text = calloc(1, keys->size);
    }
    if (keys == NULL || keys->text == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory for keys");
        free(keys);
        return NULL;
    }
    if (text.len > 0) {
        memcpy(keys->text, text.ptr, text.len);
    }
    next = keys->text;
    while (next < keys->text + text.len) {
        char *line = next;
        size_t len = strcspn(line, "\n");

        next = line + len + 1;
        len -= len > 0 && line[len - 1] == '\r' ? 1 : 0;
        line[len] = '\0';
        if (add_line(keys, line, ++number, err) != WP_OK) {
            wp_egress_keys_destroy(keys);
            return NULL;
        }
    }
    return keys;
}

struct wp_egress_keys *
wp_egress_keys_read(int fd, struct wp_err *err)
{
    struct wp_egress_keys *keys = NULL;
    char *text = malloc(WP_EGRESS_KEYS_BYTES_MAX + 1);
    size_t len = 0;
    ssize_t n = 1;

    while (text != NULL && n > 0 && len <= WP_EGRESS_KEYS_BYTES_MAX) {
        n = read(fd, text + len, WP_EGRESS_KEYS_BYTES_MAX + 1 - len);
        len += n > 0 ? (size_t)n : 0;
    }
    if (text == NULL || n < 0) {
        (void)wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot read the keys");
    } else if (len > WP_EGRESS_KEYS_BYTES_MAX) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "keys: at most %d bytes were expected",
                         WP_EGRESS_KEYS_BYTES_MAX);
    } else {
        keys = wp_egress_keys_parse((struct wp_str){text, len}, err);
    }
    if (text != NULL) {
        explicit_bzero(text, len);
        free(text);
    }
    return keys;
}

void
wp_egress_keys_destroy(struct wp_egress_keys *keys)
{
    if (keys == NULL) {
        return;
    }
    explicit_bzero(keys->text, keys->size);
    free(keys->text);
    free(keys);
}

const struct wp_egress_key *
wp_egress_keys_find(const struct wp_egress_keys *keys, struct wp_str name)
{
    for (size_t i = 0; keys != NULL && i < keys->len; i++) {
        if (wp_str_is(name, keys->keys[i].name)) {
            return &keys->keys[i];
        }
    }
    return NULL;
}
