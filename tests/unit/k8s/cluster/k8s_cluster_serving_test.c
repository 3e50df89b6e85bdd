/* From winning the election to serving and back, on parts that are none: each
 * call that is made of them is a line of the journal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/cluster/cluster_impl.h"
#include "tests/support/base/heard.h"
#include "tests/support/pool/manual_clock.h"

static struct wp_cluster cluster;
static struct wp_clock_manual clock_;
static struct heard heard;
static char journal[4096];
static char base;
static char api;
static char http;
static char backend;
static char election;
static char competitor;
static char controllers[2];

/* What the parts answer. */
static bool backend_lets;
static bool leads;
static bool refused;
static bool renewed;
static bool memory_lacks;

/* What the parts were given. */
static struct wp_election_config of_election;
static struct wp_competitor_config of_competitor;
static wp_competitor_done *looked;
static void *looked_ctx;
static void (*ready)(void *ctx);
static void *ready_ctx;

static void
note(const char *fmt, ...)
{
    size_t len = strlen(journal);
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(journal + len, sizeof journal - len, fmt, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < sizeof journal - len);
}

/* What was noted since the last time. */
static const char *
noted(void)
{
    static char text[sizeof journal];

    memcpy(text, journal, sizeof text);
    journal[0] = '\0';
    return text;
}

/* --- Fakes of what lies below --- */

bool __wrap_wp_cluster_backend_may_send(const struct wp_cluster_backend *of,
                                        const char *method, const char *path,
                                        enum wp_http_priority priority);
bool
__wrap_wp_cluster_backend_may_send(const struct wp_cluster_backend *of,
                                   const char *method, const char *path,
                                   enum wp_http_priority priority)
{
    assert_ptr_equal(of, &backend);
    note("may %s %s %d\n", method, path, (int)priority);
    return backend_lets;
}

void __wrap_wp_cluster_backend_activate(struct wp_cluster_backend *of,
                                        void (*done)(void *ctx), void *ctx);
void
__wrap_wp_cluster_backend_activate(struct wp_cluster_backend *of,
                                   void (*done)(void *ctx), void *ctx)
{
    assert_ptr_equal(of, &backend);
    note("backend begins\n");
    ready = done;
    ready_ctx = ctx;
}

void __wrap_wp_cluster_backend_deactivate(struct wp_cluster_backend *of);
void
__wrap_wp_cluster_backend_deactivate(struct wp_cluster_backend *of)
{
    assert_ptr_equal(of, &backend);
    note("backend rests\n");
}

struct wp_election *
__wrap_wp_election_start(const struct wp_election_config *config);
struct wp_election *
__wrap_wp_election_start(const struct wp_election_config *config)
{
    of_election = *config;
    note("election\n");
    return memory_lacks ? NULL : (void *)&election;
}

bool __wrap_wp_election_leads(const struct wp_election *of);
bool
__wrap_wp_election_leads(const struct wp_election *of)
{
    assert_ptr_equal(of, &election);
    return leads;
}

bool __wrap_wp_election_refused(const struct wp_election *of);
bool
__wrap_wp_election_refused(const struct wp_election *of)
{
    assert_ptr_equal(of, &election);
    return refused;
}

void __wrap_wp_election_serving(struct wp_election *of, bool serving);
void
__wrap_wp_election_serving(struct wp_election *of, bool serving)
{
    assert_ptr_equal(of, &election);
    note("lease says serving %d\n", serving);
}

void __wrap_wp_election_release(struct wp_election *of,
                                void (*released)(void *ctx), void *ctx);
void
__wrap_wp_election_release(struct wp_election *of, void (*released)(void *ctx),
                           void *ctx)
{
    assert_ptr_equal(of, &election);
    note("lease is given up\n");
    released(ctx);
}

struct wp_competitor *
__wrap_wp_competitor_start(const struct wp_competitor_config *config,
                           wp_competitor_done *done, void *ctx);
