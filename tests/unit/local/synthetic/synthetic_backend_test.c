/* tests/unit/local/synthetic/synthetic_backend_test.c - sandboxes that are files:
 * their life, one daemon at a time, and what the next one does with them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/synthetic/synthetic.h"
#include "pool/base/clock.h"

enum {
    SLOTS = 64,
    PATIENCE_S = 120,
};

/* What the backend reported, by slot. */
struct rig {
    char dir[64];
    struct wp_synthetic *synthetic;
    struct wp_backend port;
    pthread_mutex_t lock; /* Guards what follows. */
    pthread_cond_t changed;
    unsigned ready[SLOTS];
    unsigned lost[SLOTS];
    unsigned destroyed[SLOTS];
    unsigned n_reports;
    unsigned n_started;
    unsigned most; /* In the making at once. */
    unsigned asked;
    bool adopting;
    char endpoint[SLOTS][WP_ENDPOINT_MAX + 1];
};

static int end_errno; /* What ends each folder's entries; 0: their end. */

struct dirent *__real_readdir(DIR *folder);
struct dirent *__wrap_readdir(DIR *folder);

struct dirent *
__wrap_readdir(DIR *folder)
{
    struct dirent *entry = __real_readdir(folder);

    errno = entry == NULL ? end_errno : errno;
    return entry;
}

static void
count(struct rig *rig, unsigned *which)
{
    (void)pthread_mutex_lock(&rig->lock);
    ++*which;
    rig->n_reports++;
    (void)pthread_cond_broadcast(&rig->changed);
    (void)pthread_mutex_unlock(&rig->lock);
}

static void
on_started(void *ctx, struct wp_slot_ref ref)
{
    struct rig *rig = ctx;
    unsigned making;

    (void)ref;
    (void)pthread_mutex_lock(&rig->lock);
    making = ++rig->n_started - rig->n_reports;
    rig->most = making > rig->most ? making : rig->most;
    (void)pthread_mutex_unlock(&rig->lock);
}

static void
on_ready(void *ctx, struct wp_slot_ref ref, struct wp_str endpoint)
{
    struct rig *rig = ctx;

    assert_true(wp_str_copy(endpoint, rig->endpoint[ref.index],
                            sizeof rig->endpoint[0]));
    count(rig, &rig->ready[ref.index]);
}

static void
on_lost(void *ctx, struct wp_slot_ref ref, struct wp_str reason)
{
    struct rig *rig = ctx;

    assert_true(reason.len > 0);
    count(rig, &rig->lost[ref.index]);
}

static void
on_destroyed(void *ctx, struct wp_slot_ref ref)
{
    struct rig *rig = ctx;

    count(rig, &rig->destroyed[ref.index]);
}

/* Waits until n reports were made since the rig was opened. */
static void
await_reports(struct rig *rig, unsigned n)
{
    struct timespec end;

    (void)clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE_S;
    (void)pthread_mutex_lock(&rig->lock);
    while (rig->n_reports < n) {
        assert_int_equal(
            pthread_cond_timedwait(&rig->changed, &rig->lock, &end), 0);
    }
    (void)pthread_mutex_unlock(&rig->lock);
}

static void
uid_of(unsigned n, uint8_t uid[WP_UID_LEN])
{
    memset(uid, 0, WP_UID_LEN);
    uid[0] = 0xab;
    uid[WP_UID_LEN - 1] = (uint8_t)n;
}

static enum wp_status
order(struct rig *rig, uint32_t index)
{
    uint8_t uid[WP_UID_LEN];
    char name[32];

    uid_of(index, uid);
    (void)snprintf(name, sizeof name, "p-%08u", index);
    return rig->port.ops->create(
        rig->port.self,
        &(struct wp_sandbox_order){.ref = {index, 1},
                                   .pool_namespace = WP_STR("default"),
                                   .pool = WP_STR("p"),
                                   .template_name = WP_STR("t"),
                                   .name = wp_str_from(name),
                                   .uid = uid},
        NULL);
}

