/* tests/unit/allocator/daemon/files_test.c - the daemon's own files: the locks
 * of its state directory and the secrets that it makes. Each system call is
 * the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "allocator/daemon/files.h"
#include "allocator/daemon/locks.h"
#include "local/sandbox/lock.h"
#include "pool/base/clock.h"
#include "pool/base/rng.h"
#include "tests/unit/allocator/daemon/journal.h"

enum {
    FIRST_FD = 1000, /* Of those that are not there. */
    PLACES = 64,
};

int __wrap_access(const char *path, int mode);
int __wrap_close(int fd);
int __real_close(int fd);
int __wrap_fcntl64(int fd, int cmd, ...);
int __wrap_flock(int fd, int operation);
int __wrap_fstat64(int fd, struct stat *out);
int __wrap_fsync(int fd);
int __wrap_ftruncate64(int fd, off_t length);
pid_t __wrap_getpid(void);
int __wrap_link(const char *from, const char *to);
int __wrap_nanosleep(const struct timespec *ts, struct timespec *rest);
int __wrap_open64(const char *path, int flags, ...);
ssize_t __wrap_pread64(int fd, void *bytes, size_t n, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t n, off_t offset);
ssize_t __wrap_read(int fd, void *bytes, size_t n);
int __wrap_stat64(const char *path, struct stat *out);
int __wrap_unlink(const char *path);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
enum wp_status __wrap_wp_daemon_read_secret(const char *what, const char *path,
                                            char *out, size_t cap,
                                            struct wp_err *err);
bool __wrap_wp_lock_holder_is_dead(pid_t pid);
enum wp_status __wrap_wp_lock_take(const char *state_dir, int *fd,
                                   struct wp_err *err);
void __wrap_wp_random_bytes(void *out, size_t len);
void __wrap_wp_token_key_derive(const uint8_t bytes[WP_TOKEN_KEY_LEN],
                                const char *purpose, void *out, size_t len);

static int next_fd;
static const char *secret;   /* What a secret file has. */
static const char *pid_file; /* What the pid file has. */
static uint32_t sleeps;      /* Since the test began. */
static bool quiet;           /* What is repeated is only counted. */
static bool taken[PLACES];   /* Of the file of those that stay. */
static bool by_me[PLACES];
static uint32_t tried;
static uint32_t held; /* The lock, so many times yet. */

/* 0, or -1 with the error that is said for the call. */
static int
result(const char *call)
{
    int error = (int)journal_said(call, 0);

    if (error != 0) {
        errno = error;
        return -1;
    }
    return 0;
}

/* --- System calls --- */

int
__wrap_access(const char *path, int mode)
{
    bool there = journal_said("there", false) != 0;

    assert_int_equal(mode, F_OK);
    journal("is there %s? %d", path, there);
    return there ? 0 : -1;
}

int
__wrap_open64(const char *path, int flags, ...)
{
    va_list ap;
    unsigned mode;
    int failed = result("open");

    va_start(ap, flags);
    mode = va_arg(ap, unsigned);
    va_end(ap);
    journal("open %s%s%s%s%s%s%s, %o: %s", path,
            (flags & O_ACCMODE) == O_RDWR     ? " rw"
            : (flags & O_ACCMODE) == O_WRONLY ? " w"
                                              : " r",
            (flags & O_CREAT) != 0 ? " create" : "",
            (flags & O_EXCL) != 0 ? " new" : "",
            (flags & O_CLOEXEC) != 0 ? " cloexec" : "",
            (flags & O_NOFOLLOW) != 0 ? " nofollow" : "",
            (flags & O_TRUNC) != 0 ? " truncate" : "", mode,
            failed != 0 ? "fails" : "ok");
    if (failed == 0) {
        errno = 0;
    }
    return failed != 0 ? -1 : (int)journal_said("open fd", next_fd++);
}

int
__wrap_close(int fd)
{
    if (fd > 0 && fd < FIRST_FD) {
        return __real_close(fd);
    }
    journal("close %d", fd);
    return result("close");
}

int
__wrap_flock(int fd, int operation)
{
    int failed = result("flock");

    if (held > 0) {
        held--;
        failed = -1;
    }
    assert_int_equal(operation, LOCK_EX | LOCK_NB);
    if (!quiet) {
        journal("lock %d: %s", fd, failed != 0 ? "held" : "ok");
    }
    return failed;
}

