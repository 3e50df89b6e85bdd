/* What a claim brings, step by step, on parts that are none: each call that is
 * made of them is a line of the journal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/bind/bind_call.h"
#include "k8s/bind/brings.h"
#include "k8s/bind/claim_identity.h"
#include "k8s/bind/pass.h"
#include "k8s/bind/repositories.h"
#include "k8s/controllers/claim/cold.h"
#include "k8s/controllers/claim/expiry.h"
#include "k8s/controllers/claim/reconcile.h"
#include "k8s/objects/names.h"

#define READ "read env 0\nrepositories\n"
#define PASSED "pass team/s 10.0.0.9 policy \"\" by \"\"\n"
#define SIGNED "sign team/c pool p sandbox s until 999\n"
#define SENT                                                                   \
    PASSED SIGNED "call 10.0.0.9 port 8080 fingerprint 1 identity - parcel 1 " \
                  "trees 0 within 5000000000\n"

static char parts_[8]; /* Addresses: pools, api, base, events, trees, ... */
static const uint8_t key[32] = {1};
static const struct wp_cluster_identity signer;
static struct wp_identity_renewals renewals;
static struct wp_parts parts;
static struct wp_claim_controller self;
static struct wp_claim_entry entry;
static struct wp_claim_reconcile reconcile;
static struct wp_claim_view claim_view;
static struct wp_sandbox_view sandbox_view;
static struct wp_template_view template_view;
static struct wp_object claim;
static struct wp_object sandbox;
static struct wp_object templ;
static const struct wp_pair marks[] = {{WP_ANNOTATION_BRINGS, "1"}};
static char journal[8192];

/* What the parts answer. */
static struct {
    bool known; /* The pool. */
    bool bind_env;
    const char *policy;
    const char *by;
    const char *audience;
    enum wp_status read;
    enum wp_status repositories;
    enum wp_status env;
    enum wp_status passes;
    enum wp_status takes;
    enum wp_status signs;
    bool more;
    bool cold;
    bool trees;
    bool connects;
    bool has_template;
    bool wants_identity;
    bool begins;
    const char *token;
    int lacking; /* So many Secrets. */
} is;
static int ended; /* How often what a claim brings was. */
static int wiped_tokens;
static int wiped_identities;
static struct wp_bind_request request;
static wp_api_done *answered;
static void *answered_ctx;
static wp_fetching_done *fetched;
static void *fetched_ctx;

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

static enum wp_status
say(enum wp_status status, struct wp_err *err, const char *what)
{
    return status == WP_OK ? WP_OK : wp_err_set(err, status, "no %s", what);
}

/* --- Fakes of what lies below --- */

#define FAKE(type, name, ...)                                                  \
    type __wrap_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__)

FAKE(void, wp_claim_brings_fini, struct wp_claim_brings *of)
{
    assert_non_null(of);
    ended++;
}

/* What lies below wipes its own. */
FAKE(void, explicit_bzero, void *at, size_t len)
{
    memset(at, 0, len);
    wiped_tokens += len == 64 + 1;
    wiped_identities += len == sizeof(struct wp_identity_token);
}

FAKE(void, __explicit_bzero_chk, void *at, size_t len, size_t room)
{
    assert_true(len <= room);
    __wrap_explicit_bzero(at, len);
}

FAKE(uint32_t, wp_pools_index, const struct wp_pools *pools, struct wp_str ns,
     struct wp_str name)
{
    assert_ptr_equal(pools, &parts_[0]);
    assert_true(wp_str_eq(ns, WP_STR("team")));
    assert_true(wp_str_eq(name, WP_STR("p")));
    return is.known ? 3 : UINT32_MAX;
}

FAKE(void, wp_pools_stats, struct wp_pools *pools, uint32_t index,
     struct wp_pool_stats *out)
{
    assert_ptr_equal(pools, &parts_[0]);
    assert_int_equal(index, 3);
    memset(out, 0, sizeof *out);
    out->spec.bind_env = is.bind_env;
    (void)snprintf(out->spec.egress, sizeof out->spec.egress, "%s", is.policy);
}

FAKE(bool, wp_claim_brings_more, const struct wp_object *of)
{
    assert_ptr_equal(of, &claim);
    return is.more;
}

FAKE(const struct wp_object *, wp_claim_reconcile_template,
     const struct wp_claim_reconcile *of)
{
    assert_ptr_equal(of, &reconcile);
    return is.has_template ? &templ : NULL;
}

