#include "tests/support/local/local_rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "local/walls/rootfs.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"
#include "tests/support/base/temp_dir.h"

static struct local_rig_slot *
slot_of(struct local_rig *rig, struct wp_slot_ref ref)
{
    assert_in_range(ref.index, 0, LOCAL_RIG_SLOTS - 1);
    assert_int_equal(ref.generation, 1);
    return &rig->slots[ref.index];
}

static void
on_ready(void *ctx, struct wp_slot_ref ref, struct wp_str endpoint)
{
    struct local_rig *rig = ctx;
    struct local_rig_slot *slot = slot_of(rig, ref);

    (void)pthread_mutex_lock(&rig->lock);
    slot->ready++;
    (void)snprintf(slot->endpoint, sizeof slot->endpoint, "%.*s",
                   WP_STR_ARG(endpoint));
    (void)pthread_cond_broadcast(&rig->changed);
    (void)pthread_mutex_unlock(&rig->lock);
}

static void
on_lost(void *ctx, struct wp_slot_ref ref, struct wp_str reason)
{
    struct local_rig *rig = ctx;
    struct local_rig_slot *slot = slot_of(rig, ref);

    (void)pthread_mutex_lock(&rig->lock);
    slot->lost++;
    (void)snprintf(slot->reason, sizeof slot->reason, "%.*s",
                   WP_STR_ARG(reason));
    (void)pthread_cond_broadcast(&rig->changed);
    (void)pthread_mutex_unlock(&rig->lock);
}

static void
on_destroyed(void *ctx, struct wp_slot_ref ref)
{
    struct local_rig *rig = ctx;
    struct local_rig_slot *slot = slot_of(rig, ref);

    (void)pthread_mutex_lock(&rig->lock);
    slot->destroyed++;
    (void)pthread_cond_broadcast(&rig->changed);
    (void)pthread_mutex_unlock(&rig->lock);
}

bool
local_rig_begin(int argc, char **argv, struct wp_host_report *host)
{
    struct wp_local_config config;
    struct wp_host_report unused;
    struct wp_err err;

    wp_log_configure(WP_LOG_ERROR, WP_LOG_TEXT);
    wp_local_config_init(&config);
    if (wp_local_probe(&config, host != NULL ? host : &unused, &err) != WP_OK) {
        (void)printf("SKIP: %s\n", err.msg);
        return false;
    }
    if (argc == 2) {
        cmocka_set_test_filter(argv[1]);
    }
    return true;
}

void
local_rig_init(struct local_rig *rig, const char *const *argv)
{
    static const char *const no_env[] = {NULL};

    memset(rig, 0, sizeof *rig);
    (void)pthread_mutex_init(&rig->lock, NULL);
    (void)pthread_cond_init(&rig->changed, NULL);
    temp_dir_make(rig->dir, sizeof rig->dir);
    assert_int_equal(chmod(rig->dir, 0755), 0);
    (void)snprintf(rig->state_dir, sizeof rig->state_dir, "%s/s", rig->dir);
    wp_local_config_init(&rig->config);
    rig->config.state_dir = rig->state_dir;
    rig->config.init_path = WP_TEST_INIT;
    rig->config.runtime_path = WP_TEST_RUNTIME;
    rig->config.best_effort = true; /* local_limits_test tries the other. */
    rig->config.templates = &rig->tmpl;
    rig->config.templates_len = 1;
    rig->tmpl = (struct wp_template){
        .template_namespace = "default",
        .name = "t",
        .image = "host",
        .argv = argv,
        .env = no_env,
        .port = 8080,
        .memory_bytes = UINT64_C(256) << 20,
    };
}

void
local_rig_init_runtime(struct local_rig *rig)
{
    static const char *const argv[] = {"warmpool-runtime", "--port",     "8080",
                                       "--workspace",      "/workspace", NULL};

    local_rig_init(rig, argv);
    rig->tmpl.probe = WP_READY_HTTP;
    rig->tmpl.probe_path = "/healthz";
}

static void
on_used(void *ctx, struct wp_slot_ref ref, int64_t ttl_ns)
{
    struct local_rig *rig = ctx;

    (void)ref;
    atomic_store(&rig->used_ttl_ns, ttl_ns);
    atomic_fetch_add(&rig->used, 1);
}

static enum wp_status
sign_nothing(void *ctx, struct wp_str sandbox, struct wp_str audience,
             int64_t ttl_ms, char token[WP_IDENTITY_TOKEN_MAX + 1],
             int64_t *expires_wall_ms, struct wp_err *err)
{
    (void)ctx;
    (void)sandbox;
    (void)audience;
    (void)ttl_ms;
    (void)token;
    (void)expires_wall_ms;
    return wp_err_set(err, WP_FAILED_PRECONDITION, "nobody signs here");
}

