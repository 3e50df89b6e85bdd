/* The cluster as a whole, on parts that are none: each call that it makes of
 * them is a line of the journal. What is made of what, in which order, and what
 * is undone when something cannot be had; what a tick does; how it ends; and
 * what there is to say about it. */
#include "tests/unit/k8s/cluster/parts.h"

#include "tests/support/base/heard.h"

static struct heard heard;

/* --- What is made --- */

static char own_ns[] = "own";
static const struct wp_api_config server = {.own_namespace = own_ns};
static const struct wp_cluster_webhook webhook;
static const struct wp_cluster_identity identities;

static struct wp_cluster_config
config_of(uint32_t controllers)
{
    struct wp_cluster_config config;

    wp_clock_manual_init(&clock_, 100 * WP_NS_PER_S, 100 * WP_NS_PER_S);
    wp_cluster_config_init(&config);
    config.server = &server;
    config.clock = &clock_.clock;
    config.controllers = controllers;
    config.identity = "me";
    config.qps = 2.5;
    config.burst = 7;
    config.webhook = &webhook;
    config.identities = &identities;
    return config;
}

static enum wp_status
create(const struct wp_cluster_config *config, int failing, struct wp_err *err)
{
    struct wp_cluster *self;

    cluster = NULL;
    made = 0;
    fail_at = failing;
    full = false;
    memset(&http_stats, 0, sizeof http_stats);
    memset(err, 0, sizeof *err);
    self = wp_cluster_create(config, err);
    assert_true(self == NULL || self == cluster);
    return self != NULL ? WP_OK : err->status;
}

static uint32_t fatals;

static void
on_fatal(void *ctx, const char *reason)
{
    assert_ptr_equal(ctx, &fatals);
    fatals++;
    note("fatal: %s\n", reason);
}

static const struct wp_cluster_core core = {.ctx = &fatals,
                                            .on_fatal = on_fatal};

static void
begin(const struct wp_cluster_config *config)
{
    struct wp_err err;

    assert_int_equal(create(config, 0, &err), WP_OK);
    assert_int_equal(wp_cluster_start(cluster, &core, &err), WP_OK);
    (void)noted();
}

static void
end(void)
{
    wp_cluster_destroy(cluster);
    (void)noted();
}

#define MADE                                                                   \
    "loop \"cluster\" 16384\n"                                                 \
    "tick of base fd -1 what 16 for cluster\n"                                 \
    "tick each 1000000 us\n"                                                   \
    "http of base clock ns own qps 2.5 burst 7 for cluster\n"                  \
    "api of http\n"                                                            \
    "events of base clock api as me off 0\n"                                   \
    "stores\n"                                                                 \
    "counts of sandboxes\n"                                                    \
    "routes of sandboxes\n"                                                    \
    "repositories of base api ns own\n"                                        \
    "backend of base clock api events repositories, seed 5a5a5a5a5a5a5a5a, "   \
    "renewals by clock\n"
#define STOPPED_WATCHES "wp_cluster_stop_watches cluster, stopping 0, quiet 0\n"

static void
all_is_made_of_what_was_made_before_and_ends_in_the_other_order(void **state)
{
    struct wp_cluster_config config = config_of(WP_CONTROLLERS_ALL);
    struct wp_err err;

    (void)state;
    assert_int_equal(create(&config, 0, &err), WP_OK);
    assert_string_equal(noted(), MADE);
    assert_false(wp_cluster_synced(cluster));
    assert_false(wp_cluster_leads(cluster));
    assert_false(wp_cluster_refused(cluster));
    assert_int_equal(wp_cluster_start(cluster, &core, &err), WP_OK);
    assert_string_equal(noted(), "verdicts\n"
                                 "sync of backend\n"
                                 "controller pool with verdicts own\n"
                                 "controller claim with verdicts own\n"
                                 "controller template with verdicts own\n"
                                 "controller sandbox with verdicts own\n"
                                 "controller webhook with verdicts own\n"
                                 "controller identity with verdicts own\n"
                                 "watches\n"
                                 "leading\n"
                                 "thread\n");
    assert_ptr_equal(cluster->parts.core.on_fatal, on_fatal);
    cluster->competitor = (void *)&handles[H_competitor];
    cluster->election = (void *)&handles[H_election];
    wp_cluster_stop(cluster, 20);
    (void)noted();
    wp_cluster_destroy(cluster);
    assert_string_equal(
        noted(), "end competitor\nend election\n"
                 "wp_cluster_stop_watches cluster, stopping 1, quiet 1\n"
                 "end http\nend pool\nend claim\nend template\nend sandbox\n"
                 "end webhook\nend identity\nend sync\nend backend\n"
                 "end repositories\nend verdicts\nend events\nend api\n"
                 "end sandboxes\nend templates\nend definitions\nend counts\n"
                 "end routes\nend tick\nend loop\n");
    wp_cluster_destroy(NULL);
    assert_string_equal(noted(), "");
}

