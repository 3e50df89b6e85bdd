/* tests/unit/local/sandbox/sandbox_backend_test.c - the local backend as others
 * see it: what is made before it runs and in which order, with each part
 * failing in its turn; orders; its end. */
#include "tests/unit/local/sandbox/backend_rig.h"

/* --- Tests --- */

static void
test_settings_have_defaults(void **state)
{
    struct wp_local_config c;

    (void)state;
    memset(&c, 0xff, sizeof c);
    wp_local_config_init(&c);
    assert_null(c.state_dir);
    assert_null(c.rootfs_dir);
    assert_null(c.volumes_dir);
    assert_null(c.templates);
    assert_false(c.best_effort || c.log_json || c.outlive || c.untried);
    assert_int_equal(c.uid_first, 1900000000);
    assert_int_equal(c.sandboxes_max, 4096);
    assert_int_equal(c.spawns_max, 0);
    assert_int_equal(c.probe_every_ms, 5000);
    assert_int_equal(c.probe_timeout_ms, 2000);
    assert_int_equal(c.probe_failures, 3);
    assert_int_equal(c.stop_grace_ms, 0);
    assert_string_equal(c.cgroup, "");
    assert_int_equal(c.memory_default, 0);
    assert_int_equal(c.cpu_milli_default, 0);
    assert_int_equal(c.pids_max, 512);
    assert_int_equal(c.connections_max, 64);
    assert_int_equal(c.tmpfs_bytes, 268435456);
    assert_string_equal(c.egress_packages, "");
    assert_int_equal(c.egress_connections_max, 256);
    assert_int_equal(c.egress_bytes_max, 0);
    assert_int_equal(c.volumes_max, 64);
    assert_string_equal(c.remotes, "");
    assert_string_equal(c.remotes_denied, "");
    assert_int_equal(c.trust, WP_TRUST_OFF);
    assert_string_equal(c.trust_files, "");
    assert_int_equal(c.repository_bytes_max, 134217728);
    assert_int_equal(c.cache_bytes_max, 536870912);
    assert_int_equal(c.cache_age_s, 604800);
    assert_int_equal(c.fetch_timeout_ms, 60000);
    assert_int_equal(c.socket_mode, 0600);
    assert_int_equal(c.socket_uid, (uid_t)-1);
    assert_int_equal(c.socket_gid, (gid_t)-1);
    assert_int_equal(c.lock_fd, -1);
}

static void
test_each_part_that_lacks_ends_the_making(void **state)
{
    (void)state;
    journal_begin();
    for (int n = 0;; n++) {
        char what[32];

        begin();
        fails_at = n;
        (void)snprintf(what, sizeof what, "call %d fails", n);
        if (create(what) != NULL) {
            end();
        }
        if (calls < n) {
            break;
        }
    }
    begin();
    config.lock_fd = -1;
    fails_at = 1;
    (void)create("no memory, no lock");
    begin();
    config.lock_fd = 0;
    fails_at = 1;
    (void)create("no memory, the first descriptor");
    begin();
    config.lock_fd = 0;
    fails_at = 2;
    (void)create("settings are bad, the first descriptor");
    journal_compare("backend_parts");
}

