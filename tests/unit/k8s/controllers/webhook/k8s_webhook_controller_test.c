/* The webhook's controller: the Secret's certificate is made, shown and renewed,
 * and the definitions ask where they should. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/controllers/shared.h"
#include "k8s/controllers/webhook/definitions.h"
#include "k8s/convert/certificate.h"
#include "k8s/objects/json.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/timers.h"
#include "tests/support/k8s/api_recorder.h"
#include "tests/support/k8s/k8s_text.h"
#include "tests/support/k8s/put_text.h"
#include "tests/support/pool/manual_clock.h"

#define MADE_S INT64_C(1800000000)
#define DAY_S INT64_C(86400)

enum rest {
    NO_REST, /* A round is under way, or all is over. */
    AT_ONCE,
    SOON,
    A_ROUND,
};

struct world {
    struct wp_clock_manual clock;
    struct wp_api *api;
    struct wp_cluster_webhook webhook;
    struct wp_parts parts;
    void *controller;
    /* What is shown, and how often that changed. */
    struct wp_certificate used;
    uint32_t uses;
    struct heard heard;
};

static void
use(void *ctx, const char *cert, const char *key)
{
    struct world *world = ctx;

    (void)snprintf(world->used.cert, sizeof world->used.cert, "%s", cert);
    (void)snprintf(world->used.key, sizeof world->used.key, "%s", key);
    world->uses++;
}

/* All definitions but one have v1alpha1, too. */
static void
set_up(struct world *world, const char *url, bool leads)
{
    struct wp_err err;

    memset(world, 0, sizeof *world);
    wp_clock_manual_init(&world->clock, WP_NS_PER_S, MADE_S * WP_NS_PER_S);
    world->api = wp_recorder_create();
    wp_recorder_serve(world->api);
    world->webhook = (struct wp_cluster_webhook){
        .service = "hook",
        .url = url,
        .secret = "pairs",
        .ctx = world,
        .use = use,
    };
    world->parts.config.webhook = &world->webhook;
    world->parts.config.election_ns = "system";
    world->parts.base = event_base_new();
    world->parts.clock = &world->clock.clock;
    world->parts.api = world->api;
    world->parts.active = leads;
    wp_test_put(world->api, WP_KIND_SECRET,
                "{'metadata': {'name': 'pairs', 'namespace': 'system'}}");
    for (size_t i = 0; i < WP_DEFINITIONS; i++) {
        char text[300];

        (void)snprintf(text, sizeof text,
                       "{'metadata': {'name': '%s'}, 'spec': {'versions': "
                       "[{'name': 'v1beta1'}%s]}}",
                       wp_definition_name(i),
                       i != 2 ? ", {'name': 'v1alpha1'}" : "");
        wp_test_put(world->api, WP_KIND_DEFINITION, text);
    }
    world->controller = wp_webhook_controller_ops.create(&world->parts, &err);
    assert_non_null(world->controller);
}

static void
tear_down(struct world *world)
{
    assert_int_equal(wp_recorder_planned(world->api), 0);
    wp_api_destroy(world->api);
    wp_webhook_controller_ops.destroy(world->controller);
    event_base_free(world->parts.base);
}

static enum rest
resting(struct world *world)
{
    double left_s = timers_left_s(world->parts.base, world->controller);

    return left_s < 0     ? NO_REST
           : left_s < 0.1 ? AT_ONCE
           : left_s < 1.5 ? SOON
                          : A_ROUND;
}

/* The timer is due, whenever that is; the calls that follow stay unanswered. */
static void
wake(struct world *world)
{
    timers_fire(world->parts.base, world->controller);
}

/* One round. Returns what it said. */
static const char *
turn(struct world *world)
{
    wake(world);
    heard_begin(&world->heard);
    (void)wp_recorder_run(world->api);
    return heard_end(&world->heard);
}

static uint32_t
writes(struct world *world, enum wp_kind kind)
{
    return wp_recorder_count(world->api, WP_VERB_WRITES, kind);
}

static const json_t *
secret_of(struct world *world)
{
    return wp_recorder_object(world->api, WP_KIND_SECRET, "system", "pairs");
}