void
local_rig_start(struct local_rig *rig)
{
    const struct wp_local_events events = {rig,          on_ready,   on_lost,
                                           on_destroyed, rig->adopt, NULL,
                                           sign_nothing, on_used};
    struct wp_err err = {.msg = ""};

    rig->local = wp_local_create(&rig->config, &err);
    if (rig->local == NULL) {
        fail_msg("%s", err.msg);
    }
    if (wp_local_start(rig->local, &events, &rig->sweep, &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
    rig->backend = wp_local_backend(rig->local);
}

void
local_rig_start_one(struct local_rig *rig)
{
    local_rig_start(rig);
    local_rig_create(rig, 0, PATIENCE_MS);
    local_rig_wait(rig, 0, RIG_READY_OR_LOST, PATIENCE_MS);
    if (rig->slots[0].lost != 0) {
        fail_msg("lost: %s", rig->slots[0].reason);
    }
}

void
local_rig_fini(struct local_rig *rig)
{
    struct wp_err err;

    if (rig->local != NULL) {
        assert_int_equal(wp_local_stop(rig->local, 20 * WP_NS_PER_S), 0);
        wp_local_destroy(rig->local);
    }
    assert_int_equal(wp_dir_remove(rig->dir, &err), WP_OK);
    (void)pthread_mutex_destroy(&rig->lock);
    (void)pthread_cond_destroy(&rig->changed);
}

void
local_rig_name(uint32_t index, char out[16])
{
    (void)snprintf(out, 16, "p-%08x", index);
}

void
local_rig_create(struct local_rig *rig, uint32_t index, int64_t ready_within_ms)
{
    uint8_t uid[WP_UID_LEN];
    char name[16];
    struct wp_err err = {.msg = ""};
    struct wp_sandbox_order order = {
        .ref = {index, 1},
        .pool_namespace = WP_STR("default"),
        .pool = WP_STR("p"),
        .template_name = WP_STR("t"),
        .uid = uid,
        .ready_within_ns = ready_within_ms * WP_NS_PER_MS,
    };

    memset(uid, (int)index, sizeof uid);
    local_rig_name(index, name);
    order.name = wp_str_from(name);
    if (rig->backend.ops->create(rig->backend.self, &order, &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
}

void
local_rig_destroy(struct local_rig *rig, uint32_t index)
{
    assert_int_equal(rig->backend.ops->destroy(rig->backend.self,
                                               (struct wp_slot_ref){index, 1}),
                     WP_OK);
}

static bool
has(const struct local_rig_slot *slot, enum local_rig_report what)
{
    switch (what) {
    case RIG_READY:
        return slot->ready > 0;
    case RIG_LOST:
        return slot->lost > 0;
    case RIG_DESTROYED:
        return slot->destroyed > 0;
    case RIG_READY_OR_LOST:
        return slot->ready > 0 || slot->lost > 0;
    default:
        return false;
    }
}

void
local_rig_wait(struct local_rig *rig, uint32_t index,
               enum local_rig_report what, int64_t timeout_ms)
{
    struct local_rig_slot *slot = &rig->slots[index];
    struct timespec until;
    bool there;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(timeout_ms / 1000);
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    (void)pthread_mutex_lock(&rig->lock);
    while (!has(slot, what) && pthread_cond_timedwait(&rig->changed, &rig->lock,
                                                      &until) != ETIMEDOUT) {
    }
    there = has(slot, what);
    (void)pthread_mutex_unlock(&rig->lock);
    if (!there) {
        fail_msg("sandbox %u: report %d did not come in %lld ms (ready %d, lost"
                 " %d '%s', destroyed %d)",
                 index, (int)what, (long long)timeout_ms, slot->ready,
                 slot->lost, slot->reason, slot->destroyed);
    }
}

void
local_rig_pids(struct local_rig *rig, uint32_t index, int *outer, int *inner)
{
    char path[128];
    char name[16];
    unsigned long long a;
    unsigned long long b;
    FILE *file;

    local_rig_name(index, name);
    (void)snprintf(path, sizeof path, "%s/sandboxes/%s/record", rig->state_dir,
                   name);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "warmpool %*d outer %d %llu inner %d %llu",
                            outer, &a, inner, &b),
                     4);
    (void)fclose(file);
}

bool
local_rig_has_dir(const struct local_rig *rig, uint32_t index)
{
    char path[160];
    char name[16];

    local_rig_name(index, name);
    (void)snprintf(path, sizeof path, "%s/sandboxes/%s", rig->state_dir, name);
    return access(path, F_OK) == 0;
}

bool
local_rig_alive(int pid)
{
    char path[32];
    char text[256];
    const char *at;
    ssize_t n;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    n = (ssize_t)fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[n > 0 ? n : 0] = '\0';
    /* One that waits to be reaped by whoever adopted it is dead. */
    at = strrchr(text, ')');
    return at != NULL && at[2] != 'Z' && at[2] != 'X';
}

void
local_rig_wait_gone(int pid, int64_t timeout_ms)
{
    for (int64_t waited_ms = 0; local_rig_alive(pid); waited_ms++) {
        if (waited_ms >= timeout_ms) {
            fail_msg("process %d is still there", pid);
        }
        (void)usleep(1000);
    }
}

int
local_rig_send(struct local_rig *rig, uint32_t index, const char *request)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = rig->slots[index].endpoint + strlen("unix:");
    struct timeval limit = {.tv_sec = 30};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_in_range(fd, 0, 1 << 20);
    assert_int_equal(
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address),
                     0);
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL),
                     (long)strlen(request));
    return fd;
}

