#include "pool/remotes/tar.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
    BLOCK = 512,
    /* Of a header: where a field begins, and how long it is. */
    NAME = 0,
    NAME_LEN = 100,
    MODE = 100,
    MODE_LEN = 8,
    SIZE = 124,
    SIZE_LEN = 12,
    SUM = 148,
    SUM_LEN = 8,
    TYPE = 156,
    MAGIC = 257,
    PREFIX = 345,
    PREFIX_LEN = 155,
};

/* Digits with spaces and zeros in front, up to a space, NUL or the end. */
static bool
read_octal(const char *field, size_t len, uint64_t *out)
{
    size_t i = 0;

    *out = 0;
    while (i < len && field[i] == ' ') {
        i++;
    }
    for (; i < len && field[i] >= '0' && field[i] <= '7'; i++) {
        *out = *out << 3 | (uint64_t)(field[i] - '0');
    }
    return i == len || field[i] == ' ' || field[i] == '\0';
}

/* The sum of all bytes, its own taken as spaces. */
static bool
has_sum(const char *header)
{
    uint64_t said;
    uint64_t sum = 0;

    for (size_t i = 0; i < BLOCK; i++) {
        sum += i >= SUM && i < SUM + SUM_LEN ? ' ' : (uint8_t)header[i];
    }
    return read_octal(header + SUM, SUM_LEN, &said) && said == sum;
}

static bool
is_zero(const char *block)
{
    for (size_t i = 0; i < BLOCK; i++) {
        if (block[i] != '\0') {
            return false;
        }
    }
    return true;
}

/* Without "./" in front. */
static bool
set_path(struct wp_tar_file *out, struct wp_str prefix, struct wp_str name)
{
    size_t from = 0;

    if (memchr(name.ptr, '\0', name.len) != NULL ||
        prefix.len + (prefix.len > 0) + name.len > WP_TAR_PATH_MAX) {
        return false;
    }
    (void)snprintf(out->path, sizeof out->path, "%.*s%s%.*s",
                   WP_STR_ARG(prefix), prefix.len > 0 ? "/" : "",
                   WP_STR_ARG(name));
    while (strncmp(out->path + from, "./", 2) == 0) {
        from += 2;
    }
    memmove(out->path, out->path + from, strlen(out->path + from) + 1);
    return true;
}

/* What entries in front say of the next file; texts without bytes: nothing. */
struct said {
    struct wp_str path;
    struct wp_str size;
};

/* Behind the key and '='; an empty one takes back what was said before. */
static struct wp_str
value_of(struct wp_str record, struct wp_str key)
{
    return record.len > key.len
               ? (struct wp_str){record.ptr + key.len, record.len - key.len}
               : (struct wp_str){NULL, 0};
}

/* Of a pax header: lines "LENGTH KEY=VALUE\n". False: *why is what was
 * expected. */
static bool
read_pax(struct wp_str text, struct said *out, const char **why)
{
    while (text.len > 0) {
        const char *space = memchr(text.ptr, ' ', text.len);
        struct wp_str record;
        uint64_t len;

        *why = "a whole pax header";
        if (space == NULL ||
            !wp_str_to_u64(
                (struct wp_str){text.ptr, (size_t)(space - text.ptr)}, &len) ||
            len > text.len || len < (size_t)(space - text.ptr) + 2 ||
            text.ptr[len - 1] != '\n') {
            return false;
        }
        record =
            (struct wp_str){space + 1, len - 2 - (size_t)(space - text.ptr)};
        if (wp_str_starts_with(record, WP_STR("path="))) {
            out->path = value_of(record, WP_STR("path="));
        } else if (wp_str_starts_with(record, WP_STR("size="))) {
            out->size = value_of(record, WP_STR("size="));
        } else if (wp_str_starts_with(record, WP_STR("GNU.sparse."))) {
            *why = "plain files and folders, without holes,";
            return false;
        }
        text.ptr += len;
        text.len -= len;
    }
    return true;
}

/* Its header's size is the only one, for another reader may believe the other.
 */
static bool
has_one_size(struct wp_str said, size_t size)
{
    uint64_t other;

    return said.ptr == NULL || (wp_str_to_u64(said, &other) && other == size);
}

static struct wp_str
trimmed(struct wp_str name)
{
    name.len = strnlen(name.ptr, name.len);
    return name;
}

/* given: what an entry in front says; ptr NULL: nothing. */
static bool
name_file(const char *header, struct wp_str given, struct wp_tar_file *out)
{
    bool is_ustar = memcmp(header + MAGIC, "ustar", 6) == 0;
    struct wp_str prefix = {
        header + PREFIX, is_ustar ? strnlen(header + PREFIX, PREFIX_LEN) : 0};

    return given.ptr != NULL
               ? set_path(out, WP_STR(""), given)
               : set_path(out, prefix,
                          (struct wp_str){header + NAME,
                                          strnlen(header + NAME, NAME_LEN)});
}

/* 1: it is a file; 0: it is passed over; -1: it is refused. */
static int
take(const char *header, struct wp_str content, struct said *said,
     struct wp_tar_file *out, const char **why)
{
    const char type = header[TYPE];
    uint64_t mode;
    size_t len;

    if (type == 'L') {
        said->path = trimmed(content);
        return 0;
    }
    if (type == 'x') {
        return read_pax(content, said, why) ? 0 : -1;
    }
    if (type == 'g') {
        return 0;
    }
    *why = "a path of at most 512 bytes without NUL";
    if (!name_file(header, said->path, out)) {
        return -1;
    }
    *why = "one size of each file";
    if (!has_one_size(said->size, content.len)) {
        return -1;
    }
    *said = (struct said){.path = {NULL, 0}};
    len = strlen(out->path);
    if (type == '5' || len == 0 || out->path[len - 1] == '/') {
        return 0;
    }
    *why = "plain files and folders, without links and devices,";
    if (type != '0' && type != '\0' && type != '7') {
        return -1;
    }
    *why = "permissions in octal digits";
    if (!read_octal(header + MODE, MODE_LEN, &mode)) {
        return -1;
    }
    out->mode = (uint32_t)(mode & 0777);
    out->content = content;
    return 1;
}

int
wp_tar_next(struct wp_str *rest, struct wp_tar_file *out, const char **why)
{
    struct said said = {.path = {NULL, 0}};

    out->path[0] = '\0';
    while (rest->len > 0) {
        const char *header = rest->ptr;
        uint64_t size;
        size_t whole;
        int found;

        *why = "a tar archive, not compressed, and not cut off,";
        if (rest->len < BLOCK) {
            return -1;
        }
        if (is_zero(header)) {
            rest->len = 0;
            return 0;
        }
        if (!has_sum(header) || !read_octal(header + SIZE, SIZE_LEN, &size) ||
            size > rest->len - BLOCK) {
            return -1;
        }
        /* The last block may lack what fills it up. */
        whole = BLOCK + ((size_t)size + BLOCK - 1) / BLOCK * BLOCK;
        if (whole > rest->len) {
            whole = rest->len;
        }
        found = take(header, (struct wp_str){header + BLOCK, (size_t)size},
                     &said, out, why);
        rest->ptr += whole;
        rest->len -= whole;
        if (found != 0) {
            return found;
        }
        out->path[0] = '\0';
    }
    return 0;
}
