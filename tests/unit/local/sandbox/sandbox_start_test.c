/* tests/unit/local/sandbox/sandbox_start_test.c - what is made for a sandbox
 * that starts, and undone at its end: each call, with each of them failing in
 * its turn. Nothing of it is made here. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/extras.h"
#include "local/sandbox/gvisor.h"
#include "local/sandbox/local_impl.h"
#include "local/sandbox/spawn.h"
#include "pool/base/compiler.h"
#include "tests/support/local/journal.h"

enum {
    FIRST_FD = 5000, /* From here on none is real. */
};

static struct wp_local local;
static struct wp_cgroups groups;
static struct wp_template tmpl;
static char *words[] = {"bwrap", NULL, "--opt", NULL, "run",
                        NULL,    NULL, "end",   NULL};
static struct wp_local_template made_from = {
    .tmpl = &tmpl,
    .argv = words,
    .argc = 8,
    .at_hostname = 1,
    .at_name = 3,
    .at_command = 4,
    .at_uid = 5,
    .at_egress = 6,
    .hash = 0xfeed,
    .limits = {.memory_bytes = 1, .cpu_milli = 2, .pids_max = 3},
};
static struct wp_sandbox *box;
static int next_fd;
static int fails_at; /* The call that fails; 0: none. */
static int calls;
static bool making; /* Else nothing is counted. */
static bool no_paths;
static int hierarchies; /* Of control groups. */

/* --- What it stands on --- */

static size_t step_at; /* Where the journal of this step begins. */

/* Every call that may fail says here that it comes. What came before the one
 * that does is as when all goes well, and left out. */
static bool
fails(void)
{
    calls += making;
    if (making && calls == fails_at) {
        size_t at = journal.len - 1;

        while (at > step_at && journal.text[at - 1] != '\n') {
            at--;
        }
        memmove(journal.text + step_at, journal.text + at, journal.len - at);
        journal.len -= at - step_at;
        NOTE("  fails\n");
        errno = EDQUOT;
        return true;
    }
    return false;
}

int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_chmod(const char *path, mode_t mode);
int __wrap_chown(const char *path, uid_t uid, gid_t gid);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_bind(int fd, const struct sockaddr *to, socklen_t len);
int __wrap_listen(int fd, int backlog);
int __wrap_socketpair(int domain, int type, int protocol, int pair[2]);
int __wrap_pipe2(int pair[2], int flags);
int __real_fcntl(int fd, int command, int what);
int __wrap_fcntl(int fd, int command, int what);
int __wrap_setsockopt(int fd, int level, int name, const void *value,
                      socklen_t len);
int __real_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode);
int __real_close(int fd);
int __wrap_close(int fd);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
int __wrap_unlink(const char *path);
int __wrap_rmdir(const char *path);

int
__wrap_mkdir(const char *path, mode_t mode)
{
    NOTE("mkdir %s %o\n", path, mode);
    return fails() ? -1 : 0;
}

int
__wrap_chmod(const char *path, mode_t mode)
{
    NOTE("chmod %s %o\n", path, mode);
    return fails() ? -1 : 0;
}

int
__wrap_chown(const char *path, uid_t uid, gid_t gid)
{
    NOTE("chown %s %d %d\n", path, (int)uid, (int)gid);
    return fails() ? -1 : 0;
}

int
__wrap_socket(int domain, int type, int protocol)
{
    NOTE("socket %d %x %d\n", domain, (unsigned)type, protocol);
    return fails() ? -1 : next_fd++;
}

int
__wrap_bind(int fd, const struct sockaddr *to, socklen_t len)
{
    assert_int_equal(len, sizeof(struct sockaddr_un));
    assert_int_equal(to->sa_family, AF_UNIX);
    NOTE("bind %d to %s\n", fd, ((const struct sockaddr_un *)to)->sun_path);
    return fails() ? -1 : 0;
}

int
__wrap_listen(int fd, int backlog)
{
    NOTE("listen %d %d\n", fd, backlog);
    return fails() ? -1 : 0;
}

