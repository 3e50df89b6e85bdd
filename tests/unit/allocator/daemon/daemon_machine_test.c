/* tests/unit/allocator/daemon/daemon_machine_test.c - the local backend as the
 * daemon's machine: which setting goes where, and which call. golden/ has each
 * whole. The backend is a fake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/daemon/files.h"
#include "allocator/daemon/machine.h"
#include "local/walls/host_report.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/temp_dir.h"

#define WRAP(result, name, ...)                                                \
    result __wrap_##name(__VA_ARGS__);                                         \
    result __wrap_##name(__VA_ARGS__)
#define LOCAL ((struct wp_local *)(void *)&journal)

enum {
    DIR_MAX = 3000,
};

static struct golden journal;
static struct heard heard;
static struct wp_conf *conf;
static struct wp_host_report found;
static const char *notes[2];
static size_t n_notes;
static bool fails;
static bool has_programs;
static struct wp_template templates[3];

static const char *
text_of(const char *text)
{
    return text != NULL ? text : "(none)";
}

static void
say_config(const struct wp_local_config *c)
{
    golden_add(
        &journal,
        "state %s, rootfs %s, init %s, runtime %s, bwrap %s, runsc %s\n"
        "uid %u, sandboxes %u, spawns %u\n"
        "probe every %u ms, for %u ms, %u failures, grace %u ms\n"
        "best effort %d, cgroup %s, memory %llu, cpu %u, pids %u\n"
        "connections %u, tmpfs %llu\n"
        "egress %s, packages %s, keys %s, connections %u, bytes %llu\n"
        "volumes %s, %u; remotes %s, denied %s; fetch %s\n"
        "trust %d of %s; repository %llu, cache %llu for %lld s, fetch %lld "
        "ms\n"
        "json %d, socket %o %d %d, outlive %d, untried %d, lock %d\n"
        "%zu templates, the last %s\n",
        text_of(c->state_dir), text_of(c->rootfs_dir), text_of(c->init_path),
        text_of(c->runtime_path), text_of(c->bwrap_path),
        text_of(c->runsc_path), c->uid_first, c->sandboxes_max, c->spawns_max,
        c->probe_every_ms, c->probe_timeout_ms, c->probe_failures,
        c->stop_grace_ms, c->best_effort, text_of(c->cgroup),
        (unsigned long long)c->memory_default, c->cpu_milli_default,
        c->pids_max, c->connections_max, (unsigned long long)c->tmpfs_bytes,
        text_of(c->egress_path), text_of(c->egress_packages),
        text_of(c->egress_keys_file), c->egress_connections_max,
        (unsigned long long)c->egress_bytes_max, text_of(c->volumes_dir),
        c->volumes_max, text_of(c->remotes), text_of(c->remotes_denied),
        text_of(c->fetch_path), (int)c->trust, text_of(c->trust_files),
        (unsigned long long)c->repository_bytes_max,
        (unsigned long long)c->cache_bytes_max, (long long)c->cache_age_s,
        (long long)c->fetch_timeout_ms, c->log_json, c->socket_mode,
        (int)c->socket_uid, (int)c->socket_gid, c->outlive, c->untried,
        c->lock_fd, (size_t)c->templates_len,
        c->templates[c->templates_len - 1].name);
}

WRAP(struct wp_local *, wp_local_create, const struct wp_local_config *config,
     struct wp_err *err)
{
    golden_add(&journal, "create\n");
    say_config(config);
    if (fails) {
        (void)wp_err_set(err, WP_FAILED_PRECONDITION, "no bwrap");
        return NULL;
    }
    return LOCAL;
}

WRAP(enum wp_status, wp_local_probe, const struct wp_local_config *config,
     struct wp_host_report *report, struct wp_err *err)
{
    static const struct wp_host_report zero;

    golden_add(&journal, "probe\n");
    say_config(config);
    assert_memory_equal(report, &zero, sizeof zero);
    return fails ? wp_err_set(err, WP_FAILED_PRECONDITION, "no bwrap") : WP_OK;
}

WRAP(const struct wp_host_report *, wp_local_report,
     const struct wp_local *local)
{
    assert_ptr_equal(local, LOCAL);
    return &found;
}

WRAP(enum wp_status, wp_local_start, struct wp_local *local,
     const struct wp_local_events *events, struct wp_local_sweep *sweep,
     struct wp_err *err)
{
    (void)err;
    assert_ptr_equal(local, LOCAL);
    assert_ptr_equal(events, &found);
    sweep->adopted = 4;
    return WP_ABORTED;
}

WRAP(struct wp_backend, wp_local_backend, struct wp_local *local)
{
    return (struct wp_backend){.self = local, .at_once = 5};
}

WRAP(void, wp_local_stats, const struct wp_local *local,
     struct wp_local_stats *out)
{
    assert_ptr_equal(local, LOCAL);
    out->ready = 6;
}

WRAP(enum wp_status, wp_local_add_template, struct wp_local *local,
     const struct wp_template *tmpl, struct wp_err *err)
{
    assert_ptr_equal(local, LOCAL);
    golden_add(&journal, "add template %s\n", tmpl->name);
    return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "too many");
}

WRAP(uint64_t, wp_local_template_hash, const struct wp_local *local,
     struct wp_str ns, struct wp_str name)
{
    assert_ptr_equal(local, LOCAL);
    golden_add(&journal, "hash of %.*s/%.*s\n", (int)ns.len, ns.ptr,
               (int)name.len, name.ptr);
    return 7;
}

WRAP(uint32_t, wp_local_stop, struct wp_local *local, int64_t for_ns)
{
    assert_ptr_equal(local, LOCAL);
    golden_add(&journal, "stop, %lld\n", (long long)for_ns);
    return 0;
}

WRAP(uint32_t, wp_local_leave, struct wp_local *local, int64_t for_ns)
{
    assert_ptr_equal(local, LOCAL);
    golden_add(&journal, "leave, %lld\n", (long long)for_ns);
    return 0;
}

WRAP(void, wp_local_destroy, struct wp_local *local)
{
    assert_ptr_equal(local, LOCAL);
    golden_add(&journal, "destroy\n");
}

WRAP(int, wp_daemon_locks_give, struct wp_daemon_locks *locks)
{
    assert_ptr_equal(locks, &found);
    return 33;
}

WRAP(size_t, wp_manifest_templates, const struct wp_manifest *manifest,
     const struct wp_template **out)
{
    assert_ptr_equal(manifest, templates);
    *out = templates;
    return WP_ARRAY_LEN(templates);
}

/* Nothing is made of a template here. */
WRAP(uint64_t, wp_template_hash, const struct wp_template *tmpl)
{
    fail_msg("%s", tmpl->name);
    return 0;
}

