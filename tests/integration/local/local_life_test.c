/* tests/integration/local/local_life_test.c - the life of real sandboxes: they
 * become ready, answer, are lost or destroyed, and each end is told. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/backend_local.h"
#include "pool/base/clock.h"
#include "tests/support/local/local_rig.h"

/* Eight become ready, answer, and leave neither process nor directory. */
static void
test_eight_ready_and_gone(void **state)
{
    static struct local_rig rig;
    static char answer[4096];
    int outer[8];
    int inner[8];
    struct wp_local_stats stats;

    (void)state;
    local_rig_init_runtime(&rig);
    local_rig_start(&rig);
    for (uint32_t i = 0; i < 8; i++) {
        local_rig_create(&rig, i, PATIENCE_MS);
    }
    for (uint32_t i = 0; i < 8; i++) {
        local_rig_wait(&rig, i, RIG_READY, PATIENCE_MS);
        (void)local_rig_request(&rig, i,
                                "GET /healthz HTTP/1.1\r\nHost: x\r\n"
                                "Connection: close\r\n\r\n",
                                answer, sizeof answer);
        assert_non_null(strstr(answer, "HTTP/1.1 200"));
        local_rig_pids(&rig, i, &outer[i], &inner[i]);
        assert_true(local_rig_alive(inner[i]));
    }
    wp_local_stats(rig.local, &stats);
    assert_int_equal(stats.ready, 8);
    for (uint32_t i = 0; i < 8; i++) {
        local_rig_destroy(&rig, i);
        local_rig_destroy(&rig, i); /* Idempotent. */
    }
    for (uint32_t i = 0; i < 8; i++) {
        local_rig_wait(&rig, i, RIG_DESTROYED, PATIENCE_MS);
        assert_false(local_rig_alive(outer[i]));
        assert_false(local_rig_alive(inner[i]));
        assert_false(local_rig_has_dir(&rig, i));
        assert_int_equal(rig.slots[i].destroyed, 1);
        assert_int_equal(rig.slots[i].ready, 1);
        assert_int_equal(rig.slots[i].lost, 0);
    }
    wp_local_stats(rig.local, &stats);
    assert_int_equal(stats.ready + stats.dying + stats.starting + stats.queued,
                     0);
    local_rig_fini(&rig);
}

/* Destroying at any moment of the start reports one end each. */
static void
test_destroy_while_starting(void **state)
{
    static struct local_rig rig;

    (void)state;
    local_rig_init_runtime(&rig);
    rig.config.spawns_max = 4;
    local_rig_start(&rig);
    for (uint32_t i = 0; i < 24; i++) {
        local_rig_create(&rig, i, PATIENCE_MS);
        (void)usleep(i * 500);
        local_rig_destroy(&rig, i);
    }
    for (uint32_t i = 0; i < 24; i++) {
        local_rig_wait(&rig, i, RIG_DESTROYED, PATIENCE_MS);
        assert_int_equal(rig.slots[i].destroyed, 1);
        assert_false(local_rig_has_dir(&rig, i));
    }
    local_rig_fini(&rig);
}

/* The program's end is reported at once, with its status and last words. */
static void
test_exit_is_told(void **state)
{
    static const char *const argv[] = {
        "/bin/sh", "-c", "echo cannot find my keys; exit 3", NULL};
    static struct local_rig rig;

    (void)state;
    local_rig_init(&rig, argv);
    local_rig_start(&rig);
    local_rig_create(&rig, 0, PATIENCE_MS);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    assert_string_equal(rig.slots[0].reason,
                        "exited with status 3: cannot find my keys");
    assert_int_equal(rig.slots[0].ready, 0);
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS);
    local_rig_fini(&rig);
}

static void
test_missing_program_is_told(void **state)
{
    static const char *const argv[] = {"no-such-program", NULL};
    static struct local_rig rig;

    (void)state;
    local_rig_init(&rig, argv);
    local_rig_start(&rig);
    local_rig_create(&rig, 0, PATIENCE_MS);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    assert_string_equal(
        rig.slots[0].reason,
        "cannot start 'no-such-program': No such file or directory");
    local_rig_fini(&rig);
}