FAKE(enum wp_status, wp_bind_pass_check, const struct wp_cluster_egress *egress,
     struct wp_str policy, struct wp_str by, struct wp_err *err)
{
    assert_ptr_equal(egress, &parts.config.egress);
    note("check pass \"%.*s\" by \"%.*s\"\n", (int)policy.len, policy.ptr,
         (int)by.len, by.ptr);
    return say(is.passes, err, "pass");
}

FAKE(bool, wp_bind_pass_add, const struct wp_cluster_egress *egress,
     const struct wp_bind_pass *pass, struct evbuffer *parcel)
{
    assert_ptr_equal(egress, &parts.config.egress);
    assert_non_null(parcel);
    note("pass %s/%s %s policy \"%.*s\" by \"%.*s\"\n", pass->ns, pass->sandbox,
         pass->ip, (int)pass->policy.len, pass->policy.ptr, (int)pass->by.len,
         pass->by.ptr);
    return true;
}

FAKE(json_t *, wp_cold_sandbox, const struct wp_object *of,
     const struct wp_object *with, enum wp_tier installed, const char **reason,
     struct wp_err *err)
{
    assert_ptr_equal(of, &claim);
    assert_ptr_equal(with, &templ);
    assert_int_equal(installed, parts.config.default_tier);
    assert_string_equal(*reason, WP_REASON_ENV_REJECTED);
    note("cold\n");
    (void)say(is.cold ? WP_OK : WP_INVALID_ARGUMENT, err, "cold one");
    return is.cold ? json_object() : NULL;
}

FAKE(enum wp_status, wp_claim_brings_check, const struct wp_object *of,
     const struct wp_object *with, struct wp_err *err)
{
    assert_ptr_equal(of, &claim);
    assert_ptr_equal(with, &templ);
    note("check env\n");
    return say(is.env, err, "program");
}

FAKE(enum wp_status, wp_claim_brings_read, const struct wp_object *of,
     bool with_env, struct wp_claim_brings *out, struct wp_err *err)
{
    assert_ptr_equal(of, &claim);
    note("read env %d\n", with_env);
    memset(out, 0, sizeof *out);
    out->binding.egress = wp_str_from(is.by);
    out->binding.audience = wp_str_from(is.audience);
    return say(is.read, err, "sense");
}

FAKE(enum wp_status, wp_repositories_check, const struct wp_repositories *of,
     const struct wp_binding *binding, struct wp_err *err)
{
    assert_ptr_equal(of, &parts_[1]);
    assert_non_null(binding);
    note("repositories\n");
    return say(is.repositories, err, "remote");
}

FAKE(const char *, wp_claim_brings_lacks, struct wp_claim_brings *of)
{
    assert_non_null(of);
    return is.lacking > 0 ? "sec" : NULL;
}

FAKE(enum wp_status, wp_claim_brings_take, struct wp_claim_brings *of,
     const char *secret, const json_t *object, struct wp_err *err)
{
    assert_non_null(of);
    note("take %s %d\n", secret, object != NULL);
    is.lacking--;
    return say(is.takes, err, "key");
}

FAKE(void, wp_claim_brings_pack, struct wp_claim_brings *brings,
     const struct wp_pools *pools, const char *ns, struct wp_claim_parcel *out)
{
    assert_non_null(brings);
    assert_ptr_equal(pools, &parts_[0]);
    assert_string_equal(ns, "team");
    out->bytes = evbuffer_new();
    out->trees = is.trees ? (void *)&parts_[2] : NULL;
    (void)snprintf(out->fingerprint, sizeof out->fingerprint, "f");
}

FAKE(void, wp_bind_trees_drop, struct wp_bind_trees *trees)
{
    if (trees != NULL) {
        note("trees end\n");
    }
}

FAKE(void, wp_claim_reconcile_end, struct wp_claim_reconcile *of,
     enum wp_work_outcome outcome, int64_t after_ns)
{
    assert_ptr_equal(of, &reconcile);
    note("ends %d %lld\n", (int)outcome, (long long)after_ns);
}

FAKE(void, wp_claim_reconcile_say, struct wp_claim_reconcile *of,
     const char *reason, const char *message, enum wp_work_outcome ends,
     int64_t after_ns)
{
    assert_ptr_equal(of, &reconcile);
    note("says %s: %s; %d %s\n", reason, message, (int)ends,
         after_ns == WP_TIME_NEVER ? "never"
         : after_ns == 0           ? "0"
                                   : "?");
}