/* Each part in turn: it says why, and what was made is no more. */
static void
what_cannot_be_made_undoes_the_rest(void **state)
{
    static const struct {
        enum wp_status status;
        const char *msg;
        const char *ends;
    } cases[] = {
        {WP_RESOURCE_EXHAUSTED, "no memory", ""},
        {WP_UNIMPLEMENTED, "no loop", STOPPED_WATCHES},
        {WP_RESOURCE_EXHAUSTED, "libevent refused the cluster's loop",
         STOPPED_WATCHES "end loop\n"},
        {WP_UNIMPLEMENTED, "no http", STOPPED_WATCHES "end tick\nend loop\n"},
        {WP_RESOURCE_EXHAUSTED, "no memory",
         STOPPED_WATCHES "end http\nend tick\nend loop\n"},
        {WP_RESOURCE_EXHAUSTED, "no memory",
         STOPPED_WATCHES "end http\nend api\nend tick\nend loop\n"},
        {WP_UNIMPLEMENTED, "no stores",
         STOPPED_WATCHES "end http\nend events\nend api\nend tick\nend loop\n"},
        {WP_RESOURCE_EXHAUSTED, "no memory",
         STOPPED_WATCHES "end http\nend events\nend api\nend sandboxes\n"
                         "end templates\nend definitions\nend routes\n"
                         "end tick\nend loop\n"},
        {WP_RESOURCE_EXHAUSTED, "no memory",
         STOPPED_WATCHES "end http\nend events\nend api\nend sandboxes\n"
                         "end templates\nend definitions\nend counts\n"
                         "end tick\nend loop\n"},
        {WP_UNIMPLEMENTED, "no repositories",
         STOPPED_WATCHES "end http\nend events\nend api\nend sandboxes\n"
                         "end templates\nend definitions\nend counts\n"
                         "end routes\nend tick\nend loop\n"},
        {WP_UNIMPLEMENTED, "no backend",
         STOPPED_WATCHES "end http\nend repositories\nend events\nend api\n"
                         "end sandboxes\nend templates\nend definitions\n"
                         "end counts\nend routes\nend tick\nend loop\n"},
    };
    struct wp_cluster_config config = config_of(WP_CONTROLLERS_ALL);

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_err err;
        const char *told;
        const char *failed;

        assert_int_equal(create(&config, (int)i + 1, &err), cases[i].status);
        assert_string_equal(err.msg, cases[i].msg);
        told = noted();
        failed = strstr(told, ": none\n");
        /* Nothing more is made, but that both of these are tried. */
        if (failed != NULL) {
            told = failed + 7;
        }
        if (i == 7) {
            assert_memory_equal(told, "routes of sandboxes\n", 20);
            told += 20;
        }
        assert_string_equal(told, cases[i].ends);
    }
    assert_int_equal(made, WP_ARRAY_LEN(cases));
}

static void
where_it_was_told_to_be_and_what_not_to_say_is_passed_on(void **state)
{
    struct wp_cluster_config config = config_of(WP_CONTROLLERS_ALL);
    struct wp_err err;
    const char *told;

    (void)state;
    config.election_ns = "elsewhere";
    config.claim_events = false;
    assert_int_equal(create(&config, 0, &err), WP_OK);
    told = noted();
    assert_non_null(strstr(told, "http of base clock ns own qps"));
    assert_non_null(strstr(told, "events of base clock api as me off 1\n"));
    assert_non_null(strstr(told, "repositories of base api ns elsewhere\n"));
    end();
}