struct wp_competitor *
__wrap_wp_competitor_start(const struct wp_competitor_config *config,
                           wp_competitor_done *done, void *ctx)
{
    of_competitor = *config;
    looked = done;
    looked_ctx = ctx;
    note("competitor of \"%s\" pools %d sandboxes %d\n",
         config->scope != NULL ? config->scope : "-", config->pools,
         config->sandboxes);
    return (void *)&competitor;
}

void __wrap_wp_competitor_stop(struct wp_competitor *of);
void
__wrap_wp_competitor_stop(struct wp_competitor *of)
{
    if (of != NULL) {
        assert_ptr_equal(of, &competitor);
        note("competitor ends\n");
    }
}

bool __wrap_wp_cluster_renewed(const struct wp_cluster *of);
bool
__wrap_wp_cluster_renewed(const struct wp_cluster *of)
{
    assert_ptr_equal(of, &cluster);
    return renewed;
}

void __wrap_wp_http_ask_again(struct wp_http *of);
void
__wrap_wp_http_ask_again(struct wp_http *of)
{
    assert_ptr_equal(of, &http);
    note("ask again\n");
}

void __wrap_wp_cluster_give_up(struct wp_cluster *of, const char *fmt, ...)
    WP_PRINTF(2, 3);
void
__wrap_wp_cluster_give_up(struct wp_cluster *of, const char *fmt, ...)
{
    char text[256];
    va_list args;

    assert_ptr_equal(of, &cluster);
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    note("gives up: %s\n", text);
}

/* --- The rig --- */

static void
activate(void *self)
{
    note("controller %d begins\n", (int)((char *)self - controllers));
}

static void
deactivate(void *self)
{
    note("controller %d rests\n", (int)((char *)self - controllers));
}

static const struct wp_controller_ops ops = {.activate = activate,
                                             .deactivate = deactivate};

static void
on_leading(void *ctx, bool is_leading)
{
    assert_ptr_equal(ctx, &api);
    note("core leads %d\n", is_leading);
}

static void
begin(bool with_election, uint32_t chosen)
{
    struct wp_err err;

    wp_clock_manual_init(&clock_, 100 * WP_NS_PER_S, 100 * WP_NS_PER_S);
    backend_lets = leads = renewed = true;
    refused = memory_lacks = false;
    memset(&cluster, 0, sizeof cluster);
    cluster.parts.config = (struct wp_cluster_config){
        .controllers = chosen,
        .election = with_election,
        .election_ns = "own",
        .election_name = "lease",
        .identity = "me",
    };
    cluster.parts.core.ctx = &api;
    cluster.parts.core.on_leading = on_leading;
    cluster.parts.base = (void *)&base;
    cluster.parts.clock = &clock_.clock;
    cluster.parts.api = (void *)&api;
    cluster.parts.seed = 77;
    cluster.http = (void *)&http;
    cluster.backend = (void *)&backend;
    for (int i = 0; i < 2; i++) {
        cluster.ops[i] = &ops;
        cluster.controllers[i] = &controllers[i];
    }
    cluster.controllers_len = 2;
    atomic_store_explicit(&cluster.synced, true, memory_order_release);
    journal[0] = '\0';
    assert_int_equal(wp_cluster_start_leading(&cluster, &err), WP_OK);
}

static const char *
become_ready(void)
{
    heard_begin(&heard);
    ready(ready_ctx);
    return heard_end(&heard);
}

#define BEGUN                                                                  \
    "lease says serving 1\ncore leads 1\ncontroller 0 begins\n"                \
    "controller 1 begins\n"
#define ENDED                                                                  \
    "lease says serving 0\ncontroller 0 rests\ncontroller 1 rests\n"           \
    "backend rests\ncore leads 0\nask again\n"

static void
serve(void)
{
    of_election.on_leading(of_election.ctx);
    looked(looked_ctx, NULL);
    (void)become_ready();
    (void)noted();
}

