/* tests/integration/local_adopt_test.c - sandboxes that outlive their daemon.
 *
 * The first daemon is a process of its own, killed with SIGKILL or told to
 * leave; the test's process is the next one. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/backend_local.h"
#include "local/cgroup.h"
#include "local/record.h"
#include "local/rootfs.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"
#include "tests/support/local_rig.h"

static const char *const runtime[] = {"warmpool-runtime", "--port",     "8080",
                                      "--workspace",      "/workspace", NULL};

/* A generous limit: the machine may be busy. */
enum {
    PATIENCE_MS = 120000
};

#define HEALTH "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

/* --- The first daemon --- */

/* Of the running test, for the cleaning up after one that failed: what outlives
 * a daemon would outlive the tests. */
static char state_dir_now[80];
static pid_t daemon_now;

struct daemon {
    pid_t pid;
    int orders; /* Its standard input. */
    int news;   /* Its standard output. */
};

static void
use_runtime(struct local_rig *rig)
{
    local_rig_init(rig, runtime);
    rig->tmpl.probe = WP_READY_HTTP;
    rig->tmpl.probe_path = "/healthz";
    rig->config.outlive = true;
}

/* Makes `count` sandboxes, waits for `ready` of them, says so, and goes on
 * until it is killed or reads a byte: then it leaves as for a restart. */
static int
daemon_main(const char *state_dir, uint32_t count, uint32_t ready)
{
    static struct local_rig rig;
    char byte;

    use_runtime(&rig);
    (void)rmdir(rig.dir);
    rig.config.state_dir = state_dir;
    (void)snprintf(rig.state_dir, sizeof rig.state_dir, "%s", state_dir);
    local_rig_start(&rig);
    for (uint32_t i = 0; i < count; i++) {
        local_rig_create(&rig, i, PATIENCE_MS);
    }
    for (uint32_t i = 0; i < ready; i++) {
        local_rig_wait(&rig, i, RIG_READY, PATIENCE_MS);
    }
    if (write(STDOUT_FILENO, "r", 1) != 1 ||
        read(STDIN_FILENO, &byte, 1) != 1) {
        return 1;
    }
    return wp_local_leave(rig.local, 20 * WP_NS_PER_S) == 0 ? 0 : 1;
}

/* Where the next daemon_start puts it, in the group "first"; NULL: with us. */
static const struct wp_cgroups *elsewhere;

