#include "k8s/api/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/file.h"
#include "pool/base/log.h"

#define LOOK_NS WP_NS_PER_S
#define AGE_MAX_NS (60 * WP_NS_PER_S)
#define PREFIX "Authorization: Bearer "

struct wp_token {
    const char *file; /* NULL: the value never changes. */
    const struct wp_clock *clock;
    struct wp_token_value *value; /* NULL: no token at all. */
    int64_t looked_ns;
    int64_t read_ns;
    struct stat seen;
    bool failing; /* So that one trouble is one line. */
};

bool
wp_token_trim(struct wp_str bytes, struct wp_str *out)
{
    static const char space[] = " \t\r\n";
    size_t from = 0;
    size_t to = bytes.len;

    while (from < to && memchr(space, bytes.ptr[from], sizeof space - 1)) {
        from++;
    }
    while (to > from && memchr(space, bytes.ptr[to - 1], sizeof space - 1)) {
        to--;
    }
    for (size_t i = from; i < to; i++) {
        if (bytes.ptr[i] <= ' ' || bytes.ptr[i] > '~') {
            return false;
        }
    }
    if (from == to) {
        return false;
    }
    *out = (struct wp_str){bytes.ptr + from, to - from};
    return true;
}

static struct wp_token_value *
value_create(struct wp_str token)
{
    size_t size = sizeof PREFIX + token.len;
    struct wp_token_value *value = malloc(sizeof *value + size);

    if (value == NULL) {
        return NULL;
    }
    *value = (struct wp_token_value){.refs = 1, .size = size};
    memcpy(value->header, PREFIX, sizeof PREFIX - 1);
    memcpy(value->header + sizeof PREFIX - 1, token.ptr, token.len);
    value->header[size - 1] = '\0';
    return value;
}

void
wp_token_value_release(struct wp_token_value *value)
{
    if (value == NULL) {
        return;
    }
    WP_ASSERT(value->refs > 0);
    value->refs--;
    if (value->refs == 0) {
        explicit_bzero(value->header, value->size);
        free(value);
    }
}

/* Takes over what is in text, unless that is what is in use already. */
static enum wp_status
set_value(struct wp_token *token, struct wp_str text, struct wp_err *err)
{
    struct wp_token_value *value = value_create(text);

    if (value == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (token->value != NULL && token->value->size == value->size &&
        wp_bytes_eq_const_time(token->value->header, value->header,
                               value->size)) {
        wp_token_value_release(value);
        return WP_OK;
    }
    wp_token_value_release(token->value);
    token->value = value;
    return WP_OK;
}

static enum wp_status
read_value(struct wp_token *token, struct wp_err *err)
{
    char bytes[WP_TOKEN_MAX + 1];
    struct wp_str text = WP_STR("");
    ssize_t len = wp_path_read(token->file, O_NONBLOCK, bytes, sizeof bytes,
                               &token->seen);
    enum wp_status status = WP_OK;

    token->read_ns = wp_clock_mono_ns(token->clock);
    if (len < 0) {
        status = wp_err_sys(err, WP_UNAVAILABLE, errno,
                            "the token file '%s' cannot be read", token->file);
    } else if (len > WP_TOKEN_MAX) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "the token file '%s' is longer than %d bytes",
                            token->file, (int)WP_TOKEN_MAX);
    } else if (!wp_token_trim((struct wp_str){bytes, (size_t)len}, &text)) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "the token file '%s' is empty or has characters "
                            "that no token has",
                            token->file);
    }
    if (status == WP_OK) {
        status = set_value(token, text, err);
    }
    explicit_bzero(bytes, sizeof bytes);
    return status;
}

/* The same while requests are made: trouble is logged once, until it ends. */
static void
reread(struct wp_token *token)
{
    struct wp_err err;
    bool failing = read_value(token, &err) != WP_OK;

    if (failing && !token->failing) {
        wp_log_warn("token not renewed", wp_kv_err(&err));
    }
    token->failing = failing;
}

static bool
has_changed(const struct wp_token *token)
{
    struct stat now;

    return stat(token->file, &now) == 0 &&
           (now.st_ino != token->seen.st_ino ||
            now.st_dev != token->seen.st_dev ||
            now.st_size != token->seen.st_size ||
            now.st_mtim.tv_sec != token->seen.st_mtim.tv_sec ||
            now.st_mtim.tv_nsec != token->seen.st_mtim.tv_nsec);
}

struct wp_token *
wp_token_create(const char *file, const char *fixed,
                const struct wp_clock *clock, struct wp_err *err)
{
    struct wp_token *token = calloc(1, sizeof *token);
    enum wp_status status = WP_OK;
    struct wp_str text = WP_STR("");

    WP_ASSERT(file == NULL || fixed == NULL);
    if (token == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    token->file = file;
    token->clock = clock;
    if (file != NULL) {
        status = read_value(token, err);
        token->looked_ns = token->read_ns;
    } else if (fixed != NULL) {
        if (wp_token_trim(wp_str_from(fixed), &text)) {
            status = set_value(token, text, err);
        } else {
            status = wp_err_set(err, WP_INVALID_ARGUMENT,
                                "the token is empty or has characters that no "
                                "token has");
        }
    }
    if (status != WP_OK) {
        wp_token_destroy(token);
        return NULL;
    }
    return token;
}

void
wp_token_destroy(struct wp_token *token)
{
    if (token != NULL) {
        wp_token_value_release(token->value);
        free(token);
    }
}

struct wp_token_value *
wp_token_take(struct wp_token *token)
{
    if (token->file != NULL) {
        int64_t now = wp_clock_mono_ns(token->clock);

        if (now - token->looked_ns >= LOOK_NS) {
            token->looked_ns = now;
            if (now - token->read_ns >= AGE_MAX_NS || has_changed(token)) {
                reread(token);
            }
        }
    }
    if (token->value != NULL) {
        token->value->refs++;
    }
    return token->value;
}

bool
wp_token_refused(struct wp_token *token, const struct wp_token_value *used)
{
    if (token->file == NULL) {
        return false;
    }
    if (token->value == used) {
        reread(token);
    }
    return token->value != used;
}