/* elected, activating, parts.active, serving, active, leads */
static const char *
standing(void)
{
    static char text[16];

    (void)snprintf(text, sizeof text, "%d%d%d%d%d%d", cluster.elected,
                   cluster.activating, cluster.parts.active, cluster.serving,
                   cluster.active,
                   atomic_load_explicit(&cluster.leads, memory_order_acquire));
    return text;
}

/* --- The way up --- */

static void
step_by_step_it_serves_and_serves_no_more(void **state)
{
    (void)state;
    begin(true, WP_CONTROLLERS_ALL);
    assert_string_equal(noted(), "election\n");
    assert_string_equal(standing(), "000000");
    of_election.on_leading(of_election.ctx);
    assert_string_equal(noted(),
                        "competitor of \"* pool,claim,template,sandbox\" "
                        "pools 1 sandboxes 1\n");
    assert_string_equal(standing(), "110000");
    assert_true(cluster.has_led);
    looked(looked_ctx, NULL);
    assert_string_equal(noted(), "backend begins\n");
    assert_string_equal(standing(), "111000");
    /* It looks again and again. */
    looked(looked_ctx, NULL);
    assert_string_equal(noted(), "");
    assert_string_equal(become_ready(), "INFO serving as the leader\n");
    assert_string_equal(noted(), BEGUN);
    assert_string_equal(standing(), "101111");
    wp_cluster_try_activate(&cluster);
    assert_string_equal(noted(), "");
    of_election.on_following(of_election.ctx, "other");
    assert_string_equal(noted(), "competitor ends\n" ENDED);
    assert_string_equal(standing(), "000000");
    assert_null(cluster.competitor);
    assert_true(cluster.has_led);
    of_election.on_following(of_election.ctx, "");
    assert_string_equal(noted(), "ask again\n");
}

static void
the_parts_are_told_of_the_lease_and_its_place(void **state)
{
    (void)state;
    begin(true, WP_CONTROLLER_SANDBOX);
    assert_ptr_equal(of_election.base, &base);
    assert_ptr_equal(of_election.clock, &clock_);
    assert_ptr_equal(of_election.api, &api);
    assert_string_equal(of_election.ns, "own");
    assert_string_equal(of_election.name, "lease");
    assert_string_equal(of_election.identity, "me");
    assert_string_equal(of_election.scope, "* sandbox");
    assert_int_equal(of_election.seed, 77);
    assert_int_equal(of_election.duration_ns, 0);
    assert_int_equal(of_election.renew_ns, 0);
    assert_int_equal(of_election.deadline_ns, 0);
    assert_ptr_equal(of_election.ctx, &cluster);
    serve();
    assert_ptr_equal(of_competitor.base, &base);
    assert_ptr_equal(of_competitor.clock, &clock_);
    assert_ptr_equal(of_competitor.api, &api);
    assert_string_equal(of_competitor.ns, "own");
    assert_string_equal(of_competitor.name, "lease");
    assert_int_equal(of_competitor.wait_ns, 0);
    assert_int_equal(of_competitor.period_ns, 0);
}

/* Which of upstream's controllers would be in the way. */
static void
what_it_looks_for_is_what_it_does(void **state)
{
    (void)state;
    for (uint32_t chosen = 0; chosen <= WP_CONTROLLERS_ALL; chosen++) {
        char want[64];

        begin(false, chosen);
        assert_string_equal(noted(), "");
        assert_true(cluster.elected);
        assert_null(cluster.election);
        wp_cluster_try_activate(&cluster);
        (void)snprintf(want, sizeof want,
                       "competitor of \"-\" pools %d sandboxes %d\n",
                       (chosen & 7) != 0, (chosen & 8) != 0);
        assert_string_equal(noted(), want);
    }
}