/* A program that never listens is lost when its time is over. */
static void
test_never_ready(void **state)
{
    static const char *const argv[] = {"/bin/sleep", "1000", NULL};
    static struct local_rig rig;

    (void)state;
    local_rig_init(&rig, argv);
    local_rig_start(&rig);
    local_rig_create(&rig, 0, 300);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    assert_string_equal(rig.slots[0].reason, "its port did not answer in time");
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS);
    local_rig_fini(&rig);
}

/* A probe that is answered, but not healthily, makes no sandbox ready. */
static void
test_unhealthy(void **state)
{
    static struct local_rig rig;

    (void)state;
    local_rig_init_runtime(&rig);
    rig.tmpl.probe_path = "/no-such-page";
    local_rig_start(&rig);
    local_rig_create(&rig, 0, 1500);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    assert_string_equal(rig.slots[0].reason,
                        "its port gave no healthy answer in time");
    local_rig_fini(&rig);
}

/* The program answers on its port, but not through the socket until the sandbox
 * is lost: it stays lost. */
static void
test_healthy_too_late(void **state)
{
    static const char *const argv[] = {
        "/usr/bin/python3", "-c",
        "import socket\n"
        "ok=b'HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n'\n"
        "s=socket.create_server(('127.0.0.1',8080))\n"
        "c=s.accept()[0]; c.recv(999); c.sendall(ok); c.close()\n"
        "late=s.accept()[0]; late.recv(999)\n"
        "while True:\n"
        "  c=s.accept()[0]\n"
        "  if late: late.sendall(ok); late.close(); late=None\n"
        "  c.recv(999); c.sendall(ok); c.close()\n",
        NULL};
    static struct local_rig rig;
    char answer[256];

    (void)state;
    local_rig_init(&rig, argv);
    rig.tmpl.probe = WP_READY_HTTP;
    rig.tmpl.probe_path = "/";
    local_rig_start(&rig);
    local_rig_create(&rig, 0, 10000);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    assert_string_equal(rig.slots[0].reason,
                        "not healthy in time through its socket");
    assert_in_range(
        snprintf(rig.slots[0].endpoint, sizeof rig.slots[0].endpoint,
                 "unix:%s/sandboxes/p-00000000/port.sock", rig.state_dir),
        1, sizeof rig.slots[0].endpoint - 1);
    /* Twice: what was answered before the first has been read at the second. */
    for (int i = 0; i < 2; i++) {
        (void)local_rig_request(&rig, 0, "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                answer, sizeof answer);
        assert_non_null(strstr(answer, "HTTP/1.1 200"));
    }
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS);
    assert_int_equal(rig.slots[0].ready, 0);
    assert_int_equal(rig.slots[0].lost, 1);
    local_rig_fini(&rig);
}

/* The answer's first line comes in pieces. */
static void
test_answer_in_pieces(void **state)
{
    static const char *const argv[] = {
        "/usr/bin/python3", "-c",
        "import socket,time\n"
        "s=socket.create_server(('127.0.0.1',8080))\n"
        "while True:\n"
        "  c=s.accept()[0]; c.recv(999); c.sendall(b'HTTP/1.1')\n"
        "  time.sleep(0.2)\n"
        "  c.sendall(b' 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n')\n"
        "  c.close()\n",
        NULL};
    static struct local_rig rig;

    (void)state;
    local_rig_init(&rig, argv);
    rig.tmpl.probe = WP_READY_HTTP;
    rig.tmpl.probe_path = "/";
    local_rig_start_one(&rig);
    local_rig_wait(&rig, 0, RIG_READY, PATIENCE_MS);
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS);
    assert_int_equal(rig.slots[0].lost, 0);
    local_rig_fini(&rig);
}

