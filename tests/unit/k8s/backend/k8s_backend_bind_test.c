/* The core's backend for a cluster, on a small server in memory: what claims
 * bring, on its way to a Pod that the test plays. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "k8s/objects/lease_annotation.h"
#include "pool/binding.h"
#include "proto/formats/sandbox_token.h"
#include "proto/parcel/pack.h"
#include "tests/support/k8s/cluster_rig.h"

#define PATIENCE_NS (60 * WP_NS_PER_S)
#define BOUND                                                                  \
    "HTTP/1.1 200 OK\r\nX-Warmpool-Binding: 00000000000000ab\r\n"              \
    "Content-Length: 2\r\n\r\n{}"

static struct wp_cluster_rig rig;
static const uint8_t key[WP_SANDBOX_KEY_LEN] = {1, 2, 3};
static int listener;
static int pod; /* The connection; -1. */
static char heard[8192];
static size_t heard_len;

static const struct wp_binding_env env[] = {{{"A", 1}, {"1", 1}}};
static const struct wp_binding binding = {
    .fingerprint = 0xab, .env = env, .n_env = 1};

struct asked {
    struct wp_bind_op op;
    uint32_t answers;
};

static void
on_done(struct wp_bind_op *op)
{
    WP_CONTAINER_OF(op, struct asked, op)->answers++;
}

/* --- The Pod --- */

static void
listen_anywhere(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;

    listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len),
                     0);
    rig.parts.config.sandbox_port = ntohs(address.sin_port);
    pod = -1;
    heard_len = 0;
}

/* What has come; true: the whole request. */
static bool
hear(void)
{
    size_t whole = wp_parcel_size(&binding, WP_STR(""));
    const char *end;
    ssize_t n;

    if (pod < 0) {
        pod = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    }
    if (pod < 0) {
        return false;
    }
    n = recv(pod, heard + heard_len, sizeof heard - 1 - heard_len, 0);
    heard_len += n > 0 ? (size_t)n : 0;
    heard[heard_len] = '\0';
    end = strstr(heard, "\r\n\r\n");
    return end != NULL && heard + heard_len >= end + 4 + whole;
}