/* Which controllers, and what they share, by what was chosen. */
static void
the_chosen_controllers_begin_and_no_others(void **state)
{
    static const char *const names[] = {"pool", "claim", "template", "sandbox"};

    (void)state;
    for (uint32_t chosen = 0; chosen < 64; chosen++) {
        uint32_t controllers = chosen & WP_CONTROLLERS_ALL;
        bool verdicts = (controllers & 12) == 12;
        struct wp_cluster_config config = config_of(controllers);
        struct wp_err err;
        char told[4096];

        config.webhook = (chosen & 16) != 0 ? &webhook : NULL;
        config.identities = (chosen & 32) != 0 ? &identities : NULL;
        assert_int_equal(create(&config, 0, &err), WP_OK);
        (void)noted();
        assert_int_equal(wp_cluster_start(cluster, &core, &err), WP_OK);
        (void)snprintf(told, sizeof told, "%s", noted());
        note("%s%s", verdicts ? "verdicts\n" : "",
             (controllers & 3) != 0 ? "sync of backend\n" : "");
        for (uint32_t i = 0; i < WP_ARRAY_LEN(names); i++) {
            if ((controllers & 1U << i) != 0) {
                note("controller %s with %s own\n", names[i],
                     verdicts ? "verdicts" : "-");
            }
        }
        for (uint32_t i = 0; controllers != 0 && i < 2; i++) {
            if ((chosen & 16U << i) != 0) {
                note("controller %s with %s own\n",
                     i == 0 ? "webhook" : "identity",
                     verdicts ? "verdicts" : "-");
            }
        }
        note("watches\nleading\nthread\n");
        assert_string_equal(told, noted());
        assert_ptr_equal(wp_cluster_claim_metrics(cluster),
                         (controllers & 2) != 0 ? &handles[H_metrics] : NULL);
        end();
    }
}

static void
what_cannot_begin_says_why_and_has_not_begun(void **state)
{
    static const char *const why[] = {"no memory",  "no sync",     "no pool",
                                      "no claim",   "no template", "no sandbox",
                                      "no webhook", "no identity", "no watches",
                                      "no leading", "no thread"};
    struct wp_cluster_config config = config_of(WP_CONTROLLERS_ALL);

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(why); i++) {
        struct wp_err err;
        const char *failed;

        assert_int_equal(create(&config, 11 + (int)i + 1, &err), WP_OK);
        assert_int_equal(made, 11);
        assert_int_equal(wp_cluster_start(cluster, &core, &err),
                         i == 0 ? WP_RESOURCE_EXHAUSTED : WP_UNIMPLEMENTED);
        assert_string_equal(err.msg, why[i]);
        failed = strstr(noted(), ": none\n");
        assert_non_null(failed);
        assert_string_equal(failed, ": none\n");
        assert_false(cluster->started);
        assert_int_equal(cluster->controllers_len,
                         i < 2 ? 0 : (i - 2 < 6 ? i - 2 : 6));
        /* What has not begun need not stop. */
        wp_cluster_stop(cluster, 1);
        assert_string_equal(noted(), "");
        end();
    }
}

static void
the_defaults_are_these(void **state)
{
    struct wp_cluster_config config;
    char text[1024];

    (void)state;
    memset(&config, 0xff, sizeof config);
    wp_cluster_config_init(&config);
    assert_ptr_equal(config.clock, wp_clock_system());
    (void)snprintf(
        text, sizeof text,
        "%d %u %d %s %d %d %s %u %lld %d %lld %lld %u %u %lld %u %u %d %.1f %u "
        "%d %d %d %d %d %d %d %d %d %d %s|%s|%s|%s|%llu %llu %lld %lld %d %d",
        config.server == NULL, config.controllers, config.watch_ns == NULL,
        config.election_name, config.election_ns == NULL, config.election,
        config.cluster_domain, config.sandbox_port,
        (long long)config.cold_grace_ns, config.cold_start,
        (long long)config.ready_grace_ns, (long long)config.watch_silence_ns,
        config.create_inflight_max, config.implicit_pool,
        (long long)config.implicit_pool_idle_ns, config.implicit_pools_max,
        config.sandboxes_max, config.rebuild_leases, config.qps, config.burst,
        (int)config.default_tier, config.claim_events,
        config.observability_annotations, config.warm_pool_eviction, config.gc,
        config.allowed_label_domains_file == NULL, config.sandbox_key == NULL,
        config.webhook == NULL, config.identities == NULL,
        config.egress.proxy == NULL, config.git.remotes,
        config.git.remotes_denied, config.git.fetch_socket,
        config.git.trust_files,
        (unsigned long long)config.git.repository_bytes_max,
        (unsigned long long)config.git.cache_bytes_max,
        (long long)config.git.cache_age_s, (long long)config.git.timeout_ms,
        (int)config.git.trust, config.tracer == NULL);
    assert_string_equal(text,
                        "1 15 1 warmpool-controller 1 1 cluster.local 8888 "
                        "2000000000 1 300000000000 90000000000 300 0 "
                        "600000000000 64 4096 0 0.0 0 0 1 1 1 0 1 1 1 1 "
                        "1 ||||0 0 0 0 0 1");
}

