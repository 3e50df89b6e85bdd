/* trust: what the instruction files of repositories were when tenants first
 * brought them. The records are files of this machine's daemon, and who may
 * read its state directory may do this: no daemon is asked. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/conf/paths.h"
#include "allocator/ctl/commands.h"
#include "allocator/ctl/lease.h"
#include "allocator/ctl/print.h"
#include "pool/base/clock.h"
#include "pool/remotes/trust_record.h"
#include "proto/formats/json_text.h"

enum {
    PATH_BYTES = 4200,
    HASH_TEXT = 2 * WP_TRUST_HASH_LEN,
    HASH_SHOWN = 12, /* Of its digits, to people. */
};

/* The records that are looked through. */
struct walk {
    struct wp_ctl *ctl;
    int dir_fd;
    const char *url; /* NULL: of all. */
    struct wp_table table;
    json_t *list;
    uint32_t n; /* That were meant. */
    uint32_t unread;
    struct wp_trust_record record;
    char text[WP_TRUST_TEXT_MAX + 1];
};

static const char *
hash_text(const struct wp_trust_file *file, char out[HASH_TEXT + 1])
{
    if (file->state != WP_TRUST_FILE) {
        return "-";
    }
    wp_hex_encode(file->hash, WP_TRUST_HASH_LEN, out);
    return out;
}

static json_t *
record_json(const struct wp_trust_record *record, int64_t wall_ms)
{
    json_t *files = json_object();
    char hash[HASH_TEXT + 1];

    for (uint32_t i = 0; i < record->n; i++) {
        const struct wp_trust_file *file = &record->files[i];

        (void)json_object_set_new(files, file->path,
                                  file->state == WP_TRUST_FILE
                                      ? json_string(hash_text(file, hash))
                                      : json_null());
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tenant",
                     wp_json_from_text(record->tenant), "url",
                     wp_json_from_text(record->url), "recorded",
                     wp_ctl_time_json(wall_ms), "files", files);
}

/* A line for each file. */
static void
add_rows(struct walk *walk)
{
    const struct wp_trust_record *record = &walk->record;
    char hash[HASH_TEXT + 1];

    for (uint32_t i = 0; i < record->n; i++) {
        const struct wp_trust_file *file = &record->files[i];

        wp_table_add(&walk->table, "%s",
                     record->tenant[0] ? record->tenant : "-");
        wp_table_add(&walk->table, "%s", record->url);
        wp_table_add(&walk->table, "%s", file->path);
        wp_table_add(&walk->table, "%.*s", HASH_SHOWN, hash_text(file, hash));
    }
}

static void
show(struct walk *walk, int64_t wall_ms)
{
    switch (walk->ctl->options.output) {
    case WP_OUTPUT_JSON:
        (void)json_array_append_new(walk->list,
                                    record_json(&walk->record, wall_ms));
        return;
    case WP_OUTPUT_NAME:
        (void)fprintf(walk->ctl->out, "%s\n", walk->record.url);
        return;
    case WP_OUTPUT_TABLE:
        add_rows(walk);
        return;
    }
}