FAKE(void, wp_claim_reconcile_refuse, struct wp_claim_reconcile *of,
     const char *reason, const char *message, enum wp_work_outcome ends,
     int64_t after_ns)
{
    note("refused, ");
    __wrap_wp_claim_reconcile_say(of, reason, message, ends, after_ns);
}

FAKE(void, wp_claim_reconcile_traced, struct wp_claim_reconcile *of,
     const char *what, enum wp_status status)
{
    assert_ptr_equal(of, &reconcile);
    note("traced %s %s\n", what, wp_status_text(status));
}

FAKE(void, wp_claim_status_write, struct wp_claim_reconcile *of)
{
    assert_ptr_equal(of, &reconcile);
    note("status\n");
}

FAKE(int64_t, wp_claim_expires_wall_ms, const struct wp_claim_view *of)
{
    assert_ptr_equal(of, &claim_view);
    return 999;
}

FAKE(bool, wp_claim_identity_wants, const struct wp_object *of)
{
    assert_ptr_equal(of, &claim);
    return is.wants_identity;
}

FAKE(enum wp_status, wp_claim_identity_sign,
     const struct wp_claim_identity *about, const struct wp_identity *given,
     const struct wp_cluster_identity *by, struct wp_identity_token *token,
     struct wp_err *err)
{
    assert_ptr_equal(given, &entry.identity);
    assert_ptr_equal(by, parts.config.identities);
    note("sign %s/%s pool %s sandbox %s until %lld\n", about->claim->ns,
         about->claim->name, about->pool, about->sandbox,
         (long long)about->ends_wall_ms);
    (void)snprintf(token->text, sizeof token->text, "%s", is.token);
    token->until_wall_ms = is.token[0] != '\0' ? 55 : 0;
    return say(is.signs, err, "key to sign");
}

FAKE(void, wp_identity_given, struct wp_identity *of, int64_t until_wall_ms,
     const struct wp_clock *clock)
{
    assert_ptr_equal(of, &entry.identity);
    assert_ptr_equal(clock, wp_clock_system());
    note("given until %lld\n", (long long)until_wall_ms);
}

FAKE(bool, wp_identity_renewal_begin, struct wp_identity_renewals *of,
     struct wp_identity *identity)
{
    assert_ptr_equal(of, &renewals);
    assert_ptr_equal(identity, &entry.identity);
    note("begin\n");
    return is.begins;
}

FAKE(void, wp_identity_renewed, struct wp_identity_renewals *of,
     struct wp_identity *identity, int64_t until_wall_ms)
{
    assert_ptr_equal(of, &renewals);
    assert_ptr_equal(identity, &entry.identity);
    note("renewed until %lld\n", (long long)until_wall_ms);
}

FAKE(void, wp_identity_not_renewed, struct wp_identity_renewals *of,
     struct wp_identity *identity, const char *ns, const char *name,
     const char *reason)
{
    assert_ptr_equal(of, &renewals);
    assert_ptr_equal(identity, &entry.identity);
    note("not renewed %s/%s: %s\n", ns, name, reason);
}

FAKE(void, wp_identity_renewal_drop, struct wp_identity_renewals *of)
{
    assert_ptr_equal(of, &renewals);
    note("renewal is dropped\n");
}

FAKE(int64_t, wp_identity_look_ns, const struct wp_identity *of,
     const struct wp_clock *clock)
{
    assert_ptr_equal(of, &entry.identity);
    assert_ptr_equal(clock, wp_clock_system());
    return 44;
}

FAKE(struct wp_bind_call *, wp_bind_call_start, struct event_base *base,
     const struct wp_bind_request *given)
{
    assert_ptr_equal(base, &parts_[3]);
    assert_int_equal(strlen(given->token), 64);
    note("call %s port %u fingerprint %d identity %s parcel %d trees %d "
         "within %lld\n",
         given->ip, given->port, given->fingerprint != NULL,
         given->identity != NULL ? given->identity : "-", given->parcel != NULL,
         given->trees != NULL, (long long)given->within_ns);
    request = *given;
    return is.connects ? (void *)&parts_[4] : NULL;
}

FAKE(void, wp_bind_call_cancel, struct wp_bind_call *call)
{
    note("cancel %d\n", call != NULL);
}

FAKE(struct wp_fetching *, wp_fetching_create, struct wp_repositories *of,
     struct wp_bind_trees *trees, wp_fetching_done *done, void *ctx)
{
    assert_ptr_equal(of, &parts_[1]);
    assert_ptr_equal(trees, &parts_[2]);
    fetched = done;
    fetched_ctx = ctx;
    return (void *)&parts_[5];
}