static void
say(const char *text)
{
    assert_int_equal(send(pod, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* --- The world --- */

static bool
until(bool (*happens)(void *ctx), void *ctx)
{
    int64_t end = wp_clock_mono_ns(wp_clock_system()) + PATIENCE_NS;

    while (!happens(ctx)) {
        if (wp_clock_mono_ns(wp_clock_system()) > end) {
            return false;
        }
        wp_cluster_rig_settle(&rig);
    }
    return true;
}

static bool
is_heard(void *ctx)
{
    (void)ctx;
    return hear();
}

static bool
is_answered(void *ctx)
{
    return ((const struct asked *)ctx)->answers > 0;
}

static enum wp_status
ask(struct asked *asked, const struct wp_claim *claim, int64_t within_ns)
{
    struct wp_backend port = wp_cluster_backend_port(rig.backend);

    *asked = (struct asked){.op = {.binding = &binding,
                                   .ref = claim->grant.ref,
                                   .within_ns = within_ns,
                                   .done = on_done}};
    return port.ops->bind(port.self, &asked->op);
}

/* A sandbox that a claim has, with its Pod on this machine. */
static void
start(struct wp_claim *claim)
{
    wp_cluster_rig_start(&rig, 1);
    rig.parts.config.sandbox_key = key;
    listen_anywhere();
    wp_cluster_rig_ready(&rig, wp_cluster_rig_name(&rig, 0), "127.0.0.1");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_claim(&rig, claim, "c", "t"), WP_OK);
}

static void
finish(const struct wp_claim *claim)
{
    if (pod >= 0) {
        (void)close(pod);
    }
    (void)close(listener);
    wp_pools_end(rig.pools, claim->grant.ref);
    wp_cluster_rig_settle(&rig);
    wp_cluster_rig_fini(&rig);
}

static bool
is_lost(void)
{
    struct wp_claim_info info;

    return wp_pools_get(rig.pools, WP_STR("t"), WP_STR("c"), &info) == WP_OK &&
           info.lost;
}

static void
brought_once_its_lease_is_written(void **state)
{
    char token[WP_SANDBOX_TOKEN_TEXT + 1];
    char field[128];
    uint8_t parcel[64];
    struct wp_claim claim;
    struct asked first;
    struct asked again;

    (void)state;
    start(&claim);
    assert_int_equal(ask(&first, &claim, PATIENCE_NS), WP_PENDING);
    assert_int_equal(ask(&again, &claim, PATIENCE_NS), WP_PENDING);
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_PATCH,
                                                 .kind = WP_KIND_SANDBOX,
                                                 .status = WP_UNAVAILABLE});
    /* The cluster's thread knows of the request only, not of the lease yet. */
    for (int i = 0; i < 16; i++) {
        (void)event_base_loop(rig.parts.base, EVLOOP_NONBLOCK);
    }
    assert_true(accept4(listener, NULL, NULL, SOCK_CLOEXEC) < 0);
    assert_true(until(is_heard, NULL));
    assert_string_not_equal(wp_cluster_rig_annotation(&rig, claim.grant.sandbox,
                                                      WP_ANNOTATION_LEASE),
                            "");
    assert_int_equal(
        wp_recorder_last(rig.api, WP_VERB_PATCH, WP_KIND_SANDBOX)->priority,
        WP_HTTP_CLAIM);
    /* The request, word by word. */
    assert_int_equal(strncmp(heard, "POST /v1/bind HTTP/1.1\r\n", 24), 0);
    wp_sandbox_token(key, "ns", claim.grant.sandbox, token);
    (void)snprintf(field, sizeof field, "\r\nX-Warmpool-Token: %s\r\n", token);
    assert_non_null(strstr(heard, field));
    assert_non_null(
        strstr(heard, "\r\nX-Warmpool-Binding: 00000000000000ab\r\n"));
    wp_parcel_fill(&binding, WP_STR(""), parcel);
    assert_memory_equal(strstr(heard, "\r\n\r\n") + 4, parcel,
                        wp_parcel_size(&binding, WP_STR("")));
    assert_int_equal(first.answers + again.answers, 0);
    say(BOUND);
    assert_true(until(is_answered, &first));
    assert_int_equal(first.op.status, WP_OK);
    /* Both were answered by the one request. */
    assert_int_equal(again.answers, 1);
    assert_int_equal(again.op.status, WP_OK);
    assert_true(accept4(listener, NULL, NULL, SOCK_CLOEXEC) < 0);
    /* Not Ready for a while: its Pod has all of it still. */
    wp_cluster_rig_ready(&rig, claim.grant.sandbox, "");
    wp_cluster_rig_settle(&rig);
    wp_cluster_rig_ready(&rig, claim.grant.sandbox, "127.0.0.1");
    wp_cluster_rig_settle(&rig);
    assert_false(is_lost());
    /* Another Pod has nothing. */
    wp_cluster_rig_ready(&rig, claim.grant.sandbox, "127.0.0.2");
    wp_cluster_rig_settle(&rig);
    assert_true(is_lost());
    finish(&claim);
}