static bool adopt(void *ctx, const struct wp_local_found *found,
                  struct wp_slot_ref *ref);

/* Opens a backend in rig->dir. */
static struct wp_local_sweep
open_rig(struct rig *rig, struct wp_synthetic_config config)
{
    const struct wp_local_events events = {rig,
                                           on_ready,
                                           on_lost,
                                           on_destroyed,
                                           rig->adopting ? adopt : NULL,
                                           on_started,
                                           NULL,
                                           NULL};
    struct wp_local_sweep sweep;
    struct wp_err err = {.msg = ""};

    memset(rig->ready, 0, sizeof rig->ready);
    memset(rig->lost, 0, sizeof rig->lost);
    memset(rig->destroyed, 0, sizeof rig->destroyed);
    rig->n_reports = 0;
    rig->n_started = 0;
    rig->most = 0;
    config.state_dir = rig->dir;
    config.sandboxes_max = SLOTS;
    config.lock_fd = -1;
    rig->synthetic = wp_synthetic_create(&config, &err);
    if (rig->synthetic == NULL) {
        fail_msg("%s", err.msg);
    }
    rig->port = wp_synthetic_port(rig->synthetic);
    assert_int_equal(wp_synthetic_start(rig->synthetic, &events, &sweep, &err),
                     WP_OK);
    return sweep;
}

static void
close_rig(struct rig *rig)
{
    if (rig->synthetic != NULL) {
        wp_synthetic_stop(rig->synthetic);
        wp_synthetic_destroy(rig->synthetic);
        rig->synthetic = NULL;
    }
}

static int
setup(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);

    if (rig == NULL) {
        return -1;
    }
    (void)pthread_mutex_init(&rig->lock, NULL);
    (void)pthread_cond_init(&rig->changed, NULL);
    (void)snprintf(rig->dir, sizeof rig->dir, "/tmp/wp-synthetic-XXXXXX");
    *state = rig;
    return mkdtemp(rig->dir) != NULL ? 0 : -1;
}

static unsigned
files(const struct rig *rig)
{
    char path[128];
    const struct dirent *entry;
    unsigned n = 0;
    DIR *dir;

    (void)snprintf(path, sizeof path, "%s/synthetic", rig->dir);
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        n += entry->d_name[0] != '.';
    }
    (void)closedir(dir);
    return n;
}

static int
teardown(void **state)
{
    struct rig *rig = *state;
    char command[128];

    close_rig(rig);
    (void)snprintf(command, sizeof command, "rm -r '%s'", rig->dir);
    (void)pthread_cond_destroy(&rig->changed);
    (void)pthread_mutex_destroy(&rig->lock);
    assert_int_equal(system(command), 0);
    free(rig);
    return 0;
}

/* Goal: from its order to its end a sandbox is a file; each end is reported
 * once, and a stale or repeated destroy does nothing. */
static void
test_life(void **state)
{
    struct rig *rig = *state;
    struct wp_local_stats stats;

    (void)open_rig(rig, (struct wp_synthetic_config){0});
    assert_int_equal(order(rig, 3), WP_OK);
    assert_int_equal(order(rig, 5), WP_OK);
    await_reports(rig, 2);
    assert_int_equal(rig->ready[3] + rig->ready[5], 2);
    assert_int_equal(files(rig), 2);
    assert_true(strncmp(rig->endpoint[3], "unix:/", 6) == 0);
    assert_int_equal(access(rig->endpoint[3] + 5, F_OK), 0);
    wp_synthetic_stats(rig->synthetic, &stats);
    assert_int_equal(stats.ready, 2);
    assert_int_equal(stats.starting, 0);

    assert_int_equal(
        rig->port.ops->destroy(rig->port.self, (struct wp_slot_ref){3, 7}),
        WP_OK); /* Of another generation. */
    assert_int_equal(
        rig->port.ops->destroy(rig->port.self, (struct wp_slot_ref){3, 1}),
        WP_OK);
    assert_int_equal(
        rig->port.ops->destroy(rig->port.self, (struct wp_slot_ref){3, 1}),
        WP_OK);
    assert_int_equal(
        rig->port.ops->destroy(rig->port.self, (struct wp_slot_ref){5, 1}),
        WP_OK);
    await_reports(rig, 4);
    assert_int_equal(rig->destroyed[3], 1);
    assert_int_equal(rig->destroyed[5], 1);
    assert_int_equal(files(rig), 0);
    wp_synthetic_stats(rig->synthetic, &stats);
    assert_int_equal(stats.ready, 0);
    assert_int_equal(stats.starting, 0);
    assert_int_equal(stats.spawned_total, 2);
    assert_int_equal(stats.lost_total, 0);
    assert_int_equal(order(rig, 3), WP_OK); /* The slot again. */
    await_reports(rig, 5);
    assert_int_equal(rig->ready[3], 2);
    assert_int_equal(order(rig, SLOTS), WP_RESOURCE_EXHAUSTED);
}

