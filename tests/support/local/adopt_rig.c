#include "tests/support/local/adopt_rig.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/walls/cgroup.h"
#include "local/sandbox/record.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"

#define HEALTH "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

struct adoption adoption;

/* Of the running test, for the cleaning up after one that failed: what outlives
 * a daemon would outlive the tests. */
static char state_dir_now[80];
static pid_t daemon_now;

static void
init(struct local_rig *rig)
{
    local_rig_init_runtime(rig);
    rig->config.outlive = true;
}

int
adopt_daemon_main(char **argv)
{
    const char *state_dir = argv[1];
    uint32_t count = (uint32_t)strtoul(argv[2], NULL, 10);
    uint32_t ready = (uint32_t)strtoul(argv[3], NULL, 10);
    static struct local_rig rig;
    uint32_t left;
    char byte;

    wp_log_configure(WP_LOG_ERROR, WP_LOG_TEXT);
    init(&rig);
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
    left = wp_local_leave(rig.local, 20 * WP_NS_PER_S);
    wp_local_destroy(rig.local);
    return left == 0 ? 0 : 1;
}

struct adopt_daemon
adopt_daemon_start_in(const struct wp_cgroups *elsewhere,
                      const struct local_rig *rig, const char *count,
                      const char *ready)
{
    int procs[WP_CGROUP_TREES_MAX];
    int procs_len = 0;
    struct adopt_daemon daemon;
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
    daemon = (struct adopt_daemon){fork(), orders[1], news[0]};
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

struct adopt_daemon
adopt_daemon_start(const struct local_rig *rig, const char *count,
                   const char *ready)
{
    return adopt_daemon_start_in(NULL, rig, count, ready);
}

int
adopt_daemon_end(struct adopt_daemon *daemon)
{
    int status;

    assert_int_equal(waitpid(daemon->pid, &status, 0), daemon->pid);
    daemon_now = 0;
    (void)close(daemon->orders);
    (void)close(daemon->news);
    return status;
}

void
adopt_daemon_kill(struct adopt_daemon *daemon)
{
    assert_int_equal(kill(daemon->pid, SIGKILL), 0);
    (void)adopt_daemon_end(daemon);
}

int
adopt_rig_clean_up(void **state)
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

bool
adopt_rig_adopt(void *ctx, const struct wp_local_found *found,
                struct wp_slot_ref *ref)
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
    adoption.asked[index]++;
    adoption.current[index] = found->template_current;
    if ((adoption.unwanted >> index & 1) != 0) {
        return false;
    }
    (void)snprintf(rig->slots[index].endpoint, sizeof rig->slots[0].endpoint,
                   "%.*s", WP_STR_ARG(found->endpoint));
    *ref = (struct wp_slot_ref){index, 1};
    return true;
}

void
adopt_rig_init(struct local_rig *rig)
{
    init(rig);
    rig->adopt = adopt_rig_adopt;
    memset(&adoption, 0, sizeof adoption);
}

void
adopt_rig_expect_answer(struct local_rig *rig, uint32_t index)
{
    static char answer[4096];

    (void)local_rig_request(rig, index, HEALTH, answer, sizeof answer);
    assert_non_null(strstr(answer, "HTTP/1.1 200"));
}

bool
adopt_rig_has_group(const struct local_rig *rig, uint32_t index)
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

void
adopt_rig_record_path(const struct local_rig *rig, uint32_t index,
                      char out[160])
{
    char name[16];

    local_rig_name(index, name);
    (void)snprintf(out, 160, "%s/sandboxes/%s/record", rig->state_dir, name);
}

void
adopt_rig_edit_record(const struct local_rig *rig, uint32_t index,
                      const char *key, const char *value)
{
    char text[2048];
    char line[32];
    char path[160];
    const char *at;
    size_t n;
    FILE *file;

    adopt_rig_record_path(rig, index, path);
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