static int
two(int pair[2])
{
    if (fails()) {
        return -1;
    }
    pair[0] = next_fd++;
    pair[1] = next_fd++;
    return 0;
}

int
__wrap_socketpair(int domain, int type, int protocol, int pair[2])
{
    NOTE("socketpair %d %x %d\n", domain, (unsigned)type, protocol);
    return two(pair);
}

int
__wrap_pipe2(int pair[2], int flags)
{
    NOTE("pipe %x\n", (unsigned)flags);
    return two(pair);
}

int
__wrap_fcntl(int fd, int command, int what)
{
    if (fd >= 0 && fd < FIRST_FD) {
        return __real_fcntl(fd, command, what);
    }
    NOTE("fcntl %d %d %d\n", fd, command, what);
    return fails() ? -1 : command == F_DUPFD_CLOEXEC ? next_fd++ : 0;
}

int
__wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    assert_int_equal(len, sizeof(int));
    NOTE("option %d %d %d: %d\n", fd, level, name, *(const int *)value);
    return fails() ? -1 : 0;
}

int
__wrap_open(const char *path, int flags, mode_t mode)
{
    if (!making) {
        return __real_open(path, flags, mode);
    }
    NOTE("open %s %x\n", path, (unsigned)flags);
    return fails() ? -1 : next_fd++;
}

int
__wrap_close(int fd)
{
    if (fd < FIRST_FD) {
        return __real_close(fd);
    }
    NOTE("close %d\n", fd);
    return 0;
}

void *
__wrap_malloc(size_t size)
{
    void *at;

    if (!making) {
        return __real_malloc(size);
    }
    NOTE("malloc %zu\n", size);
    if (fails()) {
        return NULL;
    }
    at = __real_malloc(size);
    if (at != NULL) {
        memset(at, 0xa5, size); /* As memory that was used before. */
    }
    return at;
}

int
__wrap_unlink(const char *path)
{
    NOTE("unlink %s\n", path);
    return 0;
}

static int rmdir_errno;

int
__wrap_rmdir(const char *path)
{
    NOTE("rmdir %s\n", path);
    errno = rmdir_errno;
    return rmdir_errno != 0 ? -1 : 0;
}

int
wp_spawn_fd(int fd)
{
    NOTE("move %d\n", fd);
    if (fd < 0) {
        return -1;
    }
    return fails() ? -1 : fd;
}

enum wp_status
wp_cgroup_make(const struct wp_cgroups *of, const char *name,
               const struct wp_cgroup_limits *limits, struct wp_err *err)
{
    assert_ptr_equal(of, &groups);
    assert_ptr_equal(limits, &made_from.limits);
    NOTE("group %s\n", name);
    return fails() ? wp_err_set(err, WP_INTERNAL, "no group") : WP_OK;
}

int
wp_cgroup_open_procs(const struct wp_cgroups *of, const char *name,
                     int fds[WP_CGROUP_TREES_MAX])
{
    assert_ptr_equal(of, &groups);
    NOTE("open procs of %s\n", name);
    if (fails()) {
        return -1;
    }
    for (int i = 0; i < hierarchies; i++) {
        fds[i] = next_fd++;
    }
    return hierarchies;
}

int
wp_cgroup_open_dir(const struct wp_cgroups *of, const char *name)
{
    assert_ptr_equal(of, &groups);
    NOTE("open group %s\n", name);
    return fails() ? -1 : next_fd++;
}

static int removals_fail;

bool
wp_cgroup_remove(const struct wp_cgroups *of, const char *name)
{
    assert_ptr_equal(of, &groups);
    NOTE("remove group %s\n", name);
    return removals_fail-- <= 0;
}

int
wp_gvisor_config_open(const struct wp_local_template *of, const char *name,
                      const char *uid_hex, bool egress)
{
    assert_ptr_equal(of, &made_from);
    NOTE("gvisor of %s %s egress %d\n", name, uid_hex, egress);
    return fails() ? -1 : next_fd++;
}

bool
wp_extras_open(const struct wp_local *of, const struct wp_local_template *from,
               int *fds, int *len)
{
    assert_ptr_equal(of, &local);
    assert_ptr_equal(from, &made_from);
    NOTE("extras from %d\n", *len);
    if (fails()) {
        return false;
    }
    fds[*len] = next_fd++;
    ++*len;
    return true;
}

