/* tests/unit/local/sandbox/backend_rig.h - all that backend_local.c stands on:
 * it writes down what it is asked for, and fails when it is told to. The loop
 * is the test, which includes this once. */
#ifndef WP_TESTS_UNIT_LOCAL_SANDBOX_BACKEND_RIG_H
#define WP_TESTS_UNIT_LOCAL_SANDBOX_BACKEND_RIG_H

#include <errno.h>
#include <linux/magic.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/host_probe.h"
#include "local/sandbox/local_impl.h"
#include "pool/base/clock.h"
#include "pool/base/compiler.h"
#include "tests/support/local/journal.h"

enum {
    FIRST_FD = 5000,
    MAX = 5, /* Sandboxes. */
};

static struct wp_local_config config;
static struct wp_local *local;
static struct wp_template templates[2];
static struct wp_local_template made_from;
static bool running; /* The code under test. */
static int fails_at; /* The call that fails; 0: none. */
static int calls;
static int64_t now_ns;
static long cores;
static long file_system;
static bool freezes;
static bool moved;
static bool has_git;
static bool own_uids;
static bool seccomp;
static bool fetcher_made;
static event_callback_fn on_stop;
static struct wp_sandbox *boxes[4];
static struct wp_local_events events;

/* --- What it stands on --- */

static bool
fails(void)
{
    calls++;
    if (running && calls == fails_at) {
        NOTE("  fails\n");
        errno = EDQUOT;
        return true;
    }
    return false;
}

static enum wp_status
outcome(struct wp_err *err, const char *what)
{
    return fails() ? wp_err_set(err, WP_ABORTED, "no %s", what) : WP_OK;
}

static const char *
name_of(const struct event *event)
{
    return event == &local->stop_timer    ? "stop_timer"
           : event == &local->start_timer ? "start_timer"
                                          : "?";
}

int __wrap_event_assign(struct event *event, struct event_base *base, int fd,
                        short what, event_callback_fn fn, void *arg);
int __wrap_event_add(struct event *event, const struct timeval *wait);
int __wrap_event_base_loopbreak(struct event_base *base);
int __wrap_access(const char *path, int mode);
int __wrap_statfs(const char *path, struct statfs *out);
long __real_sysconf(int name);
long __wrap_sysconf(int name);
pid_t __wrap_getpid(void);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
int __real_close(int fd);
int __wrap_close(int fd);
const struct wp_clock *__wrap_wp_clock_system(void);
void __wrap_wp_random_bytes(void *out, size_t len);
void __wrap_wp_rng_init(struct wp_rng *rng, uint64_t seed);

int
__wrap_event_assign(struct event *event, struct event_base *base, int fd,
                    short what, event_callback_fn fn, void *arg)
{
    assert_ptr_equal(arg, local);
    assert_ptr_equal(base, local->base);
    NOTE("assign %s %d %d %s\n", name_of(event), fd, what,
         fn == wp_local_on_start_timer ? "on_start" : "on_stop");
    if (fn != wp_local_on_start_timer) {
        on_stop = fn;
    }
    return 0;
}

int
__wrap_event_add(struct event *event, const struct timeval *wait)
{
    NOTE("add %s %lld.%06ld\n", name_of(event), (long long)wait->tv_sec,
         (long)wait->tv_usec);
    return 0;
}

int
__wrap_event_base_loopbreak(struct event_base *base)
{
    assert_ptr_equal(base, local->base);
    NOTE("the loop ends\n");
    return 0;
}

int
__wrap_access(const char *path, int mode)
{
    NOTE("access %s %d\n", path, mode);
    return has_git ? 0 : -1;
}

int
__wrap_statfs(const char *path, struct statfs *out)
{
    NOTE("file system of %s\n", path);
    *out = (struct statfs){.f_type = file_system};
    return file_system != 0 ? 0 : -1;
}

long
__wrap_sysconf(int name)
{
    return name == _SC_NPROCESSORS_ONLN ? cores : __real_sysconf(name);
}

pid_t
__wrap_getpid(void)
{
    return 4321;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    uint8_t *at;

    if (!running) {
        return __real_calloc(n, size);
    }
    NOTE("memory for %s\n", n == 1 ? "the backend" : "users");
    at = fails() ? NULL : __real_calloc(n + 1, size);
    if (at != NULL) {
        memset(at + n * size, 0xee, size); /* Is to stay as it is. */
    }
    return at;
}