static void
test_what_is_made_is_as_the_settings_say(void **state)
{
    const struct wp_host_report *report;

    (void)state;
    journal_begin();
    begin();
    (void)create("all");
    for (uint32_t i = 0; i < local->free_users_len; i++) {
        NOTE(" %u", local->free_users[i]);
    }
    assert_int_equal(local->free_users[MAX], 0xeeeeeeee);
    NOTE(" users\nstate %s boot %s lock %d, at once %u of %u\n",
         local->state_dir, local->boot_id, local->lock_fd,
         local->config.spawns_max, wp_local_backend(local).at_once);
    NOTE("volumes %s %u, users %d from %u, owner %u, fd %d\n",
         local->volumes.dir, local->volumes.max, local->volumes.own_users,
         local->volumes.user_first, local->volumes.owner,
         local->volumes.dir_fd);
    assert_true(wp_list_empty(&local->queue) && wp_list_empty(&local->live));
    assert_int_equal(local->old_cgroups_len, 2);
    report = wp_local_report(local);
    assert_ptr_equal(report, &local->host);
    assert_ptr_equal(local->fetcher, fetcher);
    end();
    begin();
    own_uids = seccomp = false;
    config.volumes_dir = NULL;
    config.untried = true;
    config.outlive = true;
    config.spawns_max = 0;
    (void)create("not root, no filter, no volumes, untried");
    NOTE("volumes %d fd %d\n", local->volumes.dir != NULL,
         local->volumes.dir_fd);
    end();
    begin();
    config.remotes = "";
    (void)create("no remotes");
    end();
    begin();
    config.fetch_path = NULL;
    (void)create("no warmpool-fetch");
    assert_null(local->fetcher);
    end();
    begin();
    has_git = false;
    (void)create("no git");
    end();
    for (int i = 0; i < 4; i++) {
        begin();
        freezes = false;
        file_system = i == 0 ? EXT4_SUPER_MAGIC : i == 1 ? 0 : TMPFS_MAGIC;
        config.outlive = i >= 2;
        moved = i != 2;
        (void)create("notes");
        end();
    }
    journal_compare("backend_made");
}

static void
test_so_many_start_at_once(void **state)
{
    (void)state;
    begin();
    assert_int_equal(wp_local_spawns(1), 1);
    assert_int_equal(wp_local_spawns(7), 7);
    assert_int_equal(wp_local_spawns(0), 12);
    cores = 1;
    assert_int_equal(wp_local_spawns(0), 2);
    cores = 0;
    assert_int_equal(wp_local_spawns(0), 2);
    cores = -1;
    assert_int_equal(wp_local_spawns(0), 2);
}

static void
test_a_machine_is_probed(void **state)
{
    static struct wp_host_report report;

    (void)state;
    journal_begin();
    for (int n = 0; n <= 2; n++) {
        struct wp_err err = {.status = WP_OK};
        enum wp_status status;

        begin();
        fails_at = n;
        NOTE("--- call %d fails\n", n);
        local = (struct wp_local *)(uintptr_t)64;
        running = true;
        status = wp_local_probe(&config, &report, &err);
        running = false;
        journal_status("probe", status, &err);
    }
    local = NULL;
    journal_compare("backend_probe");
}

static const uint8_t uid[WP_UID_LEN] = {1, [WP_UID_LEN - 1] = 0xcd};

static struct wp_sandbox_order
order_of(void)
{
    return (struct wp_sandbox_order){
        .ref = {.index = 3, .generation = 4},
        .pool_namespace = WP_STR("ns"),
        .pool = WP_STR("pool"),
        .template_name = WP_STR("tmpl"),
        .name = WP_STR("box"),
        .uid = uid,
        .egress = WP_STR("dns"),
        .ready_within_ns = 5 * WP_NS_PER_S,
    };
}

static void
order(const char *what, const struct wp_sandbox_order *o)
{
    struct wp_backend backend = wp_local_backend(local);
    struct wp_err err = {.status = WP_OK};
    enum wp_status status;

    NOTE("--- %s\n", what);
    assert_ptr_equal(backend.self, local);
    running = true;
    calls = 0;
    status = backend.ops->create(backend.self, o, &err);
    running = false;
    journal_status("order", status, &err);
    NOTE("= live %u\n", atomic_load(&local->live_count));
    if (status == WP_OK) {
        posted(posted_ctx, posted_a, 0);
    }
}