static void
decode(struct world *world, const char *key, char out[WP_CERTIFICATE_PEM_MAX])
{
    const char *text = wp_json_text(secret_of(world), "data", key, NULL);

    out[0] = '\0';
    assert_true(text[0] == '\0' || wp_base64_decode(wp_str_from(text), out,
                                                    WP_CERTIFICATE_PEM_MAX));
}

/* A pair of the Secret, decoded; "" when there is none. */
static struct wp_certificate
kept(struct world *world, const char *cert, const char *key)
{
    struct wp_certificate pair;

    decode(world, cert, pair.cert);
    decode(world, key, pair.key);
    return pair;
}

static struct wp_certificate
newest(struct world *world)
{
    return kept(world, "tls.crt", "tls.key");
}

static struct wp_certificate
before(struct world *world)
{
    return kept(world, "before.crt", "before.key");
}

/* Definition i trusts these, one behind the other. */
static void
assert_trusts(struct world *world, size_t i, const char *first,
              const char *second)
{
    const json_t *definition = wp_recorder_object(
        world->api, WP_KIND_DEFINITION, "", wp_definition_name(i));
    char trusted[2 * WP_CERTIFICATE_PEM_MAX];
    char both[2 * WP_CERTIFICATE_PEM_MAX];

    (void)snprintf(both, sizeof both, "%s%s", first, second);
    assert_true(wp_base64_decode(
        wp_str_from(wp_json_text(definition, "spec", "conversion", "webhook",
                                 "clientConfig", "caBundle", NULL)),
        trusted, sizeof trusted));
    assert_string_equal(trusted, both);
}

/* The conversion of definition i without its bundle. */
static void
assert_conversion(struct world *world, size_t i, const char *expected)
{
    json_t *conversion = json_deep_copy(
        wp_json_at(wp_recorder_object(world->api, WP_KIND_DEFINITION, "",
                                      wp_definition_name(i)),
                   "spec", "conversion", NULL));

    (void)json_object_del(
        wp_json_at(conversion, "webhook", "clientConfig", NULL), "caBundle");
    wp_test_json_equal(conversion, expected);
}

#define BY_SERVICE                                                             \
    "{'strategy': 'Webhook', 'webhook': {'conversionReviewVersions': ['v1'],"  \
    " 'clientConfig': {'service': {'name': 'hook', 'namespace': 'system',"     \
    " 'path': '/convert', 'port': 443}}}}"

static void
the_leader_makes_one_and_tells_of_it(void **state)
{
    static const char *const names[] = {"hook.system.svc"};
    struct world world;
    struct wp_err err;
    int64_t time_s;

    (void)state;
    set_up(&world, NULL, true);
    assert_int_equal(resting(&world), AT_ONCE);
    assert_string_equal(
        turn(&world),
        "INFO a new certificate for the webhook secret=pairs days=90\n"
        "INFO a definition trusts the webhook's certificate "
        "definition=sandboxes.agents.x-k8s.io\n"
        "INFO a definition trusts the webhook's certificate "
        "definition=sandboxclaims.extensions.agents.x-k8s.io\n"
        "INFO a definition trusts the webhook's certificate "
        "definition=sandboxwarmpools.extensions.agents.x-k8s.io\n");
    assert_int_equal(resting(&world), A_ROUND);
    assert_int_equal(world.uses, 1);
    assert_string_equal(world.used.cert, newest(&world).cert);
    assert_string_equal(world.used.key, newest(&world).key);
    assert_string_equal(before(&world).cert, "");
    assert_int_equal(
        wp_certificate_check(&world.used, names, 1, &time_s, &time_s, &err),
        WP_OK);
    for (size_t i = 0; i < WP_DEFINITIONS; i++) {
        if (i != 2) {
            assert_conversion(&world, i, BY_SERVICE);
            assert_trusts(&world, i, world.used.cert, "");
        }
    }
    /* One whose objects nobody has in two versions is left alone. */
    assert_null(wp_json_at(wp_recorder_object(world.api, WP_KIND_DEFINITION, "",
                                              wp_definition_name(2)),
                           "spec", "conversion", NULL));
    /* From then on it only looks, and repairs what others change. */
    assert_string_equal(turn(&world), "");
    assert_int_equal(writes(&world, WP_KIND_COUNT), 4);
    assert_int_equal(
        wp_recorder_count(world.api, WP_VERB_GET, WP_KIND_DEFINITION), 8);
    (void)wp_recorder_merge(world.api, WP_KIND_DEFINITION, "",
                            wp_definition_name(1),
                            "{\"spec\":{\"conversion\":null}}");
    assert_string_equal(
        turn(&world), "INFO a definition trusts the webhook's certificate "
                      "definition=sandboxclaims.extensions.agents.x-k8s.io\n");
    assert_conversion(&world, 1, BY_SERVICE);
    assert_int_equal(world.uses, 1);
    tear_down(&world);
}

