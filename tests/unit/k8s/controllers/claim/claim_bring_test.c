/* What a SandboxClaim brings, on its way to a Pod that the test plays: what is
 * sent, what each answer leads to, and the identities that follow. */
#include <arpa/inet.h>
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
#include <event2/event.h>

#include "k8s/bind/identity.h"
#include "k8s/bind/repositories.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/binding.h"
#include "proto/formats/sandbox_token.h"
#include "tests/support/k8s/claim_rig.h"

#define S WP_NS_PER_S
#define PATIENCE_NS (60 * WP_NS_PER_S)

static struct wp_claim_rig rig;
static const uint8_t key[WP_SANDBOX_KEY_LEN] = {1, 2, 3};
static const struct wp_cluster_git git = {
    .remotes = "", .remotes_denied = "", .fetch_socket = "", .trust_files = ""};
static struct wp_identity_renewals renewals;
static struct wp_cluster_identity signer;
static int listener;
static int pod; /* The connection; -1. */
static char heard[16384];
static size_t heard_len;
static char name[WP_SANDBOX_NAME_MAX + 1]; /* Of the warm sandbox. */

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
}

static void
hang_up(void)
{
    if (pod >= 0) {
        (void)close(pod);
    }
    pod = -1;
    heard_len = 0;
    heard[0] = '\0';
}

/* The whole request has come. */
static bool
is_heard(void)
{
    const char *length;
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
    length = strstr(heard, "\r\nContent-Length: ");
    return end != NULL &&
           heard + heard_len >=
               end + 4 + (length != NULL ? atol(length + 18) : 0);
}

/* The value of a field of the request; "" without it. */
static const char *
field(const char *name_)
{
    static char value[1024];
    char begin[64];
    const char *at;

    (void)snprintf(begin, sizeof begin, "\r\n%s: ", name_);
    at = strstr(heard, begin);
    value[0] = '\0';
    if (at != NULL) {
        at += strlen(begin);
        (void)snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\r"), at);
    }
    return value;
}

