/* Listening, accepting and bounds of descriptors, with the machine's calls
 * replaced: what is asked of it, and what is said when it refuses, is compared
 * whole with golden/listen_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/sockets/accept.h"
#include "proto/sockets/descriptors.h"
#include "proto/sockets/listen.h"
#include "tests/support/base/journal.h"

enum {
    SOCKET = 1300, /* The first; the next has the next. */
    PORT = 4711,   /* The kernel's choice. */
    DEV = 7,
    INO = 8,
};

static const char *failing; /* A function. */
static unsigned fails_in;
static int fails_with;
static int sockets;
static mode_t there;       /* What lstat finds; 0: nothing. */
static ino_t ino;          /* Its number. */
static dev_t dev;          /* Its device. */
static int connected;      /* The errno of connect; 0: somebody listens. */
static const int *accepts; /* Errnos, and a descriptor. */
static struct rlimit limit;
static bool limit_is_fixed;

int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_lstat(const char *path, struct stat *st);
int __wrap_socket(int family, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_unlink(const char *path);
int __wrap_fchmod(int fd, mode_t mode);
int __wrap_chmod(const char *path, mode_t mode);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_listen(int fd, int backlog);
int __wrap_setsockopt(int fd, int level, int name, const void *value,
                      socklen_t len);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *len);
int __wrap_close(int fd);
int __real_close(int fd);
int __wrap_accept4(int fd, struct sockaddr *peer, socklen_t *len, int flags);
int __wrap_getrlimit(int what, struct rlimit *out);
int __wrap_setrlimit(int what, const struct rlimit *in);

static void
fail_at(const char *function, unsigned nth, int with)
{
    failing = function;
    fails_in = nth;
    fails_with = with;
}

static int
result(const char *function)
{
    if (failing == NULL || strcmp(failing, function) != 0 || fails_in == 0 ||
        --fails_in != 0) {
        return 0;
    }
    errno = fails_with;
    return -1;
}

int
__wrap_mkdir(const char *path, mode_t mode)
{
    journal(" mkdir(%s %o)", path, (unsigned)mode);
    return result("mkdir");
}

int
__wrap_lstat(const char *path, struct stat *st)
{
    journal(" lstat(%s)", path);
    if (there == 0) {
        errno = ENOENT;
        return -1;
    }
    memset(st, 0, sizeof *st);
    st->st_mode = there;
    st->st_dev = dev;
    st->st_ino = ino;
    return result("lstat");
}

int
__wrap_socket(int family, int type, int protocol)
{
    assert_int_equal(type, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_int_equal(protocol, 0);
    journal(" socket(%s)", family == AF_UNIX    ? "unix"
                           : family == AF_INET6 ? "six"
                           : family == AF_INET  ? "four"
                                                : "?");
    return result("socket") != 0 ? -1 : SOCKET + sockets++;
}

static void
journal_address(const char *what, int fd, const struct sockaddr *address,
                socklen_t len)
{
    if (address->sa_family == AF_UNIX) {
        journal(" %s(%d %s)", what, fd,
                ((const struct sockaddr_un *)(const void *)address)->sun_path);
    } else if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;

        assert_int_equal(len, sizeof *in);
        journal(" %s(%d %x:%d)", what, fd, ntohl(in->sin_addr.s_addr),
                ntohs(in->sin_port));
    } else {
        assert_int_equal(len, sizeof(struct sockaddr_in6));
        journal(" %s(%d six)", what, fd);
    }
}

int
__wrap_connect(int fd, const struct sockaddr *address, socklen_t len)
{
    journal_address("connect", fd, address, len);
    errno = connected;
    return connected == 0 ? 0 : -1;
}

int
__wrap_unlink(const char *path)
{
    journal(" unlink(%s)", path);
    return result("unlink");
}

int
__wrap_fchmod(int fd, mode_t mode)
{
    journal(" fchmod(%d %o)", fd, (unsigned)mode);
    return result("fchmod");
}

int
__wrap_chmod(const char *path, mode_t mode)
{
    journal(" chmod(%s %o)", path, (unsigned)mode);
    return result("chmod");
}

int
__wrap_bind(int fd, const struct sockaddr *address, socklen_t len)
{
    journal_address("bind", fd, address, len);
    if (result("bind") != 0) {
        return -1;
    }
    if (address->sa_family == AF_UNIX) {
        there = S_IFSOCK | 0777;
        dev = DEV;
        ino = INO;
    }
    return 0;
}

int
__wrap_listen(int fd, int backlog)
{
    journal(" listen(%d %d)", fd, backlog);
    return result("listen");
}

