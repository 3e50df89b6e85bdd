/* The HTTP server: its own pages, the bounds of connections, its sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/base/address.h"
#include "pool/base/clock.h"
#include "tests/support/http/http_server_rig.h"

/* --- Own pages --- */

static void
test_pages(void **state)
{
    (void)state;
    rig_start();
    assert_begins(rig_ask(rig.unix_listen,
                          "GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n"),
                  "HTTP/1.1 200 OK\r\n");
    assert_has(rig.answer, "\r\n\r\nhello\n");
    (void)rig_ask(rig_tcp(),
                  "HEAD /hello HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_has(rig.answer, "Content-Length: 6\r\n");
    assert_lacks(rig.answer, "hello\n");
    assert_begins(rig_ask(rig_tcp(), "PUT /hello HTTP/1.1\r\n\r\n"),
                  "HTTP/1.1 405 ");
    assert_has(rig.answer, "Allow: GET, HEAD\r\n");
    assert_begins(rig_ask(rig_tcp(), "GET /nope HTTP/1.1\r\n\r\n"),
                  "HTTP/1.1 404 ");
    assert_has(rig.answer, "{\"error\":\"");
    assert_begins(rig_ask(rig_tcp(), "garbage\r\n\r\n"), "HTTP/1.1 400 ");
    assert_begins(rig_ask(rig_tcp(), "GET /metrics HTTP/1.0\r\n\r\n"),
                  "HTTP/1.1 200 ");
}

/* Requests sent in one go are answered in order on one connection. */
static void
test_pipelining(void **state)
{
    const char *at;
    int n = 0;

    (void)state;
    rig_start();
    (void)rig_ask(rig.unix_listen,
                  "\r\n\n\r\nGET /hello HTTP/1.1\r\n\r\n"
                  "\r\nGET /hello HTTP/1.1\r\n\r\n"
                  "GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n");
    for (at = rig.answer; (at = strstr(at, "hello\n")) != NULL; at++) {
        n++;
    }
    assert_int_equal(n, 3);
}

/* --- Connections --- */

static void
test_long_head_is_refused(void **state)
{
    static char head[20000];

    (void)state;
    rig_start();
    memset(head, 'a', sizeof head);
    memcpy(head, "GET /", 5);
    head[sizeof head - 1] = '\0';
    assert_begins(rig_ask(rig_tcp(), head), "HTTP/1.1 431 ");
}

static void
test_slow_head_is_dropped(void **state)
{
    (void)state;
    rig.config.head_timeout_ns = 50 * WP_NS_PER_MS;
    rig_start();
    assert_begins(rig_ask(rig_tcp(), "GET / HT"), "HTTP/1.1 408 ");
    assert_begins(rig_ask(rig_tcp(), ""), "HTTP/1.1 408 ");
}

/* Between requests it is closed without a word. A head has all its time, since
 * this test may be slow to say it. */
static void
test_idle_connection_is_closed(void **state)
{
    (void)state;
    rig.config.idle_timeout_ns = 50 * WP_NS_PER_MS;
    rig_start();
    assert_begins(rig_ask(rig_tcp(), "GET /hello HTTP/1.1\r\n\r\n"),
                  "HTTP/1.1 200 ");
    assert_lacks(rig.answer, "408");
}

static const char metrics[] =
    "GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n";
static const char probe[] = "GET /hello HTTP/1.1\r\n\r\n";

/* A connection that has been answered, so that the server knows it. */
static int
hold(const char *where)
{
    int fd = rig_dial(where);

    rig_send_text(fd, probe);
    (void)rig_read_until(fd, "hello\n", rig.answer, sizeof rig.answer);
    assert_begins(rig.answer, "HTTP/1.1 200 ");
    return fd;
}

static void
wait_all_gone(void)
{
    while (rig_stats().connections > 0) {
        (void)usleep(1000);
    }
}

static void
test_connections_are_bounded(void **state)
{
    int held[2];

    (void)state;
    rig.config.connections_max = 2;
    rig_start();
    for (int i = 0; i < 2; i++) {
        held[i] = hold(rig.unix_listen);
    }
    assert_begins(rig_ask(rig.unix_listen, metrics), "HTTP/1.1 503 ");
    assert_has(rig.answer, "Connection: close\r\n");
    assert_has(rig.answer, "Retry-After: 1\r\n");
    assert_begins(rig_ask(rig.unix_listen, probe), "HTTP/1.1 200 ");
    assert_has(rig.answer, "Connection: close\r\n");
    (void)close(held[0]);
    (void)close(held[1]);
    assert_int_equal(rig_stats().connections_refused, 1);
    wait_all_gone();
    assert_begins(rig_ask(rig.unix_listen, metrics), "HTTP/1.1 200 ");
}

/* One peer cannot take what others need, and all together not what probes and
 * the daemon's own user need. */
static void
test_each_peer_is_bounded(void **state)
{
    int held[3];

    (void)state;
    rig.config.connections_max = 32;
    rig.config.peer_connections_max = 3;
    rig_start();
    for (int i = 0; i < 3; i++) {
        held[i] = hold(rig_tcp());
    }
    assert_begins(rig_ask(rig_tcp(), metrics), "HTTP/1.1 503 ");
    assert_begins(rig_ask(rig_tcp(), probe), "HTTP/1.1 200 ");
    assert_begins(rig_ask(rig.unix_listen, metrics), "HTTP/1.1 200 ");
    for (int i = 0; i < 3; i++) {
        (void)close(held[i]);
    }
    wait_all_gone();
}

static void
test_probes_have_room_of_their_own(void **state)
{
    static int silent[400];

    (void)state;
    rig.config.connections_max = 20;
    rig_start();
    for (size_t i = 0; i < WP_ARRAY_LEN(silent); i++) {
        silent[i] = rig_dial(rig_tcp());
    }
    while (rig_stats().connections_total < WP_ARRAY_LEN(silent)) {
        (void)usleep(1000);
    }
    assert_in_range(rig_stats().connections, 1, 20 + 256);
    assert_begins(rig_ask(rig_tcp(), probe), "HTTP/1.1 200 ");
    assert_begins(rig_ask(rig_tcp(), metrics), "HTTP/1.1 503 ");
    /* The share of the daemon's own user. */
    assert_begins(rig_ask(rig.unix_listen, metrics), "HTTP/1.1 200 ");
    for (size_t i = 0; i < WP_ARRAY_LEN(silent); i++) {
        (void)close(silent[i]);
    }
    wait_all_gone();
}

static _Atomic(int) accepts_refused;

int __real_accept4(int fd, struct sockaddr *peer, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *peer, socklen_t *len, int flags);

int
__wrap_accept4(int fd, struct sockaddr *peer, socklen_t *len, int flags)
{
    int got = __real_accept4(fd, peer, len, flags);

    if (got < 0 && errno == EMFILE) {
        accepts_refused++;
    }
    return got;
}

/* Connections that wait until they have been tried a few times. What is logged
 * meanwhile goes into log. */
static void
ask_without_descriptors(int log)
{
    struct wp_address address;
    struct wp_err err;
    struct rlimit before;
    struct rlimit none;
    uint64_t taken = rig_stats().connections_total;
    int shown = dup(STDERR_FILENO);
    int fds[3];

    assert_int_equal(wp_address_parse(wp_str_from(rig_tcp()), &address, &err),
                     WP_OK);
    for (size_t i = 0; i < WP_ARRAY_LEN(fds); i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
    }
    assert_int_equal(dup2(log, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){0, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    accepts_refused = 0;
    for (size_t i = 0; i < WP_ARRAY_LEN(fds); i++) {
        assert_int_equal(
            connect(fds[i], (struct sockaddr *)&address.sa, address.len), 0);
        rig_send_text(fds[i], "GET /hello HTTP/1.0\r\n\r\n");
    }
    while (accepts_refused < 3) {
        (void)usleep(1000);
    }
    taken -= rig_stats().connections_total;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(dup2(shown, STDERR_FILENO), STDERR_FILENO);
    (void)close(shown);
    assert_int_equal(taken, 0);
    for (size_t i = 0; i < WP_ARRAY_LEN(fds); i++) {
        (void)rig_read_until(fds[i], NULL, rig.answer, sizeof rig.answer);
        assert_begins(rig.answer, "HTTP/1.1 200 ");
        (void)close(fds[i]);
    }
}

/* They are served once there are some; each time one line has said so. */
static void
test_without_descriptors(void **state)
{
    int log = memfd_create("log", MFD_CLOEXEC);
    char lines[4096] = "";
    int said = 0;

    (void)state;
    assert_true(log >= 0);
    rig_start();
    ask_without_descriptors(log);
    ask_without_descriptors(log);
    assert_true(pread(log, lines, sizeof lines - 1, 0) > 0);
    for (const char *at = lines; (at = strstr(at, "have run out")) != NULL;
         at++) {
        said++;
    }
    assert_int_equal(said, 2);
    (void)close(log);
}

/* --- Who may --- */

static void
read_all(int fd)
{
    size_t len = 0;
    ssize_t n;

    while ((n = read(fd, rig.answer + len, sizeof rig.answer - 1 - len)) > 0) {
        len += (size_t)n;
    }
    rig.answer[len] = '\0';
}

/* The answer that another process gets, after become(arg); "" when it could not
 * become that. */
static const char *
ask_as(bool (*become)(unsigned arg), unsigned arg, const char *request)
{
    int ends[2];
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int fd = -1;

        (void)alarm(RIG_PATIENCE_MS / 1000);
        if (become(arg)) {
            fd = rig_dial(rig.unix_listen);
            rig_send_text(fd, request);
            (void)rig_read_until(fd, NULL, rig.answer, sizeof rig.answer);
            (void)!write(ends[1], rig.answer, strlen(rig.answer));
        }
        _exit(0);
    }
    (void)close(ends[1]);
    read_all(ends[0]);
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return rig.answer;
}

static bool
become_user(unsigned uid)
{
    return setgid(uid) == 0 && setuid(uid) == 0;
}

/* As what runs in a sandbox of ours: our user, in another user namespace. */
static bool
become_sandboxed(unsigned arg)
{
    (void)arg;
    return unshare(CLONE_NEWUSER) == 0;
}

static void
test_tenants_on_the_unix_socket(void **state)
{
    static const struct wp_principal principals[] = {
        {"uid:54321", "blue", false},
        {"uid:54322", "red", false},
        {"uid:54323", "", false},
    };
    static const char ask[] = "GET /sandboxes/gone/ HTTP/1.0\r\n\r\n";
    static const char admin[] = "GET /sandboxes/gone/ HTTP/1.0\r\n"
                                "Authorization: Bearer " RIG_ADMIN "\r\n\r\n";

    (void)state;
    if (geteuid() != 0) {
        print_message("SKIP: only root can become another user\n");
        skip();
    }
    assert_int_equal(chmod(rig.dir, 0711), 0);
    rig.config.access.principals = principals;
    rig.config.access.n_principals = WP_ARRAY_LEN(principals);
    rig_start();
    /* 502: the way to the sandbox is open, and nobody is there. */
    assert_begins(ask_as(become_user, 54321, ask), "HTTP/1.1 502 ");
    assert_begins(ask_as(become_user, 54322, ask), "HTTP/1.1 404 ");
    assert_begins(ask_as(become_user, 54322, admin), "HTTP/1.1 502 ");
    assert_begins(ask_as(become_user, 54323, ask), "HTTP/1.1 401 ");
    assert_begins(ask_as(become_user, 54324, ask), "HTTP/1.1 403 ");
    assert_begins(rig_ask(rig.unix_listen, ask), "HTTP/1.1 502 ");
}

/* Who may reach every sandbox sees all of a page; a tenant, and who proves
 * nothing, sees a tenant's part. */
static void
test_tenants_see_a_part_of_pages(void **state)
{
    static const struct wp_principal principals[] = {
        {"uid:54321", "blue", false},
        {"uid:54322", "", false},
        {"uid:54323", "", true},
    };
    static const char with_token[] =
        "GET /metrics HTTP/1.0\r\n"
        "Authorization: Bearer " RIG_ADMIN "\r\n\r\n";

    (void)state;
    if (geteuid() != 0) {
        print_message("SKIP: only root can become another user\n");
        skip();
    }
    assert_int_equal(chmod(rig.dir, 0711), 0);
    rig.config.access.principals = principals;
    rig.config.access.n_principals = WP_ARRAY_LEN(principals);
    rig_start();
    assert_has(ask_as(become_user, 54321, metrics), "seen: a tenant's part");
    assert_has(ask_as(become_user, 54322, metrics), "seen: a tenant's part");
    assert_has(ask_as(become_user, 54323, metrics), "seen: all");
    assert_has(ask_as(become_user, 54321, with_token), "seen: all");
    assert_has(rig_ask(rig.unix_listen, metrics), "seen: all");
    assert_has(rig_ask(rig_tcp(), metrics), "seen: a tenant's part");
    assert_has(rig_ask(rig_tcp(), with_token), "seen: all");
}

/* As metrics_listen is served: whoever may reach it sees all. */
static void
test_pages_without_a_token_show_all(void **state)
{
    (void)state;
    rig.config.token_rule = WP_HTTP_TOKEN_NEVER;
    rig_start();
    assert_has(rig_ask(rig_tcp(), metrics), "seen: all");
}

/* Without principals each user is its own tenant. */
static void
test_users_are_tenants(void **state)
{
    static const uint32_t uids[] = {54321};
    static const char ask[] = "GET /sandboxes/gone/ HTTP/1.0\r\n\r\n";

    (void)state;
    if (geteuid() != 0) {
        print_message("SKIP: only root can become another user\n");
        skip();
    }
    assert_int_equal(chmod(rig.dir, 0711), 0);
    rig.config.access.allow_uids = uids;
    rig.config.access.n_allow_uids = 1;
    rig_start();
    assert_begins(ask_as(become_user, 54321, ask), "HTTP/1.1 404 ");
    rig.tenant = "uid:54321";
    assert_begins(ask_as(become_user, 54321, ask), "HTTP/1.1 502 ");
    assert_begins(ask_as(become_user, 54322, ask), "HTTP/1.1 403 ");
}

static void
test_nobody_comes_from_inside_a_sandbox(void **state)
{
    const char *answer;

    (void)state;
    rig_start();
    answer = ask_as(become_sandboxed, 0, metrics);
    if (answer[0] == '\0') {
        print_message("SKIP: nobody may make a user namespace here\n");
        skip();
    }
    assert_begins(answer, "HTTP/1.1 403 ");
}

/* --- Listening --- */

static void
test_listen_refusals(void **state)
{
    struct wp_err err;
    struct wp_gateway *second;
    char path[128];

    (void)state;
    rig_start();
    second = wp_gateway_create(&rig.config, &err);
    assert_null(second);
    assert_has(err.msg, "another process listens there");
    rig.listen[0] = "0.0.0.0:0";
    assert_null(wp_gateway_create(&rig.config, &err));
    assert_has(err.msg, "loopback only");
    (void)snprintf(path, sizeof path, "unix:%s", rig.dir);
    rig.listen[0] = path;
    assert_null(wp_gateway_create(&rig.config, &err));
    assert_has(err.msg, "is not a socket");
    rig.listen[0] = "unix:/nonexistent/deeper/x";
    assert_null(wp_gateway_create(&rig.config, &err));
    assert_has(err.msg, "making directory /nonexistent/deeper");
}

/* Pages for a cluster's probes and scrapers. */
static void
test_listen_anywhere(void **state)
{
    (void)state;
    rig.listen[1] = "0.0.0.0:0";
    rig.config.anywhere = true;
    rig_start();
    assert_has(wp_gateway_address(rig.server, 1), "0.0.0.0:");
}

/* The socket of a daemon that was killed is taken over. */
static void
test_stale_socket(void **state)
{
    struct wp_address address;
    struct wp_err err;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)state;
    assert_int_equal(
        wp_address_parse(wp_str_from(rig.unix_listen), &address, &err), WP_OK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address.sa, address.len), 0);
    (void)close(fd);
    rig_start();
    assert_begins(rig_ask(rig.unix_listen, "GET /hello HTTP/1.0\r\n\r\n"),
                  "HTTP/1.1 200 ");
}