int
__wrap_fstat64(int fd, struct stat *out)
{
    memset(out, 0, sizeof *out);
    out->st_ino = 5;
    out->st_dev = 6;
    journal("stat of %d", fd);
    return result("fstat");
}

int
__wrap_stat64(const char *path, struct stat *out)
{
    memset(out, 0, sizeof *out);
    out->st_ino = (ino_t)journal_said("inode", 5);
    out->st_dev = (dev_t)journal_said("device", 6);
    journal("stat of %s", path);
    return result("stat");
}

int
__wrap_fsync(int fd)
{
    journal("sync %d", fd);
    return result("fsync");
}

int
__wrap_ftruncate64(int fd, off_t length)
{
    journal("truncate %d to %lld", fd, (long long)length);
    return result("truncate");
}

pid_t
__wrap_getpid(void)
{
    return 4321;
}

int
__wrap_link(const char *from, const char *to)
{
    journal("link %s to %s", from, to);
    return result("link");
}

int
__wrap_unlink(const char *path)
{
    journal("unlink %s", path);
    return result("unlink");
}

int
__wrap_nanosleep(const struct timespec *ts, struct timespec *rest)
{
    assert_null(rest);
    assert_int_equal(ts->tv_sec, 0);
    assert_int_equal(ts->tv_nsec, WP_NS_PER_MS);
    sleeps++;
    return 0;
}

ssize_t
__wrap_pread64(int fd, void *bytes, size_t n, off_t offset)
{
    size_t have = strlen(pid_file);

    assert_int_equal(offset, 0);
    assert_true(fd == 0 || fd >= FIRST_FD);
    memcpy(bytes, pid_file, have < n ? have : n);
    return result("pread") != 0 ? -1 : (ssize_t)(have < n ? have : n);
}

ssize_t
__wrap_read(int fd, void *bytes, size_t n)
{
    return __wrap_pread64(fd, bytes, n, 0);
}

static ssize_t
wrote(const char *call, int fd, const void *bytes, size_t n)
{
    int64_t count = journal_said(call, (int64_t)n);

    journal("%s %d '%.*s'", call, fd, (int)n, (const char *)bytes);
    errno = count < 0 ? ENOSPC : errno;
    return (ssize_t)count;
}

ssize_t
__wrap_pwrite64(int fd, const void *bytes, size_t n, off_t offset)
{
    assert_int_equal(offset, 0);
    return wrote("pwrite", fd, bytes, n);
}

ssize_t
__wrap_write(int fd, const void *bytes, size_t n)
{
    return wrote("write", fd, bytes, n);
}

int
__wrap_fcntl64(int fd, int cmd, ...)
{
    struct flock *lock;
    va_list ap;

    va_start(ap, cmd);
    lock = va_arg(ap, struct flock *);
    va_end(ap);
    assert_true(fd == 0 || fd >= FIRST_FD);
    assert_int_equal(lock->l_whence, SEEK_SET);
    assert_int_equal(lock->l_pid, 0);
    tried++;
    if (cmd == F_OFD_SETLK && lock->l_type == F_UNLCK) {
        journal("unlock %d from %lld on, %lld", fd, (long long)lock->l_start,
                (long long)lock->l_len);
        memset(by_me, 0, sizeof by_me);
        return 0;
    }
    assert_int_equal(lock->l_type, F_WRLCK);
    assert_int_equal(lock->l_len, 1);
    assert_in_range(lock->l_start, 0, PLACES - 1);
    if (cmd == F_OFD_SETLK) {
        by_me[lock->l_start] = !taken[lock->l_start];
        errno = EAGAIN;
        return taken[lock->l_start] ? -1 : 0;
    }
    assert_int_equal(cmd, F_OFD_GETLK);
    if (!taken[lock->l_start]) {
        lock->l_type = F_UNLCK;
    }
    return result("getlk");
}

/* --- The rest --- */

enum wp_status
__wrap_wp_daemon_read_secret(const char *what, const char *path, char *out,
                             size_t cap, struct wp_err *err)
{
    journal("read %s from %s into %zu bytes", what, path, cap);
    (void)snprintf(out, cap, "%s", secret);
    return journal_status("secret", err);
}

