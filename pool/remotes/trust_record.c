#include "pool/remotes/trust_record.h"

#include <stdio.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/remotes/names.h"

#define HEAD "warmpool-trust 1"
#define TENANT "tenant "
#define URL "url "

static const struct wp_trust_file *
find(const struct wp_trust_record *record, struct wp_str path)
{
    for (uint32_t i = 0; i < record->n; i++) {
        if (wp_str_eq(wp_str_from(record->files[i].path), path)) {
            return &record->files[i];
        }
    }
    return NULL;
}

/* A path that can stand in a line. */
static bool
is_path(struct wp_str path)
{
    for (size_t i = 0; i < path.len; i++) {
        if ((unsigned char)path.ptr[i] < ' ' || path.ptr[i] == 0x7f) {
            return false;
        }
    }
    return path.len <= WP_TRUST_PATH_MAX && wp_bound_name_is_path(path);
}

static struct wp_trust_file *
append(struct wp_trust_record *record, struct wp_str path)
{
    struct wp_trust_file *file;

    if (record->n == WP_TRUST_FILES_MAX || !is_path(path) ||
        find(record, path) != NULL) {
        return NULL;
    }
    file = &record->files[record->n++];
    *file = (struct wp_trust_file){.state = WP_TRUST_ABSENT};
    memcpy(file->path, path.ptr, path.len);
    return file;
}

/* What is before the first `end`, which is taken as well. */
static struct wp_str
take_until(struct wp_str *rest, char end)
{
    struct wp_str part;

    (void)wp_str_cut(rest, end, &part);
    return part;
}

/* --- The list --- */

enum wp_status
wp_trust_files_parse(struct wp_str list, struct wp_trust_record *out,
                     struct wp_err *err)
{
    out->n = 0;
    while (list.len > 0) {
        struct wp_str path = wp_str_trim(take_until(&list, ','));

        if (out->n == WP_TRUST_LIST_MAX || append(out, path) == NULL) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "'%.*s': expected up to %d different paths "
                              "below a repository between commas, each of at "
                              "most %d bytes without empty parts, '.' and "
                              "'..'",
                              (int)(path.len < 60 ? path.len : 60), path.ptr,
                              WP_TRUST_LIST_MAX, WP_TRUST_PATH_MAX);
        }
    }
    return out->n > 0 ? WP_OK
                      : wp_err_set(err, WP_INVALID_ARGUMENT,
                                   "expected at least one path");
}

_Static_assert(WP_TRUST_FILES_MAX >= 2 * WP_TRUST_LIST_MAX,
               "room for each path of the list, and below a folder");

void
wp_trust_record_below(struct wp_trust_record *record, struct wp_str dir)
{
    uint32_t n = record->n;

    for (uint32_t i = 0; i < n && dir.len > 0; i++) {
        struct wp_str path = wp_str_from(record->files[i].path);

        if (wp_str_starts_with(path, dir) && path.len > dir.len &&
            path.ptr[dir.len] == '/') {
            /* NULL: it is there already. */
            (void)append(record, (struct wp_str){path.ptr + dir.len + 1,
                                                 path.len - dir.len - 1});
        }
    }
}

/* --- As text --- */

size_t
wp_trust_record_write(const struct wp_trust_record *record,
                      char out[WP_TRUST_TEXT_MAX + 1])
{
    size_t len = (size_t)snprintf(out, WP_TRUST_TEXT_MAX + 1,
                                  HEAD "\n" TENANT "%s\n" URL "%s\n",
                                  record->tenant, record->url);

    for (uint32_t i = 0; i < record->n; i++) {
        const struct wp_trust_file *file = &record->files[i];
        char digits[2 * WP_TRUST_HASH_LEN + 1] = "-";

        if (file->state == WP_TRUST_ASTRAY) {
            continue;
        }
        if (file->state == WP_TRUST_FILE) {
            wp_hex_encode(file->hash, sizeof file->hash, digits);
        }
        len += (size_t)snprintf(out + len, WP_TRUST_TEXT_MAX + 1 - len,
                                "%s %s\n", digits, file->path);
    }
    WP_ASSERT(len <= WP_TRUST_TEXT_MAX);
    return len;
}