static void
without_an_election_no_lease_says_so(void **state)
{
    (void)state;
    begin(false, WP_CONTROLLERS_ALL);
    cluster.parts.core.on_leading = NULL;
    wp_cluster_try_activate(&cluster);
    looked(looked_ctx, NULL);
    (void)become_ready();
    assert_string_equal(noted(), "competitor of \"-\" pools 1 sandboxes 1\n"
                                 "backend begins\ncontroller 0 begins\n"
                                 "controller 1 begins\n");
    wp_cluster_deactivate(&cluster);
    assert_string_equal(noted(), "competitor ends\ncontroller 0 rests\n"
                                 "controller 1 rests\nbackend rests\n");
}

/* Each thing that is missing by itself. */
static void
it_begins_when_nothing_is_missing(void **state)
{
    (void)state;
    for (int missing = 0; missing < 8; missing++) {
        begin(true, WP_CONTROLLER_POOL);
        (void)noted();
        cluster.elected = missing != 0;
        cluster.quiet = missing == 1;
        cluster.fatal = missing == 2;
        cluster.activating = missing == 3;
        cluster.serving = missing == 4;
        atomic_store_explicit(&cluster.synced, missing != 5,
                              memory_order_release);
        renewed = missing != 6;
        wp_cluster_try_activate(&cluster);
        assert_string_equal(
            noted(), missing == 7
                         ? "competitor of \"* pool\" pools 1 sandboxes 0\n"
                         : "");
        assert_int_equal(cluster.activating, missing == 3 || missing == 7);
    }
}

static void
a_competitor_is_the_end(void **state)
{
    (void)state;
    begin(true, WP_CONTROLLER_POOL);
    of_election.on_leading(of_election.ctx);
    (void)noted();
    looked(looked_ctx, "100% in the way: %s");
    assert_string_equal(noted(),
                        "gives up: 100% in the way: %s\ncompetitor ends\n");
    assert_null(cluster.competitor);
    assert_string_equal(standing(), "110000");
    /* What had begun is ended. */
    wp_cluster_deactivate(&cluster);
    assert_string_equal(noted(), "lease says serving 0\nbackend rests\n");
    assert_string_equal(standing(), "100000");
}

static void
a_quiet_one_serves_without_controllers(void **state)
{
    (void)state;
    begin(true, WP_CONTROLLER_POOL);
    of_election.on_leading(of_election.ctx);
    looked(looked_ctx, NULL);
    (void)noted();
    cluster.quiet = true;
    (void)become_ready();
    assert_string_equal(noted(), "lease says serving 1\ncore leads 1\n");
    assert_string_equal(standing(), "101101");
    /* Those that go rest once. */
    begin(true, WP_CONTROLLER_POOL);
    serve();
    for (int i = 0; i < 2; i++) {
        wp_cluster_rest_controllers(&cluster);
        assert_string_equal(noted(), i == 0 ? "controller 0 rests\n"
                                              "controller 1 rests\n"
                                            : "");
        assert_string_equal(standing(), "101101");
    }
}

static void
without_memory_there_is_no_election(void **state)
{
    struct wp_err err;

    (void)state;
    begin(true, WP_CONTROLLER_POOL);
    memory_lacks = true;
    assert_int_equal(wp_cluster_start_leading(&cluster, &err),
                     WP_RESOURCE_EXHAUSTED);
    assert_string_equal(err.msg, "no memory");
    assert_false(cluster.elected);
}

static void
released(void *ctx)
{
    assert_ptr_equal(ctx, &base);
    note("released\n");
}

static void
the_lease_is_given_up_where_there_is_one(void **state)
{
    (void)state;
    begin(true, WP_CONTROLLER_POOL);
    (void)noted();
    wp_cluster_give_lease_up(&cluster, released, &base);
    assert_string_equal(noted(), "lease is given up\nreleased\n");
    begin(false, WP_CONTROLLER_POOL);
    wp_cluster_give_lease_up(&cluster, released, &base);
    assert_string_equal(noted(), "released\n");
}