/* So long that a busy machine gets from an order to its destroy meanwhile. */
#define LEAD_NS (700 * WP_NS_PER_MS)

/* Two at once; the others wait, and each is told of when its turn comes. */
static void
test_turns(void **state)
{
    struct rig *rig = *state;

    (void)open_rig(rig, (struct wp_synthetic_config){
                            .ready_ns = 2 * WP_NS_PER_MS, .spawns_max = 2});
    assert_int_equal(rig->port.at_once, 2);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(order(rig, i), WP_OK);
    }
    await_reports(rig, 9);
    assert_int_equal(rig->n_started, 9);
    assert_int_equal(rig->most, 2);
}

/* Goal: the lead time is kept, and one destroyed while it warms never reports
 * ready. */
static void
test_lead_time(void **state)
{
    struct rig *rig = *state;
    int64_t from_ns = wp_clock_mono_ns(wp_clock_system());
    struct wp_local_stats stats;

    (void)open_rig(rig, (struct wp_synthetic_config){.ready_ns = LEAD_NS});
    assert_int_equal(order(rig, 1), WP_OK);
    assert_int_equal(order(rig, 2), WP_OK);
    assert_int_equal(
        rig->port.ops->destroy(rig->port.self, (struct wp_slot_ref){1, 1}),
        WP_OK);
    await_reports(rig, 2);
    assert_true(wp_clock_mono_ns(wp_clock_system()) - from_ns >= LEAD_NS);
    assert_int_equal(rig->ready[1], 0);
    assert_int_equal(rig->destroyed[1], 1);
    assert_int_equal(rig->ready[2], 1);
    wp_synthetic_stats(rig->synthetic, &stats);
    assert_int_equal(stats.starting, 0);
    assert_int_equal(stats.ready, 1);
}

/* Goal: told to fail, an order is reported lost and its end still comes. */
static void
test_failures(void **state)
{
    struct rig *rig = *state;
    struct wp_local_stats stats;

    (void)open_rig(rig, (struct wp_synthetic_config){.fail_percent = 100});
    assert_int_equal(order(rig, 1), WP_OK);
    await_reports(rig, 1);
    assert_int_equal(rig->lost[1], 1);
    assert_int_equal(
        rig->port.ops->destroy(rig->port.self, (struct wp_slot_ref){1, 1}),
        WP_OK);
    await_reports(rig, 2);
    assert_int_equal(rig->destroyed[1], 1);
    assert_int_equal(files(rig), 0);
    wp_synthetic_stats(rig->synthetic, &stats);
    assert_int_equal(stats.lost_total, 1);
}

/* Wants sandboxes whose number is even, as slots 40 and on. */
static bool
adopt(void *ctx, const struct wp_local_found *found, struct wp_slot_ref *ref)
{
    struct rig *rig = ctx;
    unsigned n = found->uid[WP_UID_LEN - 1];
    uint8_t uid[WP_UID_LEN];
    char name[32];

    rig->asked++;
    uid_of(n, uid);
    assert_memory_equal(found->uid, uid, WP_UID_LEN);
    (void)snprintf(name, sizeof name, "p-%08u", n);
    assert_true(wp_str_is(found->name, name));
    assert_true(wp_str_is(found->pool, "p"));
    assert_true(wp_str_is(found->template_name, "t"));
    assert_true(wp_str_is(found->pool_namespace, "default"));
    assert_true(wp_str_starts_with(found->endpoint, WP_STR("unix:/")));
    assert_true(found->template_current);
    *ref = (struct wp_slot_ref){40 + n, 9};
    return n % 2 == 0;
}

