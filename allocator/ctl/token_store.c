#include "allocator/ctl/token_store.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "pool/base/siphash.h"
#include "pool/base/str.h"

enum {
    FILE_MAX = 8192,
    TOKEN_HEX_LEN = 2 * WP_TOKEN_LEN,
    DIR_PATH_MAX = 4000,
};

/* The directory, without a final slash. */
static enum wp_status
store_dir(char out[DIR_PATH_MAX], struct wp_err *err)
{
    /* A program with one thread as yet. */
    const char *state =
        getenv("XDG_STATE_HOME");      /* NOLINT(concurrency-mt-unsafe) */
    const char *home = getenv("HOME"); /* NOLINT(concurrency-mt-unsafe) */
    int n;

    if (state != NULL && state[0] == '/') {
        n = snprintf(out, DIR_PATH_MAX, "%s/warmpool/claims", state);
    } else if (home != NULL && home[0] == '/') {
        n = snprintf(out, DIR_PATH_MAX, "%s/.local/state/warmpool/claims",
                     home);
    } else {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "neither XDG_STATE_HOME nor HOME is set: nowhere to "
                          "remember lease tokens");
    }
    if (n >= DIR_PATH_MAX) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "the path of the state directory is too long");
    }
    return WP_OK;
}

/* The claim's file: its id where that makes a plain name, else a hash of it. */
static enum wp_status
store_path(const char *claim_id, char out[DIR_PATH_MAX + 200],
           struct wp_err *err)
{
    static const struct wp_hash_key no_key = {0, 0};
    struct wp_str id = wp_str_from(claim_id);
    bool plain =
        id.len > 0 && id.len <= 100 && claim_id[0] != '.' && claim_id[0] != '@';
    char dir[DIR_PATH_MAX];
    enum wp_status status = store_dir(dir, err);

    if (status != WP_OK) {
        return status;
    }
    for (size_t i = 0; i < id.len; i++) {
        plain = plain && (isalnum((unsigned char)id.ptr[i]) != 0 ||
                          strchr("._-@", id.ptr[i]) != NULL);
    }
    if (plain) {
        (void)snprintf(out, DIR_PATH_MAX + 200, "%s/%s.json", dir, claim_id);
    } else {
        struct wp_hash128 hash = wp_siphash128(no_key, id.ptr, id.len);

        (void)snprintf(out, DIR_PATH_MAX + 200, "%s/@%016llx%016llx.json", dir,
                       (unsigned long long)hash.high,
                       (unsigned long long)hash.low);
    }
    return WP_OK;
}

/* mkdir -p with mode 0700 for what is made. */
static enum wp_status
make_dir(const char *path, struct wp_err *err)
{
    char part[DIR_PATH_MAX];

    (void)snprintf(part, sizeof part, "%s", path);
    for (char *p = part + 1;; p++) {
        char end = *p;

        if (end != '/' && end != '\0') {
            continue;
        }
        *p = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST) {
            return wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                              "cannot make %s", part);
        }
        if (end == '\0') {
            return WP_OK;
        }
        *p = end;
    }
}

static enum wp_status
write_file(const char *path, const char *text, struct wp_err *err)
{
    char draft[DIR_PATH_MAX + 220];
    size_t len = strlen(text);
    int fd;
    bool written;

    (void)snprintf(draft, sizeof draft, "%s.XXXXXX", path);
    fd = mkostemp(draft, O_CLOEXEC); /* Mode 0600. */
    if (fd < 0) {
        return wp_err_sys(err, WP_FAILED_PRECONDITION, errno, "cannot write %s",
                          path);
    }
    written = write(fd, text, len) == (ssize_t)len;
    if (close(fd) != 0 || !written || rename(draft, path) != 0) {
        int error = errno;

        (void)unlink(draft);
        return wp_err_sys(err, WP_FAILED_PRECONDITION, error, "cannot write %s",
                          path);
    }
    return WP_OK;
}