/* SIGKILL from outside, to process 1 or to bwrap, is noticed at once. */
static void
test_killed_is_noticed(void **state)
{
    static struct local_rig rig;
    int outer;
    int inner;

    (void)state;
    local_rig_init_runtime(&rig);
    local_rig_start(&rig);
    for (uint32_t i = 0; i < 2; i++) {
        local_rig_create(&rig, i, PATIENCE_MS);
        local_rig_wait(&rig, i, RIG_READY, PATIENCE_MS);
        local_rig_pids(&rig, i, &outer, &inner);
        assert_int_equal(kill(i == 0 ? inner : outer, SIGKILL), 0);
        local_rig_wait(&rig, i, RIG_LOST, PATIENCE_MS);
        local_rig_destroy(&rig, i);
        local_rig_wait(&rig, i, RIG_DESTROYED, PATIENCE_MS);
        assert_false(local_rig_alive(outer));
        assert_false(local_rig_alive(inner));
    }
    local_rig_fini(&rig);
}

/* Alive but deaf: found by the liveness probe. */
static void
test_deaf_is_noticed(void **state)
{
    static const char *const argv[] = {
        "/usr/bin/python3", "-c",
        "import socket,time\n"
        "s=socket.socket()\n"
        "s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1)\n"
        "s.bind(('127.0.0.1',8080))\n"
        "s.listen()\n"
        "time.sleep(3)\n"
        "s.close()\n"
        "time.sleep(1000)\n",
        NULL};
    static struct local_rig rig;

    (void)state;
    local_rig_init(&rig, argv);
    rig.config.probe_every_ms = 40;
    local_rig_start_one(&rig);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    assert_string_equal(rig.slots[0].reason,
                        "its port does not answer, 3 times in a row");
    local_rig_fini(&rig);
}

/* A sandbox destroyed while its readiness is looked at: the answer that comes in
 * its grace makes nothing ready again, and its end is reported. */
static void
test_destroy_during_readiness_check(void **state)
{
    static const char *const argv[] = {
        "/usr/bin/python3", "-c",
        "import http.server,signal,time\n"
        "signal.signal(signal.SIGTERM,signal.SIG_IGN)\n"
        "n=0\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "  def do_GET(self):\n"
        "    global n\n"
        "    n+=1\n"
        "    if n==2:\n"
        "      open('/workspace/second','w').close(); time.sleep(2)\n"
        "    self.send_response(200); self.end_headers()\n"
        "http.server.HTTPServer(('127.0.0.1',8080),H).serve_forever()\n",
        NULL};
    static struct local_rig rig;
    struct wp_local_stats stats;
    char path[128];
    int outer = 0;
    int inner = 0;

    (void)state;
    if (geteuid() != 0) {
        print_message("SKIP: looking into a sandbox needs root\n");
        skip();
    }
    local_rig_init(&rig, argv);
    rig.tmpl.probe = WP_READY_HTTP;
    rig.tmpl.probe_path = "/";
    rig.config.stop_grace_ms = 5000;
    local_rig_start(&rig);
    local_rig_create(&rig, 0, PATIENCE_MS);
    (void)snprintf(path, sizeof path, "%s/sandboxes/p-00000000/record",
                   rig.state_dir);
    for (int i = 0; i < PATIENCE_MS && access(path, F_OK) != 0; i++) {
        (void)usleep(1000);
    }
    local_rig_pids(&rig, 0, &outer, &inner);
    (void)snprintf(path, sizeof path, "/proc/%d/root/workspace/second", inner);
    for (int i = 0; i < PATIENCE_MS && access(path, F_OK) != 0; i++) {
        (void)usleep(1000);
    }
    assert_int_equal(access(path, F_OK), 0);
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS);
    assert_int_equal(rig.slots[0].ready, 0);
    assert_int_equal(rig.slots[0].lost, 0);
    wp_local_stats(rig.local, &stats);
    assert_int_equal(stats.ready, 0);
    local_rig_fini(&rig);
}

/* With a grace the program hears SIGTERM and may end by itself. */
static void
test_grace(void **state)
{
    static const char *const argv[] = {
        "/bin/sh", "-c",
        "trap \"exit 0\" TERM; python3 -m http.server 8080 & wait", NULL};
    static struct local_rig rig;

    (void)state;
    local_rig_init(&rig, argv);
    rig.config.stop_grace_ms = PATIENCE_MS;
    local_rig_start_one(&rig);
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS / 2);
    local_rig_fini(&rig);
}