/* Goal: stop destroys everything; leave, all but what had become ready, which
 * the next start sweeps when nobody adopts it. */
static void
test_stop_and_leave(void **state)
{
    struct rig *rig = *state;
    struct wp_local_sweep sweep;

    (void)open_rig(rig, (struct wp_synthetic_config){0});
    for (uint32_t i = 0; i < SLOTS; i++) {
        assert_int_equal(order(rig, i), WP_OK);
    }
    wp_synthetic_stop(rig->synthetic);
    assert_int_equal(files(rig), 0);
    for (uint32_t i = 0; i < SLOTS; i++) {
        assert_int_equal(rig->destroyed[i], 1);
    }
    close_rig(rig);

    (void)open_rig(rig, (struct wp_synthetic_config){0});
    assert_int_equal(order(rig, 1), WP_OK);
    await_reports(rig, 1);
    wp_synthetic_leave(rig->synthetic);
    assert_int_equal(files(rig), 1);
    assert_int_equal(rig->destroyed[1], 0);
    close_rig(rig);

    sweep = open_rig(
        rig, (struct wp_synthetic_config){.ready_ns = 3600 * WP_NS_PER_S});
    assert_int_equal(sweep.sandboxes, 1);
    assert_int_equal(sweep.adopted, 0);
    assert_int_equal(files(rig), 0);
    assert_int_equal(order(rig, 1), WP_OK);
    wp_synthetic_leave(rig->synthetic);
    assert_int_equal(rig->destroyed[1], 1);
    assert_int_equal(files(rig), 0);
}

static void
write_file(const struct rig *rig, const char *name, const char *text)
{
    char path[128];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/synthetic/%s", rig->dir, name);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Goal: the next daemon adopts what is wanted, under its new slot, and removes
 * the rest, half-made files too; what is no sandbox is left alone. */
static void
test_adoption(void **state)
{
    struct rig *rig = *state;
    struct wp_local_sweep sweep;

    (void)open_rig(rig, (struct wp_synthetic_config){0});
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(order(rig, i), WP_OK);
    }
    await_reports(rig, 5);
    wp_synthetic_leave(rig->synthetic);
    close_rig(rig);
    write_file(rig, "00000000000000000000000000000000", "default\np\n");
    write_file(rig, "notes", "");

    rig->adopting = true;
    sweep = open_rig(rig, (struct wp_synthetic_config){0});
    assert_int_equal(rig->asked, 5);
    assert_int_equal(sweep.adopted, 3);
    assert_int_equal(sweep.sandboxes, 3); /* 1, 3 and the half-made one. */
    assert_int_equal(sweep.failed, 0);
    assert_int_equal(files(rig), 4);
    assert_int_equal(
        rig->port.ops->destroy(rig->port.self, (struct wp_slot_ref){42, 9}),
        WP_OK);
    await_reports(rig, 1);
    assert_int_equal(rig->destroyed[42], 1);
    assert_int_equal(files(rig), 3);
    wp_synthetic_stop(rig->synthetic);
    assert_int_equal(rig->destroyed[40] + rig->destroyed[44], 2);
    assert_int_equal(files(rig), 1);
}

/* Goal: a daemon that cannot see all its sandboxes does not go on without some
 * of them. */