static void
test_orders_are_taken_or_refused(void **state)
{
    static char text[4096];
    struct wp_sandbox_order o = order_of();

    (void)state;
    journal_begin();
    memset(text, 'x', sizeof text);
    begin();
    quiet();
    order("one", &o);
    for (fails_at = 1; fails_at <= 4; fails_at++) {
        char what[32];

        (void)snprintf(what, sizeof what, "call %d fails", fails_at);
        order(what, &o);
    }
    fails_at = 0;
    o.egress = WP_STR("");
    order("no egress", &o);
    o.egress = (struct wp_str){.ptr = text, .len = WP_EGRESS_TEXT_MAX};
    atomic_store(&local->live_count, MAX - 1);
    order("the longest egress, the last one", &o);
    order("one too many", &o);
    atomic_store(&local->live_count, 0);
    o.egress.len++;
    order("too long an egress", &o);
    local->config.egress_path = NULL;
    order("no egress here", &o);
    o.egress.len = 0;
    order("none needed", &o);
    o = order_of();
    o.egress.len = 1;
    order("one letter of egress", &o);
    o.egress.len = 0;
    o.pool = (struct wp_str){.ptr = text, .len = WP_POOL_NAME_MAX};
    order("the longest pool", &o);
    o.pool.len++;
    order("too long a pool", &o);
    o.pool = WP_STR("a\nb");
    order("a pool that cannot be printed", &o);
    o.pool = WP_STR("p");
    o.name = (struct wp_str){.ptr = text, .len = WP_SANDBOX_NAME_MAX};
    order("the longest name", &o);
    o.name.len++;
    order("too long a name", &o);
    o.name = WP_STR("A_b");
    order("no DNS label", &o);
    o.name = WP_STR("");
    order("no name", &o);
    o.name = WP_STR("b");
    endpoint_fits = false;
    order("too long a path", &o);
    end();
    journal_compare("backend_orders");
}

static void
test_the_port_is_whole(void **state)
{
    struct wp_sandbox box = {.name = "two"};
    struct wp_backend backend;
    struct wp_err err;

    (void)state;
    journal_begin();
    begin();
    quiet();
    backend = wp_local_backend(local);
    assert_string_equal(backend.ops->name, "local");
    assert_ptr_equal(backend.ops->leased, wp_local_leased);
    assert_ptr_equal(backend.ops->bind, wp_local_bind);
    assert_ptr_equal(backend.ops->unbound, wp_local_unbound);
    assert_ptr_equal(backend.ops->may_bring, wp_local_may_bring);
    assert_ptr_equal(backend.ops->narrows, wp_local_narrows);
    assert_null(backend.ops->passes);
    assert_int_equal(backend.ops->may_sign(local, &err), WP_OK);
    assert_int_equal(backend.at_once, 3);
    boxes[2] = &box;
    for (uint32_t i = 2; i <= 3; i++) {
        struct wp_slot_ref ref = {.index = i, .generation = 9};

        assert_int_equal(backend.ops->destroy(local, ref), WP_OK);
        posted(posted_ctx, posted_a, 0);
    }
    boxes[2] = NULL;
    running = true;
    calls = 0;
    fails_at = 1;
    assert_int_equal(
        backend.ops->destroy(local, (struct wp_slot_ref){.index = 1}),
        WP_RESOURCE_EXHAUSTED);
    running = false;
    end();
    journal_compare("backend_port");
}

static void
test_each_part_that_lacks_ends_the_start(void **state)
{
    struct wp_local_sweep mine;
    struct wp_err err;

    (void)state;
    journal_begin();
    for (int n = 0; n <= 3; n++) {
        begin();
        quiet();
        fails_at = n;
        events.ctx = &events;
        start("start");
        assert_ptr_equal(local->events.ctx, &events);
        assert_ptr_equal(local->base, base);
        assert_non_null(swept);
        local->started = false;
        end();
    }
    begin();
    quiet();
    assert_int_equal(wp_local_start(local, &events, &mine, &err), WP_OK);
    assert_ptr_equal(swept, &mine);
    local->started = false;
    end();
    begin();
    quiet();
    NOTE("--- adopted, and then no thread\n");
    boxes[0] = calloc(1, sizeof *boxes[0]);
    assert_non_null(boxes[0]);
    wp_list_push_back(&local->live, &boxes[0]->node);
    end();
    free(boxes[0]);
    boxes[0] = NULL;
    journal_compare("backend_start");
}

static void
test_numbers_are_told(void **state)
{
    struct wp_local_stats stats;

    (void)state;
    journal_begin();
    begin();
    quiet();
    atomic_store(&local->queued, 1);
    atomic_store(&local->starting, 2);
    atomic_store(&local->ready, 3);
    atomic_store(&local->dying, 4);
    atomic_store(&local->frozen, 5);
    atomic_store(&local->frozen_total, 6);
    atomic_store(&local->spawned_total, 7);
    atomic_store(&local->lost_total, 8);
    wp_local_stats(local, &stats);
    assert_int_equal(stats.queued, 1);
    assert_int_equal(stats.starting, 2);
    assert_int_equal(stats.ready, 3);
    assert_int_equal(stats.dying, 4);
    assert_int_equal(stats.frozen, 5);
    assert_int_equal(stats.frozen_total, 6);
    assert_int_equal(stats.spawned_total, 7);
    assert_int_equal(stats.lost_total, 8);
    end();
    wp_local_destroy(NULL);
}