int
__wrap_close(int fd)
{
    if (fd != 0 && fd < FIRST_FD) {
        return __real_close(fd);
    }
    NOTE("close %d\n", fd);
    return 0;
}

static int64_t
test_now_ns(const struct wp_clock *clock)
{
    (void)clock;
    return now_ns;
}

const struct wp_clock *
__wrap_wp_clock_system(void)
{
    static const struct wp_clock clock = {test_now_ns, test_now_ns};

    return &clock;
}

void
__wrap_wp_random_bytes(void *out, size_t len)
{
    memset(out, 0x11, len);
}

void
__wrap_wp_rng_init(struct wp_rng *rng, uint64_t seed)
{
    assert_non_null(rng);
    NOTE("seed %llx\n", (unsigned long long)seed);
}

static struct wp_loop *const loop = (struct wp_loop *)(uintptr_t)64;
static struct event_base *const base = (struct event_base *)(uintptr_t)128;

struct wp_loop *
wp_loop_create(const char *name, uint32_t messages_max, struct wp_err *err)
{
    NOTE("loop %s %u\n", name, messages_max);
    return outcome(err, "loop") == WP_OK ? loop : NULL;
}

enum wp_status
wp_loop_start(struct wp_loop *of, struct wp_err *err)
{
    assert_ptr_equal(of, loop);
    NOTE("start\n");
    return outcome(err, "thread");
}

void
wp_loop_join(struct wp_loop *of)
{
    assert_ptr_equal(of, loop);
    NOTE("join\n");
}

void
wp_loop_destroy(struct wp_loop *of)
{
    NOTE("destroy %s\n", of == loop ? "loop" : "no loop");
}

static void (*posted)(void *ctx, uint64_t a, uint64_t b);
static void *posted_ctx;
static uint64_t posted_a;

bool
wp_loop_post(struct wp_loop *of, void (*run)(void *ctx, uint64_t a, uint64_t b),
             void *ctx, uint64_t a, uint64_t b)
{
    assert_ptr_equal(of, loop);
    NOTE("post %llx %llx\n", (unsigned long long)a, (unsigned long long)b);
    posted = run;
    posted_ctx = ctx;
    posted_a = a;
    return !fails();
}

void
wp_loop_call(struct wp_loop *of, void (*run)(void *ctx), void *ctx)
{
    assert_ptr_equal(of, loop);
    NOTE("call\n");
    run(ctx);
}

struct event_base *
wp_loop_base(struct wp_loop *of)
{
    assert_ptr_equal(of, loop);
    return base;
}

struct wp_egress_proxy *
wp_egress_proxy_create(const struct wp_egress_proxy_config *c,
                       struct event_base *on)
{
    assert_ptr_equal(on, base);
    assert_ptr_equal(c->lock_fd, &local->lock_fd);
    assert_ptr_equal(c->answered, wp_sandbox_on_narrowed);
    NOTE("egress %s packages %s keys %s, %u conns %llu bytes, json %d, drop %d"
         " %u\n",
         c->path, c->packages, c->keys_file, c->source_conns_max,
         (unsigned long long)c->source_bytes_max, c->log_json, c->drop, c->uid);
    return fails() ? NULL : (struct wp_egress_proxy *)(uintptr_t)192;
}

void
wp_egress_proxy_destroy(struct wp_egress_proxy *proxy)
{
    NOTE("destroy %s\n", proxy != NULL ? "egress" : "no egress");
}

enum wp_status
wp_remote_rules_add(struct wp_remote_rules *out, struct wp_str text,
                    bool denies, struct wp_err *err)
{
    assert_ptr_equal(out, &local->remotes);
    NOTE("%s '%.*s'\n", denies ? "deny" : "allow", WP_STR_ARG(text));
    return outcome(err, "rules");
}

void
wp_host_note(struct wp_host_report *report, const char *fmt, ...)
{
    char text[WP_HOST_NOTE_LEN];
    va_list ap;

    assert_ptr_equal(report, &local->host);
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    NOTE("note: %s\n", text);
}