static void
say(const char *text)
{
    assert_int_equal(send(pod, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* It has all of it. */
static void
take(void)
{
    char text[256];

    (void)snprintf(text, sizeof text,
                   "HTTP/1.1 200 OK\r\nX-Warmpool-Binding: %s\r\n"
                   "X-Warmpool-Identity: taken\r\nContent-Length: 2\r\n\r\n{}",
                   field("X-Warmpool-Binding"));
    say(text);
}

/* --- The world --- */

static bool
is_ready(void)
{
    return strcmp(wp_claim_rig_ready(&rig, "c", "status"), "True") == 0;
}

static bool
is_told(void)
{
    return wp_claim_rig_ready(&rig, "c", "status")[0] != '\0';
}

static void
until(bool (*happens)(void))
{
    int64_t end = wp_clock_mono_ns(wp_clock_system()) + PATIENCE_NS;

    while (!happens()) {
        assert_true(wp_clock_mono_ns(wp_clock_system()) < end);
        wp_claim_rig_settle(&rig);
    }
}

static void
change_pod(const char *ip, const char *transition)
{
    char text[512];

    (void)snprintf(text, sizeof text,
                   "{\"status\":{\"podIPs\":[\"%s\"],\"conditions\":[{"
                   "\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"R\","
                   "\"message\":\"m\",\"lastTransitionTime\":\"%s\"}]}}",
                   ip, transition);
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX, "ns", name, text);
    wp_claim_rig_settle(&rig);
}

static enum wp_status
sign(void *ctx, const struct wp_claim_info *lease, struct wp_str audience,
     int64_t ttl_ms, char token[WP_IDENTITY_TOKEN_MAX + 1],
     int64_t *expires_wall_ms, struct wp_err *err)
{
    uint32_t *fails = ctx;

    if (*fails > 0) {
        (*fails)--;
        return wp_err_set(err, WP_UNAVAILABLE, "no key");
    }
    *expires_wall_ms = rig.clock.now_wall_ns / WP_NS_PER_MS + ttl_ms;
    (void)snprintf(token, WP_IDENTITY_TOKEN_MAX + 1, "%s/%s/%s/%s/%s/%.*s/%d",
                   lease->tenant, lease->pool_namespace, lease->pool,
                   lease->claim_id, lease->sandbox, (int)audience.len,
                   audience.ptr, (int)ttl_ms);
    return WP_OK;
}

static uint32_t sign_fails;

static void
begin(void)
{
    struct wp_err err;
    struct wp_pool_spec spec;

    wp_claim_rig_init(&rig);
    listen_anywhere();
    hang_up();
    sign_fails = 0;
    renewals = (struct wp_identity_renewals){.clock = &rig.clock.clock};
    signer = (struct wp_cluster_identity){.ctx = &sign_fails, .sign = sign};
    rig.parts.config.sandbox_key = key;
    rig.parts.config.identities = &signer;
    rig.parts.renewals = &renewals;
    rig.parts.repositories = wp_repositories_create(
        &(struct wp_repositories_config){
            .git = &git, .base = rig.parts.base, .api = rig.api, .ns = "ns"},
        &err);
    assert_non_null(rig.parts.repositories);
    wp_claim_rig_start(&rig, 1);
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t",
        "{\"metadata\":{\"annotations\":{\"" WP_TEMPLATE_BINDING_KEY
        "\":\"allowed\"}},\"spec\":{\"envVarsInjectionPolicy\":\"Overrides\"}"
        "}");
    spec = wp_claim_rig_stats(&rig).spec;
    spec.bind_env = true;
    assert_int_equal(wp_pools_update(rig.pools, 0, &spec, &err), WP_OK);
    (void)snprintf(name, sizeof name, "%s", rig.orders[0].name);
    change_pod("127.0.0.1", "2026-01-01T00:00:00Z");
}

static void
end(void)
{
    struct wp_repositories *repositories = rig.parts.repositories;

    hang_up();
    (void)close(listener);
    wp_claim_rig_fini(&rig);
    wp_repositories_destroy(repositories);
    assert_int_equal(renewals.under_way, 0);
}

static void
claim(const char *annotations, const char *spec)
{
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\","
                   "\"annotations\":{%s}},\"spec\":{\"warmPoolRef\":{\"name\":"
                   "\"p\"}%s}}",
                   annotations, spec);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM, text);
    wp_claim_rig_settle(&rig);
}

#define COMMAND "\"" WP_ANNOTATION_CLAIM_COMMAND "\":\"[\\\"run-it\\\"]\""
#define ENV ",\"env\":[{\"name\":\"VAR\",\"value\":\"its-value\"}]"
#define SECRETS                                                                \
    "\"" WP_ANNOTATION_CLAIM_SECRETS                                           \
    "\":\"{\\\"T\\\":{\\\"name\\\":\\\"s\\\",\\\"key\\\":\\\"k\\\"}}\""
#define IDENTITY                                                               \
    "\"" WP_ANNOTATION_CLAIM_IDENTITY                                          \
    "\":\"{\\\"audience\\\":\\\"who\\\",\\\"ttl\\\":\\\"100s\\\"}\""

static void
assert_ready(const char *status, const char *reason, const char *message)
{
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "status"), status);
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "reason"), reason);
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "message"), message);
}

static bool
has_bytes(const char *text)
{
    const char *body = strstr(heard, "\r\n\r\n");

    return memmem(body, heard_len - (size_t)(body - heard), text,
                  strlen(text)) != NULL;
}

/* Nobody rings. */
static bool
is_quiet(void)
{
    for (int i = 0; i < 20; i++) {
        wp_claim_rig_settle(&rig);
    }
    return accept4(listener, NULL, NULL, SOCK_CLOEXEC) < 0;
}

/* --- What is sent --- */