static void
others_show_what_the_leader_made(void **state)
{
    struct world world;
    struct world leader;
    json_t *data;
    char *text;

    (void)state;
    set_up(&world, NULL, false);
    set_up(&leader, NULL, true);
    assert_string_equal(turn(&world), "");
    assert_int_equal(resting(&world), SOON);
    assert_int_equal(world.uses, 0);
    (void)turn(&leader);
    data =
        json_pack("{s:O}", "data", json_object_get(secret_of(&leader), "data"));
    text = json_dumps(data, 0);
    (void)wp_recorder_merge(world.api, WP_KIND_SECRET, "system", "pairs", text);
    free(text);
    json_decref(data);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(turn(&world), "");
        assert_int_equal(resting(&world), A_ROUND);
        assert_int_equal(world.uses, 1);
        assert_string_equal(world.used.key, leader.used.key);
    }
    assert_int_equal(writes(&world, WP_KIND_COUNT), 0);
    assert_int_equal(
        wp_recorder_count(world.api, WP_VERB_ANY, WP_KIND_DEFINITION), 0);
    tear_down(&world);
    tear_down(&leader);
}

static void
go_to(struct world *world, int64_t after_s)
{
    world->clock.now_wall_ns = (MADE_S + after_s) * WP_NS_PER_S;
}

static void
it_is_renewed_before_it_runs_out(void **state)
{
    const int64_t due_s = (WP_CERTIFICATE_DAYS - 30) * DAY_S;
    struct wp_certificate first;
    struct world world;

    (void)state;
    set_up(&world, NULL, true);
    (void)turn(&world);
    first = newest(&world);
    go_to(&world, due_s);
    assert_string_equal(turn(&world), "");
    go_to(&world, due_s + 1);
    (void)turn(&world);
    assert_string_equal(before(&world).cert, first.cert);
    assert_string_equal(before(&world).key, first.key);
    assert_string_not_equal(newest(&world).cert, first.cert);
    /* It is trusted at once, and shown when all have heard of it. */
    assert_trusts(&world, 0, newest(&world).cert, first.cert);
    assert_string_equal(world.used.cert, first.cert);
    go_to(&world, due_s + 600);
    assert_string_equal(turn(&world), "");
    assert_int_equal(world.uses, 1);
    go_to(&world, due_s + 601);
    assert_string_equal(turn(&world), "");
    assert_int_equal(world.uses, 2);
    assert_string_equal(world.used.cert, newest(&world).cert);
    assert_string_equal(world.used.key, newest(&world).key);
    /* What ran out is trusted no more. */
    go_to(&world, WP_CERTIFICATE_DAYS * DAY_S - 1);
    assert_string_equal(turn(&world), "");
    go_to(&world, WP_CERTIFICATE_DAYS * DAY_S);
    assert_non_null(strstr(turn(&world), "a definition trusts"));
    assert_trusts(&world, 3, newest(&world).cert, "");
    assert_int_equal(writes(&world, WP_KIND_SECRET), 2);
    tear_down(&world);
}

