/* A kind that the API server does not know, or does not let us watch: what the
 * log tells people, and that the daemon ends when it stays so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/backend/backend_impl.h"
#include "k8s/cluster/cluster_impl.h"
#include "k8s/watch/reflector_impl.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/timers.h"
#include "tests/support/k8s/api_recorder.h"
#include "tests/support/pool/manual_clock.h"

static struct wp_cluster cluster;
static struct wp_clock_manual clock_;
static struct heard heard;
static char reason[1024];
static uint32_t ends;

static void
on_fatal(void *ctx, const char *why)
{
    assert_ptr_equal(ctx, &cluster);
    (void)snprintf(reason, sizeof reason, "%s", why);
    ends++;
}

static uint32_t syncs;
static uint32_t tries;

void __wrap_wp_pool_sync_start(struct wp_pool_sync *sync);
void
__wrap_wp_pool_sync_start(struct wp_pool_sync *sync)
{
    assert_ptr_equal(sync, &syncs);
    syncs++;
}

void __real_wp_cluster_try_activate(struct wp_cluster *self);
void __wrap_wp_cluster_try_activate(struct wp_cluster *self);
void
__wrap_wp_cluster_try_activate(struct wp_cluster *self)
{
    tries++;
    __real_wp_cluster_try_activate(self);
}

static void
begin(uint32_t controllers, const char *ns)
{
    struct wp_err err;

    wp_clock_manual_init(&clock_, 100 * WP_NS_PER_S, 100 * WP_NS_PER_S);
    memset(&cluster, 0, sizeof cluster);
    ends = 0;
    cluster.parts = (struct wp_parts){
        .config = {.controllers = controllers, .watch_ns = ns},
        .core = {.ctx = &cluster, .on_fatal = on_fatal},
        .base = event_base_new(),
        .clock = &clock_.clock,
        .api = wp_recorder_create(),
    };
    assert_int_equal(wp_cluster_make_stores(&cluster, &err), WP_OK);
    assert_int_equal(wp_cluster_start_watches(&cluster, &err), WP_OK);
    assert_int_not_equal(event_base_loop(cluster.parts.base, EVLOOP_NONBLOCK),
                         -1);
}

static void
end(void)
{
    wp_cluster_stop_watches(&cluster);
    wp_api_destroy(cluster.parts.api);
    for (size_t i = 0; i < WP_KIND_COUNT; i++) {
        wp_store_destroy(cluster.parts.stores[i]);
    }
    event_base_free(cluster.parts.base);
}

/* The list of the kind is refused. Returns the errors that are told. */
static const char *
refuse(enum wp_kind kind, enum wp_status status)
{
    struct wp_recorded *call =
        wp_recorder_open(cluster.parts.api, WP_VERB_LIST, kind);
    const char *told;

    if (call == NULL) {
        timers_fire(cluster.parts.base, cluster.watches[kind].reflector);
        call = wp_recorder_open(cluster.parts.api, WP_VERB_LIST, kind);
    }
    assert_non_null(call);
    heard_begin(&heard);
    wp_recorder_answer(call, status, NULL);
    told = strstr(heard_end(&heard), "ERROR ");
    return told != NULL ? told : "";
}

static const char *
check(void)
{
    heard_begin(&heard);
    wp_cluster_check_watches(&cluster);
    return heard_end(&heard);
}

#define UNKNOWN                                                                \
    "ERROR the API server does not know this kind kind=SandboxClaim "          \
    "group=extensions.agents.x-k8s.io version=v1beta1 code=404 "               \
    "message=\"not found\"\n"

static void
a_kind_that_is_not_known(void **state)
{
    (void)state;
    begin(WP_CONTROLLER_CLAIM, NULL);
    assert_string_equal(refuse(WP_KIND_SANDBOX_CLAIM, WP_NOT_FOUND), UNKNOWN);
    wp_clock_manual_advance(&clock_, 20 * WP_NS_PER_S - 1);
    assert_string_equal(check(), "");
    assert_int_equal(ends, 0);
    wp_clock_manual_advance(&clock_, 1);
    assert_non_null(strstr(check(), "ERROR cannot go on reason=\"the API "));
    assert_int_equal(ends, 1);
    assert_string_equal(reason,
                        "the API server does not know SandboxClaim: install "
                        "the CRD sandboxclaims.extensions.agents.x-k8s.io, "
                        "which must serve v1beta1");
    /* The first reason counts, and once. */
    assert_string_equal(check(), "");
    assert_int_equal(ends, 1);
    end();
}

