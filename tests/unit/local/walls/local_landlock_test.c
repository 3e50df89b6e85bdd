/* local/walls/landlock.c: which rules each version of the kernel's Landlock is
 * given, bit by bit, and what comes of each call that fails. The kernel is the
 * test's own. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/walls/landlock.h"
#include "pool/base/compiler.h"
#include "tests/support/base/golden.h"

enum {
    RULESET = 1000,
    PATH_FD,
    VERSIONS = 7,
};

static struct {
    bool on;
    long abi;
    int calls; /* That may fail, so far. */
    int fail_at;
    const char *denied; /* A path that cannot be opened. */
    char path[64];      /* What was opened last. */
} rig;
static struct golden seen;
/* That one is 0, as where nobody has a standard input; 0: none is. The journals
 * are the same. */
static int zero;

static int
real_or_zero(int fd)
{
    return fd == zero ? 0 : fd;
}

/* As it is noted. */
static int
named(int fd)
{
    return fd == 0 && zero != 0 ? zero : fd;
}

static bool
fails(const char *what)
{
    if (++rig.calls != rig.fail_at) {
        return false;
    }
    golden_add(&seen, "%s fails\n", what);
    errno = EIO;
    return true;
}

long __wrap_syscall(long number, ...);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_fstat(int fd, struct stat *out);
int __wrap_fstat(int fd, struct stat *out);
int __real_close(int fd);
int __wrap_close(int fd);

static long
create_ruleset(const void *bytes, size_t len, unsigned flags)
{
    uint64_t words[3] = {0, 0, 0};

    if (bytes == NULL) {
        assert_int_equal(len, 0);
        assert_int_equal(flags, 1);
        return rig.abi;
    }
    assert_true(len <= sizeof words);
    memcpy(words, bytes, len);
    golden_add(&seen,
               "ruleset of %zu bytes: %" PRIx64 " %" PRIx64 " %" PRIx64
               ", %u\n",
               len, words[0], words[1], words[2], flags);
    return fails("ruleset") ? -1 : real_or_zero(RULESET);
}

static long
add_rule(int ruleset, unsigned type, const void *bytes, unsigned flags)
{
    uint64_t allowed;
    int32_t fd;

    memcpy(&allowed, bytes, sizeof allowed);
    memcpy(&fd, (const char *)bytes + sizeof allowed, sizeof fd);
    assert_int_equal(named(ruleset), RULESET);
    assert_int_equal(named(fd), PATH_FD);
    golden_add(&seen, "rule %u, %u: %s %" PRIx64 "\n", type, flags, rig.path,
               allowed);
    return fails("rule") ? -1 : 0;
}

long
__wrap_syscall(long number, ...)
{
    va_list ap;
    long rc = -1;

    va_start(ap, number);
    if (number == SYS_landlock_create_ruleset) {
        const void *bytes = va_arg(ap, const void *);
        size_t len = va_arg(ap, size_t);

        rc = create_ruleset(bytes, len, va_arg(ap, unsigned));
    } else if (number == SYS_landlock_add_rule) {
        int ruleset = va_arg(ap, int);
        unsigned type = va_arg(ap, unsigned);
        const void *bytes = va_arg(ap, const void *);

        rc = add_rule(ruleset, type, bytes, va_arg(ap, unsigned));
    } else if (number == SYS_landlock_restrict_self) {
        int ruleset = va_arg(ap, int);
        unsigned flags = va_arg(ap, unsigned);

        golden_add(&seen, "restrict %d, %u\n", named(ruleset), flags);
        rc = fails("restrict") ? -1 : 0;
    } else {
        fail();
    }
    va_end(ap);
    return rc;
}

int
__wrap_open(const char *path, int flags, ...)
{
    if (!rig.on) {
        return __real_open(path, flags);
    }
    (void)snprintf(rig.path, sizeof rig.path, "%s", path);
    if (flags != (O_PATH | O_CLOEXEC)) {
        golden_add(&seen, "open %s otherwise\n", path);
    }
    if (strcmp(path, "/gone") == 0) {
        errno = ENOENT;
        return -1;
    }
    if (rig.denied != NULL && strcmp(path, rig.denied) == 0) {
        errno = EACCES;
        return -1;
    }
    return real_or_zero(PATH_FD);
}

int
__wrap_fstat(int fd, struct stat *out)
{
    if (named(fd) != PATH_FD) {
        return __real_fstat(fd, out);
    }
    memset(out, 0, sizeof *out);
    out->st_mode =
        strstr(rig.path, "file") != NULL ? S_IFREG | 0600 : S_IFDIR | 0700;
    return strcmp(rig.path, "/odd/file") == 0 ? -1 : 0;
}

int
__wrap_close(int fd)
{
    if (named(fd) < RULESET) {
        return __real_close(fd);
    }
    if (named(fd) == RULESET) {
        golden_add(&seen, "close the ruleset\n");
    }
    errno = EBADF; /* Nobody may tell that one. */
    return 0;
}

/* --- The test's side --- */

static const char *const writable[] = {"/workspace", "/data/file", "/gone",
                                       "/odd/file"};
static const char *const readable[] = {"/usr", "/a/file"};

static void
told(int rc)
{
    golden_add(&seen, "=> %d%s%s\n", rc, rc != 0 ? ", " : "",
               rc != 0 ? strerror(errno) : "");
}

static void
confine(bool to)
{
    rig.on = true;
    rig.calls = 0;
    errno = 0;
    told(to ? wp_landlock_confine_to(readable, WP_ARRAY_LEN(readable), writable,
                                     WP_ARRAY_LEN(writable))
            : wp_landlock_confine(writable, WP_ARRAY_LEN(writable)));
    rig.on = false;
}

static int
set_up(void **state)
{
    (void)state;
    seen.len = 0;
    memset(&rig, 0, sizeof rig);
    return 0;
}

static void
each_version_is_given_what_it_has(void **state)
{
    (void)state;
    for (rig.abi = -1; rig.abi <= VERSIONS; rig.abi++) {
        for (int to = 0; to < 2; to++) {
            golden_add(&seen, "--- version %ld%s\n", rig.abi,
                       to != 0 ? ", to these" : "");
            confine(to != 0);
        }
    }
    golden_compare(seen.text, WP_TEST_GOLDEN "/landlock_versions.txt");
}

static void
the_version_is_the_kernels(void **state)
{
    (void)state;
    for (rig.abi = -1; rig.abi <= VERSIONS; rig.abi++) {
        assert_int_equal(wp_landlock_abi(), rig.abi > 0 ? rig.abi : 0);
    }
}

/* Each call in turn; at last all go through. */
static void
a_rule_that_fails_confines_nobody(void **state)
{
    (void)state;
    rig.abi = VERSIONS;
    for (int to = 0; to < 2; to++) {
        rig.fail_at = 0;
        do {
            rig.fail_at++;
            golden_add(&seen, "--- %d\n", rig.fail_at);
            confine(to != 0);
        } while (rig.calls >= rig.fail_at);
    }
    rig.fail_at = 0;
    rig.denied = "/workspace";
    golden_add(&seen, "--- denied\n");
    confine(false);
    confine(true);
    rig.denied = "/usr";
    confine(true);
    golden_compare(seen.text, WP_TEST_GOLDEN "/landlock_failures.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_version_is_given_what_it_has, set_up),
        cmocka_unit_test_setup(the_version_is_the_kernels, set_up),
        cmocka_unit_test_setup(a_rule_that_fails_confines_nobody, set_up),
    };

    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    for (zero = RULESET; zero <= PATH_FD; zero++) {
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
