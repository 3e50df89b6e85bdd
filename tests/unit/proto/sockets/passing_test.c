/* Descriptors that come along with messages: one is taken, and none is left
 * open that nobody has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/sockets/passing.h"
#include "tests/support/base/descriptors.h"

enum {
    FDS_MAX = 8,
};

static int ends[2];

static int
set_up(void **state)
{
    (void)state;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static int
tear_down(void **state)
{
    (void)state;
    (void)close(ends[0]);
    (void)close(ends[1]);
    return 0;
}

/* As somebody may send who is not wp_passing_send. */
static void
send_fds(const char *bytes, size_t len, int n)
{
    char ancillary[CMSG_SPACE(FDS_MAX * sizeof(int))]
        __attribute__((aligned(8))) = {0};
    struct iovec iov = {(void *)(uintptr_t)bytes, len};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = ancillary,
        .msg_controllen = CMSG_SPACE((size_t)n * sizeof(int)),
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    int fds[FDS_MAX];

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
    for (int i = 0; i < n; i++) {
        fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_true(fds[i] >= 0);
    }
    memcpy(CMSG_DATA(c), fds, (size_t)n * sizeof(int));
    assert_int_equal(sendmsg(ends[0], &msg, MSG_NOSIGNAL), len);
    for (int i = 0; i < n; i++) {
        (void)close(fds[i]);
    }
}

static void
test_one(void **state)
{
    size_t before = descriptors_count();
    char got[16];
    struct stat sent;
    struct stat came;
    int passed;
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void)state;
    assert_int_equal(wp_passing_send(ends[0], "abc", 3, file, MSG_NOSIGNAL), 3);
    assert_int_equal(wp_passing_send(ends[0], "d", 1, -1, MSG_NOSIGNAL), 1);
    assert_int_equal(wp_passing_receive(ends[1], got, sizeof got, &passed), 3);
    assert_memory_equal(got, "abc", 3);
    assert_true(passed >= 0);
    assert_int_equal(fcntl(passed, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fstat(file, &sent), 0);
    assert_int_equal(fstat(passed, &came), 0);
    assert_int_equal(sent.st_rdev, came.st_rdev);
    (void)close(passed);
    (void)close(file);
    assert_int_equal(wp_passing_receive(ends[1], got, sizeof got, &passed), 1);
    assert_int_equal(passed, -1);
    assert_int_equal(wp_passing_receive(ends[1], got, sizeof got, &passed), -1);
    assert_int_equal(passed, -1);
    assert_int_equal(descriptors_count(), before);
}

/* A buffer for one has room for two. */
static void
test_several(void **state)
{
    size_t before = descriptors_count();
    char got[16];

    (void)state;
    for (int n = 2; n <= FDS_MAX; n++) {
        int passed;

        send_fds("x", 1, n);
        assert_int_equal(wp_passing_receive(ends[1], got, sizeof got, &passed),
                         1);
        assert_true(passed >= 0);
        (void)close(passed);
        assert_int_equal(descriptors_count(), before);
    }
}

/* A message of nothing looks like the end, and may bring something. */
static void
test_with_nothing(void **state)
{
    size_t before = descriptors_count();
    char got[16];
    int passed;

    (void)state;
    send_fds("", 0, 2);
    assert_int_equal(wp_passing_receive(ends[1], got, sizeof got, &passed), 0);
    assert_true(passed >= 0);
    (void)close(passed);
    assert_int_equal(descriptors_count(), before);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_one),
        TEST(test_several),
        TEST(test_with_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