WRAP(size_t, wp_manifest_notes_count, const struct wp_manifest *manifest)
{
    assert_ptr_equal(manifest, templates);
    return n_notes;
}

WRAP(const char *, wp_manifest_note, const struct wp_manifest *manifest,
     size_t i)
{
    assert_ptr_equal(manifest, templates);
    return notes[i];
}

WRAP(void, wp_daemon_find_program, const char *setting, const char *name,
     char *out, size_t cap)
{
    (void)snprintf(out, cap, "%s", has_programs ? name : setting);
    golden_add(&journal, "find %s '%s', %zu\n", name, setting, cap);
}

static void
set(const char *text)
{
    struct wp_err err;

    if (wp_conf_read_text(conf, wp_str_from(text), "test", &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
}

static int
begin(void **state)
{
    (void)state;
    journal.len = 0;
    journal.text[0] = '\0';
    conf = wp_conf_create();
    assert_non_null(conf);
    memset(&found, 0, sizeof found);
    memset(templates, 0, sizeof templates);
    (void)snprintf(templates[2].name, sizeof templates[2].name, "last");
    n_notes = 0;
    fails = false;
    has_programs = false;
    set("state_dir: /state\n");
    return 0;
}

static int
end(void **state)
{
    (void)state;
    wp_conf_destroy(conf);
    return 0;
}

static void
finish(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/machine_%s.txt", WP_TEST_GOLDEN,
                   name);
    golden_compare(journal.text, path);
}

static const struct wp_manifest *
manifest(void)
{
    return (const struct wp_manifest *)(const void *)templates;
}

static struct wp_daemon_locks *
locks(void)
{
    return (struct wp_daemon_locks *)(void *)&found;
}

static void
create(struct wp_machine *machine, bool untried)
{
    struct wp_err err;
    enum wp_status status;

    memset(machine, 0, sizeof *machine);
    memset(&err, 0, sizeof err);
    heard_begin(&heard);
    status = wp_daemon_create_local(conf, manifest(), locks(), untried, machine,
                                    &err);
    golden_add(&journal, "%s%s %s, machine %d\n", heard_end(&heard),
               wp_status_name(status), err.msg, machine->self != NULL);
}

/* What lies on the stack is not zero by chance. */
static void
soil_stack(void)
{
    volatile char bytes[65536];

    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = 'x';
    }
}