size_t
local_rig_receive(int fd, char *out, size_t cap)
{
    size_t used = 0;
    ssize_t n;

    do {
        n = recv(fd, out + used, cap - 1 - used, 0);
        used += n > 0 ? (size_t)n : 0;
    } while (n > 0 && used < cap - 1);
    out[used] = '\0';
    (void)close(fd);
    return used;
}

size_t
local_rig_request(struct local_rig *rig, uint32_t index, const char *request,
                  char *out, size_t cap)
{
    return local_rig_receive(local_rig_send(rig, index, request), out, cap);
}

int
local_rig_execute(struct local_rig *rig, uint32_t index, const char *command,
                  char *out, size_t cap)
{
    json_t *body = json_object();
    json_t *args = json_array();
    json_t *reply;
    json_error_t error;
    static char request[16 << 10];
    static char answer[256 << 10];
    char *json;
    const char *payload;
    const char *text;
    int code;

    /* The REST API splits words like a shell but runs none. */
    json_decref(args);
    (void)snprintf(request, sizeof request, "sh -c '%s'", command);
    (void)json_object_set_new(body, "command", json_string(request));
    json = json_dumps(body, 0);
    (void)snprintf(
        request, sizeof request,
        "POST /execute HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n"
        "%s",
        strlen(json), json);
    free(json);
    json_decref(body);
    (void)local_rig_request(rig, index, request, answer, sizeof answer);
    payload = strstr(answer, "\r\n\r\n");
    if (payload == NULL) {
        fail_msg("no answer to '%s': %s", command, answer);
        return -1;
    }
    reply = json_loads(payload + 4, 0, &error);
    if (reply == NULL) {
        fail_msg("answer to '%s' is not JSON: %s", command, answer);
    }
    text = json_string_value(json_object_get(reply, "stdout"));
    (void)snprintf(out, cap, "%s", text != NULL ? text : "");
    code = (int)json_integer_value(json_object_get(reply, "exit_code"));
    json_decref(reply);
    return code;
}

int
local_rig_count_processes(const char *text)
{
    static char line[64 << 10];
    struct dirent *entry;
    DIR *dir = opendir("/proc");
    int count = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        char path[300];
        ssize_t n;
        int fd;

        (void)snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        fd = entry->d_name[0] >= '1' && entry->d_name[0] <= '9'
                 ? open(path, O_RDONLY | O_CLOEXEC)
                 : -1;
        if (fd >= 0) {
            n = read(fd, line, sizeof line);
            (void)close(fd);
            count +=
                n > 0 && memmem(line, (size_t)n, text, strlen(text)) != NULL
                    ? 1
                    : 0;
        }
    }
    (void)closedir(dir);
    return count;
}

bool
local_rig_holds(int pid, const struct stat *file)
{
    char path[64];
    const struct dirent *entry;
    bool found = false;
    DIR *dir;

    (void)snprintf(path, sizeof path, "/proc/%d/fd", pid);
    dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        struct stat st;

        found |= fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 &&
                 st.st_ino == file->st_ino && st.st_dev == file->st_dev;
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return found;
}

int
local_rig_lock_holder(const struct stat *file)
{
    char line[256];
    FILE *locks = fopen("/proc/locks", "re");
    int found = 0;

    assert_non_null(locks);
    while (fgets(line, sizeof line, locks) != NULL) {
        unsigned long inode;
        int pid;

        if (sscanf(line, "%*s FLOCK %*s WRITE %d %*x:%*x:%lu", &pid, &inode) ==
                2 &&
            inode == file->st_ino) {
            found = pid;
        }
    }
    (void)fclose(locks);
    return found;
}

void
local_rig_check_inside(struct local_rig *rig, const char *command,
                       const char *expected)
{
    static char out[64 << 10];

    (void)local_rig_execute(rig, 0, command, out, sizeof out);
    out[strcspn(out, "\n")] = '\0';
    if (strcmp(out, expected) != 0) {
        fail_msg("inside, '%s' printed '%s', not '%s'", command, out, expected);
    }
}