int
wp_bwrap_options_open(char *const *argv, size_t len)
{
    NOTE("options");
    for (size_t i = 0; i < len; i++) {
        NOTE(" %s", argv[i]);
    }
    NOTE("\n");
    return fails() ? -1 : next_fd++;
}

enum wp_status
wp_spawn(const struct wp_spawn *spawn, struct wp_spawned *out,
         struct wp_err *err)
{
    NOTE("spawn %s:", spawn->path);
    for (size_t i = 0; spawn->argv[i] != NULL; i++) {
        NOTE(" %s", spawn->argv[i]);
    }
    assert_null(spawn->envp[0]);
    NOTE(", fds");
    for (int i = 0; i < spawn->fds_len; i++) {
        NOTE(" %d", spawn->fds[i]);
    }
    for (int i = spawn->fds_len; i < WP_SPAWN_FDS_MAX; i++) {
        assert_int_equal(spawn->fds[i], -1);
    }
    NOTE(", procs");
    for (int i = 0; i < spawn->procs_len; i++) {
        NOTE(" %d", spawn->procs_fds[i]);
    }
    NOTE(", group %d close %d drop %d %u %u\n", spawn->group_fd,
         spawn->close_fd, spawn->drop, spawn->uid, spawn->gid);
    if (fails()) {
        *out = (struct wp_spawned){.pid = -1, .pidfd = -1};
        return wp_err_set(err, WP_ABORTED, "no process");
    }
    *out = (struct wp_spawned){.pid = 4321, .pidfd = next_fd++};
    return WP_OK;
}

uint64_t
wp_process_start_time(pid_t pid)
{
    return (uint64_t)pid + 1;
}

bool
wp_local_endpoint(const struct wp_local *of, struct wp_str name,
                  char out[WP_ENDPOINT_MAX + 1])
{
    assert_ptr_equal(of, &local);
    (void)snprintf(out, WP_ENDPOINT_MAX + 1, "unix:/e/%.*s", WP_STR_ARG(name));
    return !no_paths;
}

enum wp_status
wp_record_write(const char *dir, const struct wp_record *r, struct wp_err *err)
{
    NOTE("record in %s: version %u outer %d %llu inner %d %llu boot %s uid"
         " %02x%02x %s/%s of %s %llx %s at %s user %u roots %u ready %d egress"
         " '%s' narrowed '%s' audience '%s' volumes '%s' %llu\n",
         dir, r->version, r->outer_pid, (unsigned long long)r->outer_start,
         r->inner_pid, (unsigned long long)r->inner_start, r->boot_id,
         r->uid[0], r->uid[WP_UID_LEN - 1], r->pool_namespace, r->pool,
         r->template_name, (unsigned long long)r->template_hash, r->name,
         r->endpoint, r->host_uid, r->roots, r->ready, r->egress, r->narrowed,
         r->audience, r->volumes, (unsigned long long)r->identity_ttl_ms);
    return fails() ? wp_err_set(err, WP_UNAVAILABLE, "no record") : WP_OK;
}

enum wp_status
wp_record_add_claimed(const char *dir, const struct wp_record *r,
                      struct wp_err *err)
{
    NOTE("claimed in %s: narrowed '%s' audience '%s' volumes '%s' %llu, all"
         " else %u %d %d '%s'\n",
         dir, r->narrowed, r->audience, r->volumes,
         (unsigned long long)r->identity_ttl_ms, r->version, r->outer_pid,
         r->ready, r->egress);
    return fails() ? wp_err_set(err, WP_UNAVAILABLE, "no room") : WP_OK;
}

/* --- Steps --- */

