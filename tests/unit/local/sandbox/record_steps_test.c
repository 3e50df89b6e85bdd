/* tests/unit/local/sandbox/record_steps_test.c - how a sandbox's record is
 * written, added to and read, with each step failing in its turn; and how a
 * process is known again. The files are this test's. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/record.h"
#include "pool/base/compiler.h"
#include "pool/base/file.h"
#include "tests/support/local/journal.h"

enum {
    FIRST_FD = 5000,
    DIR_MAX = 504, /* The longest path of a directory. */
};

static bool running;
static int calls;
static int fails_at; /* The call that fails; 0: none. */
static int fd_is;
static ssize_t room; /* What can be written; -1: all. */
static off_t size;   /* Of the file. */
static const char *content;
static ssize_t content_len;
static int read_errno;
static int pidfd_errno;
static bool dead;

static bool
fails(void)
{
    if (running && ++calls == fails_at) {
        NOTE("  fails\n");
        errno = EDQUOT;
        return true;
    }
    return false;
}

int __real_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode);
ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_rename(const char *from, const char *to);
int __wrap_unlink(const char *path);
off_t __real_lseek(int fd, off_t at, int whence);
off_t __wrap_lseek(int fd, off_t at, int whence);
int __wrap_ftruncate(int fd, off_t len);
ssize_t __wrap_wp_path_read(const char *path, int open_flags, void *out,
                            size_t cap, struct stat *st);
long __wrap_syscall(long number, int pid, int flags);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);

int
__wrap_open(const char *path, int flags, mode_t mode)
{
    if (!running) {
        return __real_open(path, flags, mode);
    }
    NOTE("open %s %x", path, (unsigned)flags);
    if ((flags & O_CREAT) != 0) {
        NOTE(" %o", mode);
    }
    NOTE("\n");
    return fails() ? -1 : fd_is;
}

ssize_t
__wrap_write(int fd, const void *bytes, size_t len)
{
    if (!running) {
        return __real_write(fd, bytes, len);
    }
    NOTE("write to %d: %.*s", fd, (int)len, (const char *)bytes);
    if (fails()) {
        return -1;
    }
    return room >= 0 && room < (ssize_t)len ? room : (ssize_t)len;
}

int
__wrap_close(int fd)
{
    if (!running) {
        return __real_close(fd);
    }
    NOTE("close %d\n", fd);
    errno = EBADF;
    return -1;
}

int
__wrap_rename(const char *from, const char *to)
{
    NOTE("rename %s to %s\n", from, to);
    return fails() ? -1 : 0;
}

int
__wrap_unlink(const char *path)
{
    NOTE("unlink %s\n", path);
    return 0;
}

off_t
__wrap_lseek(int fd, off_t at, int whence)
{
    if (!running) {
        return __real_lseek(fd, at, whence);
    }
    NOTE("seek %d %lld %d\n", fd, (long long)at, whence);
    return fails() ? -1 : size;
}

int
__wrap_ftruncate(int fd, off_t len)
{
    NOTE("cut %d to %lld\n", fd, (long long)len);
    return fails() ? -1 : 0;
}

ssize_t
__wrap_wp_path_read(const char *path, int open_flags, void *out, size_t cap,
                    struct stat *st)
{
    assert_null(st);
    NOTE("read %s %x %zu\n", path, (unsigned)open_flags, cap);
    memset(out, '7', cap); /* As memory that was used before. */
    errno = read_errno;
    if (read_errno != 0) {
        return -1;
    }
    assert_true((size_t)content_len <= cap);
    memcpy(out, content, (size_t)content_len);
    return content_len;
}

long
__wrap_syscall(long number, int pid, int flags)
{
    assert_int_equal(number, SYS_pidfd_open);
    NOTE("open process %d %d\n", pid, flags);
    errno = pidfd_errno;
    return pidfd_errno != 0 ? -1 : fd_is;
}

int
__wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
    assert_int_equal(n, 1);
    assert_int_equal(ms, 0);
    assert_int_equal(fds[0].events, POLLIN);
    NOTE("poll %d\n", fds[0].fd);
    return dead ? 1 : 0;
}

/* Nothing here has any. */
bool
wp_volume_keys_add(char keys[WP_VOLUME_KEYS_MAX + 1], struct wp_str key)
{
    (void)keys;
    (void)key;
    return false;
}

/* --- Steps --- */

static struct wp_record record;
static char dir[DIR_MAX + 2];

static void
begin(void)
{
    memset(&record, 0, sizeof record);
    record.version = WP_RECORD_VERSION;
    record.outer_pid = 2;
    (void)snprintf(record.narrowed, sizeof record.narrowed, "less");
    (void)snprintf(record.boot_id, sizeof record.boot_id, "boot");
    (void)snprintf(record.pool_namespace, sizeof record.pool_namespace, "ns");
    (void)snprintf(record.pool, sizeof record.pool, "pool");
    (void)snprintf(record.template_name, sizeof record.template_name, "tmpl");
    (void)snprintf(record.name, sizeof record.name, "box");
    (void)snprintf(record.endpoint, sizeof record.endpoint, "unix:/e");
    (void)snprintf(dir, sizeof dir, "/d");
    calls = fails_at = read_errno = pidfd_errno = 0;
    fd_is = FIRST_FD;
    room = -1;
    size = 100;
    dead = false;
}

static void
put(const char *what)
{
    struct wp_err err = {.status = WP_OK};
    enum wp_status status;

    NOTE("--- write: %s\n", what);
    calls = 0;
    running = true;
    status = wp_record_write(dir, &record, &err);
    running = false;
    journal_status("write", status, &err);
}

