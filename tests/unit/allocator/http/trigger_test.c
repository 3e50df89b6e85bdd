/* tests/unit/allocator/http/trigger_test.c - triggers: what each asks of the
 * pools or the cluster, in order, and what its client is told. golden/ has the
 * stories; tests/support/http/http_calls_rig.h says how they are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/http/trigger.h"
#include "tests/support/base/heard.h"
#include "tests/support/http/http_calls_rig.h"

#define POST "POST " WP_TRIGGER_PATH " HTTP/1.1\r\n"
#define CRON                                                                   \
    "{\"type\":\"cron\",\"skill\":\"Tidy-up\",\"schedule\":\"0 3 * * *\","     \
    "\"ttl_hours\":2}"
#define HOOK                                                                   \
    "{\"type\":\"webhook\",\"event\":\"pull_request\",\"repo\":\"a/b\","       \
    "\"branch\":\"main\",\"pr_number\":7,\"namespace\":\"hooks\"}"
#define SHOWS "X-Hub-Signature-256: sha256="
/* HOOK, by "secret". */
#define SIGNATURE                                                              \
    "e13add3dfaf9423c06b158bf34c08858"                                         \
    "e18090f445a748f9e71ff55af37e2bb5"

static struct wp_triggers_config config;
static struct wp_triggers *triggers;
static struct wp_trigger_order *order;
static bool makes;
static const struct wp_http_ops *latest_ops;

static void
open_all(void)
{
    struct wp_err err;

    triggers = wp_triggers_create(&config, &err);
    assert_non_null(triggers);
}

static void
name_pool(uint32_t i, const char *ns, const char *name, const char *tmpl)
{
    struct wp_pool_spec *spec = &rig.pools[i].spec;

    (void)snprintf(spec->pool_namespace, sizeof spec->pool_namespace, "%s", ns);
    (void)snprintf(spec->name, sizeof spec->name, "%s", name);
    (void)snprintf(spec->template_name, sizeof spec->template_name, "%s", tmpl);
    rig.pools[i].ready = 1;
    rig.n_pools = i + 1;
}

static int
begin(void **state)
{
    (void)rig_begin(state);
    config = (struct wp_triggers_config){
        .pools = RIG_THE_POOLS,
        .loop = (struct wp_loop *)(void *)&rig,
        .template_name = "things/worker",
        .secret = "",
        .wait_ns = 20 * WP_NS_PER_S,
        .calls_max = 2,
    };
    name_pool(0, "things", "workers", "worker");
    name_pool(1, "hooks", "hookers", "worker");
    makes = true;
    return 0;
}

static bool
make(void *ctx, struct wp_trigger_order *asked)
{
    assert_ptr_equal(ctx, &config);
    rig_say("make %s/%s of %s for '%s' trace '%s' ttl %lld -> %d", asked->ns,
            asked->name, asked->template_name, asked->trigger->stem,
            asked->traceparent, (long long)asked->trigger->ttl_ns, makes);
    order = asked;
    return makes;
}

static void
made(enum wp_status status, int64_t retry_after_ns)
{
    rig_say("made: %s", wp_status_name(status));
    order->status = status;
    (void)snprintf(order->reason, sizeof order->reason, "the cluster says so");
    order->retry_after_ns = retry_after_ns;
    order->done(order);
    rig_turn();
}

static struct wp_http_req *
ask_as(const char *name, const char *head, const char *body, const char *tenant)
{
    struct wp_http_req *req = rig_req(name, head, body);
    const struct wp_http_ops *ops = wp_triggers_open(triggers, req, tenant);

    if (ops == NULL) {
        rig_say("%s: no ops", name);
        return NULL;
    }
    assert_int_equal(ops->body_max, 16384);
    assert_null(ops->begin);
    assert_null(ops->body);
    latest_ops = ops;
    ops->ready(req);
    return req;
}

static struct wp_http_req *
ask(const char *name, const char *body)
{
    return ask_as(name, POST, body, "");
}

static void
leave(struct wp_http_req *req)
{
    rig_say("%s: leaves", req->name);
    latest_ops->gone(req);
}

static void
again(const char *title)
{
    rig_say("# %s", title);
    memset(rig.reqs, 0, sizeof rig.reqs);
    rig.n_reqs = 0;
    rig.replayed = false;
    rig.reason = NULL;
    rig.retry_after_ns = 0;
    rig.claim_status = WP_PENDING;
    rig.bind_status = WP_PENDING;
    rig.may_bind_status = WP_OK;
    rig.cancels = false;
}

static void
end(const char *file)
{
    char path[512];

    rig_say("the end");
    wp_triggers_destroy(triggers);
    (void)snprintf(path, sizeof path, "%s/trigger_%s.txt", WP_TEST_GOLDEN,
                   file);
    rig_is(path);
}