static void
what_is_not_taken(void **state)
{
    static const struct {
        const char *says;
        enum wp_status status;
        const char *reason;
        bool lost;
    } cases[] = {
        {"HTTP/1.1 422 X\r\nContent-Length: 14\r\n\r\n{\"error\":\"no\"}",
         WP_FAILED_PRECONDITION, "binding: no", true},
        {"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n", WP_FAILED_PRECONDITION,
         "binding: the sandbox's server takes none", false},
        {NULL, WP_UNAVAILABLE, "binding: the sandbox's server did not answer",
         false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_claim claim;
        struct asked asked;

        start(&claim);
        assert_int_equal(ask(&asked, &claim, PATIENCE_NS), WP_PENDING);
        assert_true(until(is_heard, NULL));
        if (cases[i].says != NULL) {
            say(cases[i].says);
        } else {
            (void)close(pod);
            pod = -1;
        }
        assert_true(until(is_answered, &asked));
        assert_int_equal(asked.op.status, cases[i].status);
        assert_string_equal(asked.op.reason, cases[i].reason);
        assert_int_equal(is_lost(), cases[i].lost);
        finish(&claim);
    }
}

/* Each of them answers at once, and lets the Pod go. */
static void
what_ends_it(void **state)
{
    enum {
        NO_LEADER,
        RELEASED,
        GONE,
        CASES
    };
    static const char *const reasons[CASES] = {
        [NO_LEADER] = ("binding: this daemon does not keep the sandboxes now; "
                       "try again, or at the one that does"),
        [RELEASED] = "binding: its lease has ended",
        [GONE] = "binding: it was deleted from outside",
    };

    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct wp_claim claim;
        struct asked asked;

        start(&claim);
        assert_int_equal(ask(&asked, &claim, PATIENCE_NS), WP_PENDING);
        assert_true(until(is_heard, NULL));
        if (i == NO_LEADER) {
            wp_cluster_rig_follow(&rig);
        } else if (i == RELEASED) {
            wp_pools_end(rig.pools, claim.grant.ref);
        } else if (i == GONE) {
            wp_recorder_remove(rig.api, WP_KIND_SANDBOX, "ns",
                               claim.grant.sandbox);
        }
        assert_true(until(is_answered, &asked));
        assert_int_equal(asked.op.status, WP_UNAVAILABLE);
        assert_string_equal(asked.op.reason, reasons[i]);
        if (i == NO_LEADER) {
            assert_int_equal(ask(&asked, &claim, PATIENCE_NS), WP_UNAVAILABLE);
            wp_cluster_rig_lead(&rig);
        }
        finish(&claim);
    }
}

static void
no_lease_no_parcel(void **state)
{
    struct wp_claim claim;
    struct asked asked;

    (void)state;
    start(&claim);
    wp_recorder_plan(
        rig.api, &(struct wp_recorder_fault){.verb = WP_VERB_PATCH,
                                             .kind = WP_KIND_SANDBOX,
                                             .status = WP_RESOURCE_EXHAUSTED,
                                             .retry_after_ns = PATIENCE_NS});
    assert_int_equal(ask(&asked, &claim, WP_NS_PER_S / 2), WP_PENDING);
    assert_true(until(is_answered, &asked));
    assert_string_equal(
        asked.op.reason,
        "binding: the lease could not be written on the sandbox in time");
    assert_false(hear());
    finish(&claim);
}

/* However far it came by then. */
static void
its_time_is_over(void **state)
{
    struct wp_claim claim;
    struct asked asked;

    (void)state;
    start(&claim);
    assert_int_equal(ask(&asked, &claim, 1), WP_PENDING);
    assert_true(until(is_answered, &asked));
    assert_int_equal(asked.op.status, WP_DEADLINE_EXCEEDED);
    assert_non_null(strstr(asked.op.reason, " in time"));
    finish(&claim);
}

static void
so_many_at_once(void **state)
{
    enum {
        MOST = 256
    };
    struct asked *asked = calloc(MOST + 1, sizeof *asked);
    struct wp_claim claim;

    (void)state;
    assert_non_null(asked);
    start(&claim);
    for (int i = 0; i < MOST; i++) {
        assert_int_equal(ask(&asked[i], &claim, PATIENCE_NS), WP_PENDING);
    }
    assert_int_equal(ask(&asked[MOST], &claim, PATIENCE_NS),
                     WP_RESOURCE_EXHAUSTED);
    assert_string_equal(
        asked[MOST].op.reason,
        "binding: too many sandboxes are being bound; try again");
    assert_true(until(is_heard, NULL));
    say(BOUND);
    assert_true(until(is_answered, &asked[MOST - 1]));
    for (int i = 0; i < MOST; i++) {
        assert_int_equal(asked[i].answers, 1);
    }
    /* There is room again. */
    assert_int_equal(ask(&asked[MOST], &claim, 0), WP_PENDING);
    assert_true(until(is_answered, &asked[MOST]));
    /* For as many as before: who was refused takes none. */
    for (int i = 0; i < MOST; i++) {
        assert_int_equal(ask(&asked[i], &claim, 0), WP_PENDING);
    }
    assert_true(until(is_answered, &asked[MOST - 1]));
    free(asked);
    finish(&claim);
}

