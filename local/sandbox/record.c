#include "local/sandbox/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/base/assert.h"
#include "pool/base/file.h"
#include "pool/base/str.h"

enum {
    /* Of /proc/PID/stat, counted after the name in parentheses, from 3. */
    STAT_START_TIME = 22,
    PATH_BYTES = 512,
};

/* --- Processes --- */

void
wp_boot_id_read(char out[WP_BOOT_ID_LEN + 1])
{
    char text[WP_BOOT_ID_LEN + 1];
    ssize_t n = wp_path_read("/proc/sys/kernel/random/boot_id", 0, text,
                             sizeof text, NULL);

    out[0] = '\0';
    if (n >= WP_BOOT_ID_LEN) {
        memcpy(out, text, WP_BOOT_ID_LEN);
        out[WP_BOOT_ID_LEN] = '\0';
    }
}

uint64_t
wp_process_start_time(pid_t pid)
{
    char path[32];
    char text[1024];
    char *at;
    ssize_t n;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    n = wp_path_read(path, O_NONBLOCK, text, sizeof text - 1, NULL);
    if (n < 0) {
        return 0;
    }
    text[n] = '\0';
    /* The name may hold anything, parentheses too: fields start after the last.
     */
    at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < STAT_START_TIME; field++) {
        at = strchr(at + 1, ' ');
    }
    return at != NULL ? strtoull(at + 1, NULL, 10) : 0;
}

int
wp_process_open(pid_t pid, uint64_t start)
{
    struct pollfd pfd = {.events = POLLIN};

    errno = ESRCH;
    if (pid <= 1 || start == 0) {
        return -1;
    }
    pfd.fd = (int)syscall(SYS_pidfd_open, pid, 0);
    /* Read after the open: the descriptor stays with whom we look at. Readable
     * at once: dead, and only not reaped. */
    if (pfd.fd >= 0) {
        uint64_t found = wp_process_start_time(pid);
        int error = found == 0 ? errno : ESRCH;

        if (found != start || poll(&pfd, 1, 0) != 0) {
            (void)close(pfd.fd);
            errno = error;
            return -1;
        }
    }
    return pfd.fd;
}

/* --- Text --- */

static int
format_volumes(const char *keys, char *out, size_t cap)
{
    int n = 0;

    for (const char *at = keys, *end; *at != '\0'; at = end + 1) {
        end = strchr(at, '\n');
        n += snprintf(out + n, cap - (size_t)n, "volume %.*s\n",
                      (int)(end - at), at);
    }
    return n;
}

/* What its claim has made of it, as lines. */
static size_t
format_claimed(const struct wp_record *record, char *out, size_t cap)
{
    int n;

    out[0] = '\0';
    n = format_volumes(record->volumes, out, cap);
    if (record->narrowed[0] != '\0') {
        n += snprintf(out + n, cap - (size_t)n, "narrowed %s\n",
                      record->narrowed);
    }
    if (record->audience[0] != '\0') {
        n += snprintf(out + n, cap - (size_t)n, "identity %" PRIu64 " %s\n",
                      record->identity_ttl_ms, record->audience);
    }
    WP_ASSERT(n >= 0 && (size_t)n < cap); /* The fields' bounds leave room. */
    return (size_t)n;
}

size_t
wp_record_format(const struct wp_record *record, char out[WP_RECORD_BYTES_MAX])
{
    bool egress = record->egress[0] != '\0';
    char uid[2 * WP_UID_LEN + 1];
    int n;

    wp_hex_encode(record->uid, WP_UID_LEN, uid);
    n = snprintf(out, WP_RECORD_BYTES_MAX,
                 "warmpool 2\n"
                 "outer %d %" PRIu64 "\n"
                 "inner %d %" PRIu64 "\n"
                 "boot %s\n"
                 "uid %s\n"
                 "namespace %s\n"
                 "pool %s\n"
                 "template %" PRIu64 " %s\n"
                 "name %s\n"
                 "endpoint %s\n"
                 "host_uid %" PRIu32 "\n"
                 "roots %" PRIu32 "\n"
                 "ready %d\n"
                 "%s%s%s"
                 "end\n",
                 (int)record->outer_pid, record->outer_start,
                 (int)record->inner_pid, record->inner_start, record->boot_id,
                 uid, record->pool_namespace, record->pool,
                 record->template_hash, record->template_name, record->name,
                 record->endpoint, record->host_uid, record->roots,
                 record->ready ? 1 : 0, egress ? "egress " : "", record->egress,
                 egress ? "\n" : "");
    /* The fields' bounds leave room. */
    WP_ASSERT(n > 0 && n < WP_RECORD_BYTES_MAX);
    return (size_t)n +
           format_claimed(record, out + n, WP_RECORD_BYTES_MAX - (size_t)n);
}