static void
a_kind_that_is_not_ours_to_watch(void **state)
{
    static const struct {
        uint32_t controllers;
        const char *ns;
        enum wp_kind kind;
        const char *reason;
    } cases[] = {
        {WP_CONTROLLER_SANDBOX, NULL, WP_KIND_POD,
         "the API server refuses (403) to list and watch pods: give this "
         "daemon's account the roles of its manifests"},
        {WP_CONTROLLER_TEMPLATE, "team", WP_KIND_NETWORK_POLICY,
         "the API server refuses (403) to list and watch "
         "networkpolicies.networking.k8s.io in the namespace team: give this "
         "daemon's account the roles of its manifests"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        const struct wp_kind_info *info = wp_kind_info(cases[i].kind);
        char line[400];

        begin(cases[i].controllers, cases[i].ns);
        (void)snprintf(line, sizeof line,
                       "ERROR the API server does not let us watch this kind "
                       "kind=%s group=%s version=v1 code=403 "
                       "message=\"permission denied\"\n",
                       info->kind,
                       info->group[0] != '\0' ? info->group : "\"\"");
        assert_string_equal(refuse(cases[i].kind, WP_PERMISSION_DENIED), line);
        wp_clock_manual_advance(&clock_, 20 * WP_NS_PER_S);
        (void)check();
        assert_int_equal(ends, 1);
        assert_string_equal(reason, cases[i].reason);
        end();
    }
}

/* Said once a minute; since when counts from the first time. */
static void
it_is_said_again(void **state)
{
    (void)state;
    begin(WP_CONTROLLER_CLAIM, NULL);
    assert_string_equal(refuse(WP_KIND_SANDBOX_CLAIM, WP_NOT_FOUND), UNKNOWN);
    wp_clock_manual_advance(&clock_, 60 * WP_NS_PER_S - 1);
    assert_string_equal(refuse(WP_KIND_SANDBOX_CLAIM, WP_NOT_FOUND), "");
    wp_clock_manual_advance(&clock_, 1);
    assert_string_equal(refuse(WP_KIND_SANDBOX_CLAIM, WP_NOT_FOUND), UNKNOWN);
    /* Of what was served once, the end of a right is not the daemon's end; nor
     * is anything while it stops. */
    cluster.watches[WP_KIND_SANDBOX_CLAIM].synced = true;
    assert_string_equal(check(), "");
    cluster.watches[WP_KIND_SANDBOX_CLAIM].synced = false;
    cluster.stopping = true;
    assert_string_equal(check(), "");
    assert_int_equal(ends, 0);
    cluster.stopping = false;
    cluster.parts.core.on_fatal = NULL;
    assert_string_not_equal(check(), "");
    assert_int_equal(ends, 0);
    end();
}

/* An empty list of the kind. */
static void
serve(enum wp_kind kind)
{
    struct wp_recorded *call =
        wp_recorder_open(cluster.parts.api, WP_VERB_LIST, kind);
    json_t *list = json_pack("{s:{s:s},s:[]}", "metadata", "resourceVersion",
                             "5", "items");

    if (call == NULL) {
        timers_fire(cluster.parts.base, cluster.watches[kind].reflector);
        call = wp_recorder_open(cluster.parts.api, WP_VERB_LIST, kind);
    }
    assert_non_null(call);
    wp_recorder_answer(call, WP_OK, list);
    json_decref(list);
}

/* It is synced, and every kind is known anew, once each has its list. */
static void
all_of_them_are_waited_for(void **state)
{
    static const enum wp_kind kinds[] = {
        WP_KIND_SANDBOX_WARM_POOL, WP_KIND_SANDBOX, WP_KIND_SANDBOX_TEMPLATE};

    (void)state;
    for (size_t first = 0; first < WP_ARRAY_LEN(kinds); first++) {
        begin(WP_CONTROLLER_POOL, NULL);
        syncs = tries = 0;
        cluster.pool_sync = (void *)&syncs;
        for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
            assert_false(wp_cluster_synced(&cluster));
            assert_false(wp_cluster_renewed(&cluster));
            assert_int_equal(syncs + tries, 0);
            serve(kinds[(first + i) % WP_ARRAY_LEN(kinds)]);
        }
        assert_true(wp_cluster_synced(&cluster));
        assert_true(wp_cluster_renewed(&cluster));
        /* The core's pools once, and then who leads may begin. */
        assert_int_equal(syncs, 1);
        assert_int_equal(tries, 1);
        end();
    }
}