FAKE(void, wp_fetching_go, struct wp_fetching *of)
{
    assert_ptr_equal(of, &parts_[5]);
    note("fetch\n");
}

FAKE(void, wp_fetching_cancel, struct wp_fetching *of)
{
    if (of != NULL) {
        note("fetching ends\n");
    }
}

FAKE(void, wp_api_get, struct wp_api *api, const struct wp_api_target *target,
     wp_api_done *done, void *ctx)
{
    assert_ptr_equal(api, &parts_[6]);
    note("get %s %s/%s priority %d\n", wp_kind_info(target->kind)->kind,
         target->ns, target->name, (int)target->priority);
    answered = done;
    answered_ctx = ctx;
}

void __wrap_wp_events_record(struct wp_events *events,
                             const struct wp_object *about,
                             const struct wp_event *event, const char *fmt, ...)
    WP_PRINTF(4, 5);
void
__wrap_wp_events_record(struct wp_events *events, const struct wp_object *about,
                        const struct wp_event *event, const char *fmt, ...)
{
    char words[128];
    va_list args;

    assert_ptr_equal(events, &parts_[7]);
    assert_ptr_equal(about, &claim);
    va_start(args, fmt);
    (void)vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    note("event %s %s %s %d: %s\n", event->controller, event->action,
         event->reason, event->warning, words);
}

/* --- The rig --- */

/* A Sandbox that is Ready and has a mark. */
static void
begin(void)
{
    journal[0] = '\0';
    ended = wiped_tokens = wiped_identities = 0;
    memset(&is, 0, sizeof is);
    is.policy = is.by = is.audience = is.token = "";
    is.known = is.cold = is.connects = is.has_template = is.begins = true;
    memset(&parts, 0, sizeof parts);
    parts.config.sandbox_key = key;
    parts.config.sandbox_port = 8080;
    parts.config.identities = &signer;
    parts.config.default_tier = (enum wp_tier)1;
    parts.core.pools = (void *)&parts_[0];
    parts.repositories = (void *)&parts_[1];
    parts.base = (void *)&parts_[3];
    parts.api = (void *)&parts_[6];
    parts.events = (void *)&parts_[7];
    parts.clock = wp_clock_system();
    parts.renewals = &renewals;
    parts.active = true;
    self.parts = &parts;
    wp_list_init(&self.bringing);
    memset(&entry, 0, sizeof entry);
    claim_view = (struct wp_claim_view){.pool = "p", .sandbox = ""};
    sandbox_view = (struct wp_sandbox_view){
        .ready = {.status = WP_CONDITION_TRUE, .transition = "then"},
        .pod_ip = "10.0.0.9"};
    template_view = (struct wp_template_view){.binds = true};
    claim = (struct wp_object){.kind = WP_KIND_SANDBOX_CLAIM,
                               .ns = "team",
                               .name = "c",
                               .generation = 1,
                               .view = &claim_view};
    sandbox = (struct wp_object){.kind = WP_KIND_SANDBOX,
                                 .ns = "team",
                                 .name = "s",
                                 .uid = "u",
                                 .annotations = marks,
                                 .annotations_len = 1,
                                 .view = &sandbox_view};
    templ = (struct wp_object){.kind = WP_KIND_SANDBOX_TEMPLATE,
                               .view = &template_view};
    reconcile = (struct wp_claim_reconcile){.self = &self,
                                            .entry = &entry,
                                            .claim = &claim,
                                            .sandbox = &sandbox,
                                            .pool = "p"};
}

static const char *
bring(void)
{
    wp_claim_bring(&reconcile);
    return noted();
}

static const char *
answer(enum wp_status status, bool other, const char *reason)
{
    struct wp_bind_answer told = {.status = status, .other = other};

    (void)snprintf(told.reason, sizeof told.reason, "%s", reason);
    request.done(request.ctx, &told);
    return noted();
}

static const char *
read_secret(enum wp_status status, json_t *object)
{
    answered(answered_ctx,
             &(struct wp_api_result){.status = status, .object = object});
    return noted();
}

/* --- Bringing --- */