enum wp_status
wp_fetch_process_init(struct wp_fetch_process *f, struct wp_fetch_runner *out,
                      struct wp_err *err)
{
    assert_ptr_equal(f, &local->fetch_process);
    assert_ptr_equal(f->lock_fd, &local->lock_fd);
    NOTE("fetch by %s with %s in %s, filter %s, drop %d %u\n", f->path,
         f->bwrap_path, f->cache_dir,
         f->seccomp_path != NULL ? f->seccomp_path : "none", f->drop, f->uid);
    out->self = f;
    return outcome(err, "cache");
}

static struct wp_fetcher *const fetcher = (struct wp_fetcher *)(uintptr_t)256;

struct wp_fetcher *
wp_fetcher_create(const struct wp_fetcher_config *c, struct event_base *on)
{
    assert_ptr_equal(on, base);
    assert_ptr_equal(c->runner.self, &local->fetch_process);
    NOTE("fetcher %llu %llu %lld %lld\n",
         (unsigned long long)c->repository_bytes_max,
         (unsigned long long)c->cache_bytes_max, (long long)c->cache_age_s,
         (long long)c->timeout_ms);
    fetcher_made = !fails();
    return fetcher_made ? fetcher : NULL;
}

void
wp_fetcher_destroy(struct wp_fetcher *of)
{
    NOTE("destroy %s\n", of != NULL ? "fetcher" : "no fetcher");
}

enum wp_status
wp_trust_init(struct wp_trust *trust, enum wp_trust_mode mode,
              const char *files, const char *folder, struct wp_err *err)
{
    assert_ptr_equal(trust, &local->trust);
    NOTE("trust %d %s in %s\n", mode, files, folder);
    return outcome(err, "trust");
}

void
wp_trust_fini(struct wp_trust *trust)
{
    assert_ptr_equal(trust, &local->trust);
    NOTE("end trust\n");
}

enum wp_status
wp_volumes_open(struct wp_volumes *v, struct wp_err *err)
{
    assert_ptr_equal(v, &local->volumes);
    NOTE("volumes in %s\n", v->dir);
    v->dir_fd = FIRST_FD + 50;
    return outcome(err, "folder");
}

void
wp_volumes_close(struct wp_volumes *v)
{
    assert_ptr_equal(v, &local->volumes);
    NOTE("close volumes %d\n", v->dir_fd);
}

/* Of the backend; a probe has one of its own. */
static bool
is_own(const struct wp_cgroups *groups)
{
    return local != NULL && groups == &local->cgroups;
}

void
wp_cgroups_open(struct wp_cgroups *groups, const char *mountinfo,
                const char *self, const char *given, const char *group)
{
    if (running && local == NULL) {
        local = WP_CONTAINER_OF(groups, struct wp_local, cgroups);
    }
    *groups = (struct wp_cgroups){.moved = moved};
    NOTE("groups %s %s '%s' %s\n", mountinfo, self, given, group);
}

void
wp_cgroups_close(struct wp_cgroups *groups)
{
    NOTE("close groups %s\n", is_own(groups) ? "" : "of others");
}

void
wp_cgroups_sweep(const struct wp_cgroups *groups, const char *prefix)
{
    assert_non_null(groups);
    NOTE("sweep groups %s\n", prefix);
}

enum wp_status
wp_cgroups_save(const struct wp_cgroups *groups, const struct wp_cgroups *old,
                uint32_t old_len, const char *path, struct wp_err *err)
{
    assert_true(is_own(groups));
    assert_ptr_equal(old, local->old_cgroups);
    NOTE("save groups %u %s\n", old_len, path);
    return outcome(err, "save");
}

uint32_t
wp_cgroups_load(struct wp_cgroups *groups, uint32_t max, const char *path,
                const char *group, const struct wp_cgroups *now)
{
    assert_true(is_own(now));
    assert_ptr_equal(groups, local->old_cgroups);
    NOTE("load groups %u %s %s\n", max, path, group);
    return 2;
}

bool
wp_cgroups_can_freeze(const struct wp_cgroups *groups)
{
    assert_true(is_own(groups));
    return freezes;
}

enum wp_status
wp_host_look(const struct wp_local_config *c, const struct wp_cgroups *groups,
             struct wp_host_report *report, struct wp_err *err)
{
    assert_non_null(groups);
    report->own_uids = own_uids;
    report->seccomp = seccomp;
    (void)snprintf(report->bwrap_path, sizeof report->bwrap_path, "/bwrap");
    NOTE("look, %u at once\n", c->spawns_max);
    return outcome(err, "look");
}

