/* local/walls/seccomp_filter.c between fakes of libseccomp and the kernel: every
 * rule that is asked for, the program that is written, and each call that fails.
 * Calls of the machine have names here, for their numbers differ between
 * architectures. The journals are in golden/. */
#include <errno.h>
#include <linux/filter.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>
#include <seccomp.h>

#include "local/walls/seccomp_filter.h"
#include "pool/base/compiler.h"
#include "tests/support/base/journal.h"

#define LINE(...) (journal(__VA_ARGS__), journal_line())

enum {
    TO = 60,
    PROGRAM_MAX = 32 << 10,
    PROLOGUE = 10 * sizeof(struct sock_filter),
    NAMES = 512,
};

static struct {
    bool on;
    const char *fails; /* This call, */
    int nth;           /* when it is made for the n-th time, */
    int result;        /* gives that. */
    int program;       /* The descriptor; -1: none. */
    ssize_t len;       /* Of the program. */
    const char *names[NAMES];
    int names_len;
} rig;

scmp_filter_ctx __wrap_seccomp_init(uint32_t action);
void __wrap_seccomp_release(scmp_filter_ctx ctx);
int __wrap_seccomp_attr_set(scmp_filter_ctx ctx, enum scmp_filter_attr attr,
                            uint32_t value);
int __wrap_seccomp_syscall_resolve_name(const char *name);
int __wrap_seccomp_rule_add(scmp_filter_ctx ctx, uint32_t action, int nr,
                            unsigned n, ...);
int __wrap_seccomp_export_bpf(scmp_filter_ctx ctx, int fd);
uint32_t __wrap_seccomp_arch_native(void);
int __wrap_memfd_create(const char *name, unsigned flags);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
ssize_t __wrap_pread(int fd, void *out, size_t cap, off_t at);
ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
int __real_close(int fd);
int __wrap_close(int fd);

static bool
fails(const char *call)
{
    return rig.on && rig.fails != NULL && strcmp(rig.fails, call) == 0 &&
           --rig.nth == 0;
}

scmp_filter_ctx
__wrap_seccomp_init(uint32_t action)
{
    LINE("init %x", action);
    return fails("init") ? NULL : &rig;
}

void
__wrap_seccomp_release(scmp_filter_ctx ctx)
{
    assert_ptr_equal(ctx, &rig);
    LINE("release");
}

int
__wrap_seccomp_attr_set(scmp_filter_ctx ctx, enum scmp_filter_attr attr,
                        uint32_t value)
{
    assert_ptr_equal(ctx, &rig);
    LINE("attribute %d %x", (int)attr, value);
    return fails("attribute") ? rig.result : 0;
}

/* The first is 0, as some machine's is; one is not known. */
int
__wrap_seccomp_syscall_resolve_name(const char *name)
{
    if (strcmp(name, "arch_prctl") == 0) {
        return __NR_SCMP_ERROR;
    }
    assert_true(rig.names_len < NAMES);
    rig.names[rig.names_len] = name;
    return rig.names_len++;
}

static const char *
name_of(int nr)
{
    return nr >= 0 && nr < rig.names_len ? rig.names[nr] : "?";
}

int
__wrap_seccomp_rule_add(scmp_filter_ctx ctx, uint32_t action, int nr,
                        unsigned n, ...)
{
    va_list ap;

    assert_ptr_equal(ctx, &rig);
    /* Rules with arguments are of calls that the source names itself. */
    journal("%x %s", action,
            n == 0                        ? name_of(nr)
            : nr == SCMP_SYS(clone)       ? "clone"
            : nr == SCMP_SYS(personality) ? "personality"
            : nr == SCMP_SYS(socket)      ? "socket"
                                          : "?");
    va_start(ap, n);
    for (unsigned i = 0; i < n; i++) {
        struct scmp_arg_cmp cmp = va_arg(ap, struct scmp_arg_cmp);

        journal(", %u %d %llx %llx", cmp.arg, (int)cmp.op,
                (unsigned long long)cmp.datum_a,
                cmp.op == SCMP_CMP_MASKED_EQ ? (unsigned long long)cmp.datum_b
                                             : 0);
    }
    va_end(ap);
    journal_line();
    return fails("rule") ? rig.result : 0;
}

int
__wrap_seccomp_export_bpf(scmp_filter_ctx ctx, int fd)
{
    assert_ptr_equal(ctx, &rig);
    LINE("export %d", fd);
    return fails("export") ? rig.result : 0;
}

uint32_t
__wrap_seccomp_arch_native(void)
{
    return 4711;
}

int
__wrap_memfd_create(const char *name, unsigned flags)
{
    LINE("memfd %s%s", name, flags == MFD_CLOEXEC ? "" : " ?");
    errno = EMFILE;
    return rig.program;
}