/* --- What it does --- */

static void
ran(void *arg, uint64_t a, uint64_t b)
{
    note("ran %s %u %u\n", name_of(arg), (unsigned)a, (unsigned)b);
}

static void
its_parts_post_to_its_thread_and_hear_that_it_is_full(void **state)
{
    struct wp_cluster_config config = config_of(WP_CONTROLLER_POOL);
    const struct wp_parts *parts;

    (void)state;
    begin(&config);
    parts = &cluster->parts;
    assert_true(parts->post(parts->self, ran, &handles[H_sync], 3, 4));
    full = true;
    assert_false(parts->post(parts->self, ran, &handles[H_base], 5, 6));
    assert_string_equal(
        noted(), "post to loop\nran sync 3 4\npost to loop\nran base 5 6\n");
    end();
}

static void
where_a_sandbox_is_its_routes_know(void **state)
{
    struct wp_cluster_config config = config_of(WP_CONTROLLER_POOL);
    char out[WP_ENDPOINT_MAX + 1];
    struct wp_backend port;

    (void)state;
    config.sandbox_port = 9000;
    begin(&config);
    assert_true(
        wp_cluster_find_sandbox(cluster, WP_STR("ns"), WP_STR("s"), out));
    assert_string_equal(out, "there");
    full = true;
    assert_false(
        wp_cluster_find_sandbox(cluster, WP_STR("n"), WP_STR("t"), out));
    assert_string_equal(noted(), "find ns/s port 9000 in routes\n"
                                 "find n/t port 9000 in routes\n");
    assert_string_equal(name_of(wp_cluster_counts(cluster)), "counts");
    port = wp_cluster_backend(cluster);
    assert_string_equal(name_of(port.self), "backend");
    assert_int_equal(port.at_once, 17);
    for (int i = 0; i < 8; i++) {
        atomic_store_explicit(&cluster->synced, (i & 1) != 0,
                              memory_order_release);
        atomic_store_explicit(&cluster->leads, (i & 2) != 0,
                              memory_order_release);
        atomic_store_explicit(&cluster->refused, (i & 4) != 0,
                              memory_order_relaxed);
        assert_int_equal(wp_cluster_synced(cluster), (i & 1) != 0);
        assert_int_equal(wp_cluster_leads(cluster), (i & 2) != 0);
        assert_int_equal(wp_cluster_refused(cluster), (i & 4) != 0);
    }
    end();
}

static const char *
give_up(const char *why, int code)
{
    heard_begin(&heard);
    wp_cluster_give_up(cluster, "%s %d", why, code);
    return heard_end(&heard);
}

static void
the_first_reason_to_give_up_is_told_once(void **state)
{
    struct wp_cluster_config config = config_of(WP_CONTROLLER_POOL);
    struct wp_err err;

    (void)state;
    begin(&config);
    fatals = 0;
    assert_string_equal(give_up("refused", 403),
                        "ERROR cannot go on reason=\"refused 403\"\n");
    assert_string_equal(noted(), "fatal: refused 403\n");
    assert_string_equal(give_up("again", 404), "");
    assert_string_equal(noted(), "");
    assert_int_equal(fatals, 1);
    end();
    /* Who leaves anyway needs no reason. */
    begin(&config);
    cluster->stopping = true;
    assert_string_equal(give_up("late", 1), "");
    assert_false(cluster->fatal);
    end();
    /* Nobody listens. */
    assert_int_equal(create(&config, 0, &err), WP_OK);
    (void)noted();
    assert_string_equal(give_up("early", 2),
                        "ERROR cannot go on reason=\"early 2\"\n");
    assert_string_equal(noted(), "");
    assert_true(cluster->fatal);
    end();
}

#define TICKED                                                                 \
    "wp_cluster_check_lease cluster, stopping 0, quiet 0\n"                    \
    "wp_cluster_check_watches cluster, stopping 0, quiet 0\n"
#define GIVEN_UP "cluster gives the lease up\nbase ends\n"