static void
test_each_setting_has_its_place(void **state)
{
    struct wp_machine machine;
    struct wp_err err;

    (void)state;
    create(&machine, false);
    set("rootfs_dir: /roots\nruntime_path: /p/runtime\ninit_path: /p/init\n"
        "bwrap_path: /p/bwrap\nrunsc_path: /p/runsc\n"
        "sandbox_uid_first: 50001\nslots_max: 301\nsandbox_spawns_max: 302\n"
        "sandbox_probe_interval: 3s\nsandbox_probe_timeout: 4s\n"
        "sandbox_probe_failures: 5\nsandbox_stop_grace: 6s\n"
        "sandbox_limits: best_effort\nsandbox_cgroup: /group\n"
        "sandbox_memory_default: 70MiB\nsandbox_cpu_default: 303\n"
        "sandbox_pids_max: 304\nsandbox_connections_max: 305\n"
        "sandbox_tmpfs_size: 80MiB\nsandbox_outlive: false\n"
        "egress_packages: pypi.org\negress_keys_file: /keys\n"
        "egress_path: /p/egress\negress_connections_max: 306\n"
        "egress_bytes_max: 90MiB\nfetch_path: /p/fetch\n"
        "volumes_dir: /volumes\nvolumes_max: 307\ngit_remotes: github.com\n"
        "git_remotes_denied: github.com/x\ngit_trust: enforce\n"
        "git_trust_files: A.md\ngit_repository_size: 100MiB\n"
        "git_cache_size: 110MiB\ngit_cache_age: 2h\ngit_timeout: 7s\n"
        "log_format: json\n");
    create(&machine, true);
    golden_add(&journal, "%s %s %s %s\n", machine.init_path,
               machine.runtime_path, machine.egress_path, machine.fetch_path);
    soil_stack();
    assert_int_equal(wp_daemon_probe_local(conf, manifest(), &err), WP_OK);
    fails = true;
    assert_int_equal(wp_daemon_probe_local(conf, manifest(), &err),
                     WP_FAILED_PRECONDITION);
    create(&machine, false);
    has_programs = true;
    set("git_trust: report\nsandbox_outlive: true\n");
    create(&machine, false);
    finish("settings");
}

static void
test_what_is_not_enforced_is_said(void **state)
{
    struct wp_machine machine;

    (void)state;
    notes[0] = "a field is not read";
    notes[1] = "another one";
    n_notes = 2;
    found.notes_len = 2;
    (void)snprintf(found.notes[0], sizeof found.notes[0], "no landlock");
    (void)snprintf(found.notes[1], sizeof found.notes[1], "no memory limit");
    (void)snprintf(found.bwrap_version, sizeof found.bwrap_version, "0.8.0");
    found.landlock_abi = 3;
    found.seccomp = true;
    create(&machine, false);
    found.own_uids = true;
    found.seccomp = false;
    found.notes_len = 0;
    n_notes = 0;
    create(&machine, false);
    finish("notes");
}

static void
test_each_call_reaches_the_backend(void **state)
{
    struct wp_machine machine;
    struct wp_local_sweep sweep;
    struct wp_local_stats stats;
    struct wp_err err;

    (void)state;
    create(&machine, false);
    assert_string_equal(machine.ops->name, "local");
    assert_ptr_equal(machine.self, LOCAL);
    assert_int_equal(
        machine.ops->start(machine.self,
                           (const struct wp_local_events *)(const void *)&found,
                           &sweep, &err),
        WP_ABORTED);
    assert_int_equal(sweep.adopted, 4);
    assert_ptr_equal(machine.ops->port(machine.self).self, LOCAL);
    assert_int_equal(machine.ops->port(machine.self).at_once, 5);
    machine.ops->stats(machine.self, &stats);
    assert_int_equal(stats.ready, 6);
    assert_int_equal(
        machine.ops->add_template(machine.self, &templates[2], &err),
        WP_RESOURCE_EXHAUSTED);
    assert_int_equal(
        machine.ops->template_hash(machine.self, WP_STR("ns"), WP_STR("name")),
        7);
    machine.ops->stop(machine.self, true);
    machine.ops->stop(machine.self, false);
    machine.ops->destroy(machine.self);
    finish("calls");
}

static bool
has_left(const char *dir)
{
    char text[DIR_MAX + 32];

    (void)snprintf(text, sizeof text, "state_dir: %s\n", dir);
    set(text);
    return wp_daemon_has_left(conf);
}

/* Makes or removes a directory in dir. */
static void
put_dir(const char *dir, const char *name, bool there)
{
    char path[DIR_MAX + 32];

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(there ? mkdir(path, 0700) : rmdir(path), 0);
}

static void
test_what_an_earlier_daemon_left_is_seen(void **state)
{
    char dir[DIR_MAX];

    (void)state;
    temp_dir_make(dir, sizeof dir);
    assert_false(has_left(dir));
    put_dir(dir, "sandboxes", true);
    assert_false(has_left(dir));
    put_dir(dir, "sandboxes/.lock", true);
    assert_false(has_left(dir));
    put_dir(dir, "sandboxes/box", true);
    assert_true(has_left(dir));
#ifdef WP_TEST_TOOLS
    set("synthetic: true\n");
    assert_false(has_left(dir));
    put_dir(dir, "synthetic", true);
    put_dir(dir, "synthetic/box", true);
    assert_true(has_left(dir));
    put_dir(dir, "synthetic/box", false);
    put_dir(dir, "synthetic", false);
#endif
    put_dir(dir, "sandboxes/box", false);
    put_dir(dir, "sandboxes/.lock", false);
    put_dir(dir, "sandboxes", false);
    temp_dir_remove(dir);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_each_setting_has_its_place),
        TEST(test_what_is_not_enforced_is_said),
        TEST(test_each_call_reaches_the_backend),
        TEST(test_what_an_earlier_daemon_left_is_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