static void
it_is_brought_once_and_again_to_another_pod(void **state)
{
    (void)state;
    begin();
    assert_string_equal(bring(), READ SENT);
    assert_string_equal(answer(WP_OK, false, ""), "traced bind ok\nstatus\n");
    assert_string_equal(entry.brought, "u 10.0.0.9 then");
    assert_true(wp_list_empty(&self.bringing));
    assert_string_equal(bring(), "status\n");
    sandbox_view.ready.transition = "later";
    assert_string_equal(bring(), READ SENT);
    /* What the claim said before is there. */
    assert_string_equal(answer(WP_FAILED_PRECONDITION, true, "another"),
                        "traced bind failed precondition\nstatus\n");
    assert_string_equal(entry.brought, "u 10.0.0.9 later");
}

static void
what_is_answered_is_said(void **state)
{
    (void)state;
    begin();
    assert_string_equal(bring(), READ SENT);
    assert_string_equal(answer(WP_FAILED_PRECONDITION, false, "not all"),
                        "traced bind failed precondition\n"
                        "says BindingFailed: not all; 0 never\n");
    assert_string_equal(entry.brought, "");
    assert_string_equal(bring(), READ SENT);
    assert_string_equal(answer(WP_UNAVAILABLE, false, "no answer"),
                        "traced bind unavailable\n"
                        "says SandboxNotReady: no answer; 1 0\n");
    is.connects = false;
    ended = 0;
    assert_string_equal(bring(), READ SENT
                        "says SandboxNotReady: binding: the sandbox's server "
                        "cannot be reached; 1 0\n");
    assert_int_equal(ended, 1);
    assert_true(wp_list_empty(&self.bringing));
}

static void
a_pass_and_an_identity_go_with_it(void **state)
{
    (void)state;
    begin();
    is.policy = "wide";
    is.by = "narrow";
    is.token = "jwt";
    entry.identity.due_ns = 5;
    assert_string_equal(
        bring(),
        READ "check pass \"wide\" by \"narrow\"\n"
             "pass team/s 10.0.0.9 policy \"wide\" by \"narrow\"\n" SIGNED
             "call 10.0.0.9 port 8080 fingerprint 1 identity jwt "
             "parcel 1 trees 0 within 5000000000\n");
    assert_int_equal(entry.identity.due_ns, 0);
    assert_string_equal(answer(WP_OK, false, ""),
                        "given until 55\ntraced bind ok\nstatus\n");
    /* Of one that was not taken nothing is known. */
    entry.brought[0] = '\0';
    is.by = "";
    (void)bring();
    assert_string_equal(answer(WP_UNAVAILABLE, true, ""),
                        "traced bind unavailable\nstatus\n");
    entry.brought[0] = '\0';
    is.signs = WP_UNAVAILABLE;
    assert_string_equal(bring(), READ
                        "pass team/s 10.0.0.9 policy \"wide\" by \"\"\n" SIGNED
                        "says BindingFailed: binding: no key to sign; 1 0\n");
    is.signs = WP_OK;
    is.by = "narrow";
    is.passes = WP_FAILED_PRECONDITION;
    assert_string_equal(bring(),
                        READ "check pass \"wide\" by \"narrow\"\n"
                             "says BindingFailed: binding: annotation "
                             "claim.warmpool.io/egress: no pass; 1 0\n");
    /* The core knows no policy of a pool that it does not know. */
    is.known = false;
    assert_string_equal(bring(),
                        READ "check pass \"\" by \"narrow\"\n"
                             "says BindingFailed: binding: annotation "
                             "claim.warmpool.io/egress: no pass; 1 0\n");
}

#define GET "get Secret team/sec priority 0\n"

static void
secrets_are_read_first(void **state)
{
    json_t *object = json_object();

    (void)state;
    begin();
    is.lacking = 2;
    assert_string_equal(bring(), READ GET);
    assert_string_equal(read_secret(WP_OK, object), "take sec 1\n" GET);
    assert_string_equal(read_secret(WP_OK, object), "take sec 1\n" SENT);
    (void)answer(WP_OK, false, "");
    json_decref(object);
}