enum wp_status
wp_host_try(const struct wp_local_config *c,
            const struct wp_host_report *report, struct wp_err *err)
{
    NOTE("try, %u at once, with %s\n", c->spawns_max, report->bwrap_path);
    return outcome(err, "trial");
}

void
wp_boot_id_read(char out[WP_BOOT_ID_LEN + 1])
{
    (void)snprintf(out, WP_BOOT_ID_LEN + 1, "boot");
}

enum wp_status
wp_local_check_config(const struct wp_local_config *c, struct wp_err *err)
{
    assert_ptr_equal(c, &config);
    NOTE("check\n");
    return outcome(err, "good settings");
}

enum wp_status
wp_local_prepare_dirs(struct wp_local *of, struct wp_err *err)
{
    local = of;
    (void)snprintf(of->seccomp_path, sizeof of->seccomp_path, "/filter");
    NOTE("dirs of %s, lock %d\n", of->state_dir, of->lock_fd);
    return outcome(err, "directories");
}

enum wp_status
wp_local_prepare_programs(const struct wp_local *of, struct wp_err *err)
{
    assert_ptr_equal(of, local);
    NOTE("programs\n");
    return outcome(err, "programs");
}

enum wp_status
wp_local_prepare_filter(struct wp_local *of, struct wp_err *err)
{
    assert_ptr_equal(of, local);
    NOTE("filter\n");
    return outcome(err, "filter");
}

enum wp_status
wp_local_add_template(struct wp_local *of, const struct wp_template *tmpl,
                      struct wp_err *err)
{
    assert_ptr_equal(of, local);
    NOTE("template %d\n", (int)(tmpl - templates));
    return outcome(err, "template");
}

void
wp_local_raise_files(struct wp_local *of)
{
    assert_ptr_equal(of, local);
    NOTE("raise files\n");
}

void
wp_local_destroy_templates(struct wp_local *of)
{
    local = of;
    NOTE("destroy templates\n");
}

void
wp_local_remove_roots(struct wp_local *of)
{
    assert_ptr_equal(of, local);
    NOTE("remove roots\n");
}

static struct wp_local_sweep *swept;

enum wp_status
wp_local_take_over(struct wp_local *of, struct wp_local_sweep *counts,
                   struct wp_err *err)
{
    assert_ptr_equal(of, local);
    NOTE("take over\n");
    swept = counts;
    return outcome(err, "way to adopt");
}

const struct wp_local_template *
wp_local_find_template(const struct wp_local *of,
                       struct wp_str template_namespace, struct wp_str name)
{
    assert_ptr_equal(of, local);
    NOTE("find template %.*s of %.*s\n", WP_STR_ARG(name),
         WP_STR_ARG(template_namespace));
    return fails() ? NULL : &made_from;
}

struct wp_sandbox *
wp_sandbox_make(struct wp_local *of)
{
    struct wp_sandbox *sandbox =
        fails() ? NULL : __real_calloc(1, sizeof *sandbox);

    if (sandbox != NULL) {
        sandbox->local = of;
    }
    return sandbox;
}

static bool endpoint_fits;

bool
wp_local_endpoint(const struct wp_local *of, struct wp_str name,
                  char out[WP_ENDPOINT_MAX + 1])
{
    assert_ptr_equal(of, local);
    memset(out, 0x55, WP_ENDPOINT_MAX + 1);
    (void)snprintf(out, WP_ENDPOINT_MAX + 1, "unix:/e/%.*s", WP_STR_ARG(name));
    return endpoint_fits;
}

void
wp_sandbox_index(struct wp_sandbox *s)
{
    assert_ptr_equal(s->tmpl, &made_from);
    NOTE("index %u.%u: %s of %s, uid %s %02x, at %s, egress '%s', ordered %lld"
         " within %lld\n",
         s->ref.index, s->ref.generation, s->name, s->pool, s->uid_hex,
         s->uid[WP_UID_LEN - 1], s->socket_path, s->egress,
         (long long)s->ordered_ns, (long long)s->ready_within_ns);
}

void
wp_sandbox_enqueue(struct wp_sandbox *sandbox)
{
    NOTE("enqueue %s\n", sandbox->name);
    free(sandbox);
}