/* Nobody was there to renew it. */
static void
what_ran_out_is_not_shown(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, NULL, true);
    (void)turn(&world);
    go_to(&world, WP_CERTIFICATE_DAYS * DAY_S);
    (void)turn(&world);
    assert_string_equal(before(&world).cert, "");
    assert_int_equal(world.uses, 2);
    assert_string_equal(world.used.cert, newest(&world).cert);
    assert_trusts(&world, 0, world.used.cert, "");
    tear_down(&world);
}

/* Somebody wrote there: no certificate; another host's; one without its key. */
static void
what_is_no_good_counts_as_absent(void **state)
{
    static const char *const others[] = {"other.system.svc"};
    static const char *const ours[] = {"hook.system.svc"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct wp_certificate pair = {.cert = "nonsense", .key = "nonsense"};
        struct world world;
        struct wp_err err;
        char *cert;
        char *key;
        char *text;

        if (i > 0) {
            assert_int_equal(wp_certificate_make(&pair, i == 1 ? others : ours,
                                                 1, MADE_S, &err),
                             WP_OK);
        }
        cert = wp_base64_encode(wp_str_from(pair.cert));
        key = wp_base64_encode(wp_str_from(i == 2 ? "nonsense" : pair.key));
        assert_true(asprintf(&text,
                             "{\"data\":{\"before.crt\":\"%s\","
                             "\"before.key\":\"%s\"}}",
                             cert, key) > 0);
        set_up(&world, NULL, true);
        (void)wp_recorder_merge(world.api, WP_KIND_SECRET, "system", "pairs",
                                text);
        (void)turn(&world);
        assert_int_equal(world.uses, 1);
        assert_string_equal(world.used.cert, newest(&world).cert);
        assert_string_equal(before(&world).cert, "");
        assert_string_equal(before(&world).key, "");
        assert_trusts(&world, 0, world.used.cert, "");
        tear_down(&world);
        free(cert);
        free(key);
        free(text);
    }
}