enum wp_status
wp_token_store_save(const struct wp_token_record *record, struct wp_err *err)
{
    char dir[DIR_PATH_MAX];
    char path[DIR_PATH_MAX + 200];
    char hex[TOKEN_HEX_LEN + 1];
    json_t *object;
    char *text;
    enum wp_status status = store_dir(dir, err);

    if (status == WP_OK) {
        status = store_path(record->claim_id, path, err);
    }
    if (status == WP_OK) {
        status = make_dir(dir, err);
    }
    if (status != WP_OK) {
        return status;
    }
    wp_hex_encode(record->token, sizeof record->token, hex);
    object =
        json_pack("{s:s, s:s, s:s, s:I}", "claim_id", record->claim_id,
                  "sandbox", record->sandbox, "token", hex, "deadline_unix_ms",
                  (json_int_t)record->deadline_wall_ms);
    text = object != NULL ? json_dumps(object, JSON_INDENT(2)) : NULL;
    status = text != NULL
                 ? write_file(path, text, err)
                 : wp_err_set(err, WP_INTERNAL, "the claim's id is not UTF-8");
    free(text);
    json_decref(object);
    return status;
}

enum wp_status
wp_token_parse(const char *hex, uint8_t token[WP_TOKEN_LEN], struct wp_err *err)
{
    if (!wp_hex_decode(wp_str_from(hex), token, WP_TOKEN_LEN)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "not a lease token: expected %d hexadecimal digits",
                          TOKEN_HEX_LEN);
    }
    return WP_OK;
}

/* A string member that must fit; an absent one leaves out as it is: empty. */
static bool
json_member(const json_t *object, const char *key, char *out, size_t cap)
{
    const json_t *member = json_object_get(object, key);

    return member == NULL ||
           (json_is_string(member) &&
            wp_str_copy((struct wp_str){json_string_value(member),
                                        json_string_length(member)},
                        out, cap));
}

static enum wp_status
parse_record(const char *text, struct wp_token_record *out, struct wp_err *err)
{
    json_error_t why;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    char hex[TOKEN_HEX_LEN + 1] = "";
    enum wp_status status;

    if (object == NULL || !json_is_object(object) ||
        !json_member(object, "claim_id", out->claim_id, sizeof out->claim_id) ||
        !json_member(object, "sandbox", out->sandbox, sizeof out->sandbox) ||
        !json_member(object, "token", hex, sizeof hex)) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "expected a token's %d hexadecimal digits, or the "
                            "JSON of one claim",
                            TOKEN_HEX_LEN);
    } else {
        out->deadline_wall_ms =
            json_integer_value(json_object_get(object, "deadline_unix_ms"));
        status = wp_token_parse(hex, out->token, err);
    }
    json_decref(object);
    return status;
}

enum wp_status
wp_token_read_file(const char *path, struct wp_token_record *out,
                   struct wp_err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "re");
    char text[FILE_MAX + 1];
    size_t n;
    enum wp_status status;

    memset(out, 0, sizeof *out);
    if (file == NULL) {
        return wp_err_sys(
            err, errno == ENOENT ? WP_NOT_FOUND : WP_FAILED_PRECONDITION, errno,
            "cannot read %s", path);
    }
    n = fread(text, 1, FILE_MAX, file);
    text[n] = '\0';
    if (!is_stdin) {
        (void)fclose(file);
    }
    while (n > 0 && isspace((unsigned char)text[n - 1]) != 0) {
        text[--n] = '\0';
    }
    status = text[0] == '{' ? parse_record(text, out, err)
                            : wp_token_parse(text, out->token, err);
    return status == WP_OK ? WP_OK : wp_err_wrap(err, "%s", path);
}

enum wp_status
wp_token_store_load(const char *claim_id, struct wp_token_record *out,
                    struct wp_err *err)
{
    char path[DIR_PATH_MAX + 200];
    enum wp_status status = store_path(claim_id, path, err);

    if (status == WP_OK) {
        status = wp_token_read_file(path, out, err);
    }
    if (status == WP_OK && strcmp(out->claim_id, claim_id) != 0) {
        status = wp_err_set(err, WP_NOT_FOUND, "%s is of another claim", path);
    }
    return status;
}

void
wp_token_store_forget(const char *claim_id)
{
    char path[DIR_PATH_MAX + 200];
    struct wp_err err;

    if (store_path(claim_id, path, &err) == WP_OK) {
        (void)unlink(path);
    }
}