/* Is it a record? A file that the daemon is about to write is none yet. */
static bool
read_record(struct walk *walk, const char *name, struct stat *st)
{
    int fd = openat(walk->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = -1;

    if (fd < 0) {
        return false;
    }
    if (fstat(fd, st) == 0 && S_ISREG(st->st_mode)) {
        while (len < sizeof walk->text &&
               (n = read(fd, walk->text + len, sizeof walk->text - len)) > 0) {
            len += (size_t)n;
        }
    }
    (void)close(fd);
    return n == 0 && wp_trust_record_read((struct wp_str){walk->text, len},
                                          &walk->record);
}

static bool
is_meant(const struct walk *walk)
{
    const char *tenant = walk->ctl->options.tenant;

    return (walk->url == NULL || strcmp(walk->url, walk->record.url) == 0) &&
           (tenant == NULL || strcmp(tenant, walk->record.tenant) == 0);
}

static enum wp_status
take(struct walk *walk, const char *name, struct wp_err *err)
{
    struct stat st;

    if (!read_record(walk, name, &st)) {
        walk->unread++;
        return WP_OK;
    }
    if (!is_meant(walk)) {
        return WP_OK;
    }
    walk->n++;
    if (walk->ctl->options.forget && unlinkat(walk->dir_fd, name, 0) != 0 &&
        errno != ENOENT) {
        return wp_err_sys(err, WP_PERMISSION_DENIED, errno, "record %s of %s",
                          name, walk->record.url);
    }
    show(walk, (int64_t)st.st_mtim.tv_sec * (WP_NS_PER_S / WP_NS_PER_MS));
    return WP_OK;
}

static int
is_record(const struct dirent *entry)
{
    return strlen(entry->d_name) == WP_TRUST_NAME_LEN &&
           entry->d_name[strspn(entry->d_name, "0123456789abcdef")] == '\0';
}

static int
by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static enum wp_status
walk_all(struct walk *walk, const char *path, struct wp_err *err)
{
    struct dirent **entries;
    enum wp_status status = WP_OK;
    int n;

    walk->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    n = walk->dir_fd < 0 ? -1 : scandir(path, &entries, is_record, by_bytes);
    if (n < 0) {
        status = wp_err_sys(
            err, errno == ENOENT ? WP_NOT_FOUND : WP_PERMISSION_DENIED, errno,
            "--state-dir: the records of trust in %.160s", path);
    }
    for (int i = 0; i < n; i++) {
        if (status == WP_OK) {
            status = take(walk, entries[i]->d_name, err);
        }
        free(entries[i]);
    }
    if (n >= 0) {
        free(entries);
    }
    if (walk->dir_fd >= 0) {
        if (walk->ctl->options.forget) {
            (void)fsync(walk->dir_fd);
        }
        (void)close(walk->dir_fd);
    }
    return status;
}

/* Where this machine's daemon keeps them by default. */
static void
records_path(const struct wp_ctl *ctl, char out[PATH_BYTES])
{
    char runtime[PATH_BYTES - 32];

    if (ctl->options.state_dir != NULL) {
        (void)snprintf(out, PATH_BYTES, "%s/trust", ctl->options.state_dir);
    } else {
        (void)snprintf(out, PATH_BYTES, "%s/state/trust",
                       wp_paths_runtime_dir(runtime, sizeof runtime));
    }
}

static void
print_all(struct walk *walk)
{
    struct wp_ctl *ctl = walk->ctl;

    if (ctl->options.output == WP_OUTPUT_TABLE) {
        wp_table_print(&walk->table, ctl->out);
    }
    if (ctl->options.output == WP_OUTPUT_JSON) {
        wp_print_json(ctl->out, json_pack("{s:O}", "records", walk->list),
                      true);
    }
    if (walk->unread > 0) {
        (void)fprintf(ctl->errors,
                      "warmpoolctl: %u files there are no records\n",
                      walk->unread);
    }
}

int
wp_cmd_trust(struct wp_ctl *ctl)
{
    static const char *const titles[] = {"TENANT", "REPOSITORY", "FILE",
                                         "SHA-256"};
    struct walk *walk = wp_ctl_alloc(ctl, sizeof *walk);
    char path[PATH_BYTES];
    struct wp_err err;
    enum wp_status status;

    walk->ctl = ctl;
    walk->url = ctl->options.n_args > 0 ? ctl->options.args[0] : NULL;
    if (ctl->options.forget && walk->url == NULL) {
        (void)wp_err_set(&err, WP_INVALID_ARGUMENT,
                         "--forget: expected the URL of a repository");
        return wp_ctl_usage(ctl, &err);
    }
    records_path(ctl, path);
    walk->list = json_array();
    wp_table_init(&walk->table, titles, WP_ARRAY_LEN(titles), 0);
    status = walk_all(walk, path, &err);
    if (status == WP_OK && walk->url != NULL && walk->n == 0) {
        status = wp_err_set(&err, WP_NOT_FOUND, "%.160s: no record of it",
                            walk->url);
    }
    if (status == WP_OK) {
        print_all(walk);
    }
    json_decref(walk->list);
    wp_table_fini(&walk->table);
    return status == WP_OK ? WP_EXIT_OK : wp_ctl_fail(ctl, &err, 0);
}