static void
stop(int64_t within_ns)
{
    char told[256];

    (void)snprintf(told, sizeof told,
                   "call in loop\n"
                   "wp_cluster_deactivate cluster, stopping 1, quiet 1\n"
                   "tick each 5000 us\n"
                   "join loop, within %lld, quiet by %lld\n",
                   (long long)within_ns,
                   (long long)(clock_.now_mono_ns + within_ns / 2));
    wp_cluster_stop(cluster, within_ns);
    assert_string_equal(noted(), told);
    wp_cluster_stop(cluster, within_ns);
    assert_string_equal(noted(), "");
}

/* Half of the time is for what is under way: by the clock, and not one
 * nanosecond earlier unless all of it has ended. */
static void
it_ends_when_nothing_is_under_way_or_its_time_is_over(void **state)
{
    struct wp_cluster_config config = config_of(WP_CONTROLLER_POOL);

    (void)state;
    for (int rest = -1; rest <= WP_HTTP_PRIORITIES; rest++) {
        begin(&config);
        tick(-1, EV_TIMEOUT, tick_arg);
        assert_string_equal(noted(), TICKED);
        stop(2001);
        if (rest == WP_HTTP_PRIORITIES) {
            http_stats.inflight = 1;
        } else if (rest >= 0) {
            http_stats.queued[rest] = 1;
        }
        if (rest >= 0) {
            tick(-1, EV_TIMEOUT, tick_arg);
            wp_clock_manual_advance(&clock_, 999);
            tick(-1, EV_TIMEOUT, tick_arg);
            assert_string_equal(noted(), "");
            wp_clock_manual_advance(&clock_, 1);
        }
        assert_false(cluster->parting);
        tick(-1, EV_TIMEOUT, tick_arg);
        assert_string_equal(noted(), GIVEN_UP);
        tick(-1, EV_TIMEOUT, tick_arg);
        assert_string_equal(noted(), "");
        end();
    }
    wp_cluster_stop(NULL, 1);
}

/* It goes on until then. */
static void
what_ends_early_need_not_wait_for_the_clock(void **state)
{
    struct wp_cluster_config config = config_of(WP_CONTROLLER_POOL);

    (void)state;
    begin(&config);
    stop(2000);
    http_stats.queued[WP_HTTP_EVENT] = 1;
    http_stats.inflight = 2;
    tick(-1, EV_TIMEOUT, tick_arg);
    assert_string_equal(noted(), "");
    memset(&http_stats, 0, sizeof http_stats);
    tick(-1, EV_TIMEOUT, tick_arg);
    assert_string_equal(noted(), GIVEN_UP);
    end();
}

static void
one_that_is_to_be_quiet_lets_its_controllers_rest(void **state)
{
    struct wp_cluster_config config = config_of(WP_CONTROLLER_POOL);

    (void)state;
    begin(&config);
    wp_cluster_quiet(cluster);
    assert_string_equal(
        noted(), "call in loop\n"
                 "wp_cluster_rest_controllers cluster, stopping 0, quiet 1\n");
    /* It is stopped first when nobody did that. */
    wp_cluster_destroy(cluster);
    assert_string_equal(
        noted(),
        "call in loop\n"
        "wp_cluster_deactivate cluster, stopping 1, quiet 1\n"
        "tick each 5000 us\n"
        "join loop, within 0, quiet by 100000000000\n"
        "wp_cluster_stop_watches cluster, stopping 1, quiet 1\n"
        "end http\nend pool\nend webhook\nend identity\nend sync\nend "
        "backend\nend repositories\n"
        "end events\nend api\nend sandboxes\nend templates\n"
        "end definitions\nend counts\nend routes\nend tick\nend loop\n");
}

/* --- What there is to say --- */

static void
note_stats(const struct wp_cluster_stats *stats)
{
    static const struct wp_reflector_stats none;
    struct wp_reflector_stats reflector;
    struct wp_cluster_backend_stats backend;

    memset(&reflector, 0x22, sizeof reflector);
    memset(&backend, 0x21, sizeof backend);
    assert_memory_equal(&stats->http, &http_stats, sizeof http_stats);
    assert_memory_equal(&stats->backend, &backend, sizeof backend);
    note("leads %d refused %d synced %d dropped %u renewed %u failed %u\n",
         stats->leads, stats->refused, stats->synced,
         (unsigned)stats->events_dropped, (unsigned)stats->identities_renewed,
         (unsigned)stats->identities_failed);
    for (size_t i = 0; i < WP_KIND_COUNT; i++) {
        const struct wp_cluster_kind_stats *kind = &stats->kinds[i];

        assert_memory_equal(&kind->reflector,
                            kind->watched ? &reflector : &none, sizeof none);
        if (kind->watched || kind->synced || kind->objects != 0 ||
            kind->bytes != 0) {
            note("kind %s watched %d synced %d objects %u bytes %u\n",
                 wp_kind_info(i)->kind, kind->watched, kind->synced,
                 kind->objects, (unsigned)kind->bytes);
        }
    }
    for (uint32_t i = 0; i < stats->controllers_len; i++) {
        const struct wp_cluster_controller_stats *one = &stats->controllers[i];

        note("%s %u %u %u %u %u\n", one->name, one->queue.waiting,
             one->queue.delayed, one->queue.running, (unsigned)one->queue.begun,
             (unsigned)one->queue.failed);
    }
}