static void
begin(void)
{
    free(box);
    box = calloc(1, sizeof *box);
    assert_non_null(box);
    memset(&local, 0, sizeof local);
    memset(&groups, 0, sizeof groups);
    (void)snprintf(local.sandboxes_dir, sizeof local.sandboxes_dir, "/s");
    (void)snprintf(local.seccomp_path, sizeof local.seccomp_path, "/f.bpf");
    (void)snprintf(local.boot_id, sizeof local.boot_id, "boot");
    (void)snprintf(local.host.bwrap_path, sizeof local.host.bwrap_path,
                   "/bin/bwrap");
    local.lock_fd = 11;
    local.roots = 6;
    local.host.own_uids = true;
    local.config.uid_first = 1000;
    local.config.socket_mode = 0640;
    local.config.socket_uid = (uid_t)-1;
    local.config.socket_gid = (gid_t)-1;
    groups.kind = WP_CGROUP_V2;
    (void)snprintf(tmpl.template_namespace, sizeof tmpl.template_namespace,
                   "ns");
    (void)snprintf(tmpl.name, sizeof tmpl.name, "tmpl");
    made_from.gvisor = NULL;
    box->local = &local;
    box->groups = &groups;
    box->tmpl = &made_from;
    box->host_user = 5;
    box->outer_fd = box->inner_fd = box->control_fd = box->stderr_fd = -1;
    (void)snprintf(box->name, sizeof box->name, "box");
    (void)snprintf(box->pool, sizeof box->pool, "pool");
    (void)snprintf(box->uid_hex, sizeof box->uid_hex, "abcd");
    (void)snprintf(box->socket_path, sizeof box->socket_path, "/s/box/port");
    box->uid[0] = 0xab;
    box->uid[WP_UID_LEN - 1] = 0xcd;
    fails_at = calls = rmdir_errno = removals_fail = 0;
    no_paths = false;
    hierarchies = 2;
    next_fd = FIRST_FD;
}

static enum wp_status
spawn(const char *what)
{
    struct wp_err err = {.status = WP_OK};
    enum wp_status status;

    NOTE("--- %s\n", what);
    step_at = journal.len;
    errno = 0;
    making = true;
    status = wp_sandbox_spawn(box, &err);
    making = false;
    journal_status("spawn", status, &err);
    NOTE("= dir %d group %d, outer %d of %d %llu, control %d stderr %d\n",
         box->has_dir, box->has_group, box->outer_fd, box->outer_pid,
         (unsigned long long)box->outer_start, box->control_fd, box->stderr_fd);
    return status;
}

static void
undo(void)
{
    bool undone = wp_sandbox_undo(box);

    NOTE("= undone %d, dir %d group %d\n", undone, box->has_dir,
         box->has_group);
}

static void
kind(int which)
{
    begin();
    local.config.outlive = which >= 1;
    if (which >= 1) {
        local.config.socket_uid = 33;
        local.config.socket_gid = 44;
    }
    if (which >= 2) {
        made_from.gvisor = (json_t *)(uintptr_t)64;
        groups.kind = WP_CGROUP_NONE;
        local.host.own_uids = false;
        (void)snprintf(box->egress, sizeof box->egress, "dns");
    }
}

/* --- Tests --- */

static void
test_each_step_that_fails_ends_the_start(void **state)
{
    (void)state;
    journal_begin();
    for (int which = 0; which < 3; which++) {
        enum wp_status status;
        int n = 0;

        do {
            char what[32];

            kind(which);
            fails_at = n++;
            (void)snprintf(what, sizeof what, "kind %d, call %d fails", which,
                           fails_at);
            status = spawn(what);
            undo();
        } while (fails_at == 0 || calls >= fails_at || status != WP_OK);
    }
    journal_compare("start_fails");
}

static void
test_one_owner_of_the_socket_is_enough(void **state)
{
    (void)state;
    journal_begin();
    begin();
    local.config.socket_uid = 33;
    assert_int_equal(spawn("a user"), WP_OK);
    begin();
    local.config.socket_gid = 44;
    assert_int_equal(spawn("a group"), WP_OK);
    begin();
    hierarchies = 0;
    assert_int_equal(spawn("no group is joined"), WP_OK);
    journal_compare("start_owner");
}

