/* The walls that the server builds around itself, with the kernel replaced:
 * each path, its rights, and what is said when it cannot be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/server/confine.h"
#include "tests/support/base/journal.h"

enum {
    RULES = 500,
    PATH_FD = 600,
};

static long version;
static const char *failing; /* A step. */
static unsigned fails_in;   /* 0: it does not fail. */
static const char *opened;  /* The path that PATH_FD stands for. */

long __wrap_syscall(long number, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_open(const char *path, int flags, ...);
int __wrap_fstat(int fd, struct stat *st);
int __real_fstat(int fd, struct stat *st);
int __wrap_close(int fd);
int __real_close(int fd);
int __wrap_prctl(int option, ...);

static bool
fails(const char *step)
{
    if (failing == NULL || strcmp(failing, step) != 0 || fails_in == 0 ||
        --fails_in > 0) {
        return false;
    }
    errno = EPERM;
    return true;
}

static long
create_ruleset(const struct landlock_ruleset_attr *attr, size_t size,
               unsigned flags)
{
    if (attr == NULL) {
        assert_int_equal(size, 0);
        assert_int_equal(flags, LANDLOCK_CREATE_RULESET_VERSION);
        errno = ENOSYS;
        return version;
    }
    journal("rules over %llx", (unsigned long long)attr->handled_access_fs);
    journal_line();
    assert_true(size >= sizeof attr->handled_access_fs);
    assert_int_equal(flags, 0);
    return fails("create") ? -1 : RULES;
}

long
__wrap_syscall(long number, ...)
{
    va_list ap;
    long rc = 0;

    va_start(ap, number);
    if (number == SYS_landlock_create_ruleset) {
        const struct landlock_ruleset_attr *attr =
            va_arg(ap, const struct landlock_ruleset_attr *);
        size_t size = va_arg(ap, size_t);

        rc = create_ruleset(attr, size, va_arg(ap, unsigned));
    } else if (number == SYS_landlock_add_rule) {
        const struct landlock_path_beneath_attr *attr;

        assert_int_equal(va_arg(ap, int), RULES);
        assert_int_equal(va_arg(ap, int), LANDLOCK_RULE_PATH_BENEATH);
        attr = va_arg(ap, const struct landlock_path_beneath_attr *);
        assert_int_equal(attr->parent_fd, PATH_FD);
        assert_int_equal(va_arg(ap, unsigned), 0);
        journal("%s: %llx", opened, (unsigned long long)attr->allowed_access);
        journal_line();
        rc = fails("rule") ? -1 : 0;
    } else {
        assert_int_equal(number, SYS_landlock_restrict_self);
        assert_int_equal(va_arg(ap, int), RULES);
        assert_int_equal(va_arg(ap, unsigned), 0);
        journal("restrict");
        journal_line();
        rc = fails("restrict") ? -1 : 0;
    }
    va_end(ap);
    return rc;
}

/* A path of "/no" is not there. */
int
__wrap_open(const char *path, int flags, ...)
{
    static char copy[PATH_MAX + 1];

    if (flags != (O_PATH | O_CLOEXEC)) {
        return __real_open(path, flags);
    }
    if (strncmp(path, "/no", 3) == 0) {
        journal("%s is not there", path);
        journal_line();
        return -1;
    }
    (void)snprintf(copy, sizeof copy, "%s", path);
    opened = copy;
    return PATH_FD;
}

/* What lies in /dev is no folder, but for two. */
int
__wrap_fstat(int fd, struct stat *st)
{
    if (fd != PATH_FD) {
        return __real_fstat(fd, st);
    }
    st->st_mode = strncmp(opened, "/dev/", 5) == 0 &&
                          strcmp(opened, "/dev/shm") != 0 &&
                          strcmp(opened, "/dev/pts") != 0
                      ? S_IFCHR
                      : S_IFDIR;
    return 0;
}

int
__wrap_close(int fd)
{
    if (fd < RULES) {
        return __real_close(fd);
    }
    if (fd == RULES) {
        journal("close the rules");
        journal_line();
    }
    return 0;
}

int
__wrap_prctl(int option, ...)
{
    va_list ap;

    va_start(ap, option);
    assert_int_equal(option, PR_SET_NO_NEW_PRIVS);
    assert_int_equal(va_arg(ap, int), 1);
    assert_int_equal(va_arg(ap, int), 0);
    va_end(ap);
    journal("no new privileges");
    journal_line();
    return fails("prctl") ? -1 : 0;
}

static void
confine(const char *readable)
{
    struct wp_err err = {0};
    enum wp_status status = wp_confine("/workspace", readable, &err);

    journal("= %d %s", (int)status, status != WP_OK ? err.msg : "");
    journal_line();
}

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/confine_%s.txt", name);
    journal_compare(path);
}

static int
begin(void **state)
{
    (void)state;
    version = 3;
    fails_in = 0;
    journal_drop();
    return 0;
}

static void
each_path_has_its_rights(void **state)
{
    (void)state;
    for (version = 1; version <= 4; version++) {
        journal("-- of version %ld", version);
        journal_line();
        confine(NULL);
    }
    golden("rights");
}

static void
what_may_be_read_is_named(void **state)
{
    static char longest[2 * PATH_MAX + 8];
    static const char *const lists[] = {
        "/usr",  "/usr:/lib", "/usr:/no/such:/etc", "/dev/null", "usr",
        "/usr:", "/usr::/a",  "/usr:lib",           "",          ":/usr",
    };

    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof(lists[0]); i++) {
        journal("-- %s", lists[i]);
        journal_line();
        confine(lists[i]);
    }
    golden("readable");
    /* As long as a path may be, and one more. */
    for (size_t more = 0; more < 2; more++) {
        size_t len = PATH_MAX - 1 + more;

        (void)snprintf(longest, sizeof longest, "/a:/");
        memset(longest + 4, 'x', len - 1);
        (void)snprintf(longest + 3 + len, 8, ":/b");
        confine(longest);
    }
    golden("longest");
}

static void
what_the_kernel_refuses_is_told(void **state)
{
    static const char *const steps[] = {"create", "rule",  "rule",
                                        "rule",   "prctl", "restrict"};
    static const unsigned nths[] = {1, 1, 2, 14, 1, 1};

    (void)state;
    version = 0;
    confine(NULL);
    version = -1;
    confine(NULL);
    version = 3;
    for (size_t i = 0; i < sizeof steps / sizeof(steps[0]); i++) {
        journal("-- %s %u", steps[i], nths[i]);
        journal_line();
        failing = steps[i];
        fails_in = nths[i];
        confine("/usr");
    }
    golden("refused");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup(test, begin)
    const struct CMUnitTest tests[] = {
        ONE(each_path_has_its_rights),
        ONE(what_may_be_read_is_named),
        ONE(what_the_kernel_refuses_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