static void
a_url_takes_the_services_place(void **state)
{
    static const struct {
        const char *url;
        const char *host;
    } cases[] = {
        {"https://hook.example:8443/convert", "hook.example"},
        {"https://hook.example/convert:8", "hook.example"},
        {"https://hook.example", "hook.example"},
        {"https://10.1.2.3:8443/", "10.1.2.3"},
        {"https://[fd00::1]:8443/", "fd00::1"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        const char *const names[] = {"hook.system.svc", cases[i].host};
        struct world world;
        struct wp_err err;
        int64_t time_s;
        char expected[300];

        set_up(&world, NULL, true);
        (void)turn(&world);
        /* The next start has other settings: the name was not in it. */
        wp_webhook_controller_ops.destroy(world.controller);
        world.webhook.url = cases[i].url;
        world.controller = wp_webhook_controller_ops.create(&world.parts, &err);
        (void)turn(&world);
        assert_int_equal(
            wp_certificate_check(&world.used, names, 2, &time_s, &time_s, &err),
            WP_OK);
        (void)snprintf(expected, sizeof expected,
                       "{'strategy': 'Webhook', 'webhook': "
                       "{'conversionReviewVersions': ['v1'], 'clientConfig': "
                       "{'url': '%s'}}}",
                       cases[i].url);
        assert_conversion(&world, 0, expected);
        assert_trusts(&world, 0, world.used.cert, "");
        /* And back: it is good for the Service still. */
        wp_webhook_controller_ops.destroy(world.controller);
        world.webhook.url = NULL;
        world.controller = wp_webhook_controller_ops.create(&world.parts, &err);
        (void)turn(&world);
        assert_conversion(&world, 0, BY_SERVICE);
        assert_int_equal(writes(&world, WP_KIND_SECRET), 2);
        tear_down(&world);
    }
}

#define WARNED(object, code, message)                                          \
    "WARN clients of v1alpha1 are not served: the webhook cannot be kept "     \
    "trusted object=" object " code=" code " message=" message "\n"

static const struct {
    struct wp_recorder_fault fault;
    const char *said; /* NULL: it passes, and nobody hears of it. */
} failures[] = {
    {{.verb = WP_VERB_GET,
      .kind = WP_KIND_SECRET,
      .status = WP_PERMISSION_DENIED,
      .message = "no"},
     WARNED("pairs", "403", "no")},
    {{.verb = WP_VERB_GET, .kind = WP_KIND_SECRET, .status = WP_NOT_FOUND},
     WARNED("pairs", "404", "\"not found\"")},
    {{.verb = WP_VERB_GET, .kind = WP_KIND_SECRET, .status = WP_OK},
     WARNED("pairs", "200", "\"\"")},
    {{.verb = WP_VERB_PATCH,
      .kind = WP_KIND_SECRET,
      .status = WP_INVALID_ARGUMENT,
      .message = "bad"},
     WARNED("pairs", "422", "bad")},
    {{.verb = WP_VERB_GET,
      .kind = WP_KIND_DEFINITION,
      .skip = 1,
      .status = WP_PERMISSION_DENIED,
      .message = "no"},
     WARNED("sandboxclaims.extensions.agents.x-k8s.io", "403", "no")},
    {{.verb = WP_VERB_GET,
      .kind = WP_KIND_DEFINITION,
      .skip = 3,
      .status = WP_OK},
     WARNED("sandboxwarmpools.extensions.agents.x-k8s.io", "200", "\"\"")},
    {{.verb = WP_VERB_PATCH,
      .kind = WP_KIND_DEFINITION,
      .status = WP_PERMISSION_DENIED,
      .message = "no"},
     WARNED("sandboxes.agents.x-k8s.io", "403", "no")},
    {{.verb = WP_VERB_GET, .kind = WP_KIND_SECRET, .status = WP_UNAVAILABLE},
     NULL},
    {{.verb = WP_VERB_PATCH, .kind = WP_KIND_SECRET, .status = WP_ABORTED},
     NULL},
    {{.verb = WP_VERB_PATCH,
      .kind = WP_KIND_DEFINITION,
      .skip = 1,
      .status = WP_UNKNOWN_OUTCOME,
      .effect = true},
     NULL},
};

static void
what_fails_is_told_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(failures); i++) {
        const struct wp_recorder_fault *fault = &failures[i].fault;
        struct world world;

        set_up(&world, NULL, true);
        for (int round = 0; round < 2; round++) {
            const char *said;

            wp_recorder_plan(world.api, fault);
            said = strstr(turn(&world), "WARN");
            assert_int_equal(wp_recorder_planned(world.api), 0);
            assert_int_equal(
                wp_recorder_last(world.api, WP_VERB_ANY, WP_KIND_COUNT)->kind,
                fault->kind);
            if (failures[i].said == NULL) {
                assert_null(said);
                assert_int_equal(resting(&world), SOON);
                break;
            }
            assert_int_equal(resting(&world), A_ROUND);
            assert_string_equal(said != NULL ? said : "",
                                round == 0 ? failures[i].said : "");
            if (fault->skip > 1) {
                break; /* Those before it are as they should be now. */
            }
        }
        /* It passes, and would be told again. */
        (void)turn(&world);
        assert_conversion(&world, 3, BY_SERVICE);
        assert_trusts(&world, 3, world.used.cert, "");
        wp_recorder_plan(world.api, &(struct wp_recorder_fault){
                                        .verb = WP_VERB_GET,
                                        .kind = WP_KIND_SECRET,
                                        .status = WP_PERMISSION_DENIED,
                                        .message = "no"});
        assert_string_equal(turn(&world), WARNED("pairs", "403", "no"));
        tear_down(&world);
    }
}

static void
another_leader_was_faster(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, NULL, true);
    wake(&world);
    assert_true(wp_recorder_step(world.api)); /* The Secret is read. */
    (void)wp_recorder_merge(world.api, WP_KIND_SECRET, "system", "pairs",
                            "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}");
    assert_true(wp_recorder_step(world.api)); /* What it made is not kept. */
    assert_null(json_object_get(secret_of(&world), "data"));
    assert_int_equal(world.uses, 0);
    assert_int_equal(resting(&world), SOON);
    tear_down(&world);
}

