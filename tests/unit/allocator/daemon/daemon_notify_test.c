/* What the service manager is told, and that it cannot hold the daemon up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "allocator/daemon/leave.h"

struct manager {
    char dir[64];
    struct sockaddr_un un;
    int fd;
};

static int
start(void **state)
{
    static struct manager manager;

    *state = &manager;
    memset(&manager, 0, sizeof manager);
    (void)snprintf(manager.dir, sizeof manager.dir, "/tmp/wp-notify-XXXXXX");
    if (mkdtemp(manager.dir) == NULL) {
        return -1;
    }
    manager.un.sun_family = AF_UNIX;
    (void)snprintf(manager.un.sun_path, sizeof manager.un.sun_path, "%s/s",
                   manager.dir);
    manager.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return manager.fd >= 0 &&
                   bind(manager.fd, (const struct sockaddr *)&manager.un,
                        sizeof manager.un) == 0 &&
                   setenv("NOTIFY_SOCKET", manager.un.sun_path, 1) == 0
               ? 0
               : -1;
}

static int
stop(void **state)
{
    struct manager *manager = *state;

    (void)unsetenv("NOTIFY_SOCKET");
    (void)close(manager->fd);
    (void)unlink(manager->un.sun_path);
    return rmdir(manager->dir);
}

/* The next message; "" when there is none. */
static const char *
heard(struct manager *manager)
{
    static char text[64];
    ssize_t n = recv(manager->fd, text, sizeof text - 1, MSG_DONTWAIT);

    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void
messages_arrive_in_order(void **state)
{
    wp_daemon_notify("RELOADING=1");
    wp_daemon_notify("READY=1");
    assert_string_equal(heard(*state), "RELOADING=1");
    assert_string_equal(heard(*state), "READY=1");
    assert_string_equal(heard(*state), "");
}

/* A queue that nobody reads is full after some messages; a send that waits for
 * its reader would never return here. */
static void
a_manager_that_does_not_read_holds_nobody_up(void **state)
{
    struct manager *manager = *state;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    while (sendto(fd, "x", 1, MSG_DONTWAIT,
                  (const struct sockaddr *)&manager->un,
                  sizeof manager->un) == 1) {
    }
    wp_daemon_notify("RELOADING=1");
    while (strcmp(heard(manager), "x") == 0) {
    }
    wp_daemon_notify("READY=1");
    assert_string_equal(heard(manager), "READY=1");
    (void)close(fd);
}

static void
a_manager_that_is_gone_is_passed_over(void **state)
{
    struct manager *manager = *state;

    assert_int_equal(setenv("NOTIFY_SOCKET", "/nowhere/s", 1), 0);
    wp_daemon_notify("READY=1");
    assert_string_equal(heard(manager), "");
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    wp_daemon_notify("READY=1");
    assert_string_equal(heard(manager), "");
}

/* A name that is as long as one can be; longer ones are none. */
static void
names_that_fill_an_address(void **state)
{
    struct manager *manager = *state;
    char name[sizeof manager->un.sun_path + 1];
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    size_t len = sizeof name - 2;
    char text[16] = "";

    assert_true(fd >= 0);
    /* Of this process alone, and not in the file system. */
    memset(name, 'x', sizeof name);
    (void)snprintf(name, sizeof name, "@wp-notify-%d-", (int)getpid());
    name[strlen(name)] = 'x';
    name[len] = '\0';
    memcpy(un.sun_path, name, len);
    un.sun_path[0] = '\0';
    assert_int_equal(
        bind(fd, (const struct sockaddr *)&un,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
        0);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    wp_daemon_notify("READY=1");
    assert_int_equal(recv(fd, text, sizeof text - 1, MSG_DONTWAIT), 7);
    assert_string_equal(text, "READY=1");
    /* One byte more: nobody is told. */
    name[len] = 'x';
    name[len + 1] = '\0';
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    wp_daemon_notify("READY=1");
    assert_int_equal(setenv("NOTIFY_SOCKET", "", 1), 0);
    wp_daemon_notify("READY=1");
    assert_true(recv(fd, text, sizeof text - 1, MSG_DONTWAIT) < 0);
    assert_string_equal(heard(manager), "");
    (void)close(fd);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_arrive_in_order, start, stop),
        cmocka_unit_test_setup_teardown(
            a_manager_that_does_not_read_holds_nobody_up, start, stop),
        cmocka_unit_test_setup_teardown(a_manager_that_is_gone_is_passed_over,
                                        start, stop),
        cmocka_unit_test_setup_teardown(names_that_fill_an_address, start,
                                        stop),
    };

    return cmocka_run_group_tests_name("daemon_notify", tests, NULL, NULL);
}