/* A template is put in the place of another: new sandboxes are made from it,
 * what lives keeps its own. One that is refused changes nothing. */
static void
test_template_changes(void **state)
{
    static const char *const first[] = {"SAYS=first", NULL};
    static const char *const second[] = {"SAYS=second", NULL};
    static struct local_rig rig;
    struct wp_template later;
    struct wp_template bad;
    struct wp_template other;
    struct wp_err err;
    char out[64];
    uint64_t hash;

    (void)state;
    local_rig_init_runtime(&rig);
    rig.tmpl.env = first;
    local_rig_start_one(&rig);
    later = rig.tmpl;
    later.env = second;
    assert_int_equal(wp_local_add_template(rig.local, &later, &err), WP_OK);
    bad = later;
    bad.image = "missing";
    assert_int_equal(wp_local_add_template(rig.local, &bad, &err),
                     WP_FAILED_PRECONDITION);
    assert_non_null(strstr(err.msg, "image 'missing'"));
    hash =
        wp_local_template_hash(rig.local, wp_str_from(later.template_namespace),
                               wp_str_from(later.name));
    assert_true(hash == wp_template_hash(&later));
    assert_true(hash != wp_template_hash(&rig.tmpl));
    local_rig_create(&rig, 1, PATIENCE_MS);
    local_rig_wait(&rig, 1, RIG_READY, PATIENCE_MS);
    assert_int_equal(local_rig_execute(&rig, 1, "echo $SAYS", out, sizeof out),
                     0);
    assert_string_equal(out, "second\n");
    assert_int_equal(local_rig_execute(&rig, 0, "echo $SAYS", out, sizeof out),
                     0);
    assert_string_equal(out, "first\n");
    /* And one that is new. */
    other = later;
    (void)snprintf(other.name, sizeof other.name, "other");
    assert_true(wp_local_template_hash(rig.local,
                                       wp_str_from(other.template_namespace),
                                       WP_STR("other")) == 0);
    assert_int_equal(wp_local_add_template(rig.local, &other, &err), WP_OK);
    assert_true(wp_local_template_hash(rig.local,
                                       wp_str_from(other.template_namespace),
                                       WP_STR("other")) == hash);
    local_rig_fini(&rig);
}

/* stop() destroys what lives and reports each end. */
static void
test_stop_with_live_sandboxes(void **state)
{
    static struct local_rig rig;
    char path[128];

    (void)state;
    local_rig_init_runtime(&rig);
    local_rig_start(&rig);
    for (uint32_t i = 0; i < 6; i++) {
        local_rig_create(&rig, i, PATIENCE_MS);
    }
    local_rig_wait(&rig, 0, RIG_READY, PATIENCE_MS);
    assert_int_equal(wp_local_stop(rig.local, 20 * WP_NS_PER_S), 0);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(rig.slots[i].destroyed, 1);
        assert_false(local_rig_has_dir(&rig, i));
    }
    wp_local_destroy(rig.local);
    rig.local = NULL;
    (void)snprintf(path, sizeof path, "%s/roots", rig.state_dir);
    assert_int_equal(access(path, F_OK), -1);
    local_rig_fini(&rig);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eight_ready_and_gone),
        cmocka_unit_test(test_destroy_while_starting),
        cmocka_unit_test(test_exit_is_told),
        cmocka_unit_test(test_missing_program_is_told),
        cmocka_unit_test(test_never_ready),
        cmocka_unit_test(test_unhealthy),
        cmocka_unit_test(test_healthy_too_late),
        cmocka_unit_test(test_answer_in_pieces),
        cmocka_unit_test(test_killed_is_noticed),
        cmocka_unit_test(test_deaf_is_noticed),
        cmocka_unit_test(test_destroy_during_readiness_check),
        cmocka_unit_test(test_grace),
        cmocka_unit_test(test_template_changes),
        cmocka_unit_test(test_stop_with_live_sandboxes),
    };

    if (!local_rig_begin(argc, argv, NULL)) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
