#include "allocator/ctl/sandbox/brought.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/ctl/sandbox/gunzip.h"
#include "pool/base/os_error.h"
#include "pool/limits.h"
#include "pool/remotes/names.h"
#include "pool/remotes/tar.h"

enum {
    DEPTH_MAX = 64, /* Of folders in folders. */
    CHUNK = 65536,
    LOCAL_MAX = 4096,
    FILES_FIRST = 64,
    MODE_PLAIN = 0644,
    MODE_PROGRAM = 0755,
};

static enum wp_status
refuse(struct wp_err *err, const char *what, const char *why)
{
    return wp_err_set(err, WP_INVALID_ARGUMENT, "%.160s: %s", what, why);
}

static enum wp_status
no_memory(struct wp_err *err)
{
    return wp_err_set(err, WP_INTERNAL, "out of memory");
}

void
wp_brought_fini(struct wp_brought *brought)
{
    wp_region_free(&brought->region);
    free(brought->files);
    *brought = (struct wp_brought){.files = NULL};
}

/* what: as people know it. */
static enum wp_status
append(struct wp_brought *brought, const struct wp_brought_file *file,
       const char *what, struct wp_err *err)
{
    if (!wp_bound_name_is_path(wp_str_from(file->path)) ||
        strlen(file->path) > WP_BINDING_PATH_MAX) {
        char shown[WP_STR_SHOWN_MAX];

        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%.160s: '%s': expected a path below the workspace, "
                          "of at most %d bytes",
                          what, wp_str_shown(wp_str_from(file->path), shown),
                          WP_BINDING_PATH_MAX);
    }
    if (brought->n == WP_BROUGHT_FILES_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%.160s: at most %d files in all expected", what,
                          WP_BROUGHT_FILES_MAX);
    }
    if (file->size > WP_BROUGHT_BYTES_MAX - brought->bytes) {
        return refuse(err, what, "at most 1 GiB in all expected");
    }
    if (brought->n == brought->cap) {
        uint32_t cap = brought->cap == 0 ? FILES_FIRST : 2 * brought->cap;
        void *more = reallocarray(brought->files, cap, sizeof *brought->files);

        if (more == NULL) {
            return no_memory(err);
        }
        brought->files = more;
        brought->cap = cap;
    }
    brought->files[brought->n++] = *file;
    brought->bytes += file->size;
    return WP_OK;
}

/* A copy of "above/below"; "." and an empty text are no part. NULL: memory
 * lacks. */
static char *
join(struct wp_brought *brought, const char *above, const char *below)
{
    bool bare = above[0] == '\0' || strcmp(above, ".") == 0;
    size_t len = strlen(above) + strlen(below) + 2;
    char *out = wp_region_alloc(&brought->region, len);

    if (out != NULL) {
        (void)snprintf(out, len, "%s%s%s", bare ? "" : above, bare ? "" : "/",
                       below);
    }
    return out;
}

/* --- What is read here and now --- */

/* What is no plain file has no size before its end: it is kept in an unnamed
 * one. NULL with errno; EFBIG: it has too much. */
static FILE *
spool(FILE *in)
{
    FILE *out = tmpfile();
    char chunk[CHUNK];
    uint64_t size = 0;
    size_t n;

    while (out != NULL && (n = fread(chunk, 1, sizeof chunk, in)) > 0) {
        size += n;
        if (size > WP_BROUGHT_BYTES_MAX || fwrite(chunk, 1, n, out) != n) {
            int why = size > WP_BROUGHT_BYTES_MAX ? EFBIG : errno;

            (void)fclose(out);
            errno = why;
            return NULL;
        }
    }
    if (out != NULL && (ferror(in) != 0 || fflush(out) != 0)) {
        (void)fclose(out);
        return NULL;
    }
    if (out != NULL) {
        rewind(out);
    }
    return out;
}

/* All that size says, and there is no more. */
static enum wp_status
read_all(struct wp_brought *brought, FILE *in, const char *what, uint64_t size,
         struct wp_str *out, struct wp_err *err)
{
    char *bytes = wp_region_alloc(&brought->region, size + 1);
    size_t n;