static void
test_unseen(void **state)
{
    struct rig *rig = *state;
    const struct wp_local_events none = {.ctx = rig};
    const struct wp_synthetic_config config = {
        .state_dir = rig->dir, .sandboxes_max = SLOTS, .lock_fd = -1};
    struct wp_local_sweep sweep;
    struct wp_err err = {.msg = ""};

    rig->synthetic = wp_synthetic_create(&config, &err);
    assert_non_null(rig->synthetic);
    end_errno = EIO;
    assert_int_equal(wp_synthetic_start(rig->synthetic, &none, &sweep, &err),
                     WP_UNAVAILABLE);
    end_errno = 0;
    assert_non_null(strstr(err.msg, "cannot list "));
    assert_non_null(strstr(err.msg, ": Input/output error"));
    wp_synthetic_destroy(rig->synthetic);
    rig->synthetic = NULL;
}

/* Goal: one daemon at a time has a directory: the lock is freed by destroy,
 * and one that was waited for is taken over. */
static void
test_lock(void **state)
{
    struct rig *rig = *state;
    struct wp_synthetic_config config = {
        .state_dir = rig->dir, .sandboxes_max = SLOTS, .lock_fd = -1};
    struct wp_synthetic *other;
    struct wp_err err = {.msg = ""};
    char path[128];

    (void)open_rig(rig, (struct wp_synthetic_config){0});
    assert_null(wp_synthetic_create(&config, &err));
    assert_int_equal(err.status, WP_FAILED_PRECONDITION);
    close_rig(rig);
    (void)snprintf(path, sizeof path, "%s/lock", rig->dir);
    config.lock_fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(config.lock_fd, LOCK_EX | LOCK_NB), 0);
    other = wp_synthetic_create(&config, &err);
    assert_non_null(other);
    config.lock_fd = -1;
    assert_null(wp_synthetic_create(&config, &err));
    wp_synthetic_destroy(other);
    other = wp_synthetic_create(&config, &err);
    assert_non_null(other);
    wp_synthetic_destroy(other);
}

/* Goal: a directory whose endpoints would not fit is refused at once. */
static void
test_long_path(void **state)
{
    char dir[WP_ENDPOINT_MAX];
    struct wp_err err = {.msg = ""};

    (void)state;
    memset(dir, 'x', sizeof dir);
    dir[0] = '/';
    dir[70] = '\0';
    assert_null(wp_synthetic_create(
        &(struct wp_synthetic_config){
            .state_dir = dir, .sandboxes_max = 1, .lock_fd = -1},
        &err));
    assert_int_equal(err.status, WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "at most 59 characters"));
}

/* The longest names that there are fit into the file; one more is refused. */
static void
test_long_names(void **state)
{
    static char ns[WP_NAMESPACE_MAX];
    static char pool[WP_POOL_NAME_MAX];
    static char tmpl[WP_TEMPLATE_NAME_MAX + 1];
    static char name[WP_SANDBOX_NAME_MAX];
    uint8_t uid[WP_UID_LEN];
    struct wp_sandbox_order long_one = {.ref = {1, 1},
                                        .pool_namespace = {ns, sizeof ns},
                                        .pool = {pool, sizeof pool},
                                        .template_name = {tmpl, sizeof tmpl},
                                        .name = {name, sizeof name},
                                        .uid = uid};
    struct rig *rig = *state;
    struct wp_err err;

    memset(ns, 'n', sizeof ns);
    memset(pool, 'p', sizeof pool);
    memset(tmpl, 't', sizeof tmpl);
    memset(name, 's', sizeof name);
    uid_of(1, uid);
    (void)open_rig(rig, (struct wp_synthetic_config){0});
    assert_int_equal(rig->port.ops->create(rig->port.self, &long_one, &err),
                     WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "too long"));
    long_one.template_name.len--;
    assert_int_equal(rig->port.ops->create(rig->port.self, &long_one, &err),
                     WP_OK);
    await_reports(rig, 1);
    assert_int_equal(rig->ready[1], 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_life, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lead_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failures, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stop_and_leave, setup, teardown),
        cmocka_unit_test_setup_teardown(test_adoption, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unseen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lock, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_names, setup, teardown),
        cmocka_unit_test(test_long_path),
    };

    return cmocka_run_group_tests_name("synthetic backend", tests, NULL, NULL);
}