static void
test_a_trigger_gets_a_bound_sandbox(void **state)
{
    (void)state;
    open_all();
    again("both answer later");
    (void)ask_as("a", POST, CRON, "blue");
    rig_claimed(rig.claim, WP_OK);
    rig_bound(WP_OK);
    rig_turn();
    again("the claim is answered at once");
    rig.claim_status = WP_OK;
    (void)ask("a", HOOK);
    rig_bound(WP_OK);
    rig_turn();
    again("both are answered at once");
    rig.claim_status = WP_OK;
    rig.bind_status = WP_OK;
    (void)ask("a", HOOK);
    rig_turn();
    again("the sandbox does not take it");
    rig.claim_status = WP_OK;
    (void)ask("a", CRON);
    rig.reason = "it did not start";
    rig_bound(WP_UNAVAILABLE);
    rig_turn();
    again("the channel is full");
    rig.channel_full = true;
    rig.claim_status = WP_OK;
    rig.bind_status = WP_OK;
    (void)ask("a", CRON);
    rig_run_tick();
    end("bound");
}

static void
test_a_trigger_gets_a_plain_sandbox(void **state)
{
    static const enum wp_status all[] = {
        WP_NOT_FOUND,       WP_RESOURCE_EXHAUSTED, WP_ABORTED,
        WP_UNKNOWN_OUTCOME, WP_PERMISSION_DENIED,  WP_INTERNAL,
    };

    (void)state;
    open_all();
    again("it takes no variables");
    rig.may_bind_status = WP_FAILED_PRECONDITION;
    (void)ask_as("a", POST, CRON, "blue");
    rig_claimed(rig.claim, WP_OK);
    rig_turn();
    again("another replica keeps them");
    rig.may_bind_status = WP_UNAVAILABLE;
    (void)ask("a", CRON);
    again("no pool");
    (void)ask("a", "{\"type\":\"alert\",\"alert\":\"x\",\"cluster\":\"y\","
                   "\"severity\":\"z\",\"namespace\":\"none\"}");
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        again(wp_status_name(all[i]));
        rig.reason = i == 2 ? NULL : "so it is";
        rig.retry_after_ns = (int64_t)i * WP_NS_PER_S;
        (void)ask("a", CRON);
        rig_claimed(rig.claim, all[i]);
        rig_turn();
    }
    end("plain");
}

/* Four names are tried. */
static void
test_a_name_that_is_taken_is_not_used(void **state)
{
    (void)state;
    open_all();
    again("a lease of another");
    rig.claim_status = WP_ALREADY_EXISTS;
    rig.reason = "it is there";
    (void)ask("a", CRON);
    rig_turn();
    rig_turn();
    rig_turn();
    rig_turn();
    again("a claim that repeats");
    rig.claim_status = WP_OK;
    rig.replayed = true;
    (void)ask("a", CRON);
    for (int i = 0; i < 4; i++) {
        rig_turn();
    }
    again("the last one is free");
    rig.claim_status = WP_ALREADY_EXISTS;
    (void)ask("a", CRON);
    rig_turn();
    rig_turn();
    rig.claim_status = WP_OK;
    rig.bind_status = WP_OK;
    rig_turn();
    rig_turn();
    wp_triggers_destroy(triggers);
    config.make = make;
    config.ctx = &config;
    open_all();
    again("in a cluster");
    (void)ask("a", CRON);
    made(WP_ALREADY_EXISTS, 0);
    made(WP_ALREADY_EXISTS, 0);
    made(WP_ALREADY_EXISTS, 0);
    made(WP_ALREADY_EXISTS, 0);
    again("in a cluster, the last one is free");
    (void)ask("a", CRON);
    made(WP_ALREADY_EXISTS, 0);
    made(WP_ALREADY_EXISTS, 0);
    made(WP_ALREADY_EXISTS, 0);
    made(WP_OK, 0);
    end("taken");
}

static void
test_a_cluster_makes_a_claim(void **state)
{
    (void)state;
    config.make = make;
    config.ctx = &config;
    open_all();
    again("with a trace");
    (void)ask_as("a",
                 POST "traceparent: 00-0af7651916cd43dd8448eb211c80319c-"
                      "b7ad6b7169203331-01\r\n",
                 HOOK, "");
    made(WP_OK, 0);
    again("with what is none");
    (void)ask_as("a", POST "traceparent: 00-0af7\r\n", CRON, "");
    made(WP_UNAVAILABLE, 2 * WP_NS_PER_S + 1);
    again("without");
    (void)ask("a", CRON);
    made(WP_NOT_FOUND, 0);
    again("too many are being made");
    makes = false;
    (void)ask("a", CRON);
    makes = true;
    again("its client leaves");
    leave(ask("a", CRON));
    made(WP_OK, 0);
    again("its client leaves, and it fails");
    leave(ask("a", CRON));
    made(WP_INTERNAL, 0);
    again("for a tenant");
    (void)ask_as("a", POST, CRON, "blue");
    end("cluster");
}

