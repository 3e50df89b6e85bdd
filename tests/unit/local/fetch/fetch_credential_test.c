/* local/fetch/credential.c: what git reads as its configuration, for user and
 * password of each length, and what is left of them in memory. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/fetch/credential.h"
#include "pool/base/compiler.h"
#include "proto/checkout/fetch_report.h"
#include "tests/support/base/descriptors.h"

static struct {
    int interrupts; /* Reads that are cut short, to come. */
    int read_error;
    size_t piece; /* Bytes of one read; 0: all. */
    size_t got;   /* By reads, so far. */
    bool no_file;
    bool no_room;
    size_t wiped; /* Bytes, so far. */
    size_t wipes;
} rig;

ssize_t __real_read(int fd, void *out, size_t cap);
ssize_t __wrap_read(int fd, void *out, size_t cap);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
void __real_explicit_bzero(void *bytes, size_t len);
void __wrap_explicit_bzero(void *bytes, size_t len);
/* What an optimizing build makes of it. */
void __wrap___explicit_bzero_chk(void *bytes, size_t len, size_t cap);

ssize_t
__wrap_read(int fd, void *out, size_t cap)
{
    ssize_t n;

    if (rig.interrupts > 0) {
        rig.interrupts--;
        errno = EINTR;
        return -1;
    }
    if (rig.read_error != 0) {
        errno = rig.read_error;
        return -1;
    }
    assert_int_equal(cap + rig.got, WP_FETCH_CREDENTIAL_MAX);
    n = __real_read(fd, out,
                    rig.piece > 0 && rig.piece < cap ? rig.piece : cap);
    rig.got += n > 0 ? (size_t)n : 0;
    return n;
}

int
__wrap_memfd_create(const char *name, unsigned flags)
{
    assert_string_equal(name, "git-config");
    assert_int_equal(flags, MFD_CLOEXEC);
    if (rig.no_file) {
        errno = EMFILE;
        return -1;
    }
    return rig.no_room ? open("/dev/null", O_RDONLY | O_CLOEXEC)
                       : __real_memfd_create(name, flags);
}

void
__wrap_explicit_bzero(void *bytes, size_t len)
{
    rig.wiped += len;
    rig.wipes++;
    __real_explicit_bzero(bytes, len);
}

void
__wrap___explicit_bzero_chk(void *bytes, size_t len, size_t cap)
{
    assert_true(len <= cap);
    __wrap_explicit_bzero(bytes, len);
}

/* What is not written is not zero by chance. */
__attribute__((noinline)) static void
dirty_stack(void)
{
    volatile char junk[4 * WP_FETCH_CREDENTIAL_MAX];

    for (size_t i = 0; i < sizeof junk; i++) {
        junk[i] = 'j';
    }
}

static int
open_with(const char *text, size_t len)
{
    int fds[2];
    int fd;

    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], text, len), (ssize_t)len);
    assert_int_equal(close(fds[1]), 0);
    rig.got = 0;
    dirty_stack();
    fd = wp_credential_open(fds[0]);
    assert_int_equal(close(fds[0]), 0);
    return fd;
}

static int
set_up(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof rig);
    return 0;
}

static void
expect(const char *text, size_t len, const char *encoded)
{
    char want[128];
    char got[128] = "";
    int fd = open_with(text, len);

    (void)snprintf(want, sizeof want,
                   "[http]\n\textraHeader = \"Authorization: Basic %s\"\n",
                   encoded);
    assert_true(fd > 0);
    assert_true(pread(fd, got, sizeof got - 1, 0) > 0);
    assert_string_equal(got, want);
    assert_int_equal(close(fd), 0);
}

static void
git_sends_user_and_password(void **state)
{
    (void)state;
    expect("user\0password", 13, "dXNlcjpwYXNzd29yZA==");
    expect("user\0passwor", 12, "dXNlcjpwYXNzd29y");
    expect("user\0passwo", 11, "dXNlcjpwYXNzd28=");
    expect("\0", 1, "Og==");
    expect("a\0", 2, "YTo=");
    expect("\0b", 2, "OmI=");
    /* Only the first is between them; each digit there is. */
    expect("a\0\0c", 4, "YToAYw==");
    expect("\xfb\xff\xbf\0", 4, "+/+/Og==");
    expect("\xff\xff\xff\0\x00\x10\x83\x10\x51\x87", 10, "////OgAQgxBRhw==");
}

static void
it_comes_in_whatever_pieces(void **state)
{
    (void)state;
    for (rig.piece = 1; rig.piece < 15; rig.piece++) {
        rig.interrupts = 2;
        expect("user\0password", 13, "dXNlcjpwYXNzd29yZA==");
    }
}

static void
nothing_of_it_stays_in_memory(void **state)
{
    (void)state;
    expect("user\0password", 13, "dXNlcjpwYXNzd29yZA==");
    assert_int_equal(rig.wipes, 2);
    assert_int_equal(rig.wiped, WP_FETCH_CREDENTIAL_MAX +
                                    (WP_FETCH_CREDENTIAL_MAX + 2) / 3 * 4 + 1);
    memset(&rig, 0, sizeof rig);
    assert_int_equal(open_with("no end", 6), -1);
    assert_int_equal(rig.wipes, 1);
    assert_int_equal(rig.wiped, WP_FETCH_CREDENTIAL_MAX);
}

static void
it_has_a_largest_size(void **state)
{
    static char text[WP_FETCH_CREDENTIAL_MAX + 1];
    static char got[2 * WP_FETCH_CREDENTIAL_MAX];
    int fd;

    (void)state;
    memset(text, 'A', sizeof text);
    text[1] = '\0';
    fd = open_with(text, WP_FETCH_CREDENTIAL_MAX - 1);
    assert_true(fd > 0);
    assert_true(pread(fd, got, sizeof got - 1, 0) > 0);
    assert_int_equal(close(fd), 0);
    /* 2047 bytes are 682 times three, and one. */
    assert_int_equal(strlen(got),
                     strlen("[http]\n\textraHeader = \"Authorization: Basic ") +
                         683 * 4 + strlen("\"\n"));
    assert_non_null(strstr(got, "Basic QTpBQUFB"));
    assert_string_equal(got + strlen(got) - 10, "QUFBQQ==\"\n");
    assert_int_equal(open_with(text, WP_FETCH_CREDENTIAL_MAX), -1);
    assert_int_equal(open_with(text, WP_FETCH_CREDENTIAL_MAX + 1), -1);
}

static void
none_is_none(void **state)
{
    (void)state;
    assert_int_equal(open_with("", 0), 0);
    assert_int_equal(open_with("no end", 6), -1);
}

static void
what_cannot_be_had_leaves_nothing_open(void **state)
{
    size_t before = descriptors_count();

    (void)state;
    rig.read_error = EIO;
    assert_int_equal(open_with("user\0password", 13), -1);
    rig.read_error = 0;
    rig.no_file = true;
    assert_int_equal(open_with("user\0password", 13), -1);
    rig.no_file = false;
    rig.no_room = true;
    assert_int_equal(open_with("user\0password", 13), -1);
    assert_int_equal(descriptors_count(), before);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(git_sends_user_and_password),
        TEST(it_comes_in_whatever_pieces),
        TEST(nothing_of_it_stays_in_memory),
        TEST(it_has_a_largest_size),
        TEST(none_is_none),
        TEST(what_cannot_be_had_leaves_nothing_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
