/* Accepting without descriptors, and limits of descriptors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/sockets/accept.h"
#include "proto/sockets/descriptors.h"
#include "proto/sockets/listen.h"

/* What wp_descriptors_fit says in a process with these limits. */
static int
fit_with(rlim_t soft, rlim_t hard, uint32_t asked)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit limit = {soft, hard};

        _exit(setrlimit(RLIMIT_NOFILE, &limit) == 0
                  ? (int)wp_descriptors_fit(asked, 2, 64)
                  : 255);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void
test_descriptors_fit(void **state)
{
    (void)state;
    assert_int_equal(fit_with(264, 264, 100), 100);
    assert_int_equal(fit_with(70, 264, 100), 100); /* Raised. */
    assert_int_equal(fit_with(70, 200, 100), (200 - 64) / 2);
    assert_int_equal(fit_with(20, 20, 100), 5);
    assert_int_equal(fit_with(3, 3, 100), 1);
}

static void
test_accepting_without_descriptors(void **state)
{
    struct wp_listener listener;
    struct wp_address address;
    struct wp_err err;
    struct rlimit before;
    struct rlimit none;
    struct pollfd waits = {.events = POLLIN};
    int client = socket(AF_INET, SOCK_STREAM, 0);
    int fd = -1;

    (void)state;
    assert_int_equal(wp_address_parse(WP_STR("127.0.0.1:0"), &address, &err),
                     WP_OK);
    assert_int_equal(wp_listener_open(&listener, &address, 0, &err), WP_OK);
    assert_int_equal(wp_accept_next(listener.fd, &fd, NULL), WP_ACCEPT_NONE);
    assert_int_equal(connect(client, (struct sockaddr *)&listener.address.sa,
                             listener.address.len),
                     0);
    /* A client may be connected before its server knows. */
    waits.fd = listener.fd;
    assert_int_equal(poll(&waits, 1, 60000), 1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){0, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(wp_accept_next(listener.fd, &fd, NULL),
                     WP_ACCEPT_EXHAUSTED);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(wp_accept_next(listener.fd, &fd, NULL), WP_ACCEPT_TAKEN);
    (void)close(fd);
    (void)close(client);
    wp_listener_close(&listener);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptors_fit),
        cmocka_unit_test(test_accepting_without_descriptors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