/* After each answer of a round leadership may be lost: nothing is begun. */
static void
a_round_outlives_the_lead(void **state)
{
    (void)state;
    for (uint32_t lost = 0; lost < 7; lost++) {
        struct world world;
        uint32_t begun;

        set_up(&world, NULL, true);
        wake(&world);
        for (uint32_t i = 0; i < lost; i++) {
            assert_true(wp_recorder_step(world.api));
        }
        world.parts.active = false;
        wp_webhook_controller_ops.deactivate(world.controller);
        begun = writes(&world, WP_KIND_COUNT);
        (void)wp_recorder_run(world.api);
        assert_int_equal(writes(&world, WP_KIND_COUNT), begun);
        assert_int_equal(world.uses, lost == 0 ? 0 : 1);
        assert_int_equal(resting(&world), lost == 0 ? SOON : A_ROUND);
        /* It leads again: now, not in a minute. */
        world.parts.active = true;
        wp_webhook_controller_ops.activate(world.controller);
        assert_int_equal(resting(&world), AT_ONCE);
        wake(&world);
        /* But once is enough. */
        wp_webhook_controller_ops.activate(world.controller);
        assert_int_equal(resting(&world), NO_REST);
        (void)wp_recorder_run(world.api);
        assert_conversion(&world, 3, BY_SERVICE);
        assert_int_equal(writes(&world, WP_KIND_SECRET), 1);
        tear_down(&world);
    }
}

static void
it_ends_in_the_middle(void **state)
{
    (void)state;
    for (uint32_t after = 0; after < 7; after++) {
        struct world world;

        set_up(&world, NULL, true);
        wake(&world);
        for (uint32_t i = 0; i < after; i++) {
            assert_true(wp_recorder_step(world.api));
        }
        heard_begin(&world.heard);
        wp_api_destroy(world.api);
        assert_string_equal(heard_end(&world.heard), "");
        assert_int_equal(resting(&world), NO_REST);
        wp_webhook_controller_ops.destroy(world.controller);
        event_base_free(world.parts.base);
    }
}

static bool cannot_make;

enum wp_status __wrap_wp_certificate_make(struct wp_certificate *out,
                                          const char *const *names,
                                          size_t n_names, int64_t now_s,
                                          struct wp_err *err);
enum wp_status __real_wp_certificate_make(struct wp_certificate *out,
                                          const char *const *names,
                                          size_t n_names, int64_t now_s,
                                          struct wp_err *err);

enum wp_status
__wrap_wp_certificate_make(struct wp_certificate *out, const char *const *names,
                           size_t n_names, int64_t now_s, struct wp_err *err)
{
    if (cannot_make) {
        return wp_err_set(err, WP_INTERNAL, "no luck");
    }
    return __real_wp_certificate_make(out, names, n_names, now_s, err);
}

/* One that cannot be made is an error, and nothing is written or shown; the
 * next round makes it. */
static void
none_can_be_made(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, NULL, true);
    cannot_make = true;
    for (int i = 0; i < 2; i++) {
        assert_string_equal(
            turn(&world),
            "ERROR no certificate for the webhook error=\"no luck\"\n");
        assert_int_equal(writes(&world, WP_KIND_SECRET), 0);
        assert_int_equal(world.uses, 0);
        assert_int_equal(resting(&world), A_ROUND);
    }
    cannot_make = false;
    (void)turn(&world);
    assert_int_equal(writes(&world, WP_KIND_SECRET), 1);
    assert_int_equal(world.uses, 1);
    tear_down(&world);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_leader_makes_one_and_tells_of_it),
        cmocka_unit_test(others_show_what_the_leader_made),
        cmocka_unit_test(it_is_renewed_before_it_runs_out),
        cmocka_unit_test(what_ran_out_is_not_shown),
        cmocka_unit_test(what_is_no_good_counts_as_absent),
        cmocka_unit_test(a_url_takes_the_services_place),
        cmocka_unit_test(what_fails_is_told_once),
        cmocka_unit_test(another_leader_was_faster),
        cmocka_unit_test(none_can_be_made),
        cmocka_unit_test(a_round_outlives_the_lead),
        cmocka_unit_test(it_ends_in_the_middle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