static struct daemon
daemon_start(const struct local_rig *rig, const char *count, const char *ready)
{
    int procs[WP_CGROUP_TREES_MAX];
    int procs_len = 0;
    struct daemon daemon;
    int orders[2];
    int news[2];
    char byte;

    assert_int_equal(pipe2(orders, O_CLOEXEC), 0);
    assert_int_equal(pipe2(news, O_CLOEXEC), 0);
    (void)snprintf(state_dir_now, sizeof state_dir_now, "%s", rig->state_dir);
    if (elsewhere != NULL) {
        procs_len = wp_cgroup_open_procs(elsewhere, "first", procs);
        assert_in_range(procs_len, 1, WP_CGROUP_TREES_MAX);
    }
    daemon = (struct daemon){fork(), orders[1], news[0]};
    assert_in_range(daemon.pid, 0, 1 << 22);
    if (daemon.pid == 0) {
        for (int i = 0; i < procs_len; i++) {
            if (write(procs[i], "0", 1) != 1) {
                _exit(126);
            }
        }
        (void)dup2(orders[0], STDIN_FILENO);
        (void)dup2(news[1], STDOUT_FILENO);
        (void)execl("/proc/self/exe", "daemon", rig->state_dir, count, ready,
                    (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < procs_len; i++) {
        (void)close(procs[i]);
    }
    daemon_now = daemon.pid;
    (void)close(orders[0]);
    (void)close(news[1]);
    assert_int_equal(read(daemon.news, &byte, 1), 1);
    return daemon;
}

static int
daemon_end(struct daemon *daemon)
{
    int status;

    assert_int_equal(waitpid(daemon->pid, &status, 0), daemon->pid);
    daemon_now = 0;
    (void)close(daemon->orders);
    (void)close(daemon->news);
    return status;
}

static void
daemon_kill(struct daemon *daemon)
{
    assert_int_equal(kill(daemon->pid, SIGKILL), 0);
    (void)daemon_end(daemon);
}

static int
clean_up(void **state)
{
    char path[200];
    const struct dirent *entry;
    DIR *dir;

    (void)state;
    if (daemon_now > 0) {
        (void)kill(daemon_now, SIGKILL);
        (void)waitpid(daemon_now, NULL, 0);
        daemon_now = 0;
    }
    (void)snprintf(path, sizeof path, "%s/sandboxes", state_dir_now);
    dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        struct wp_record record;
        int fd = -1;

        (void)snprintf(path, sizeof path, "%s/sandboxes/%.60s", state_dir_now,
                       entry->d_name);
        if (wp_record_read(path, &record)) {
            fd = wp_process_open(record.inner_pid, record.inner_start);
        }
        if (fd >= 0) {
            (void)kill(record.inner_pid, SIGKILL);
            (void)close(fd);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return 0;
}

/* --- The next one --- */

/* What adopt was asked, by index; and what it is to answer. */
static uint64_t unwanted;
static uint32_t asked[LOCAL_RIG_SLOTS];
static bool current[LOCAL_RIG_SLOTS];

static bool
adopt(void *ctx, const struct wp_local_found *found, struct wp_slot_ref *ref)
{
    struct local_rig *rig = ctx;
    uint8_t uid[WP_UID_LEN];
    char name[16];
    uint32_t index;

    assert_true(wp_str_starts_with(found->name, WP_STR("p-")));
    index = (uint32_t)strtoul(found->name.ptr + 2, NULL, 16);
    assert_in_range(index, 0, LOCAL_RIG_SLOTS - 1);
    local_rig_name(index, name);
    assert_true(wp_str_is(found->name, name));
    assert_true(wp_str_is(found->pool_namespace, "default"));
    assert_true(wp_str_is(found->pool, "p"));
    assert_true(wp_str_is(found->template_name, "t"));
    memset(uid, (int)index, sizeof uid);
    assert_memory_equal(found->uid, uid, sizeof uid);
    asked[index]++;
    current[index] = found->template_current;
    if ((unwanted >> index & 1) != 0) {
        return false;
    }
    (void)snprintf(rig->slots[index].endpoint, sizeof rig->slots[0].endpoint,
                   "%.*s", WP_STR_ARG(found->endpoint));
    *ref = (struct wp_slot_ref){index, 1};
    return true;
}

static void
use_adoption(struct local_rig *rig)
{
    use_runtime(rig);
    rig->adopt = adopt;
    unwanted = 0;
    memset(asked, 0, sizeof asked);
    memset(current, 0, sizeof current);
}

/* Where sandbox index answers, for calls while no daemon runs. */
static void
know_endpoint(struct local_rig *rig, uint32_t index)
{
    char name[16];

    local_rig_name(index, name);
    (void)snprintf(rig->slots[index].endpoint, sizeof rig->slots[0].endpoint,
                   "unix:%.60s/sandboxes/%s/port.sock", rig->state_dir, name);
}

static void
expect_answer(struct local_rig *rig, uint32_t index)
{
    static char answer[4096];

    (void)local_rig_request(rig, index, HEALTH, answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 200"));
}

static bool
has_dir(const struct local_rig *rig, uint32_t index)
{
    char path[160];
    char name[16];

    local_rig_name(index, name);
    (void)snprintf(path, sizeof path, "%s/sandboxes/%s", rig->state_dir, name);
    return access(path, F_OK) == 0;
}

/* In any hierarchy that a daemon of this directory has used. */
static bool
has_group(const struct local_rig *rig, uint32_t index)
{
    char path[700];
    char line[512];
    char name[16];
    bool found = false;
    FILE *file;

    local_rig_name(index, name);
    (void)snprintf(path, sizeof path, "%s/cgroups", rig->state_dir);
    file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        (void)snprintf(path, sizeof path, "%s/%s", line, name);
        found |= line[0] != '\0' && access(path, F_OK) == 0;
    }
    (void)fclose(file);
    return found;
}

static void
expect_nothing_left(const struct local_rig *rig, uint32_t index, int outer,
                    int inner)
{
    assert_false(local_rig_alive(outer));
    assert_false(local_rig_alive(inner));
    assert_false(has_dir(rig, index));
    assert_false(has_group(rig, index));
}

static void
record_path(const struct local_rig *rig, uint32_t index, char out[160])
{
    char name[16];

    local_rig_name(index, name);
    (void)snprintf(out, 160, "%s/sandboxes/%s/record", rig->state_dir, name);
}

/* Gives the line `key` of a record another value. */
static void
edit_record(const struct local_rig *rig, uint32_t index, const char *key,
            const char *value)
{
    char text[2048];
    char line[32];
    char path[160];
    const char *at;
    size_t n;
    FILE *file;

    record_path(rig, index, path);
    file = fopen(path, "re");
    assert_non_null(file);
    n = fread(text, 1, sizeof text - 1, file);
    text[n] = '\0';
    (void)fclose(file);
    (void)snprintf(line, sizeof line, "\n%s ", key);
    at = strstr(text, line);
    assert_non_null(at);
    at += strlen(line);
    file = fopen(path, "we");
    assert_non_null(file);
    (void)fprintf(file, "%.*s%s%s", (int)(at - text), text, value,
                  strchr(at, '\n'));
    (void)fclose(file);
}

/* --- Tests --- */

/* After kill -9: wanted ones serve on at the same place through all of it, the
 * rest goes, and the next daemon supervises as if they were its own. */
static void
test_killed(void **state)
{
    static struct local_rig rig;
    static char answer[4096];
    char out[256];
    int outer[6];
    int inner[6];
    int stream;
    struct daemon daemon;
    struct wp_local_stats stats;

    (void)state;
    use_adoption(&rig);
    daemon = daemon_start(&rig, "6", "6");
    for (uint32_t i = 0; i < 6; i++) {
        local_rig_pids(&rig, i, &outer[i], &inner[i]);
        know_endpoint(&rig, i);
    }
    stream = local_rig_send(&rig, 0,
                            "POST /execute HTTP/1.1\r\nHost: x\r\n"
                            "Connection: close\r\nContent-Length: 85\r\n"
                            "Content-Type: application/json\r\n\r\n"
                            "{\"command\": \"sh -c 'until test -e"
                            " /workspace/go; do sleep 0.02; done; echo"
                            " through'\"}  ");
    daemon_kill(&daemon);
    assert_int_equal(kill(inner[1], SIGKILL), 0);
    local_rig_wait_gone(inner[1], PATIENCE_MS);
    expect_answer(&rig, 0);
    unwanted = 1U << 2;
    edit_record(&rig, 3, "ready", "0");
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 3);
    assert_int_equal(rig.sweep.sandboxes, 3);
    assert_int_equal(rig.sweep.failed, 0);
    assert_int_equal(asked[1] + asked[3], 0);
    for (uint32_t i = 1; i < 4; i++) {
        expect_nothing_left(&rig, i, outer[i], inner[i]);
    }
    assert_true(current[0]);
    wp_local_stats(rig.local, &stats);
    assert_int_equal(stats.ready, 3);
    /* Its root is whole, and what was under way goes on. */
    assert_int_equal(local_rig_execute(&rig, 0,
                                       "cat /etc/passwd >/dev/null &&"
                                       " touch /workspace/go && echo whole",
                                       out, sizeof out),
                     0);
    assert_string_equal(out, "whole\n");
    (void)local_rig_receive(stream, answer, sizeof answer);
    assert_non_null(strstr(answer, "through"));
    assert_int_equal(kill(inner[4], SIGKILL), 0);
    local_rig_wait(&rig, 4, RIG_LOST, PATIENCE_MS);
    local_rig_destroy(&rig, 4);
    local_rig_destroy(&rig, 5);
    for (uint32_t i = 4; i < 6; i++) {
        local_rig_wait(&rig, i, RIG_DESTROYED, PATIENCE_MS);
        expect_nothing_left(&rig, i, outer[i], inner[i]);
    }
    assert_int_equal(rig.slots[5].lost, 0);
    assert_int_equal(rig.slots[0].ready + rig.slots[5].ready, 0);
    local_rig_fini(&rig);
    assert_false(local_rig_alive(inner[0]));
}

/* Two daemons after the first one: roots, groups and users are kept for those
 * who need them, and new sandboxes get users of their own. */
static void
test_killed_twice(void **state)
{
    static struct local_rig rig;
    char out[256];
    int outer;
    int inner;
    struct daemon daemon;

    (void)state;
    use_adoption(&rig);
    daemon = daemon_start(&rig, "2", "2");
    daemon_kill(&daemon);
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 2);
    local_rig_create(&rig, 2, PATIENCE_MS);
    local_rig_wait(&rig, 2, RIG_READY, PATIENCE_MS);
    assert_int_equal(wp_local_leave(rig.local, 20 * WP_NS_PER_S), 0);
    wp_local_destroy(rig.local);
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 3);
    local_rig_create(&rig, 3, PATIENCE_MS);
    local_rig_wait(&rig, 3, RIG_READY, PATIENCE_MS);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(
            local_rig_execute(&rig, i, "cat /etc/passwd >/dev/null && echo x",
                              out, sizeof out),
            0);
        assert_string_equal(out, "x\n");
    }
    if (geteuid() == 0) {
        unsigned uids[4];

        for (uint32_t i = 0; i < 4; i++) {
            struct stat st;
            char path[64];

            local_rig_pids(&rig, i, &outer, &inner);
            (void)snprintf(path, sizeof path, "/proc/%d", outer);
            assert_int_equal(stat(path, &st), 0);
            uids[i] = st.st_uid;
            for (uint32_t k = 0; k < i; k++) {
                assert_int_not_equal(uids[k], uids[i]);
            }
        }
    }
    local_rig_fini(&rig);
}