void *
__wrap_malloc(size_t size)
{
    if (!fails("malloc")) {
        void *at = __real_malloc(size);

        return at != NULL ? memset(at, 'm', size) : NULL;
    }
    return NULL;
}

ssize_t
__wrap_pread(int fd, void *out, size_t cap, off_t at)
{
    ssize_t n = fails("pread") ? rig.result : rig.len;

    LINE("pread %d %zu %d", fd, cap, (int)at);
    if (n > 0) {
        memset(out, 'p', (size_t)n);
    }
    errno = EIO;
    return n;
}

static void
tell(const struct sock_filter *code, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        LINE("  %x %u %u %s%x", code[i].code, code[i].jt, code[i].jf,
             code[i].k == __NR_ioctl ? "ioctl " : "",
             code[i].k == __NR_ioctl ? 0 : code[i].k);
    }
}

ssize_t
__wrap_write(int fd, const void *bytes, size_t len)
{
    if (!rig.on || fd != TO) {
        return __real_write(fd, bytes, len);
    }
    LINE("write %d %zu%s", fd, len,
         len > 0 && *(const char *)bytes == 'p' ? " of the program" : "");
    if (len == PROLOGUE && *(const char *)bytes != 'p') {
        struct sock_filter code[10];

        memcpy(code, bytes, sizeof code);
        tell(code, WP_ARRAY_LEN(code));
    }
    errno = ENOSPC;
    return fails("write") ? rig.result : (ssize_t)len;
}

int
__wrap_close(int fd)
{
    if (!rig.on || fd != rig.program) {
        return __real_close(fd);
    }
    LINE("close %d", fd);
    return 0;
}

static void
filter(const char *call, int nth, int result)
{
    struct wp_err err = {.msg = ""};
    enum wp_status status;

    rig.on = true;
    rig.fails = call;
    rig.nth = nth;
    rig.result = result;
    rig.names_len = 0;
    LINE("--- %s %d %d", call, nth, result);
    status = wp_seccomp_filter_write(TO, &err);
    rig.on = false;
    LINE("= %d %s", (int)status, err.msg);
}

static void
asks_for_each_rule(void **state)
{
    (void)state;
    rig.len = 800;
    rig.program = 61;
    filter("none", 0, 0);
    journal_compare(WP_TEST_GOLDEN "/seccomp_rules.txt");
}

static void
ends_with_each_failure(void **state)
{
    int rules;

    (void)state;
    rig.len = 800;
    rig.program = 61;
    filter("none", 0, 0);
    /* The rule that is refused is the last. */
    for (rules = 1; rules < NAMES; rules++) {
        const char *at;

        journal_drop();
        filter("rule", rules, -EINVAL);
        at = strstr(journal_text(), "= ");
        assert_non_null(at);
        if (strncmp(at, "= 0", 3) == 0) {
            break;
        }
        assert_null(strstr(journal_text(), "export"));
        assert_non_null(strstr(journal_text(), "cannot build the seccomp"));
    }
    journal_drop();
    LINE("%d rules", rules - 1);
    rig.program = -1;
    filter("none", 0, 0);
    rig.program = 61;
    filter("init", 1, 0);
    filter("attribute", 1, -EOPNOTSUPP);
    journal_compare(WP_TEST_GOLDEN "/seccomp_refused.txt");
}

/* What comes after the rules. */
static void
writes_whole_programs_only(void **state)
{
    static const struct {
        const char *call;
        int nth;
        int result;
    } cases[] = {
        {"export", 1, -EFAULT},
        {"malloc", 1, 0},
        {"pread", 1, -1},
        {"pread", 1, 0},
        {"pread", 1, 8},
        {"pread", 1, PROGRAM_MAX - PROLOGUE},
        {"pread", 1, PROGRAM_MAX - PROLOGUE + 1},
        {"pread", 1, PROGRAM_MAX},
        {"write", 1, -1},
        {"write", 1, PROLOGUE - 1},
        {"write", 2, -1},
        {"write", 2, 799},
    };

    (void)state;
    rig.len = 800;
    rig.program = 0; /* Any descriptor will do. */
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        static char tail[8192];
        const char *at;

        filter(cases[i].call, cases[i].nth, cases[i].result);
        at = strstr(journal_text(), "\nexport");
        assert_non_null(at);
        (void)snprintf(tail + strlen(tail), sizeof tail - strlen(tail),
                       "--- %s %d %d%s", cases[i].call, cases[i].nth,
                       cases[i].result, at);
        journal_drop();
        if (i + 1 == WP_ARRAY_LEN(cases)) {
            journal_put(tail, strlen(tail));
        }
    }
    journal_compare(WP_TEST_GOLDEN "/seccomp_written.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asks_for_each_rule),
        cmocka_unit_test(ends_with_each_failure),
        cmocka_unit_test(writes_whole_programs_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