bool
__wrap_wp_lock_holder_is_dead(pid_t pid)
{
    bool dead = journal_said("dead", quiet) != 0;

    if (!quiet) {
        journal("is %d dead? %d", (int)pid, dead);
    }
    return dead;
}

enum wp_status
__wrap_wp_lock_take(const char *state_dir, int *fd, struct wp_err *err)
{
    enum wp_status status = journal_status("take", err);

    journal("take lock of %s", state_dir);
    if (status == WP_OK) {
        *fd = (int)journal_said("take fd", next_fd++);
    }
    return status;
}

void
__wrap_wp_random_bytes(void *out, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        ((uint8_t *)out)[i] = (uint8_t)(0xf0 + i);
    }
    journal("%zu random bytes", len);
}

void
__wrap_wp_token_key_derive(const uint8_t bytes[WP_TOKEN_KEY_LEN],
                           const char *purpose, void *out, size_t len)
{
    journal("derive %zu bytes for %s from %x %x", len, purpose, bytes[0],
            bytes[WP_TOKEN_KEY_LEN - 1]);
    memset(out, 0xee, len);
}

static void
wipes(size_t n)
{
    journal("wipe %zu bytes", n);
}

/* --- Locks --- */

static struct wp_daemon_locks locks;

static int
begin(void **state)
{
    (void)journal_begin(state);
    journal_wipes = wipes;
    next_fd = FIRST_FD;
    secret = "000102030405060708090a0b0c0d0e0f"
             "101112131415161718191a1b1c1d1e1f";
    pid_file = "";
    sleeps = 0;
    quiet = false;
    memset(taken, 0, sizeof taken);
    memset(by_me, 0, sizeof by_me);
    wp_daemon_locks_init(&locks, "/var/w");
    return 0;
}

static void
tell_locks(enum wp_status status, const struct wp_err *err)
{
    journal("- %s: %s; %d %d %d, %u ms", wp_status_name(status), err->msg,
            locks.pid_fd, locks.backend_fd, locks.present_fd, sleeps);
}

static void
lock_dir(void)
{
    struct wp_err err = {.msg = ""};

    tell_locks(wp_daemon_lock(&locks, &err), &err);
}

static void
lock_shared(void)
{
    struct wp_err err = {.msg = ""};
    bool follows = journal_said("before", true) != 0;
    enum wp_status status = wp_daemon_lock_shared(&locks, &follows, &err);

    tell_locks(status, &err);
    journal("  follows: %d", follows);
}

static void
test_pid_file_is_locked_and_written(void **state)
{
    (void)state;
    wp_daemon_unlock(&locks);
    lock_dir();
    wp_daemon_unlock(&locks);
    tell_locks(WP_OK, &(struct wp_err){.msg = ""});
    wp_daemon_unlock(&locks);
    journal_is("locks_pid_file");
}

static void
test_pid_file_that_cannot_be_had_is_said(void **state)
{
    (void)state;
    journal_say("open", EACCES);
    lock_dir();
    journal_say("truncate", EIO);
    lock_dir();
    journal_say("pwrite", -1);
    lock_dir();
    journal_say("pwrite", 4);
    lock_dir();
    /* It is another file now. */
    journal_say("fstat", EIO);
    lock_dir();
    journal_say("stat", ENOENT);
    lock_dir();
    journal_say("inode", 4);
    lock_dir();
    journal_say("device", 4);
    lock_dir();
    wp_daemon_unlock(&locks);
    journal_is("locks_refused");
}

static void
test_holder_of_the_pid_file_is_named(void **state)
{
    static const char *const texts[] = {
        "", "77\n", "\n", "12345678901234567890", "123456789012345"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(texts); i++) {
        pid_file = texts[i];
        journal_say("flock", EWOULDBLOCK);
        lock_dir();
    }
    /* It cannot be read. */
    journal_say("flock", EWOULDBLOCK);
    journal_say("pread", EIO);
    journal_say("pread", EIO);
    lock_dir();
    journal_is("locks_holder");
}

static void
test_what_a_dead_holder_left_is_waited_for(void **state)
{
    (void)state;
    pid_file = "77\n";
    journal_say("flock", EWOULDBLOCK);
    journal_say("flock", EWOULDBLOCK);
    journal_say("dead", true);
    journal_say("dead", true);
    lock_dir();
    /* It lives after all: another one was quicker. */
    journal_say("flock", EWOULDBLOCK);
    journal_say("flock", EWOULDBLOCK);
    journal_say("dead", true);
    lock_dir();
    journal_is("locks_dead");
}