static void
test_paths_that_are_too_long_are_refused(void **state)
{
    struct sockaddr_un address;
    size_t room = sizeof address.sun_path;

    (void)state;
    journal_begin();
    begin();
    assert_true(wp_sandbox_control_path(box, &address));
    assert_int_equal(address.sun_family, AF_UNIX);
    assert_string_equal(address.sun_path, "/s/box/control.sock");
    /* With its end. */
    memset(local.sandboxes_dir, 0, sizeof local.sandboxes_dir);
    memset(local.sandboxes_dir, 'd', room - sizeof "/box/control.sock");
    assert_true(wp_sandbox_control_path(box, &address));
    assert_int_equal(strlen(address.sun_path), room - 1);
    local.sandboxes_dir[strlen(local.sandboxes_dir)] = 'd';
    assert_false(wp_sandbox_control_path(box, &address));
    local.config.outlive = true;
    (void)spawn("no path for the next daemon");
    begin();
    memset(local.sandboxes_dir, 'd', WP_LOCAL_PATH_MAX - 5);
    (void)spawn("the folder just fits");
    begin();
    memset(local.sandboxes_dir, 'd', WP_LOCAL_PATH_MAX - 4);
    (void)spawn("the folder does not fit");
    journal_compare("start_paths");
}

static void
record(const char *what, bool ready)
{
    struct wp_err err = {.status = WP_OK};

    NOTE("--- %s\n", what);
    step_at = journal.len;
    journal_status("record", wp_sandbox_record(box, ready, &err), &err);
    err.msg[0] = '\0';
    journal_status("claimed", wp_sandbox_record_claimed(box, &err), &err);
}

static void
test_the_record_has_all_the_next_daemon_needs(void **state)
{
    (void)state;
    journal_begin();
    begin();
    (void)snprintf(box->egress, sizeof box->egress, "dns");
    (void)snprintf(box->narrowed, sizeof box->narrowed, "less");
    (void)snprintf(box->audience, sizeof box->audience, "aud");
    (void)snprintf(box->volumes, sizeof box->volumes, "t/v");
    box->identity_ttl_ms = 777;
    box->outer_pid = 1;
    box->outer_start = 2;
    box->inner_pid = 3;
    box->inner_start = 4;
    record("not ready", false);
    record("ready", true);
    local.host.own_uids = false;
    record("no users", true);
    making = true;
    fails_at = 1;
    record("it fails", true);
    calls = -1;
    record("the claim's fails", true);
    making = false;
    no_paths = true;
    record("no endpoint", true);
    begin();
    memset(local.sandboxes_dir, 'd', WP_LOCAL_PATH_MAX - 4);
    record("no folder", true);
    journal_compare("start_record");
}

static void
test_what_was_made_is_undone(void **state)
{
    (void)state;
    journal_begin();
    begin();
    NOTE("--- nothing\n");
    undo();
    box->has_group = true;
    box->has_dir = true;
    removals_fail = 1;
    NOTE("--- a process is left\n");
    undo();
    rmdir_errno = ENOTEMPTY;
    NOTE("--- a file is left\n");
    undo();
    rmdir_errno = 0;
    NOTE("--- nothing is left\n");
    undo();
    box->has_dir = true;
    rmdir_errno = ENOENT;
    NOTE("--- somebody was faster\n");
    undo();
    rmdir_errno = 0;
    box->has_dir = true;
    memset(local.sandboxes_dir, 'd', 200);
    NOTE("--- its control socket has no path\n");
    undo();
    box->has_dir = true;
    memset(local.sandboxes_dir, 'd', WP_LOCAL_PATH_MAX - 5);
    NOTE("--- its path is the longest\n");
    undo();
    box->has_dir = true;
    memset(local.sandboxes_dir, 'd', WP_LOCAL_PATH_MAX - 4);
    NOTE("--- it has no path\n");
    undo();
    free(box);
    box = NULL;
    journal_compare("start_undo");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_step_that_fails_ends_the_start),
        cmocka_unit_test(test_one_owner_of_the_socket_is_enough),
        cmocka_unit_test(test_paths_that_are_too_long_are_refused),
        cmocka_unit_test(test_the_record_has_all_the_next_daemon_needs),
        cmocka_unit_test(test_what_was_made_is_undone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