static void
it_is_ready_once_its_pod_has_all(void **state)
{
    char token[WP_SANDBOX_TOKEN_TEXT + 1];
    char fingerprint[32];

    (void)state;
    begin();
    claim(COMMAND, ENV);
    until(is_heard);
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "status"), "");
    assert_string_equal(wp_json_text(wp_claim_rig_object(&rig, name),
                                     "metadata", "annotations",
                                     WP_ANNOTATION_BRINGS, NULL),
                        "true");
    assert_int_equal(strncmp(heard, "POST /v1/bind HTTP/1.1\r\n", 24), 0);
    wp_sandbox_token(key, "ns", name, token);
    assert_string_equal(field("X-Warmpool-Token"), token);
    assert_string_equal(field("X-Warmpool-Identity"), "");
    assert_string_equal(field("X-Warmpool-Trees"), "0");
    assert_true(has_bytes("VAR"));
    assert_true(has_bytes("its-value"));
    assert_true(has_bytes("run-it"));
    (void)snprintf(fingerprint, sizeof fingerprint, "%s",
                   field("X-Warmpool-Binding"));
    assert_int_equal(strlen(fingerprint), 16);
    take();
    until(is_ready);
    hang_up();
    assert_true(is_quiet());
    /* Ready anew, it may be another Pod: that gets the same. */
    change_pod("127.0.0.1", "2026-01-01T00:00:10Z");
    until(is_heard);
    assert_string_equal(field("X-Warmpool-Binding"), fingerprint);
    take();
    hang_up();
    assert_true(is_quiet());
    end();
}

static void
each_answer_has_its_end(void **state)
{
    static const struct {
        const char *answer; /* "": it hangs up. */
        const char *status;
        const char *reason;
        const char *message;
        bool again; /* It is tried again. */
    } cases[] = {
        {"HTTP/1.1 409 X\r\nContent-Length: 14\r\n\r\n{\"error\":\"no\"}",
         "True", "R", "m", false},
        {"HTTP/1.1 422 X\r\nContent-Length: 14\r\n\r\n{\"error\":\"no\"}",
         "False", "BindingFailed", "binding: no", false},
        {"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n", "False",
         "BindingFailed", "binding: the sandbox's server takes none", false},
        {"", "False", "SandboxNotReady",
         "binding: the sandbox's server did not answer", true},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        begin();
        claim(COMMAND, "");
        until(is_heard);
        if (cases[i].answer[0] != '\0') {
            say(cases[i].answer);
            until(is_told);
            hang_up();
        } else {
            hang_up();
            until(is_told);
        }
        assert_ready(cases[i].status, cases[i].reason, cases[i].message);
        if (cases[i].again) {
            wp_claim_rig_advance(&rig, 60 * S);
            until(is_heard);
            take();
            until(is_ready);
        } else {
            wp_claim_rig_advance(&rig, 3600 * S);
            assert_true(is_quiet());
        }
        end();
    }
}

/* --- Secrets --- */

static void
put_secret(const char *label)
{
    char text[512];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"s\","
                   "\"labels\":{\"" WP_LABEL_CLAIM_SECRET
                   "\":\"%s\"}},\"data\":{\"k\":\"dGVsbC1ub2JvZHk=\"}}",
                   label);
    (void)wp_recorder_put(rig.api, WP_KIND_SECRET, text);
}