int
__wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    assert_int_equal(len, sizeof(int));
    journal(" %s(%d %d)",
            level == SOL_SOCKET && name == SO_REUSEADDR    ? "reuse"
            : level == IPPROTO_IPV6 && name == IPV6_V6ONLY ? "six-only"
                                                           : "?",
            fd, *(const int *)value);
    return result("setsockopt");
}

int
__wrap_getsockname(int fd, struct sockaddr *address, socklen_t *len)
{
    assert_int_equal(*len, sizeof(struct sockaddr_storage));
    journal(" getsockname(%d)", fd);
    ((struct sockaddr_in *)(void *)address)->sin_port = htons(PORT);
    *len = address->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                         : sizeof(struct sockaddr_in6);
    return result("getsockname");
}

int
__wrap_close(int fd)
{
    if (fd < SOCKET) {
        return __real_close(fd);
    }
    journal(" close(%d)", fd);
    errno = EIO;
    return 0;
}

int
__wrap_accept4(int fd, struct sockaddr *peer, socklen_t *len, int flags)
{
    assert_int_equal(fd, SOCKET);
    assert_int_equal(flags, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_int_equal(peer != NULL, len != NULL);
    if (len != NULL) {
        assert_int_equal(*len, sizeof(struct sockaddr_storage));
        peer->sa_family = AF_INET;
    }
    if (*accepts >= SOCKET) {
        return *accepts++;
    }
    errno = *accepts++;
    return -1;
}

int
__wrap_getrlimit(int what, struct rlimit *out)
{
    assert_int_equal(what, RLIMIT_NOFILE);
    if (result("getrlimit") != 0) {
        return -1;
    }
    *out = limit;
    return 0;
}

int
__wrap_setrlimit(int what, const struct rlimit *in)
{
    assert_int_equal(what, RLIMIT_NOFILE);
    journal(" raise(%ju of %ju)", (uintmax_t)in->rlim_cur,
            (uintmax_t)in->rlim_max);
    if (limit_is_fixed) {
        errno = EPERM;
        return -1;
    }
    limit = *in;
    return 0;
}

/* --------------------------------------------------------------- the rig */

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/listen_%s.txt", name);
    journal_compare(path);
}

static void
listens(const char *where, uint32_t mode)
{
    struct wp_listener listener;
    struct wp_address address;
    struct wp_err err = {0};
    enum wp_status status;
    char text[128];

    assert_int_equal(wp_address_parse(wp_str_from(where), &address, &err),
                     WP_OK);
    sockets = 0;
    memset(&listener, 0xa5, sizeof listener);
    journal("%s:", where);
    status = wp_listener_open(&listener, &address, mode, &err);
    journal(" = %d %s", (int)status, err.msg);
    journal(" (%d %s dev %ju ino %ju)", listener.fd,
            wp_address_format(&listener.address, text, sizeof text),
            (uintmax_t)listener.dev, (uintmax_t)listener.ino);
    journal_line();
    if (status == WP_OK) {
        journal("  closed:");
        wp_listener_close(&listener);
        assert_int_equal(listener.fd, -1);
        assert_int_equal(listener.ino, 0);
        journal(" again:");
        wp_listener_close(&listener);
        journal_line();
    }
}

static int
begin(void **state)
{
    (void)state;
    failing = NULL;
    there = 0;
    dev = DEV;
    ino = INO;
    connected = ECONNREFUSED;
    limit_is_fixed = false;
    journal_drop();
    return 0;
}

/* ----------------------------------------------------------------- tests */

static void
test_sockets_are_bound_and_closed(void **state)
{
    (void)state;
    listens("127.0.0.1:80", 0);
    listens("[::1]:0", 0600);
    listens("unix:/a/b/c", 0660);
    there = 0;
    listens("unix:/a", 0);
    golden("bound");
}

static void
test_each_call_that_fails_is_told(void **state)
{
    static const char *const calls[] = {
        "mkdir", "lstat", "socket", "unlink",     "fchmod",
        "chmod", "bind",  "listen", "setsockopt", "getsockname",
    };
    static const char *const places[] = {"127.0.0.1:80", "[::1]:80",
                                         "unix:/a/b"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        for (size_t p = 0; p < WP_ARRAY_LEN(places); p++) {
            for (unsigned nth = 1; nth <= 2; nth++) {
                there = S_IFSOCK | 0600;
                fail_at(calls[i], nth, EACCES);
                journal("%s %u: ", calls[i], nth);
                listens(places[p], 0600);
            }
        }
    }
    golden("failures");
}