/* The first daemon was in another control group, and so are its sandboxes: they
 * are found there by the second and the third. */
static void
test_other_group(void **state)
{
    static struct local_rig rig;
    const struct wp_cgroup_limits none = {.memory_bytes = 0};
    struct wp_cgroups groups;
    struct wp_err err;
    struct daemon daemon;
    char name[48];
    int outer[3];
    int inner[3];

    (void)state;
    (void)snprintf(name, sizeof name, "wp-adopt-test-%d", (int)getpid());
    wp_cgroups_open(&groups, "/proc/self/mountinfo", "/proc/self/cgroup", name);
    if (groups.kind != WP_CGROUP_V1) {
        print_message("not checked: no control groups of version 1 here\n");
        wp_cgroups_close(&groups);
        return;
    }
    assert_int_equal(wp_cgroup_make(&groups, "first", &none, &err), WP_OK);
    use_adoption(&rig);
    elsewhere = &groups;
    daemon = daemon_start(&rig, "3", "3");
    elsewhere = NULL;
    for (uint32_t i = 0; i < 3; i++) {
        local_rig_pids(&rig, i, &outer[i], &inner[i]);
    }
    daemon_kill(&daemon);
    unwanted = 1;
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 2);
    expect_nothing_left(&rig, 0, outer[0], inner[0]);
    assert_true(has_group(&rig, 1));
    local_rig_destroy(&rig, 1);
    local_rig_wait(&rig, 1, RIG_DESTROYED, PATIENCE_MS);
    expect_nothing_left(&rig, 1, outer[1], inner[1]);
    assert_int_equal(wp_local_leave(rig.local, 20 * WP_NS_PER_S), 0);
    wp_local_destroy(rig.local);
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 1);
    assert_true(has_group(&rig, 2));
    local_rig_destroy(&rig, 2);
    local_rig_wait(&rig, 2, RIG_DESTROYED, PATIENCE_MS);
    expect_nothing_left(&rig, 2, outer[2], inner[2]);
    local_rig_fini(&rig);
    assert_true(wp_cgroup_remove(&groups, "first"));
    wp_cgroups_close(&groups);
}