static void
a_secret_that_cannot_be_had_is_named(void **state)
{
    static const struct {
        enum wp_status status;
        enum wp_status takes;
        const char *said;
    } cases[] = {
        {WP_OK, WP_FAILED_PRECONDITION,
         "take sec 0\nsays BindingFailed: binding: no key; 1 0\n"},
        {WP_PERMISSION_DENIED, WP_OK,
         "says BindingFailed: binding: the daemon may not read Secret "
         "\"sec\": apply deploy/kubernetes/claim-secrets in this namespace, "
         "or name it in the chart's claimSecretsNamespaces; 1 0\n"},
        {WP_NOT_FOUND, WP_OK,
         "says BindingFailed: binding: Secret \"sec\": there is none of that "
         "name; 1 0\n"},
        {WP_UNAVAILABLE, WP_OK,
         "says BindingFailed: binding: Secret \"sec\": it cannot be read now; "
         "1 0\n"},
        {WP_CANCELLED, WP_OK, "ends 0 0\n"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        begin();
        is.lacking = 1;
        is.takes = cases[i].takes;
        (void)bring();
        assert_string_equal(read_secret(cases[i].status, NULL), cases[i].said);
        assert_int_equal(ended, 1);
    }
    /* Nobody leads here any more. */
    begin();
    is.lacking = 1;
    (void)bring();
    parts.active = false;
    assert_string_equal(read_secret(WP_OK, NULL), "take sec 0\nends 0 0\n");
    assert_int_equal(ended, 1);
}

static const char *
fetch(enum wp_status status, const char *reason)
{
    begin();
    is.trees = true;
    assert_string_equal(bring(), READ "fetch\n");
    fetched(fetched_ctx, status, reason);
    return noted();
}

#define SENT_TREES                                                             \
    PASSED SIGNED "call 10.0.0.9 port 8080 fingerprint 1 identity - parcel 1 " \
                  "trees 1 within 5000000000\n"

static void
repositories_are_fetched_before(void **state)
{
    (void)state;
    assert_string_equal(fetch(WP_OK, ""), SENT_TREES);
    assert_string_equal(answer(WP_OK, false, ""),
                        "trees end\ntraced bind ok\nstatus\n");
    assert_string_equal(fetch(WP_OK, "it has changed"),
                        "event sandboxclaim-controller Binding "
                        "RepositoryNotTrusted 1: it has changed\n" SENT_TREES);
    wp_claim_bring_none(&self);
    assert_string_equal(noted(), "cancel 1\ntrees end\nends 0 0\n");
    assert_string_equal(fetch(WP_CANCELLED, "x"), "trees end\nends 0 0\n");
    assert_int_equal(ended, 1);
    assert_string_equal(fetch(WP_FAILED_PRECONDITION, "not there"),
                        "trees end\nsays BindingFailed: binding: not there; 1 "
                        "0\n");
    assert_int_equal(ended, 1);
    /* What is being fetched ends with the rest. */
    begin();
    is.trees = true;
    (void)bring();
    wp_claim_bring_none(&self);
    assert_string_equal(noted(),
                        "cancel 0\nfetching ends\ntrees end\nends 0 0\n");
    assert_int_equal(ended, 1);
    wp_claim_bring_none(&self);
    assert_string_equal(noted(), "");
}

/* The values of Secrets end with what has them; the token and the identity once
 * they are sent. */
static void
what_is_secret_is_wiped(void **state)
{
    (void)state;
    begin();
    is.token = "jwt";
    (void)bring();
    assert_int_equal(wiped_tokens, 1);
    assert_int_equal(wiped_identities, 1);
    assert_int_equal(ended, 0);
    (void)answer(WP_OK, false, "");
    assert_int_equal(ended, 1);
    is.wants_identity = true;
    (void)bring();
    assert_int_equal(wiped_tokens, 2);
    assert_int_equal(wiped_identities, 2);
    (void)answer(WP_OK, false, "");
    assert_int_equal(ended, 2);
    assert_true(wp_claim_may_bring(&reconcile, &templ));
    assert_int_equal(ended, 3);
}

/* What was changed after its Sandbox was taken is judged as it was then. */
static void
a_changed_claim_is_judged_anew(void **state)
{
    (void)state;
    begin();
    is.read = WP_INVALID_ARGUMENT;
    assert_string_equal(bring(), "read env 0\nsays BindingFailed: no sense; 0 "
                                 "never\n");
    assert_int_equal(ended, 1);
    is.read = WP_OK;
    is.repositories = WP_FAILED_PRECONDITION;
    assert_string_equal(bring(),
                        READ "says BindingFailed: no remote; 0 never\n");
    for (int i = 0; i < 6; i++) {
        begin();
        is.bind_env = claim_view.has_env = i != 1;
        claim.generation = i == 2 ? 1 : 2;
        is.has_template = i != 3;
        is.cold = i != 4;
        is.env = i == 5 ? WP_INVALID_ARGUMENT : WP_OK;
        assert_string_equal(
            bring(),
            i == 0   ? "cold\ncheck env\nread env 1\nrepositories\n" SENT
            : i == 1 ? READ SENT
            : i < 4  ? "read env 1\nrepositories\n" SENT
            : i == 4 ? "cold\nsays EnvVarsInjectionRejected: no cold one; 0 "
                       "never\n"
                     : "cold\ncheck env\nsays BindingFailed: no program; 0 "
                       "never\n");
        wp_claim_bring_none(&self);
    }
}

/* --- When --- */

static void
nothing_is_due_before_its_sandbox_is_ready(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        begin();
        sandbox.annotations_len = i != 0;
        sandbox_view.ready.status =
            i == 1 ? WP_CONDITION_FALSE : WP_CONDITION_TRUE;
        sandbox_view.pod_ip = i == 2 ? "" : "10.0.0.9";
        /* An earlier leader has told so: of this Sandbox, and as Ready. */
        claim_view.sandbox = i == 3 || i == 5 || i == 7 ? "s" : "t";
        claim_view.ready.status =
            i == 3 || i == 4 || i == 7 ? WP_CONDITION_TRUE : WP_CONDITION_FALSE;
        if (i == 7) {
            (void)snprintf(entry.brought, sizeof entry.brought, "before");
        }
        assert_string_equal(bring(), i < 4 ? "status\n" : READ SENT);
        assert_string_equal(entry.brought, i == 3   ? "u 10.0.0.9 then"
                                           : i == 7 ? "before"
                                                    : "");
        wp_claim_bring_none(&self);
    }
    begin();
    parts.config.sandbox_key = NULL;
    assert_string_equal(bring(), "says BindingFailed: binding: the daemon has "
                                 "no token_key_file any more; 0 never\n");
}