    if (bytes == NULL) {
        return no_memory(err);
    }
    n = fread(bytes, 1, size + 1, in);
    if (ferror(in) != 0) {
        return refuse(err, what, wp_os_error(errno));
    }
    if (n != size) {
        return refuse(err, what, "it was changed while it was read");
    }
    *out = (struct wp_str){bytes, size};
    return WP_OK;
}

/* Of a file, a pipe, or standard input. */
static enum wp_status
read_now(struct wp_brought *brought, const char *local, struct wp_str *out,
         struct wp_err *err)
{
    bool is_stdin = strcmp(local, "-") == 0;
    FILE *in = is_stdin ? stdin : fopen(local, "re");
    FILE *from = in;
    enum wp_status status;
    struct stat st;

    if (in == NULL) {
        return refuse(err, local, wp_os_error(errno));
    }
    if (is_stdin || fstat(fileno(in), &st) != 0 || !S_ISREG(st.st_mode)) {
        from = spool(in);
    }
    if (from == NULL || fstat(fileno(from), &st) != 0) {
        status = refuse(err, local,
                        errno == EFBIG ? "at most 1 GiB in all expected"
                                       : wp_os_error(errno));
    } else if ((uint64_t)st.st_size > WP_BROUGHT_BYTES_MAX) {
        status = refuse(err, local, "at most 1 GiB in all expected");
    } else {
        status = read_all(brought, from, local, (uint64_t)st.st_size, out, err);
    }
    if (from != NULL && from != in) {
        (void)fclose(from);
    }
    if (!is_stdin) {
        (void)fclose(in);
    }
    return status;
}

/* --- Files and folders --- */

static enum wp_status
add_plain(struct wp_brought *brought, const char *local, const char *path,
          const struct stat *st, struct wp_err *err)
{
    const struct wp_brought_file file = {
        .path = join(brought, "", path),
        .from = join(brought, "", local),
        .size = (uint64_t)st->st_size,
        .mode = (st->st_mode & S_IXUSR) != 0 ? MODE_PROGRAM : MODE_PLAIN,
    };

    return file.path != NULL && file.from != NULL
               ? append(brought, &file, local, err)
               : no_memory(err);
}