/* A daemon that leaves takes what is not ready with it, and reports only that.
 */
static void
test_left(void **state)
{
    static struct local_rig rig;
    struct daemon daemon;
    int status;

    (void)state;
    use_adoption(&rig);
    daemon = daemon_start(&rig, "12", "3");
    assert_int_equal(write(daemon.orders, "l", 1), 1);
    status = daemon_end(&daemon);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    local_rig_start(&rig);
    assert_in_range(rig.sweep.adopted, 3, 12);
    assert_int_equal(rig.sweep.sandboxes, 0);
    assert_int_equal(rig.sweep.cgroups, 0);
    for (uint32_t i = 0; i < 12; i++) {
        assert_int_equal(asked[i] != 0, has_dir(&rig, i));
        if (asked[i] != 0) {
            expect_answer(&rig, i);
        }
    }
    local_rig_fini(&rig);
}

/* Without the setting nothing can be left. */
static void
test_nothing_outlives(void **state)
{
    static struct local_rig rig;

    (void)state;
    use_adoption(&rig);
    rig.config.outlive = false;
    local_rig_start(&rig);
    local_rig_create(&rig, 0, PATIENCE_MS);
    local_rig_wait(&rig, 0, RIG_READY, PATIENCE_MS);
    assert_int_equal(wp_local_leave(rig.local, 20 * WP_NS_PER_S), 0);
    assert_int_equal(rig.slots[0].destroyed, 1);
    local_rig_fini(&rig);
}