/* --- What may go, and what is told --- */

static void
the_backend_and_the_lease_say_what_may_go(void **state)
{
    static const struct {
        const char *method;
        const char *path;
        bool follower;
    } cases[] = {
        {"GET", "/x", true},
        {"PUT", "/x", false},
        {"PUT", "/apis/coordination.k8s.io/", true},
        {"PUT", "/apis/coordination.k8s.io/v1", true},
        {"PUT", "/apis/coordination.k8s.io", false},
        {"POST", "/y/sandboxclaims", true},
        {"POST", "/y/sandboxclaim", false},
        {"POST", "sandboxclaims", false},
        {"PUT", "/y/sandboxclaims", false},
        {"POST", "/sandboxclaims/y", false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        char want[64];

        begin(true, WP_CONTROLLER_POOL);
        (void)noted();
        leads = false;
        assert_int_equal(wp_cluster_may_send(&cluster, cases[i].method,
                                             cases[i].path, WP_HTTP_REFILL),
                         cases[i].follower);
        (void)snprintf(want, sizeof want, "may %s %s 2\n", cases[i].method,
                       cases[i].path);
        assert_string_equal(noted(), want);
        leads = true;
        assert_true(wp_cluster_may_send(&cluster, cases[i].method,
                                        cases[i].path, WP_HTTP_REFILL));
        backend_lets = false;
        assert_false(wp_cluster_may_send(&cluster, cases[i].method,
                                         cases[i].path, WP_HTTP_REFILL));
        begin(false, WP_CONTROLLER_POOL);
        leads = false;
        assert_true(wp_cluster_may_send(&cluster, cases[i].method,
                                        cases[i].path, WP_HTTP_REFILL));
    }
}

#define REFUSED                                                                \
    "ERROR the API server does not let this account lead: give it the roles "  \
    "of its manifests resource=leases.coordination.k8s.io namespace=own "      \
    "name=lease\n"

static const char *
check_lease(void)
{
    heard_begin(&heard);
    wp_cluster_check_lease(&cluster);
    return heard_end(&heard);
}

static void
a_refused_lease_is_told_in_these_words_each_minute(void **state)
{
    (void)state;
    begin(true, WP_CONTROLLER_POOL);
    assert_string_equal(check_lease(), "");
    refused = true;
    assert_string_equal(check_lease(), REFUSED);
    assert_true(wp_cluster_refused(&cluster));
    wp_clock_manual_advance(&clock_, 60 * WP_NS_PER_S - 1);
    assert_string_equal(check_lease(), "");
    wp_clock_manual_advance(&clock_, 1);
    assert_string_equal(check_lease(), REFUSED);
    assert_string_equal(check_lease(), "");
    cluster.has_led = true;
    assert_string_equal(check_lease(), "");
    assert_false(wp_cluster_refused(&cluster));
    refused = false;
    assert_string_equal(check_lease(), "");
    refused = true;
    assert_string_equal(check_lease(), REFUSED);
    cluster.election = NULL;
    assert_string_equal(check_lease(), "");
    assert_int_equal(cluster.refused_logged_ns, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_by_step_it_serves_and_serves_no_more),
        cmocka_unit_test(the_parts_are_told_of_the_lease_and_its_place),
        cmocka_unit_test(what_it_looks_for_is_what_it_does),
        cmocka_unit_test(without_an_election_no_lease_says_so),
        cmocka_unit_test(it_begins_when_nothing_is_missing),
        cmocka_unit_test(a_competitor_is_the_end),
        cmocka_unit_test(a_quiet_one_serves_without_controllers),
        cmocka_unit_test(without_memory_there_is_no_election),
        cmocka_unit_test(the_lease_is_given_up_where_there_is_one),
        cmocka_unit_test(the_backend_and_the_lease_say_what_may_go),
        cmocka_unit_test(a_refused_lease_is_told_in_these_words_each_minute),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