static void
secrets_are_waited_for(void **state)
{
    static const struct {
        enum wp_status status; /* WP_OK: as the object has it. */
        const char *label;     /* NULL: there is none. */
        const char *message;
    } cases[] = {
        {WP_OK, NULL, "binding: Secret \"s\": there is none of that name"},
        {WP_OK, "no",
         "binding: Secret \"s\" is not for claims: it has no "
         "label " WP_LABEL_CLAIM_SECRET ": " WP_CLAIM_SECRET_ALLOWED},
        {WP_UNAVAILABLE, "allowed",
         "binding: Secret \"s\": it cannot be read now"},
        {WP_PERMISSION_DENIED, "allowed",
         "binding: the daemon may not read Secret \"s\": apply "
         "deploy/kubernetes/claim-secrets in this namespace, or name it in the "
         "chart's claimSecretsNamespaces"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        begin();
        if (cases[i].label != NULL) {
            put_secret(cases[i].label);
        }
        if (cases[i].status != WP_OK) {
            wp_recorder_plan(rig.api, &(struct wp_recorder_fault){
                                          .verb = WP_VERB_GET,
                                          .kind = WP_KIND_SECRET,
                                          .status = cases[i].status});
        }
        claim(SECRETS, "");
        until(is_told);
        assert_ready("False", "BindingFailed", cases[i].message);
        assert_true(is_quiet());
        put_secret("allowed");
        wp_claim_rig_advance(&rig, 60 * S);
        until(is_heard);
        assert_true(has_bytes("tell-nobody"));
        take();
        until(is_ready);
        end();
    }
}

/* --- Who brings nothing --- */

static void
without_the_lead_nothing_is_told(void **state)
{
    (void)state;
    begin();
    claim(COMMAND, "");
    until(is_heard);
    rig.parts.active = false;
    wp_claim_controller_ops.deactivate(rig.controller);
    take();
    hang_up();
    assert_true(is_quiet());
    assert_string_equal(wp_claim_rig_ready(&rig, "c", "status"), "");
    /* The Pod has it: once this one leads again, that is all there is to say. */
    rig.parts.active = true;
    wp_claim_controller_ops.activate(rig.controller);
    until(is_ready);
    assert_true(is_quiet());
    end();
}

/* The process ends meanwhile. */
static void
what_is_under_way_ends_with_the_process(void **state)
{
    (void)state;
    begin();
    claim(COMMAND, "");
    until(is_heard);
    end();
    begin();
    claim(IDENTITY, "");
    until(is_heard);
    take();
    until(is_ready);
    hang_up();
    wp_claim_rig_advance(&rig, 40 * S);
    until(is_heard);
    assert_int_equal(renewals.under_way, 1);
    end();
}

static void
what_nobody_takes_is_refused(void **state)
{
    static const struct {
        bool no_key;
        bool no_binding;
        bool no_signer;
        const char *annotations;
        const char *spec;
        const char *reason;
        const char *message;
    } cases[] = {
        {true, false, false, COMMAND, "", "BindingFailed",
         "binding: its annotations bring something, but the daemon has no "
         "token_key_file"},
        {false, true, false, COMMAND, "", "BindingFailed",
         "binding: its annotations bring something, but its template does not "
         "say that its program takes them (" WP_TEMPLATE_BINDING_KEY
         ": allowed)"},
        {false, true, false, "", ENV, "BindingFailed",
         "binding: its pool binds variables, but its template does not say "
         "that its program takes them (" WP_TEMPLATE_BINDING_KEY ": allowed)"},
        {false, false, true, IDENTITY, "", "BindingFailed",
         "annotation " WP_ANNOTATION_CLAIM_IDENTITY
         ": the daemon has no identity_secret"},
        {false, false, false, "",
         ",\"env\":[{\"name\":\"A\",\"value\":\"1\",\"containerName\":"
         "\"side\"}]",
         "BindingFailed",
         "env: 'A' is for container 'side'; only the first container's "
         "program takes what claims bring"},
        {false, false, false, "\"" WP_ANNOTATION_CLAIM_COMMAND "\":\"[]\"", "",
         "BindingFailed",
         "annotation " WP_ANNOTATION_CLAIM_COMMAND
         ": expected 1 to 64 words, got 0"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        begin();
        if (cases[i].no_key) {
            rig.parts.config.sandbox_key = NULL;
        }
        if (cases[i].no_signer) {
            rig.parts.config.identities = NULL;
        }
        if (cases[i].no_binding) {
            (void)wp_recorder_merge(
                rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t",
                "{\"metadata\":{\"annotations\":{\"" WP_TEMPLATE_BINDING_KEY
                "\":\"none\"}}}");
        }
        claim(cases[i].annotations, cases[i].spec);
        assert_ready("False", cases[i].reason, cases[i].message);
        assert_string_equal(wp_claim_rig_sandbox(&rig, "c"), "");
        assert_int_equal(wp_claim_rig_stats(&rig).leased, 0);
        assert_true(is_quiet());
        end();
    }
}

/* The key goes while a Sandbox waits for what its claim brings. */
static void
without_its_key_nothing_is_brought(void **state)
{
    (void)state;
    begin();
    claim(COMMAND, "");
    until(is_heard);
    take();
    until(is_ready);
    hang_up();
    rig.parts.config.sandbox_key = NULL;
    change_pod("127.0.0.1", "2026-01-01T00:00:10Z");
    assert_ready("False", "BindingFailed",
                 "binding: the daemon has no token_key_file any more");
    assert_true(is_quiet());
    end();
}

/* --- Identities --- */

static bool
is_renewed(void)
{
    return renewals.under_way == 0;
}

static void
identities_follow(void **state)
{
    char expected[256];

    (void)state;
    begin();
    claim(IDENTITY, "");
    until(is_heard);
    (void)snprintf(expected, sizeof expected, "%s/ns/p/c/%s/who/100000",
                   WP_TENANT_SANDBOX_CLAIMS, name);
    assert_string_equal(field("X-Warmpool-Identity"), expected);
    assert_int_equal(strlen(field("X-Warmpool-Binding")), 16);
    take();
    until(is_ready);
    hang_up();
    /* After two fifths of its time the next one, by itself. */
    wp_claim_rig_advance(&rig, 39 * S);
    assert_true(is_quiet());
    wp_claim_rig_advance(&rig, 1 * S);
    until(is_heard);
    assert_int_equal(renewals.under_way, 1);
    assert_string_equal(field("X-Warmpool-Identity"), expected);
    assert_string_equal(field("X-Warmpool-Binding"), "");
    take();
    until(is_renewed);
    hang_up();
    assert_int_equal(renewals.given_total, 1);
    assert_int_equal(renewals.failed_total, 0);
    wp_claim_rig_advance(&rig, 39 * S);
    assert_true(is_quiet());
    /* One that is not signed, or not taken, is tried again: it is good for so
     * long, and a fifth of that is the pause. */
    sign_fails = 1;
    wp_claim_rig_advance(&rig, 1 * S);
    assert_true(is_quiet());
    assert_int_equal(renewals.failed_total, 1);
    wp_claim_rig_advance(&rig, 12 * S);
    until(is_heard);
    say("HTTP/1.1 409 X\r\nContent-Length: 0\r\n\r\n");
    until(is_renewed);
    hang_up();
    assert_int_equal(renewals.failed_total, 2);
    assert_int_equal(renewals.given_total, 1);
    assert_true(is_ready());
    wp_claim_rig_advance(&rig, 12 * S);
    until(is_heard);
    take();
    until(is_renewed);
    assert_int_equal(renewals.given_total, 2);
    end();
}

/* One that cannot be signed at first keeps the claim from being Ready. */
static void
the_first_identity_is_waited_for(void **state)
{
    (void)state;
    begin();
    sign_fails = 1;
    claim(IDENTITY, "");
    until(is_told);
    assert_ready("False", "BindingFailed", "binding: identity: no key");
    assert_true(is_quiet());
    wp_claim_rig_advance(&rig, 60 * S);
    until(is_heard);
    take();
    until(is_ready);
    end();
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_ready_once_its_pod_has_all),
        cmocka_unit_test(each_answer_has_its_end),
        cmocka_unit_test(secrets_are_waited_for),
        cmocka_unit_test(without_the_lead_nothing_is_told),
        cmocka_unit_test(what_is_under_way_ends_with_the_process),
        cmocka_unit_test(what_nobody_takes_is_refused),
        cmocka_unit_test(without_its_key_nothing_is_brought),
        cmocka_unit_test(identities_follow),
        cmocka_unit_test(the_first_identity_is_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