/* By their records. */
static uint32_t
count_ready(const struct local_rig *rig, uint32_t n)
{
    uint32_t ready = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct wp_record record;
        char dir[160];
        char name[16];

        local_rig_name(i, name);
        (void)snprintf(dir, sizeof dir, "%s/sandboxes/%s", rig->state_dir,
                       name);
        ready += wp_record_read(dir, &record) && record.ready ? 1 : 0;
    }
    return ready;
}

/* Killed in the middle of many starts: what was not ready ends by itself, with
 * no record needed. */
static void
test_killed_while_starting(void **state)
{
    static struct local_rig rig;
    struct daemon daemon;
    char roots[100];
    int64_t end_ns;
    int bwraps = 0;

    (void)state;
    use_adoption(&rig);
    daemon = daemon_start(&rig, "24", "1");
    daemon_kill(&daemon);
    end_ns = wp_clock_mono_ns(wp_clock_system()) + PATIENCE_MS * WP_NS_PER_MS;
    (void)snprintf(roots, sizeof roots, "%s/roots/", rig.state_dir);
    /* What was not told to stay ends without another daemon. */
    while (local_rig_count_processes(roots) > (int)count_ready(&rig, 24) &&
           wp_clock_mono_ns(wp_clock_system()) < end_ns) {
        (void)usleep(1000);
    }
    assert_true(local_rig_count_processes(roots) <= (int)count_ready(&rig, 24));
    local_rig_start(&rig);
    assert_in_range(rig.sweep.adopted, 1, 24);
    assert_int_equal(rig.sweep.failed, 0);
    for (int i = 0; i < PATIENCE_MS; i++) {
        /* bwrap is two processes, its own and the one that becomes init. */
        bwraps = local_rig_count_processes(roots);
        if (bwraps == (int)rig.sweep.adopted) {
            break;
        }
        (void)usleep(1000);
    }
    assert_int_equal(bwraps, rig.sweep.adopted);
    for (uint32_t i = 0; i < 24; i++) {
        assert_int_equal(asked[i] != 0, has_dir(&rig, i));
    }
    local_rig_fini(&rig);
}

/* A start without descriptors to spare takes nothing for dead: it fails, and a
 * later one adopts all. */