static struct wp_sandbox *ends[7];

/* Six sandboxes: ready and to stay, ready, starting (and to stay), one of each
 * list. */
static void
with_sandboxes(void)
{
    begin();
    quiet();
    local->started = true;
    local->base = base;
    local->by_index = calloc(9, sizeof *local->by_index);
    assert_non_null(local->by_index);
    local->by_index_len = 8;
    for (uint32_t i = 0; i < 6; i++) {
        struct wp_sandbox *s = calloc(1, sizeof *s);

        assert_non_null(s);
        (void)snprintf(s->name, sizeof s->name, "box%u", i);
        s->state = i < 3   ? WP_SANDBOX_READY
                   : i < 5 ? WP_SANDBOX_STARTING
                           : WP_SANDBOX_QUEUED;
        s->outlives = i == 0 || i == 1 || i == 3;
        wp_list_push_back(i < 5 ? &local->live : &local->queue, &s->node);
        local->by_index[i + 1] = s;
        ends[i] = s;
    }
    local->by_index[8] = ends[0]; /* Behind the table. */
}

static void
stop_again(void)
{
    NOTE("--- again at %lld\n", (long long)now_ns);
    on_stop(-1, EV_TIMEOUT, local);
    NOTE("= leaving %u\n", local->leaving);
}

static void
stopped(uint32_t left)
{
    NOTE("= left %u started %d, %u to leave\n", left, local->started,
         local->leaving);
    for (uint32_t i = 0; i < 6; i++) {
        free(ends[i]);
    }
    wp_list_init(&local->live);
    wp_list_init(&local->queue);
    end();
}

static void
test_it_waits_for_its_sandboxes_to_end(void **state)
{
    (void)state;
    journal_begin();
    with_sandboxes();
    atomic_store(&local->live_count, 6);
    atomic_store(&local->ready, 3);
    NOTE("--- stop\n");
    stopped(wp_local_stop(local, 100 * WP_NS_PER_MS));
    with_sandboxes();
    atomic_store(&local->live_count, 6);
    atomic_store(&local->ready, 3);
    NOTE("--- leave\n");
    stopped(wp_local_leave(local, 100 * WP_NS_PER_MS));
    with_sandboxes();
    atomic_store(&local->live_count, 3);
    atomic_store(&local->ready, 3);
    NOTE("--- leave, all are ready\n");
    stopped(wp_local_leave(local, 100 * WP_NS_PER_MS));
    with_sandboxes();
    atomic_store(&local->live_count, 1);
    NOTE("--- stop, for ever\n");
    (void)wp_local_stop(local, INT64_MAX);
    assert_int_equal(local->stop_by_ns, INT64_MAX);
    NOTE("--- stopped already\n");
    stopped(wp_local_stop(local, INT64_MAX));
    with_sandboxes();
    atomic_store(&local->live_count, 2);
    NOTE("--- no time\n");
    (void)wp_local_stop(local, 0);
    now_ns -= 1;
    stop_again();
    now_ns += 1;
    stop_again();
    atomic_store(&local->live_count, 0);
    now_ns -= 10;
    stop_again();
    stopped(0);
    journal_compare("backend_stop");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_have_defaults),
        cmocka_unit_test(test_each_part_that_lacks_ends_the_making),
        cmocka_unit_test(test_what_is_made_is_as_the_settings_say),
        cmocka_unit_test(test_so_many_start_at_once),
        cmocka_unit_test(test_a_machine_is_probed),
        cmocka_unit_test(test_orders_are_taken_or_refused),
        cmocka_unit_test(test_the_port_is_whole),
        cmocka_unit_test(test_each_part_that_lacks_ends_the_start),
        cmocka_unit_test(test_numbers_are_told),
        cmocka_unit_test(test_it_waits_for_its_sandboxes_to_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