static void
test_who_leaves_gets_nothing(void **state)
{
    struct wp_http_req *req;

    (void)state;
    open_all();
    again("it can be withdrawn");
    req = ask("a", CRON);
    rig.cancels = true;
    leave(req);
    again("it is just being granted");
    leave(ask("a", CRON));
    rig_claimed(rig.claim, WP_OK);
    rig_bound(WP_OK);
    rig_turn();
    again("it is just being refused");
    leave(ask("a", CRON));
    rig_claimed(rig.claim, WP_UNAVAILABLE);
    rig_turn();
    again("the name is taken");
    leave(ask("a", CRON));
    rig_claimed(rig.claim, WP_ALREADY_EXISTS);
    rig_turn();
    again("it was answered before");
    rig.claim_status = WP_OK;
    rig.bind_status = WP_OK;
    req = ask("a", CRON);
    rig_turn();
    leave(req);
    end("leaves");
}

static void
test_a_webhook_is_signed(void **state)
{
    (void)state;
    config.secret = "secret";
    rig.claim_status = WP_OK;
    rig.bind_status = WP_OK;
    open_all();
    (void)ask_as("a", POST, HOOK, "");
    (void)ask_as("b", POST SHOWS SIGNATURE "\r\n", HOOK, "");
    (void)ask_as("c", POST SHOWS SIGNATURE "\r\n", HOOK " ", "");
    (void)ask_as("d", POST, CRON, "");
    rig_turn();
    wp_triggers_destroy(triggers);
    config.secret = "";
    open_all();
    (void)ask_as("e", POST SHOWS "00\r\n", HOOK, "");
    rig_turn();
    end("signed");
}

static void
test_requests_that_are_none_are_refused(void **state)
{
    struct wp_http_req *first;
    struct wp_http_req *second;

    (void)state;
    open_all();
    (void)ask_as("a", "GET " WP_TRIGGER_PATH " HTTP/1.1\r\n", "", "");
    (void)ask_as("b", POST, "{}", "");
    (void)ask_as("c", POST, "{\"type\":\"moon\"}", "");
    again("one too many");
    first = ask("a", CRON);
    second = ask("b", CRON);
    (void)ask("c", CRON);
    rig.cancels = true;
    leave(second);
    leave(first);
    again("no memory");
    rig.callocs = 0;
    (void)ask("a", CRON);
    rig.callocs = -1;
    rig.claim_status = WP_OK;
    rig.bind_status = WP_OK;
    rig.terse = true;
    rig.texts = 0;
    for (int texts = 0; rig.texts == 0; texts++) {
        memset(rig.reqs, 0, sizeof rig.reqs);
        rig.n_reqs = 0;
        rig.texts = -1;
        (void)ask("a", CRON);
        rig.texts = texts;
        rig_turn();
    }
    rig.terse = false;
    rig.texts = -1;
    wp_triggers_destroy(triggers);
    config.template_name = "";
    open_all();
    again("triggers are off");
    (void)ask("a", CRON);
    end("none");
}

static void
answer_late(void)
{
    if (rig.naps == 3) {
        rig_claimed(rig.claim, WP_NOT_FOUND);
    }
}

static void
test_the_end_waits_for_the_pools(void **state)
{
    struct heard heard;
    const char *text;
    struct wp_err err;

    (void)state;
    open_all();
    leave(ask("a", CRON));
    rig.nap = answer_late;
    wp_triggers_destroy(triggers);
    assert_int_equal(rig.naps, 3);
    wp_triggers_destroy(NULL);

    again("they never answer");
    rig.nap = NULL;
    rig.naps = 0;
    open_all();
    leave(ask("a", CRON));
    heard_begin(&heard);
    wp_triggers_destroy(triggers);
    text = heard_end(&heard);
    assert_string_equal(text, "WARN requests of HTTP clients are not answered "
                              "yet; their memory stays\n");
    assert_int_equal(rig.naps, 30000);
    /* Then they do. */
    rig_claimed(rig.claim, WP_NOT_FOUND);
    rig_turn();
    wp_triggers_destroy(triggers);

    again("it cannot begin");
    for (int i = 0; i < 2; i++) {
        rig.callocs = i == 0 ? 0 : -1;
        rig.no_timer = i == 1;
        memset(&err, 0, sizeof err);
        assert_null(wp_triggers_create(&config, &err));
        rig_say("%s: %s", wp_status_name(err.status), err.msg);
    }
    rig.no_timer = false;
    open_all();
    end("ends");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_trigger_gets_a_bound_sandbox, begin),
        cmocka_unit_test_setup(test_a_trigger_gets_a_plain_sandbox, begin),
        cmocka_unit_test_setup(test_a_name_that_is_taken_is_not_used, begin),
        cmocka_unit_test_setup(test_a_cluster_makes_a_claim, begin),
        cmocka_unit_test_setup(test_who_leaves_gets_nothing, begin),
        cmocka_unit_test_setup(test_a_webhook_is_signed, begin),
        cmocka_unit_test_setup(test_requests_that_are_none_are_refused, begin),
        cmocka_unit_test_setup(test_the_end_waits_for_the_pools, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