static void
which_claims_bring_something(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        begin();
        claim_view.has_env = i != 1;
        claim_view.has_volume_claims = i == 2;
        is.known = i != 3;
        is.bind_env = i != 4;
        is.more = i == 5;
        assert_int_equal(wp_claim_brings_env(&reconcile), i == 0 || i == 5);
        assert_int_equal(wp_claim_brings(&reconcile), i == 0 || i == 5);
    }
    for (int i = 0; i < 7; i++) {
        begin();
        parts.config.egress.proxy = i != 1 ? "proxy" : NULL;
        parts.config.sandbox_key = i != 2 ? key : NULL;
        is.known = i != 3;
        is.policy = i != 4 ? "p" : "";
        is.has_template = i != 5;
        template_view.binds = i != 6;
        assert_int_equal(wp_claim_brings_pass(&reconcile), i == 0);
        assert_int_equal(wp_claim_brings(&reconcile), i == 0);
    }
    begin();
    assert_false(wp_claim_brings(&reconcile));
    is.more = true;
    assert_true(wp_claim_brings(&reconcile));
}

/* --- Whether --- */

static const char *
may(bool expected)
{
    assert_int_equal(wp_claim_may_bring(&reconcile, &templ), expected);
    return noted();
}

#define NOT_TAKEN                                                              \
    "but its template does not say that its program takes them "               \
    "(template.warmpool.io/binding: allowed); 0 never\n"

static void
what_cannot_be_brought_is_refused(void **state)
{
    (void)state;
    begin();
    assert_string_equal(may(true), "cold\n" READ);
    is.by = "narrow";
    is.policy = "wide";
    assert_string_equal(may(true),
                        "cold\n" READ "check pass \"wide\" by \"narrow\"\n");
    is.passes = WP_FAILED_PRECONDITION;
    assert_string_equal(may(false),
                        "cold\n" READ "check pass \"wide\" by \"narrow\"\n"
                        "refused, says BindingFailed: annotation "
                        "claim.warmpool.io/egress: no pass; 0 never\n");
    is.audience = "aud";
    parts.config.identities = NULL;
    assert_string_equal(may(false),
                        "cold\n" READ "refused, says BindingFailed: annotation "
                        "claim.warmpool.io/identity: the daemon has no "
                        "identity_secret; 0 never\n");
    is.repositories = WP_FAILED_PRECONDITION;
    assert_string_equal(may(false),
                        "cold\n" READ
                        "refused, says BindingFailed: no remote; 0 never\n");
    is.read = WP_INVALID_ARGUMENT;
    assert_string_equal(may(false),
                        "cold\nread env 0\n"
                        "refused, says BindingFailed: no sense; 0 never\n");
    is.cold = false;
    assert_string_equal(may(false),
                        "cold\nrefused, says EnvVarsInjectionRejected: no cold "
                        "one; 0 never\n");
    template_view.binds = false;
    assert_string_equal(may(false), "refused, says BindingFailed: binding: its "
                                    "annotations bring something, " NOT_TAKEN);
    claim_view.has_env = is.bind_env = true;
    assert_string_equal(may(false), "refused, says BindingFailed: binding: its "
                                    "pool binds variables, " NOT_TAKEN);
    template_view.binds = true;
    parts.config.sandbox_key = NULL;
    assert_string_equal(may(false),
                        "refused, says BindingFailed: binding: its pool binds "
                        "variables, but the daemon has no token_key_file; 0 "
                        "never\n");
    begin();
    claim_view.has_env = is.bind_env = true;
    is.audience = "aud";
    assert_string_equal(may(true),
                        "cold\ncheck env\nread env 1\nrepositories\n");
    is.env = WP_INVALID_ARGUMENT;
    assert_string_equal(may(false),
                        "cold\ncheck env\nrefused, says BindingFailed: no "
                        "program; 0 never\n");
}