static bool
read_hash(struct wp_str digits, struct wp_trust_file *out)
{
    if (wp_str_eq(digits, WP_STR("-"))) {
        return true;
    }
    if (!wp_hex_decode(digits, out->hash, sizeof out->hash)) {
        return false;
    }
    out->state = WP_TRUST_FILE;
    return true;
}

static bool
read_text(struct wp_str *rest, struct wp_str key, char *out, size_t cap)
{
    struct wp_str line = take_until(rest, '\n');

    return wp_str_starts_with(line, key) &&
           memchr(line.ptr, '\0', line.len) == NULL &&
           wp_str_copy((struct wp_str){line.ptr + key.len, line.len - key.len},
                       out, cap);
}

bool
wp_trust_record_read(struct wp_str text, struct wp_trust_record *out)
{
    *out = (struct wp_trust_record){.n = 0};
    if (text.len == 0 || text.ptr[text.len - 1] != '\n' ||
        !wp_str_eq(take_until(&text, '\n'), WP_STR(HEAD)) ||
        !read_text(&text, WP_STR(TENANT), out->tenant, sizeof out->tenant) ||
        !read_text(&text, WP_STR(URL), out->url, sizeof out->url)) {
        return false;
    }
    while (text.len > 0) {
        struct wp_str path = take_until(&text, '\n');
        struct wp_str digits = take_until(&path, ' ');
        struct wp_trust_file *file = append(out, path);

        if (file == NULL || !read_hash(digits, file)) {
            return false;
        }
    }
    return true;
}

/* --- Comparing --- */

static const char *
difference(const struct wp_trust_file *first, const struct wp_trust_file *now)
{
    if (now->state == WP_TRUST_ASTRAY) {
        return "LINKED";
    }
    if (first == NULL ||
        (first->state == now->state &&
         memcmp(first->hash, now->hash, sizeof now->hash) == 0)) {
        return NULL;
    }
    return first->state == WP_TRUST_ABSENT ? "NEW"
           : now->state == WP_TRUST_ABSENT ? "DELETED"
                                           : "CHANGED";
}

bool
wp_trust_record_same(const struct wp_trust_record *first,
                     const struct wp_trust_record *now, bool *more,
                     char why[WP_TRUST_WHY_MAX])
{
    size_t len = 0;

    *more = false;
    why[0] = '\0';
    for (uint32_t i = 0; i < now->n; i++) {
        const struct wp_trust_file *was =
            find(first, wp_str_from(now->files[i].path));
        const char *what = difference(was, &now->files[i]);

        *more = *more || was == NULL;
        if (what != NULL && len < WP_TRUST_WHY_MAX) {
            len += (size_t)snprintf(why + len, WP_TRUST_WHY_MAX - len,
                                    "%s%.60s %s", len > 0 ? ", " : "",
                                    now->files[i].path, what);
        }
    }
    return len == 0;
}

bool
wp_trust_record_add(struct wp_trust_record *first,
                    const struct wp_trust_record *now)
{
    for (uint32_t i = 0; i < now->n; i++) {
        struct wp_str path = wp_str_from(now->files[i].path);
        struct wp_trust_file *file;

        if (find(first, path) != NULL) {
            continue;
        }
        file = append(first, path);
        if (file == NULL) {
            return false;
        }
        *file = now->files[i];
    }
    return true;
}

enum wp_status
wp_trust_record_judge(struct wp_trust_record *first,
                      const struct wp_trust_record *now, bool *more,
                      struct wp_err *err)
{
    char why[WP_TRUST_WHY_MAX];

    if (!wp_trust_record_same(first, now, more, why)) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "not as first trusted: %s", why);
    }
    return !*more || wp_trust_record_add(first, now)
               ? WP_OK
               : wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                            "its record has no room for more files");
}