static void
add(const char *what)
{
    struct wp_err err = {.status = WP_OK};
    enum wp_status status;

    NOTE("--- add: %s\n", what);
    calls = 0;
    running = true;
    status = wp_record_add_claimed(dir, &record, &err);
    running = false;
    journal_status("add", status, &err);
}

static void
get(const char *what, const char *text, ssize_t len)
{
    struct wp_record found;
    bool whole;

    NOTE("--- read: %s\n", what);
    content = text;
    content_len = len;
    running = true;
    errno = 0;
    whole = wp_record_read(dir, &found);
    NOTE("= %d: %s\n", whole, whole ? found.narrowed : strerror(errno));
    running = false;
}

static void
longest(bool fits)
{
    begin();
    memset(dir, 'd', sizeof dir - 1);
    dir[DIR_MAX + (fits ? 0 : 1)] = '\0';
    dir[0] = '/';
}

/* --- Tests --- */

static void
test_a_record_is_written_whole_or_not(void **state)
{
    (void)state;
    journal_begin();
    for (int n = 0; n <= 3; n++) {
        char what[32];

        begin();
        fails_at = n;
        (void)snprintf(what, sizeof what, "call %d fails", n);
        put(what);
        begin();
        fails_at = n;
        add(what);
    }
    for (ssize_t n = 0; n <= 2; n++) {
        begin();
        room = n;
        put("a full disk");
        begin();
        room = n;
        add("a full disk");
        begin();
        room = n;
        fails_at = 4;
        add("a full disk, which cannot be cut");
    }
    begin();
    fd_is = 0;
    put("the first descriptor");
    begin();
    fd_is = 0;
    size = 0;
    add("the first descriptor");
    for (int i = 0; i < 2; i++) {
        longest(i == 0);
        put("the longest path");
        longest(i == 0);
        add("the longest path");
    }
    journal_compare("record_written");
}

static void
test_a_record_is_read_or_none(void **state)
{
    char text[WP_RECORD_BYTES_MAX];
    size_t len;

    (void)state;
    journal_begin();
    begin();
    len = wp_record_format(&record, text);
    get("whole", text, (ssize_t)len);
    get("without its end", text, (ssize_t)len - 1);
    get("empty", text, 0);
    read_errno = EACCES;
    get("it cannot be read", text, 0);
    for (int i = 0; i < 2; i++) {
        longest(i == 0);
        get("the longest path", text, (ssize_t)len);
    }
    journal_compare("record_read");
}

static void
test_a_boot_has_a_name(void **state)
{
    static const char text[] = "01234567-89ab-cdef-0123-456789abcdef\n";
    char out[WP_BOOT_ID_LEN + 1];

    (void)state;
    journal_begin();
    begin();
    content = text;
    for (content_len = 35; content_len <= 37; content_len++) {
        memset(out, 'x', sizeof out);
        wp_boot_id_read(out);
        NOTE("= %zd: '%s'\n", content_len, out);
    }
    read_errno = ENOENT;
    memset(out, 'x', sizeof out);
    wp_boot_id_read(out);
    NOTE("= '%s'\n", out);
    journal_compare("record_boot");
}

/* Of each field its number. */
#define STAT                                                                   \
    "42 (a) b (c)) 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24"

static void
test_a_process_is_known_by_its_start(void **state)
{
    static const struct {
        const char *text;
        uint64_t start;
        bool dead;
        int read_errno;
        int pidfd_errno;
        pid_t pid;
        int fd;
    } rows[] = {
        {STAT, 22, false, 0, 0, 42, FIRST_FD},
        {STAT, 22, false, 0, 0, 42, 0},
        {STAT, 22, false, 0, 0, 2, FIRST_FD},
        {STAT, 22, false, 0, 0, 1, FIRST_FD},
        {STAT, 0, false, 0, 0, 42, FIRST_FD},
        {STAT, 21, false, 0, 0, 42, FIRST_FD},
        {STAT, 22, true, 0, 0, 42, 0},
        {STAT, 22, false, EMFILE, 0, 42, FIRST_FD},
        {STAT, 22, false, 0, EMFILE, 42, FIRST_FD},
        {"", 22, false, 0, 0, 42, FIRST_FD},
        {"42", 22, false, 0, 0, 42, FIRST_FD},
        {"42 (a) S 1", 22, false, 0, 0, 42, FIRST_FD},
        {"42 (a) 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 2", 2, false,
         0, 0, 42, FIRST_FD},
    };

    (void)state;
    journal_begin();
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        int fd;

        begin();
        content = rows[i].text;
        content_len = (ssize_t)strlen(content);
        dead = rows[i].dead;
        read_errno = rows[i].read_errno;
        pidfd_errno = rows[i].pidfd_errno;
        fd_is = rows[i].fd;
        NOTE("--- %zu: %llu\n", i,
             (unsigned long long)wp_process_start_time(rows[i].pid));
        running = true;
        fd = wp_process_open(rows[i].pid, rows[i].start);
        running = false;
        NOTE("= %d%s%s\n", fd, fd < 0 ? ": " : "",
             fd < 0 ? strerror(errno) : "");
    }
    journal_compare("record_process");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_record_is_written_whole_or_not),
        cmocka_unit_test(test_a_record_is_read_or_none),
        cmocka_unit_test(test_a_boot_has_a_name),
        cmocka_unit_test(test_a_process_is_known_by_its_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