static void
test_dead_holder_is_waited_for_two_seconds(void **state)
{
    (void)state;
    pid_file = "77\n";
    quiet = true;
    for (uint32_t fails = 2000; fails <= 2001; fails++) {
        sleeps = 0;
        held = fails;
        lock_dir();
    }
    journal_is("locks_two_seconds");
}

static void
test_shared_directory_has_both_locks_or_none(void **state)
{
    (void)state;
    lock_shared();
    journal("given: %d, then %d", wp_daemon_locks_give(&locks),
            wp_daemon_locks_give(&locks));
    wp_daemon_unlock(&locks);
    /* Another one has the pid file. */
    journal_say("before", false);
    journal_say("flock", EWOULDBLOCK);
    lock_shared();
    /* Or the backend's. */
    journal_say("before", false);
    journal_say("take", WP_FAILED_PRECONDITION);
    lock_shared();
    /* What is wrong is wrong. */
    journal_say("take", WP_PERMISSION_DENIED);
    lock_shared();
    wp_daemon_unlock(&locks);
    journal_say("open", EACCES);
    lock_shared();
    lock_shared();
    wp_daemon_unlock_backend(&locks);
    wp_daemon_unlock_backend(&locks);
    wp_daemon_unlock(&locks);
    lock_shared();
    wp_daemon_unlock(&locks); /* Both. */
    journal_is("locks_shared");
}

static void
join(void)
{
    struct wp_err err = {.msg = ""};

    tried = 0;
    tell_locks(wp_daemon_locks_join(&locks, &err), &err);
    for (int i = 0; i < PLACES; i++) {
        if (by_me[i]) {
            journal("  has place %d, tried %u", i, tried);
        }
    }
}

static void
test_those_that_stay_have_a_place_each(void **state)
{
    (void)state;
    wp_daemon_locks_quit(&locks);
    journal("others: %u", wp_daemon_locks_others(&locks));
    join();
    journal("others: %u", wp_daemon_locks_others(&locks));
    taken[1] = true;
    taken[63] = true;
    journal("others: %u", wp_daemon_locks_others(&locks));
    journal_say("getlk", 0);
    journal_say("getlk", EIO); /* It is not known of the second one. */
    journal("others: %u", wp_daemon_locks_others(&locks));
    wp_daemon_locks_quit(&locks);
    journal("others: %u", wp_daemon_locks_others(&locks));
    wp_daemon_unlock(&locks);
    tell_locks(WP_OK, &(struct wp_err){.msg = ""});
    journal("others: %u", wp_daemon_locks_others(&locks));
    memset(taken, 1, sizeof taken - 1);
    taken[PLACES - 1] = false;
    join();
    journal("others: %u", wp_daemon_locks_others(&locks));
    wp_daemon_unlock(&locks);
    taken[PLACES - 1] = true;
    join();
    wp_daemon_unlock(&locks);
    journal_say("open", EACCES);
    join();
    journal_is("locks_places");
}

/* Where nothing is open the first descriptor is 0. */
static void
test_lowest_descriptor_is_one_like_others(void **state)
{
    (void)state;
    journal_say("open fd", 0);
    lock_shared();
    wp_daemon_unlock(&locks);
    journal_say("take fd", 0);
    lock_shared();
    wp_daemon_unlock(&locks);
    journal_say("open fd", 0);
    join();
    taken[9] = true;
    journal("others: %u", wp_daemon_locks_others(&locks));
    wp_daemon_locks_quit(&locks);
    wp_daemon_unlock(&locks);
    journal_is("locks_lowest");
}

/* --- Keys --- */

static struct wp_conf conf;

static int
begin_keys(void **state)
{
    static char dir[] = "/var/w";
    static char none[] = "";

    (void)begin(state);
    memset(&conf, 0, sizeof conf);
    conf.state_dir = dir;
    conf.token_key_file = none;
    conf.lease_store = WP_CONF_STORE_SQLITE;
    return 0;
}