struct wp_sandbox *
wp_sandbox_find(const struct wp_local *of, struct wp_slot_ref ref)
{
    assert_ptr_equal(of, local);
    NOTE("find %u.%u\n", ref.index, ref.generation);
    return ref.index < WP_ARRAY_LEN(boxes) ? boxes[ref.index] : NULL;
}

void
wp_sandbox_destroy(struct wp_sandbox *sandbox)
{
    NOTE("destroy %s\n", sandbox->name);
}

void
wp_sandbox_thaw(struct wp_sandbox *sandbox)
{
    NOTE("thaw %s\n", sandbox->name);
}

void
wp_sandbox_abandon(struct wp_sandbox *sandbox)
{
    NOTE("abandon %s\n", sandbox->name);
}

/* Only named here. */
void
wp_local_on_start_timer(int fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
}

void
wp_local_leased(void *self, const struct wp_lease_notice *notice)
{
    (void)self;
    (void)notice;
}

enum wp_status
wp_local_bind(void *self, struct wp_bind_op *op)
{
    (void)self;
    (void)op;
    return WP_OK;
}

const char *
wp_local_unbound(void *self, struct wp_str template_namespace,
                 struct wp_str name)
{
    (void)self;
    (void)template_namespace;
    (void)name;
    return NULL;
}

enum wp_status
wp_local_may_bring(void *self, const struct wp_binding *binding,
                   struct wp_err *err)
{
    (void)self;
    (void)binding;
    (void)err;
    return WP_OK;
}

enum wp_status
wp_local_narrows(void *self, struct wp_str policy, struct wp_str by,
                 struct wp_err *err)
{
    (void)self;
    (void)policy;
    (void)by;
    (void)err;
    return WP_OK;
}

void
wp_sandbox_on_narrowed(void *sandbox, bool narrowed)
{
    (void)sandbox;
    (void)narrowed;
}

/* --- Steps --- */

static void
begin(void)
{
    wp_local_config_init(&config);
    config.state_dir = "/state";
    config.sandboxes_max = MAX;
    config.uid_first = 1000;
    config.spawns_max = 3;
    config.egress_path = "/egress";
    config.egress_packages = "pypi";
    config.egress_keys_file = "/keys";
    config.egress_connections_max = 31;
    config.egress_bytes_max = 32;
    config.log_json = true;
    config.remotes = "good.example";
    config.remotes_denied = "bad.example";
    config.fetch_path = "/fetch";
    config.trust = WP_TRUST_ENFORCE;
    config.trust_files = "AGENTS.md";
    config.repository_bytes_max = 41;
    config.cache_bytes_max = 42;
    config.cache_age_s = 43;
    config.fetch_timeout_ms = 44;
    config.volumes_dir = "/volumes";
    config.volumes_max = 45;
    config.cgroup = "/given";
    config.templates = templates;
    config.templates_len = WP_ARRAY_LEN(templates);
    config.lock_fd = FIRST_FD + 9;
    local = NULL;
    running = false;
    fails_at = calls = 0;
    cores = 6;
    file_system = TMPFS_MAGIC;
    freezes = has_git = own_uids = seccomp = endpoint_fits = true;
    moved = false;
    now_ns = 1000 * WP_NS_PER_S;
    memset(&events, 0, sizeof events);
}

static struct wp_local *
create(const char *what)
{
    struct wp_err err = {.status = WP_OK};
    struct wp_local *made = NULL;

    NOTE("--- %s\n", what);
    running = true;
    made = wp_local_create(&config, &err);
    running = false;
    journal_status("create", made != NULL ? WP_OK : err.status, &err);
    local = made;
    return made;
}

static struct wp_local *
quiet(void)
{
    size_t len = journal.len;

    (void)create("");
    assert_non_null(local);
    journal.len = len;
    journal.text[len] = '\0';
    return local;
}

static void
end(void)
{
    NOTE("--- the end\n");
    wp_local_destroy(local);
    local = NULL;
}

static void
start(const char *what)
{
    struct wp_err err = {.status = WP_OK};
    enum wp_status status;

    NOTE("--- %s\n", what);
    running = true;
    calls = 0;
    status = wp_local_start(local, &events, NULL, &err);
    running = false;
    journal_status("start", status, &err);
    NOTE("= started %d\n", local->started);
}

#endif