static void
a_tick_takes_what_there_is_to_say(void **state)
{
    struct wp_cluster_config config = config_of(WP_CONTROLLERS_ALL);
    struct wp_cluster_stats stats;

    (void)state;
    begin(&config);
    memset(&stats, 0xff, sizeof stats);
    wp_cluster_stats(cluster, &stats);
    assert_int_equal(stats.controllers_len, 0);
    assert_int_equal(stats.events_dropped, 0);
    memset(&http_stats, 0x23, sizeof http_stats);
    cluster->serving = true;
    cluster->election = (void *)&handles[H_election];
    atomic_store_explicit(&cluster->synced, true, memory_order_release);
    cluster->renewals.given_total = 5;
    cluster->renewals.failed_total = 6;
    cluster->watches[WP_KIND_SANDBOX].reflector = (void *)&handles[H_reflector];
    cluster->watches[WP_KIND_COUNT - 1].reflector =
        (void *)&handles[H_reflector];
    cluster->watches[WP_KIND_COUNT - 1].synced = true;
    cluster->watches[WP_KIND_SANDBOX_TEMPLATE].synced = true;
    locked = 0;
    tick(-1, EV_TIMEOUT, tick_arg);
    assert_int_equal(locked, 1);
    assert_string_equal(noted(), TICKED);
    wp_cluster_stats(cluster, &stats);
    assert_int_equal(locked, 2);
    note_stats(&stats);
    assert_string_equal(
        noted(), "leads 1 refused 1 synced 1 dropped 31 renewed 5 failed 6\n"
                 "kind Sandbox watched 1 synced 0 objects 9 bytes 9000\n"
                 "kind CustomResourceDefinition watched 1 synced 1 objects 11 "
                 "bytes 11000\n"
                 "pool 4 2 3 4 5\nclaim 5 2 3 4 5\ntemplate 0 0 0 0 0\n"
                 "sandbox 7 2 3 4 5\nwebhook 0 0 0 0 0\nidentity 8 2 3 4 5\n");
    /* The other way round. */
    full = true;
    cluster->serving = false;
    wp_cluster_note_stats(cluster);
    wp_cluster_stats(cluster, &stats);
    assert_false(stats.leads);
    assert_false(stats.refused);
    full = false;
    cluster->election = NULL;
    atomic_store_explicit(&cluster->synced, false, memory_order_release);
    wp_cluster_note_stats(cluster);
    wp_cluster_stats(cluster, &stats);
    assert_false(stats.refused);
    assert_false(stats.synced);
    end();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            all_is_made_of_what_was_made_before_and_ends_in_the_other_order),
        cmocka_unit_test(what_cannot_be_made_undoes_the_rest),
        cmocka_unit_test(
            where_it_was_told_to_be_and_what_not_to_say_is_passed_on),
        cmocka_unit_test(the_chosen_controllers_begin_and_no_others),
        cmocka_unit_test(what_cannot_begin_says_why_and_has_not_begun),
        cmocka_unit_test(the_defaults_are_these),
        cmocka_unit_test(its_parts_post_to_its_thread_and_hear_that_it_is_full),
        cmocka_unit_test(where_a_sandbox_is_its_routes_know),
        cmocka_unit_test(the_first_reason_to_give_up_is_told_once),
        cmocka_unit_test(it_ends_when_nothing_is_under_way_or_its_time_is_over),
        cmocka_unit_test(what_ends_early_need_not_wait_for_the_clock),
        cmocka_unit_test(one_that_is_to_be_quiet_lets_its_controllers_rest),
        cmocka_unit_test(a_tick_takes_what_there_is_to_say),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