static void
tell_key(enum wp_status status, const struct wp_err *err, const uint8_t *key,
         bool made)
{
    journal("- %s: %s, key %x %x, made: %d", wp_status_name(status), err->msg,
            key[0], key[WP_TOKEN_KEY_LEN - 1], made);
}

static void
read_key(void)
{
    uint8_t key[WP_TOKEN_KEY_LEN] = {0};
    struct wp_err err = {.msg = ""};
    bool made = true;
    enum wp_status status = wp_daemon_read_key(&conf, key, &made, &err);

    tell_key(status, &err, key, made);
}

static void
test_key_is_read_made_or_random(void **state)
{
    static char named[] = "/my/key";

    (void)state;
    read_key();
    journal_say("there", true);
    read_key();
    conf.lease_store = WP_CONF_STORE_MEMORY;
    read_key();
    conf.backend = WP_CONF_BACKEND_KUBERNETES;
    read_key();
    conf.token_key_file = named;
    read_key();
    journal_is("key_where");
}

static void
test_key_may_have_the_longest_path_and_the_lowest_descriptor(void **state)
{
    static char longest[WP_CONF_TEXT_MAX + 1];

    (void)state;
    memset(longest, 'd', sizeof longest - 1);
    conf.state_dir = longest;
    journal_say("open fd", 0);
    read_key();
    journal_without(longest);
    journal_is("key_longest");
}

static void
test_key_that_is_none_is_refused(void **state)
{
    static char named[] = "/my/key";

    (void)state;
    conf.token_key_file = named;
    journal_say("secret", WP_PERMISSION_DENIED);
    read_key();
    secret = "00";
    read_key();
    secret = "000102030405060708090a0b0c0d0e0f"
             "101112131415161718191a1b1c1d1e1fff";
    read_key();
    secret = "000102030405060708090a0b0c0d0e0f"
             "101112131415161718191a1b1c1d1e1";
    read_key();
    journal_is("key_refused");
}

static void
test_key_is_whole_or_not_there(void **state)
{
    (void)state;
    journal_say("open", EACCES);
    read_key();
    journal_say("write", -1);
    read_key();
    journal_say("write", 64);
    journal_say("close", EIO);
    read_key();
    journal_say("fsync", EIO);
    read_key();
    journal_say("close", EIO);
    read_key();
    journal_say("write", 64);
    read_key();
    journal_say("link", EACCES);
    read_key();
    journal_say("link", EEXIST); /* Another daemon was quicker. */
    read_key();
    journal_is("key_made");
}

static void
egress_key(void)
{
    uint8_t key[WP_EGRESS_KEY_LEN] = {0};
    struct wp_err err = {.msg = ""};
    enum wp_status status = wp_daemon_read_egress_key(&conf, key, &err);

    tell_key(status, &err, key, false);
}

static void
test_egress_key_comes_from_the_named_key(void **state)
{
    static char named[] = "/my/key";

    (void)state;
    egress_key();
    conf.token_key_file = named;
    egress_key();
    journal_say("secret", WP_PERMISSION_DENIED);
    egress_key();
    journal_is("key_egress");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_pid_file_is_locked_and_written, begin),
        cmocka_unit_test_setup(test_pid_file_that_cannot_be_had_is_said, begin),
        cmocka_unit_test_setup(test_holder_of_the_pid_file_is_named, begin),
        cmocka_unit_test_setup(test_what_a_dead_holder_left_is_waited_for,
                               begin),
        cmocka_unit_test_setup(test_dead_holder_is_waited_for_two_seconds,
                               begin),
        cmocka_unit_test_setup(test_shared_directory_has_both_locks_or_none,
                               begin),
        cmocka_unit_test_setup(test_those_that_stay_have_a_place_each, begin),
        cmocka_unit_test_setup(test_lowest_descriptor_is_one_like_others,
                               begin),
        cmocka_unit_test_setup(
            test_key_may_have_the_longest_path_and_the_lowest_descriptor,
            begin_keys),
        cmocka_unit_test_setup(test_key_is_read_made_or_random, begin_keys),
        cmocka_unit_test_setup(test_key_that_is_none_is_refused, begin_keys),
        cmocka_unit_test_setup(test_key_is_whole_or_not_there, begin_keys),
        cmocka_unit_test_setup(test_egress_key_comes_from_the_named_key,
                               begin_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