/* What follows "<key> " on the next line of *rest, which is cut off it. */
static bool
take_line(struct wp_str *rest, const char *key, struct wp_str *value)
{
    const char *newline =
        rest->len > 0 ? memchr(rest->ptr, '\n', rest->len) : NULL;
    size_t key_len = strlen(key);
    size_t len;

    if (newline == NULL) {
        return false;
    }
    len = (size_t)(newline - rest->ptr);
    if (len <= key_len || memcmp(rest->ptr, key, key_len) != 0 ||
        rest->ptr[key_len] != ' ') {
        return false;
    }
    *value = (struct wp_str){rest->ptr + key_len + 1, len - key_len - 1};
    rest->ptr += len + 1;
    rest->len -= len + 1;
    return true;
}

static bool
take_text(struct wp_str *rest, const char *key, char *out, size_t cap)
{
    struct wp_str value;

    return take_line(rest, key, &value) && wp_str_is_printable(value) &&
           wp_str_copy(value, out, cap);
}

static bool
take_u64(struct wp_str *rest, const char *key, uint64_t max, uint64_t *out)
{
    struct wp_str value;

    return take_line(rest, key, &value) && wp_str_to_u64(value, out) &&
           *out <= max;
}

static bool
take_u32(struct wp_str *rest, const char *key, uint32_t *out)
{
    uint64_t number = 0;
    bool ok = take_u64(rest, key, UINT32_MAX, &number);

    *out = (uint32_t)number;
    return ok;
}

/* A number and what follows it on the line, which may be nothing. */
static bool
take_pair(struct wp_str *rest, const char *key, uint64_t *number,
          struct wp_str *second)
{
    struct wp_str line;
    const char *space;
    struct wp_str first;

    if (!take_line(rest, key, &line) || line.len == 0 ||
        (space = memchr(line.ptr, ' ', line.len)) == NULL) {
        return false;
    }
    first = (struct wp_str){line.ptr, (size_t)(space - line.ptr)};
    *second = (struct wp_str){space + 1, line.len - first.len - 1};
    return wp_str_to_u64(first, number);
}

static bool
take_process(struct wp_str *rest, const char *key, pid_t *pid, uint64_t *start)
{
    struct wp_str second;
    uint64_t number;

    if (!take_pair(rest, key, &number, &second) || number > INT32_MAX ||
        !wp_str_to_u64(second, start)) {
        return false;
    }
    *pid = (pid_t)number;
    return true;
}

static bool
take_template(struct wp_str *rest, struct wp_record *record)
{
    struct wp_str name;

    return take_pair(rest, "template", &record->template_hash, &name) &&
           wp_str_is_printable(name) &&
           wp_str_copy(name, record->template_name,
                       sizeof record->template_name);
}

static bool
take_identity(struct wp_str *rest, struct wp_record *record)
{
    struct wp_str audience;

    return take_pair(rest, "identity", &record->identity_ttl_ms, &audience) &&
           record->identity_ttl_ms <= INT64_MAX && audience.len > 0 &&
           wp_str_is_printable(audience) &&
           wp_str_copy(audience, record->audience, sizeof record->audience);
}

static bool
take_uid(struct wp_str *rest, uint8_t uid[WP_UID_LEN])
{
    struct wp_str hex;

    return take_line(rest, "uid", &hex) && wp_hex_decode(hex, uid, WP_UID_LEN);
}

/* Cut short (full disk, power), a record names nobody. */
static bool
take_end(struct wp_str *rest)
{
    static const char end[] = "end\n";

    if (!wp_str_starts_with(*rest, WP_STR(end))) {
        return false;
    }
    rest->ptr += sizeof end - 1;
    rest->len -= sizeof end - 1;
    return true;
}

static bool
take_volume(struct wp_str *rest, struct wp_record *record)
{
    struct wp_str key;

    return take_line(rest, "volume", &key) && key.len > 0 &&
           wp_str_is_printable(key) && wp_volume_keys_add(record->volumes, key);
}

/* Added one by one: the last of a kind counts, and of volumes all. */
static bool
take_claimed(struct wp_str *rest, struct wp_record *record)
{
    while (rest->len > 0) {
        bool ok = wp_str_starts_with(*rest, WP_STR("narrowed "))
                      ? take_text(rest, "narrowed", record->narrowed,
                                  sizeof record->narrowed)
                  : wp_str_starts_with(*rest, WP_STR("volume "))
                      ? take_volume(rest, record)
                      : take_identity(rest, record);

        if (!ok) {
            return false;
        }
    }
    return true;
}