static const struct wp_reflector_config *
config_of(enum wp_kind kind)
{
    return &cluster.watches[kind].reflector->config;
}

/* Once it was served, the next refusal is another one, told at once and with
 * what words there are. */
static void
a_refusal_after_a_list_is_told_at_once(void **state)
{
    const struct wp_reflector_config *config;

    (void)state;
    begin(WP_CONTROLLER_CLAIM, NULL);
    assert_string_equal(refuse(WP_KIND_SANDBOX_CLAIM, WP_NOT_FOUND), UNKNOWN);
    serve(WP_KIND_SANDBOX_CLAIM);
    config = config_of(WP_KIND_SANDBOX_CLAIM);
    heard_begin(&heard);
    config->on_refused(config->ctx, 403, NULL);
    assert_string_equal(heard_end(&heard),
                        "ERROR the API server does not let us watch this kind "
                        "kind=SandboxClaim group=extensions.agents.x-k8s.io "
                        "version=v1beta1 code=403 message=\"\"\n");
    end();
}

/* Of sandboxes, or of pools: either may say that fewer are lacking. */
static void
a_doubt_of_either_kind_is_the_backends(void **state)
{
    static const enum wp_kind kinds[] = {WP_KIND_SANDBOX,
                                         WP_KIND_SANDBOX_WARM_POOL};
    struct wp_err err;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        const struct wp_reflector_config *one;
        const struct wp_reflector_config *other;

        begin(WP_CONTROLLER_POOL, NULL);
        cluster.backend = wp_cluster_backend_create(&cluster.parts, &err);
        assert_non_null(cluster.backend);
        one = config_of(kinds[i]);
        other = config_of(kinds[1 - i]);
        assert_false(cluster.backend->doubtful);
        one->on_doubt(one->ctx, true);
        assert_true(cluster.backend->doubtful);
        other->on_doubt(other->ctx, true);
        other->on_doubt(other->ctx, false);
        assert_true(cluster.backend->doubtful);
        one->on_doubt(one->ctx, false);
        assert_false(cluster.backend->doubtful);
        wp_cluster_backend_destroy(cluster.backend);
        end();
    }
}

/* Its storage was restored: nobody leads on what is known from before. */
static void
what_went_back_is_listed_anew(void **state)
{
    const struct wp_reflector_config *config;
    struct wp_err err;

    (void)state;
    begin(WP_CONTROLLER_POOL, NULL);
    cluster.backend = wp_cluster_backend_create(&cluster.parts, &err);
    assert_non_null(cluster.backend);
    serve(WP_KIND_SANDBOX);
    serve(WP_KIND_SANDBOX_TEMPLATE);
    serve(WP_KIND_SANDBOX_WARM_POOL);
    cluster.serving = true;
    config = config_of(WP_KIND_SANDBOX);
    config->on_went_back(config->ctx);
    assert_false(cluster.serving);
    assert_false(wp_cluster_renewed(&cluster));
    /* The others are, too, and it is over when all of them were. */
    serve(WP_KIND_SANDBOX_TEMPLATE);
    serve(WP_KIND_SANDBOX_WARM_POOL);
    assert_false(wp_cluster_renewed(&cluster));
    config->on_synced(config->ctx);
    assert_true(wp_cluster_renewed(&cluster));
    wp_cluster_backend_destroy(cluster.backend);
    end();
}

/* Aliases are for clients of the webhook. */
static void
what_nobody_needs_is_not_watched(void **state)
{
    (void)state;
    begin(WP_CONTROLLER_CLAIM, NULL);
    assert_null(cluster.watches[WP_KIND_ALIAS].reflector);
    assert_null(cluster.watches[WP_KIND_POD].reflector);
    assert_non_null(cluster.watches[WP_KIND_SANDBOX_CLAIM].reflector);
    end();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kind_that_is_not_known),
        cmocka_unit_test(a_kind_that_is_not_ours_to_watch),
        cmocka_unit_test(it_is_said_again),
        cmocka_unit_test(all_of_them_are_waited_for),
        cmocka_unit_test(a_refusal_after_a_list_is_told_at_once),
        cmocka_unit_test(a_doubt_of_either_kind_is_the_backends),
        cmocka_unit_test(what_went_back_is_listed_anew),
        cmocka_unit_test(what_nobody_needs_is_not_watched),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