/* Another program's socket that does not take our kind of connection. */
static void
test_live_socket_is_left_alone(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct wp_err err = {.msg = ""};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    struct stat before;
    struct stat after;

    (void)state;
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%.90s/h",
                   rig.dir);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(lstat(address.sun_path, &before), 0);
    assert_null(wp_gateway_create(&rig.config, &err));
    assert_has(err.msg, "another process listens there");
    assert_int_equal(lstat(address.sun_path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    (void)close(fd);
    assert_int_equal(unlink(address.sun_path), 0);
    /* Nor is a socket taken away at the end that has come in place of ours. */
    rig_start();
    assert_int_equal(unlink(address.sun_path), 0);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    wp_gateway_destroy(rig.server);
    rig.server = NULL;
    assert_int_equal(unlink(address.sun_path), 0);
    (void)close(fd);
}

/* A client that has said all is answered all that it has asked, each in full. */
static void
assert_answered_in_full(int fd)
{
    static char buffer[1 << 16];
    size_t got = 0;
    ssize_t n;

    rig_send_text(fd, "GET /hello HTTP/1.1\r\n\r\nGET /big HTTP/1.1\r\n\r\n"
                      "GET /big HTTP/1.1\r\n\r\n");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    while ((n = recv(fd, buffer, sizeof buffer, 0)) > 0) {
        got += (size_t)n;
    }
    assert_int_equal(n, 0);
    assert_in_range(got, 2 * RIG_BIG, 2 * RIG_BIG + 2000);
    (void)close(fd);
}

static void
test_half_closed_client_is_answered(void **state)
{
    (void)state;
    rig_start();
    assert_answered_in_full(rig_dial(rig_tcp()));
    assert_answered_in_full(rig_dial(rig.unix_listen));
}

/* Of a request that never becomes whole, nothing is done. */
static void
test_half_closed_in_a_request(void **state)
{
    static const char *const cut[] = {
        "GET /hello HTTP/1.1\r\nX-Cut",
        "GET /hello HTTP/1.1\r\n\r\nGET /he",
    };

    (void)state;
    rig_start();
    for (size_t i = 0; i < WP_ARRAY_LEN(cut); i++) {
        int fd = rig_dial(rig_tcp());

        rig_send_text(fd, cut[i]);
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
        (void)rig_read_until(fd, NULL, rig.answer, sizeof rig.answer);
        (void)close(fd);
        assert_begins(rig.answer, i == 0 ? "" : "HTTP/1.1 200 OK\r\n");
        assert_int_equal(rig_stats().requests_total, i);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_pages),
        RIG_TEST(test_pipelining),
        RIG_TEST(test_long_head_is_refused),
        RIG_TEST(test_slow_head_is_dropped),
        RIG_TEST(test_idle_connection_is_closed),
        RIG_TEST(test_connections_are_bounded),
        RIG_TEST(test_each_peer_is_bounded),
        RIG_TEST(test_probes_have_room_of_their_own),
        RIG_TEST(test_without_descriptors),
        RIG_TEST(test_tenants_on_the_unix_socket),
        RIG_TEST(test_users_are_tenants),
        RIG_TEST(test_tenants_see_a_part_of_pages),
        RIG_TEST(test_pages_without_a_token_show_all),
        RIG_TEST(test_nobody_comes_from_inside_a_sandbox),
        RIG_TEST(test_live_socket_is_left_alone),
        RIG_TEST(test_listen_refusals),
        RIG_TEST(test_listen_anywhere),
        RIG_TEST(test_stale_socket),
        RIG_TEST(test_half_closed_client_is_answered),
        RIG_TEST(test_half_closed_in_a_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