/* By the time that the cluster's thread hears of it. */
static void
what_comes_too_late(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        struct wp_claim claim;
        struct asked asked;

        start(&claim);
        if (lost) {
            (void)wp_recorder_merge(
                rig.api, WP_KIND_SANDBOX, "ns", claim.grant.sandbox,
                "{\"status\":{\"conditions\":[{\"type\":\"Finished\","
                "\"status\":"
                "\"True\",\"reason\":\"PodFailed\",\"message\":\"\"}]}}");
            wp_cluster_rig_settle(&rig);
            assert_true(is_lost());
        }
        assert_int_equal(ask(&asked, &claim, PATIENCE_NS), WP_PENDING);
        if (!lost) {
            wp_cluster_rig_follow(&rig);
        }
        wp_cluster_rig_settle(&rig);
        assert_int_equal(asked.answers, 1);
        assert_int_equal(asked.op.status, WP_UNAVAILABLE);
        assert_string_equal(
            asked.op.reason,
            lost
                ? "binding: the sandbox was lost before it was bound; try again"
                : "binding: this daemon does not keep the sandboxes now; try "
                  "again, or at the one that does");
        if (!lost) {
            wp_cluster_rig_lead(&rig);
        }
        finish(&claim);
    }
}

static void
a_pod_gets_no_volume_once_it_runs(void **state)
{
    static const struct wp_binding_volume volume = {.name = {"v", 1}};
    const struct wp_binding some = {.volumes = &volume, .n_volumes = 1};
    struct wp_backend port;
    struct wp_err err;

    (void)state;
    wp_cluster_rig_start(&rig, 0);
    port = wp_cluster_backend_port(rig.backend);
    assert_int_equal(port.ops->may_bring(port.self, &binding, &err), WP_OK);
    assert_int_equal(port.ops->may_bring(port.self, &some, &err),
                     WP_FAILED_PRECONDITION);
    assert_non_null(strstr(err.msg, "binding.volumes: "));
    assert_false(port.ops->passes(port.self));
    wp_cluster_rig_fini(&rig);
}

static const char *
unbound(void)
{
    struct wp_backend port = wp_cluster_backend_port(rig.backend);

    return port.ops->unbound(port.self, WP_STR("ns"), WP_STR("t"));
}

static void
set_annotation(const char *value)
{
    char text[128];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"annotations\":{"
                   "\"" WP_TEMPLATE_BINDING_KEY "\":%s}}}",
                   value);
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t", text);
    wp_cluster_rig_settle(&rig);
}

static void
whose_program_takes_some(void **state)
{
    (void)state;
    wp_cluster_rig_start(&rig, 0);
    assert_non_null(strstr(unbound(), "token_key_file"));
    rig.parts.config.sandbox_key = key;
    assert_non_null(strstr(unbound(), WP_TEMPLATE_BINDING_KEY ": allowed"));
    set_annotation("\"allowed\"");
    assert_null(unbound());
    set_annotation("\"none\"");
    assert_non_null(unbound());
    set_annotation("\"allowed\"");
    assert_null(unbound());
    set_annotation("null");
    assert_non_null(unbound());
    set_annotation("\"allowed\"");
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t");
    wp_cluster_rig_settle(&rig);
    assert_non_null(unbound());
    wp_cluster_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(brought_once_its_lease_is_written),
        cmocka_unit_test(what_is_not_taken),
        cmocka_unit_test(what_ends_it),
        cmocka_unit_test(no_lease_no_parcel),
        cmocka_unit_test(its_time_is_over),
        cmocka_unit_test(so_many_at_once),
        cmocka_unit_test(what_comes_too_late),
        cmocka_unit_test(a_pod_gets_no_volume_once_it_runs),
        cmocka_unit_test(whose_program_takes_some),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