static void
test_no_descriptors(void **state)
{
    static struct local_rig rig;
    const struct wp_local_events events = {.ctx = &rig, .adopt = adopt};
    struct daemon daemon;
    struct wp_local_sweep sweep;
    struct wp_err err = {.msg = ""};
    struct rlimit before;
    struct rlimit few;
    int lowest;

    (void)state;
    use_adoption(&rig);
    daemon = daemon_start(&rig, "4", "4");
    daemon_kill(&daemon);
    rig.local = wp_local_create(&rig.config, &err);
    assert_non_null(rig.local);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_in_range(lowest, 0, 1 << 20);
    (void)close(lowest);
    few = before;
    few.rlim_cur = (rlim_t)lowest + 12;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(wp_local_start(rig.local, &events, &sweep, &err),
                     WP_RESOURCE_EXHAUSTED);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_non_null(strstr(err.msg, "cannot be adopted, and is left"));
    assert_int_equal(sweep.sandboxes, 0);
    wp_local_destroy(rig.local);
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 4);
    expect_answer(&rig, 3);
    local_rig_fini(&rig);
}

/* Of a template that says something else by now, or is gone: adopted all the
 * same, and said to be so. */
static void
test_template_changed(void **state)
{
    static struct local_rig rig;
    struct daemon daemon;

    (void)state;
    use_adoption(&rig);
    daemon = daemon_start(&rig, "1", "1");
    daemon_kill(&daemon);
    rig.tmpl.memory_bytes /= 2;
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 1);
    assert_false(current[0]);
    assert_int_equal(wp_local_leave(rig.local, 20 * WP_NS_PER_S), 0);
    wp_local_destroy(rig.local);
    rig.config.templates_len = 0;
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 1);
    assert_false(current[0]);
    expect_answer(&rig, 0);
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS);
    local_rig_fini(&rig);
}

/* The channel to init works again: last words, probes, a gentle end. */
static void
test_supervised(void **state)
{
    static struct local_rig rig;
    static char answer[4096];
    struct daemon daemon;
    char out[64];
    int outer[3];
    int inner[3];

    (void)state;
    use_adoption(&rig);
    daemon = daemon_start(&rig, "3", "3");
    daemon_kill(&daemon);
    rig.config.probe_every_ms = 50;
    rig.config.stop_grace_ms = PATIENCE_MS;
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 3);
    for (uint32_t i = 0; i < 3; i++) {
        local_rig_pids(&rig, i, &outer[i], &inner[i]);
    }
    (void)local_rig_receive(
        local_rig_send(&rig, 0,
                       "POST /execute HTTP/1.1\r\nHost: x\r\n"
                       "Connection: close\r\nContent-Length: 39\r\n"
                       "Content-Type: application/json\r\n\r\n"
                       "{\"command\": \"sh -c 'kill -KILL $PPID'\"}"),
        answer, sizeof answer);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    assert_non_null(strstr(rig.slots[0].reason, "killed by SIGKILL"));
    assert_int_equal(kill(inner[1], SIGSTOP), 0);
    local_rig_wait(&rig, 1, RIG_LOST, PATIENCE_MS);
    assert_string_equal(rig.slots[1].reason,
                        "its init does not answer, 3 times in a row");
    assert_int_equal(kill(inner[1], SIGCONT), 0);
    /* The third answers its probes, and ends on SIGTERM long before its grace
     * is over. */
    assert_int_equal(local_rig_execute(&rig, 2, "echo x", out, sizeof out), 0);
    local_rig_destroy(&rig, 2);
    local_rig_wait(&rig, 2, RIG_DESTROYED, PATIENCE_MS / 2);
    assert_int_equal(rig.slots[2].lost, 0);
    expect_nothing_left(&rig, 2, outer[2], inner[2]);
    local_rig_fini(&rig);
}

/* Records of another boot, of another sandbox, cut short, or without sense: what
 * they are of is not adopted, and all of it is removed. */