static int
is_entry(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int
by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* As deep as DEPTH_MAX. NOLINTBEGIN(misc-no-recursion) */
static enum wp_status add_folder(struct wp_brought *brought, const char *local,
                                 const char *path, int depth,
                                 struct wp_err *err);

/* One name of a folder. */
static enum wp_status
add_entry(struct wp_brought *brought, const char *folder, const char *path,
          const char *name, int depth, struct wp_err *err)
{
    char local[LOCAL_MAX];
    char *below = join(brought, path, name);
    struct stat st;

    if (below == NULL) {
        return no_memory(err);
    }
    if (snprintf(local, sizeof local, "%s/%s", folder, name) >= LOCAL_MAX) {
        return refuse(err, folder, "a path in it is too long");
    }
    if (lstat(local, &st) != 0) {
        return refuse(err, local, wp_os_error(errno));
    }
    if (S_ISDIR(st.st_mode)) {
        return add_folder(brought, local, below, depth + 1, err);
    }
    if (!S_ISREG(st.st_mode)) {
        return refuse(err, local,
                      S_ISLNK(st.st_mode)
                          ? "a symbolic link; only plain files can be brought"
                          : "only plain files can be brought");
    }
    return add_plain(brought, local, below, &st, err);
}

static enum wp_status
add_folder(struct wp_brought *brought, const char *local, const char *path,
           int depth, struct wp_err *err)
{
    enum wp_status status = WP_OK;
    struct dirent **entries;
    int n;

    if (depth > DEPTH_MAX) {
        return refuse(err, local, "folders in folders, deeper than 64");
    }
    n = scandir(local, &entries, is_entry, by_bytes);
    if (n < 0) {
        return refuse(err, local, wp_os_error(errno));
    }
    for (int i = 0; i < n; i++) {
        if (status == WP_OK) {
            status =
                add_entry(brought, local, path, entries[i]->d_name, depth, err);
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}
/* NOLINTEND(misc-no-recursion) */

enum wp_status
wp_brought_add(struct wp_brought *brought, const char *local, const char *path,
               struct wp_err *err)
{
    struct wp_brought_file file = {.mode = MODE_PLAIN};
    enum wp_status status;
    struct stat st;

    if (strcmp(local, "-") != 0) {
        if (stat(local, &st) != 0) {
            return refuse(err, local, wp_os_error(errno));
        }
        if (S_ISDIR(st.st_mode)) {
            return add_folder(brought, local, path, 0, err);
        }
        if (S_ISREG(st.st_mode)) {
            return access(local, R_OK) == 0
                       ? add_plain(brought, local, path, &st, err)
                       : refuse(err, local, wp_os_error(errno));
        }
    }
    status = read_now(brought, local, &file.content, err);
    if (status != WP_OK) {
        return status;
    }
    file.path = join(brought, "", path);
    file.size = file.content.len;
    return file.path != NULL ? append(brought, &file, local, err)
                             : no_memory(err);
}

/* --- Archives --- */

enum wp_status
wp_brought_add_archive(struct wp_brought *brought, const char *local,
                       const char *dir, struct wp_err *err)
{
    struct wp_tar_file *entry;
    struct wp_str rest = {NULL, 0};
    const char *why = "";
    enum wp_status status = read_now(brought, local, &rest, err);
    int rc = 0;

    if (status == WP_OK && wp_gunzip_is(rest)) {
        status =
            wp_gunzip(rest, WP_BROUGHT_BYTES_MAX, &brought->region, &rest, err);
        if (status != WP_OK) {
            return wp_err_wrap(err, "%.160s", local);
        }
    }
    entry = wp_region_alloc(&brought->region, sizeof *entry);
    if (status == WP_OK && entry == NULL) {
        return no_memory(err);
    }
    while (status == WP_OK && (rc = wp_tar_next(&rest, entry, &why)) > 0) {
        const struct wp_brought_file file = {
            .path = join(brought, dir, entry->path),
            .content = entry->content,
            .size = entry->content.len,
            .mode = entry->mode,
        };

        status = file.path != NULL ? append(brought, &file, local, err)
                                   : no_memory(err);
    }
    if (status == WP_OK && rc < 0) {
        char shown[WP_STR_SHOWN_MAX];

        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "%.160s: %s expected, at '%s'", local, why,
                            wp_str_shown(wp_str_from(entry->path), shown));
    }
    return status;
}

/* --- All of it --- */

static int
by_path(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum wp_status
wp_brought_check(struct wp_brought *brought, struct wp_err *err)
{
    const char **paths =
        wp_region_alloc(&brought->region, (brought->n + 1) * sizeof *paths);

    if (paths == NULL) {
        return no_memory(err);
    }
    for (uint32_t i = 0; i < brought->n; i++) {
        paths[i] = brought->files[i].path;
    }
    qsort(paths, brought->n, sizeof *paths, by_path);
    for (uint32_t i = 1; i < brought->n; i++) {
        if (strcmp(paths[i - 1], paths[i]) == 0) {
            char shown[WP_STR_SHOWN_MAX];

            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "'%s' in the sandbox: two files are to be there",
                              wp_str_shown(wp_str_from(paths[i]), shown));
        }
    }
    return WP_OK;
}

enum wp_status
wp_brought_read(struct wp_brought *brought, struct wp_err *err)
{
    enum wp_status status = WP_OK;

    for (uint32_t i = 0; i < brought->n && status == WP_OK; i++) {
        struct wp_brought_file *file = &brought->files[i];
        FILE *in;

        if (file->from == NULL) {
            continue;
        }
        in = fopen(file->from, "re");
        if (in == NULL) {
            return refuse(err, file->from, wp_os_error(errno));
        }
        status =
            read_all(brought, in, file->from, file->size, &file->content, err);
        (void)fclose(in);
    }
    return status;
}