/* Only a socket that nobody listens on makes way. */
static void
test_what_is_there_makes_way_when_it_is_dead(void **state)
{
    static const int errors[] = {0, ECONNREFUSED, EAGAIN, EACCES, ENOENT};
    static const mode_t modes[] = {S_IFREG | 0600, S_IFDIR | 0700,
                                   S_IFLNK | 0777, S_IFSOCK | 0600};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(errors); i++) {
        there = S_IFSOCK | 0600;
        connected = errors[i];
        listens("unix:/a/b", 0);
    }
    connected = ECONNREFUSED;
    for (size_t i = 0; i < WP_ARRAY_LEN(modes); i++) {
        there = modes[i];
        listens("unix:/a/b", 0);
    }
    there = S_IFSOCK | 0600;
    fail_at("unlink", 1, ENOENT);
    listens("unix:/a/b", 0);
    there = 0;
    fail_at("mkdir", 1, EEXIST);
    listens("unix:/a/b", 0);
    golden("stale");
}

/* The file of another, which came in its place, is left alone. */
static void
test_only_its_own_file_is_removed(void **state)
{
    struct wp_address address;
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_address_parse(WP_STR("unix:/a/b"), &address, &err),
                     WP_OK);
    for (int i = 0; i < 6; i++) {
        struct wp_listener listener = {
            .fd = i == 5 ? -1 : SOCKET,
            .address = address,
            .dev = DEV,
            .ino = i == 4 ? 0 : INO,
        };

        there = i == 3 ? 0 : S_IFSOCK | 0600;
        dev = i == 1 ? DEV + 1 : DEV;
        ino = i == 2 ? INO + 1 : i == 4 ? 0 : INO;
        journal("%d:", i);
        wp_listener_close(&listener);
        journal_line();
    }
    golden("closed");
}

static void
test_accepting_goes_on_until_there_is_nobody(void **state)
{
    static const struct {
        int errors[4];
        enum wp_accept result;
    } cases[] = {
        {{SOCKET + 1}, WP_ACCEPT_TAKEN},
        {{ECONNABORTED, EINTR, SOCKET + 2}, WP_ACCEPT_TAKEN},
        {{EPERM, EAGAIN}, WP_ACCEPT_NONE},
        {{EAGAIN}, WP_ACCEPT_NONE},
        {{EBADF}, WP_ACCEPT_NONE},
        {{EINVAL}, WP_ACCEPT_NONE},
        {{EMFILE}, WP_ACCEPT_EXHAUSTED},
        {{ENFILE}, WP_ACCEPT_EXHAUSTED},
        {{ENOBUFS}, WP_ACCEPT_EXHAUSTED},
        {{ENOMEM}, WP_ACCEPT_EXHAUSTED},
        {{EPROTO, ENOMEM}, WP_ACCEPT_EXHAUSTED},
    };

    (void)state;
    for (size_t i = 0; i < 2 * WP_ARRAY_LEN(cases); i++) {
        struct sockaddr_storage peer;
        const int *errors = cases[i / 2].errors;
        int fd = -5;
        int n = 0;

        accepts = errors;
        assert_int_equal(wp_accept_next(SOCKET, &fd, i % 2 == 0 ? &peer : NULL),
                         cases[i / 2].result);
        while (errors[n] != 0) {
            n++;
        }
        assert_ptr_equal(accepts, errors + n);
        assert_int_equal(
            fd, cases[i / 2].result == WP_ACCEPT_TAKEN ? errors[n - 1] : -1);
    }
}

static void
fits(rlim_t soft, rlim_t hard, uint32_t asked)
{
    limit = (struct rlimit){soft, hard};
    journal("%ju of %ju:", (uintmax_t)soft, (uintmax_t)hard);
    journal(" %u fit", wp_descriptors_fit(asked, 2, 64));
    journal_line();
}

/* 100 of two each need 200, and 64 for others. */
static void
test_what_fits_into_the_descriptors(void **state)
{
    static const rlim_t limits[] = {2,   3,   4,   5,   6,   63,  64,
                                    126, 127, 128, 129, 130, 131, 132,
                                    262, 263, 264, 265, 1000};

    (void)state;
    for (int fixed = 0; fixed < 2; fixed++) {
        limit_is_fixed = fixed != 0;
        for (size_t i = 0; i < WP_ARRAY_LEN(limits); i++) {
            fits(limits[i], limits[i], 100);
            fits(4, limits[i], 100);
        }
        fits(RLIM_INFINITY, RLIM_INFINITY, UINT32_MAX);
        fits(100, RLIM_INFINITY, UINT32_MAX);
    }
    fail_at("getrlimit", 1, EPERM);
    fits(1, 1, 100);
    golden("descriptors");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup(test, begin)
    const struct CMUnitTest tests[] = {
        ONE(test_sockets_are_bound_and_closed),
        ONE(test_each_call_that_fails_is_told),
        ONE(test_what_is_there_makes_way_when_it_is_dead),
        ONE(test_only_its_own_file_is_removed),
        ONE(test_accepting_goes_on_until_there_is_nobody),
        ONE(test_what_fits_into_the_descriptors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