static void
test_bad_records(void **state)
{
    static struct local_rig rig;
    struct daemon daemon;
    struct stat st;
    char path[200];
    int outer[8];
    int inner[8];

    (void)state;
    use_adoption(&rig);
    daemon = daemon_start(&rig, "8", "8");
    for (uint32_t i = 0; i < 8; i++) {
        local_rig_pids(&rig, i, &outer[i], &inner[i]);
    }
    daemon_kill(&daemon);
    edit_record(&rig, 0, "boot", "00000000-0000-4000-8000-000000000000");
    edit_record(&rig, 1, "name", "p-00000007");
    edit_record(&rig, 2, "endpoint", "unix:/elsewhere/port.sock");
    record_path(&rig, 3, path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 1), 0);
    record_path(&rig, 4, path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/sandboxes/p-00000005/port.sock",
                   rig.state_dir);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/sandboxes/p-00000006/control.sock",
                   rig.state_dir);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/sandboxes/a-file", rig.state_dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 1);
    assert_int_equal(rig.sweep.sandboxes, 8);
    assert_int_equal(rig.sweep.failed, 0);
    assert_int_equal(asked[7], 1);
    expect_answer(&rig, 7);
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(asked[i], 0);
        assert_false(has_dir(&rig, i));
        assert_false(has_group(&rig, i));
        /* A lie about the boot, or a record that is lost, hides processes where
         * there are no control groups. */
        if (local_rig_alive(inner[i])) {
            assert_true(i == 0 || i == 3 || i == 4);
            assert_int_equal(kill(inner[i], SIGKILL), 0);
            local_rig_wait_gone(inner[i], PATIENCE_MS);
        }
    }
    assert_int_not_equal(access(path, F_OK), 0);
    local_rig_fini(&rig);
}

/* --- The lock --- */

struct waiter {
    pthread_t thread;
    const char *state_dir;
    int stop_fd;
    int lock_fd;
    enum wp_status status;
    int64_t done_ns;
};

static void *
wait_for_lock(void *arg)
{
    struct waiter *waiter = arg;
    struct wp_err err;

    waiter->status = wp_local_lock_wait(waiter->state_dir, waiter->stop_fd,
                                        &waiter->lock_fd, &err);
    waiter->done_ns = wp_clock_mono_ns(wp_clock_system());
    return NULL;
}

static void
waiter_start(struct waiter *waiter, const char *state_dir, int stop_fd)
{
    *waiter = (struct waiter){.state_dir = state_dir, .stop_fd = stop_fd};
    assert_int_equal(
        pthread_create(&waiter->thread, NULL, wait_for_lock, waiter), 0);
}

/* The lock goes from a killed daemon to who waits for it, though its sandboxes
 * live; and the waiter's backend takes it over with them. */
static void
test_lock_handed_over(void **state)
{
    static struct local_rig rig;
    struct daemon daemon;
    struct waiter waiter;
    struct wp_err err = {.msg = ""};
    struct stat file;
    char path[160];
    int outer;
    int inner;
    int64_t killed_ns;

    (void)state;
    use_adoption(&rig);
    daemon = daemon_start(&rig, "4", "4");
    (void)snprintf(path, sizeof path, "%s/lock", rig.state_dir);
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(local_rig_lock_holder(&file), daemon.pid);
    assert_true(local_rig_holds(daemon.pid, &file));
    assert_null(wp_local_create(&rig.config, &err));
    assert_int_equal(err.status, WP_FAILED_PRECONDITION);
    waiter_start(&waiter, rig.state_dir, -1);
    (void)usleep(20000); /* So that it waits, most likely. */
    killed_ns = wp_clock_mono_ns(wp_clock_system());
    daemon_kill(&daemon);
    assert_int_equal(pthread_join(waiter.thread, NULL), 0);
    assert_int_equal(waiter.status, WP_OK);
    print_message("the lock was handed over %.2f ms after the kill\n",
                  (double)(waiter.done_ns - killed_ns) / 1e6);
    assert_int_equal(local_rig_lock_holder(&file), getpid());
    for (uint32_t i = 0; i < 4; i++) {
        local_rig_pids(&rig, i, &outer, &inner);
        assert_true(local_rig_alive(inner));
        assert_false(local_rig_holds(outer, &file));
        assert_false(local_rig_holds(inner, &file));
    }
    rig.config.lock_fd = waiter.lock_fd;
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 4);
    expect_answer(&rig, 3);
    local_rig_fini(&rig);
}