bool
wp_record_parse(const char *text, size_t len, struct wp_record *record)
{
    struct wp_str rest = {text, len};
    uint64_t ready = 0;

    *record = (struct wp_record){.host_uid = UINT32_MAX};
    if (!take_u32(&rest, "warmpool", &record->version) || record->version < 1 ||
        !take_process(&rest, "outer", &record->outer_pid,
                      &record->outer_start) ||
        !take_process(&rest, "inner", &record->inner_pid,
                      &record->inner_start)) {
        return false;
    }
    if (record->version > WP_RECORD_VERSION) {
        /* Whom to end is said the same way by all. */
        return rest.len >= 5 &&
               memcmp(rest.ptr + rest.len - 5, "\nend\n", 5) == 0;
    }
    if (record->version > 1 &&
        (!take_text(&rest, "boot", record->boot_id, sizeof record->boot_id) ||
         !take_uid(&rest, record->uid) ||
         !take_text(&rest, "namespace", record->pool_namespace,
                    sizeof record->pool_namespace) ||
         !take_text(&rest, "pool", record->pool, sizeof record->pool) ||
         !take_template(&rest, record) ||
         !take_text(&rest, "name", record->name, sizeof record->name) ||
         !take_text(&rest, "endpoint", record->endpoint,
                    sizeof record->endpoint) ||
         !take_u32(&rest, "host_uid", &record->host_uid) ||
         !take_u32(&rest, "roots", &record->roots) ||
         !take_u64(&rest, "ready", 1, &ready))) {
        return false;
    }
    record->ready = ready == 1;
    /* Where there is none, the line is missing: earlier daemons know none. */
    if (record->version > 1 && wp_str_starts_with(rest, WP_STR("egress ")) &&
        !take_text(&rest, "egress", record->egress, sizeof record->egress)) {
        return false;
    }
    return take_end(&rest) && take_claimed(&rest, record);
}

/* --- The file --- */

static bool
record_path(const char *dir, char out[PATH_BYTES])
{
    return snprintf(out, PATH_BYTES, "%s/record", dir) < PATH_BYTES;
}

enum wp_status
wp_record_write(const char *dir, const struct wp_record *record,
                struct wp_err *err)
{
    char path[PATH_BYTES];
    char fresh[PATH_BYTES + 4];
    char text[WP_RECORD_BYTES_MAX];
    size_t len = wp_record_format(record, text);
    int saved = ENAMETOOLONG;
    ssize_t n = -1;
    int fd = -1;

    if (record_path(dir, path)) {
        (void)snprintf(fresh, sizeof fresh, "%s.new", path);
        fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        saved = errno;
    }
    if (fd >= 0) {
        n = write(fd, text, len);
        saved = n >= 0 ? ENOSPC : errno;
        (void)close(fd);
        if (n == (ssize_t)len) {
            if (rename(fresh, path) == 0) {
                return WP_OK;
            }
            saved = errno;
        }
        (void)unlink(fresh);
    }
    return wp_err_sys(err, WP_UNAVAILABLE, saved, "cannot write %s/record",
                      dir);
}

/* No name is made, for that costs a disk's file system more than all else that
 * a claim waits for. */
enum wp_status
wp_record_add_claimed(const char *dir, const struct wp_record *record,
                      struct wp_err *err)
{
    char path[PATH_BYTES];
    char text[WP_RECORD_BYTES_MAX];
    size_t len = format_claimed(record, text, sizeof text);
    int saved = ENAMETOOLONG;
    bool written = false;
    int fd = -1;

    if (record_path(dir, path)) {
        fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
        saved = errno;
    }
    if (fd >= 0) {
        off_t before = lseek(fd, 0, SEEK_END);
        ssize_t n = before >= 0 ? write(fd, text, len) : -1;

        written = n == (ssize_t)len;
        saved = n >= 0 ? ENOSPC : errno;
        if (n > 0 && !written && ftruncate(fd, before) != 0) {
            saved = errno; /* It is no record now, and its sandbox ends. */
        }
        (void)close(fd);
    }
    return written ? WP_OK
                   : wp_err_sys(err, WP_UNAVAILABLE, saved,
                                "cannot write %s/record", dir);
}

bool
wp_record_read(const char *dir, struct wp_record *record)
{
    char path[PATH_BYTES];
    char text[WP_RECORD_BYTES_MAX];
    ssize_t n;

    if (!record_path(dir, path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    n = wp_path_read(path, O_NONBLOCK, text, sizeof text, NULL);
    if (n >= 0) {
        errno = EINVAL;
    }
    return n > 0 && wp_record_parse(text, (size_t)n, record);
}