/* --- The next identity --- */

#define NEXT                                                                   \
    "begin\n" SIGNED "call 10.0.0.9 port 8080 fingerprint 0 identity jwt "     \
    "parcel 0 trees 0 within 5000000000\n"

static void
begin_renewal(void)
{
    begin();
    is.wants_identity = true;
    is.token = "jwt";
    (void)snprintf(entry.brought, sizeof entry.brought, "u 10.0.0.9 then");
}

static void
the_next_identity_goes_by_itself(void **state)
{
    (void)state;
    begin_renewal();
    assert_string_equal(bring(), NEXT);
    assert_string_equal(answer(WP_OK, false, ""), "renewed until 55\nstatus\n");
    assert_string_equal(bring(), NEXT);
    assert_string_equal(answer(WP_UNAVAILABLE, false, "silence"),
                        "not renewed team/s: silence\nstatus\n");
    assert_string_equal(bring(), NEXT);
    wp_claim_bring_none(&self);
    assert_string_equal(noted(), "cancel 1\nrenewal is dropped\nends 0 0\n");
    is.connects = false;
    ended = 0;
    assert_string_equal(bring(), NEXT "not renewed team/s: the sandbox's "
                                      "server cannot be reached\nstatus\n");
    assert_int_equal(ended, 1);
    assert_true(wp_list_empty(&self.bringing));
    is.token = "";
    assert_string_equal(bring(), "begin\n" SIGNED "renewed until 0\nstatus\n");
    is.signs = WP_UNAVAILABLE;
    assert_string_equal(bring(),
                        "begin\n" SIGNED "not renewed team/s: no key to sign\n"
                        "status\n");
    is.begins = false;
    assert_string_equal(bring(), "begin\nstatus\n");
}

static void
who_gets_no_next_identity(void **state)
{
    (void)state;
    for (int i = 0; i < 7; i++) {
        begin_renewal();
        is.wants_identity = i != 1;
        reconcile.sandbox = i != 2 ? &sandbox : NULL;
        sandbox.annotations_len = i != 3;
        sandbox_view.pod_ip = i != 4 ? "10.0.0.9" : "";
        entry.brought[0] = i != 5 ? 'u' : '\0';
        parts.config.sandbox_key = i != 6 ? key : NULL;
        assert_int_equal(wp_claim_identity_due_ns(&reconcile),
                         i == 0 ? 44 : WP_TIME_NEVER);
        if (i != 2 && i != 5) {
            assert_string_equal(bring(), i == 0 ? NEXT : "status\n");
        }
        wp_claim_bring_none(&self);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_brought_once_and_again_to_another_pod),
        cmocka_unit_test(what_is_answered_is_said),
        cmocka_unit_test(a_pass_and_an_identity_go_with_it),
        cmocka_unit_test(secrets_are_read_first),
        cmocka_unit_test(a_secret_that_cannot_be_had_is_named),
        cmocka_unit_test(repositories_are_fetched_before),
        cmocka_unit_test(what_is_secret_is_wiped),
        cmocka_unit_test(a_changed_claim_is_judged_anew),
        cmocka_unit_test(nothing_is_due_before_its_sandbox_is_ready),
        cmocka_unit_test(which_claims_bring_something),
        cmocka_unit_test(what_cannot_be_brought_is_refused),
        cmocka_unit_test(the_next_identity_goes_by_itself),
        cmocka_unit_test(who_gets_no_next_identity),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