/* Killed while it starts sandboxes, of which each has its descriptors for a
 * moment. */
static void
test_lock_while_starting(void **state)
{
    static struct local_rig rig;
    struct waiter waiter;

    (void)state;
    use_adoption(&rig);
    for (int round = 0; round < 5; round++) {
        struct daemon daemon = daemon_start(&rig, "24", "0");
        int64_t killed_ns;

        waiter_start(&waiter, rig.state_dir, -1);
        (void)usleep((useconds_t)round * 7000);
        killed_ns = wp_clock_mono_ns(wp_clock_system());
        daemon_kill(&daemon);
        assert_int_equal(pthread_join(waiter.thread, NULL), 0);
        assert_int_equal(waiter.status, WP_OK);
        print_message("handed over %.2f ms after the kill\n",
                      (double)(waiter.done_ns - killed_ns) / 1e6);
        rig.config.lock_fd = waiter.lock_fd;
        local_rig_start(&rig);
        assert_int_equal(rig.sweep.failed, 0);
        assert_int_equal(wp_local_stop(rig.local, 20 * WP_NS_PER_S), 0);
        wp_local_destroy(rig.local);
        rig.local = NULL;
        rig.config.lock_fd = -1;
        memset(rig.slots, 0, sizeof rig.slots);
    }
    local_rig_fini(&rig);
}

/* Two wait; one is told to stop, the other gets it when the holder closes it,
 * though that lives on. */
static void
test_lock_wait_ends(void **state)
{
    static struct local_rig rig;
    struct waiter first;
    struct waiter second;
    struct wp_err err = {.msg = ""};
    int stop = eventfd(0, EFD_CLOEXEC);
    int other;
    int lock;

    (void)state;
    use_adoption(&rig);
    assert_int_equal(wp_local_lock_wait(rig.state_dir, -1, &lock, &err), WP_OK);
    waiter_start(&first, rig.state_dir, stop);
    waiter_start(&second, rig.state_dir, -1);
    assert_int_equal(eventfd_write(stop, 1), 0);
    assert_int_equal(pthread_join(first.thread, NULL), 0);
    assert_int_equal(first.status, WP_CANCELLED);
    assert_int_equal(first.lock_fd, -1);
    (void)close(lock);
    assert_int_equal(pthread_join(second.thread, NULL), 0);
    assert_int_equal(second.status, WP_OK);
    /* A lock of another directory is no lock of this one. */
    other = open("/dev/null", O_RDWR | O_CLOEXEC);
    rig.config.lock_fd = other;
    assert_null(wp_local_create(&rig.config, &err));
    assert_int_equal(err.status, WP_FAILED_PRECONDITION);
    assert_non_null(strstr(err.msg, "the lock given is not"));
    assert_int_equal(fcntl(other, F_GETFD), -1);
    (void)close(second.lock_fd);
    (void)close(stop);
    local_rig_fini(&rig);
}

#define adoption_test(fn) cmocka_unit_test_teardown(fn, clean_up)

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        adoption_test(test_killed),
        adoption_test(test_killed_twice),
        adoption_test(test_other_group),
        adoption_test(test_left),
        adoption_test(test_nothing_outlives),
        adoption_test(test_killed_while_starting),
        adoption_test(test_no_descriptors),
        adoption_test(test_template_changed),
        adoption_test(test_supervised),
        adoption_test(test_bad_records),
        adoption_test(test_lock_handed_over),
        adoption_test(test_lock_while_starting),
        adoption_test(test_lock_wait_ends),
    };
    struct wp_local_config config;
    struct wp_host_report host;
    struct wp_err err;

    wp_log_configure(WP_LOG_ERROR, WP_LOG_TEXT);
    if (argc == 4) {
        return daemon_main(argv[1], (uint32_t)strtoul(argv[2], NULL, 10),
                           (uint32_t)strtoul(argv[3], NULL, 10));
    }
    wp_local_config_init(&config);
    if (wp_local_probe(&config, &host, &err) != WP_OK) {
        (void)printf("SKIP: %s\n", err.msg);
        return 77;
    }
    if (argc == 2) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
