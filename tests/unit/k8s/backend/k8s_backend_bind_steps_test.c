/* What a claim of gRPC brings, step by step, on parts that are none: each call
 * that is made of them is a line of the journal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/backend/backend_impl.h"
#include "k8s/bind/bind_call.h"
#include "k8s/bind/pass.h"
#include "k8s/bind/repositories.h"
#include "pool/binding.h"
#include "proto/parcel/pack.h"

#define NOT_HERE                                                               \
    "binding: this daemon does not keep the sandboxes now; try again, or at "  \
    "the one that does"
#define ARMED "timer 3000000 us\n"
#define LOOK "look at team/s 0\n"

static char parts_[8]; /* Addresses: base, queue, channel, trees, ... */
static const uint8_t key[32] = {1};
static struct wp_parts parts;
static struct wp_cluster_backend backend;
static struct wp_sandbox_ref entry;
static struct wp_bind_op op;
static struct wp_binding binding;
static const struct wp_binding_env env[] = {{{"A", 1}, {"1", 1}}};
static char journal[8192];
static bool found;
static bool passes;
static bool connects;
static enum wp_status signs;
static const char *token_text;
static int fail_at; /* The part of this number cannot be had; 0: all can. */
static int made;
static size_t wiped[32]; /* The lengths of what was. */
static size_t wiped_len;
static struct wp_cluster_message *message;
static struct wp_bind_request request;
static wp_fetching_done *fetched;
static void *fetched_ctx;
static event_callback_fn late;
static void *late_ctx;

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

static bool
fails(void)
{
    made++;
    return made == fail_at;
}

/* --- Fakes of what lies below --- */

#define FAKE(type, name, ...)                                                  \
    type __wrap_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__)

void *__real_calloc(size_t n, size_t size);
FAKE(void *, calloc, size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__real_malloc(size_t size);
FAKE(void *, malloc, size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

FAKE(void, explicit_bzero, void *at, size_t len)
{
    memset(at, 0, len);
    wiped[wiped_len++ % WP_ARRAY_LEN(wiped)] = len;
}

FAKE(void, __explicit_bzero_chk, void *at, size_t len, size_t room)
{
    assert_true(len <= room);
    __wrap_explicit_bzero(at, len);
}

struct evbuffer *__real_evbuffer_new(void);
FAKE(struct evbuffer *, evbuffer_new, void)
{
    return fails() ? NULL : __real_evbuffer_new();
}

int __real_evbuffer_add_reference(struct evbuffer *to, const void *bytes,
                                  size_t len, evbuffer_ref_cleanup_cb done,
                                  void *ctx);
FAKE(int, evbuffer_add_reference, struct evbuffer *to, const void *bytes,
     size_t len, evbuffer_ref_cleanup_cb done, void *ctx)
{
    return fails() ? -1
                   : __real_evbuffer_add_reference(to, bytes, len, done, ctx);
}

FAKE(struct event *, event_new, struct event_base *base, evutil_socket_t fd,
     short what, event_callback_fn run, void *ctx)
{
    assert_ptr_equal(base, &parts_[0]);
    assert_int_equal(fd, -1);
    assert_int_equal(what, 0);
    late = run;
    late_ctx = ctx;
    return fails() ? NULL : (void *)&parts_[4];
}

FAKE(int, event_add, struct event *event, const struct timeval *within)
{
    assert_ptr_equal(event, &parts_[4]);
    note("timer %ld us\n", (long)(within->tv_sec * 1000000L + within->tv_usec));
    return fails() ? -1 : 0;
}

FAKE(int, event_del, struct event *event)
{
    assert_ptr_equal(event, &parts_[4]);
    note("no timer\n");
    return 0;
}

FAKE(void, event_free, struct event *event)
{
    assert_ptr_equal(event, &parts_[4]);
    note("timer ends\n");
}

FAKE(struct wp_sandbox_ref *, wp_sandbox_refs_find_ref,
     struct wp_sandbox_refs *refs, struct wp_slot_ref ref)
{
    assert_null(refs);
    assert_int_equal(ref.index, 5);
    assert_int_equal(ref.generation, 6);
    return found ? &entry : NULL;
}

FAKE(void, wp_sandbox_refs_walk, struct wp_sandbox_refs *refs,
     void (*each)(void *ctx, struct wp_sandbox_ref *entry), void *ctx)
{
    assert_null(refs);
    note("all\n");
    each(ctx, &entry);
}

FAKE(void, wp_work_add, struct wp_work_queue *queue, const char *ns,
     const char *name, bool first)
{
    assert_ptr_equal(queue, &parts_[1]);
    note("look at %s/%s %d\n", ns, name, first);
}

FAKE(void, wp_cluster_channel_to_cluster, struct wp_cluster_channel *channel,
     struct wp_cluster_message *sent)
{
    assert_ptr_equal(channel, &parts_[2]);
    message = sent;
}

FAKE(struct wp_bind_trees *, wp_bind_trees_make, const struct wp_binding *of,
     struct wp_str tenant)
{
    assert_ptr_equal(of, &binding);
    assert_true(wp_str_eq(tenant, WP_STR("t")));
    return fails() ? NULL : (void *)&parts_[3];
}

FAKE(void, wp_bind_trees_drop, struct wp_bind_trees *trees)
{
    if (trees != NULL) {
        note("trees end\n");
    }
}

FAKE(struct wp_fetching *, wp_fetching_create, struct wp_repositories *of,
     struct wp_bind_trees *trees, wp_fetching_done *done, void *ctx)
{
    assert_ptr_equal(of, &parts_[6]);
    assert_ptr_equal(trees, &parts_[3]);
    fetched = done;
    fetched_ctx = ctx;
    return fails() ? NULL : (void *)&parts_[5];
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

FAKE(bool, wp_backend_want_identity, struct wp_cluster_backend *of,
     struct wp_sandbox_ref *on, const char *audience, int64_t ttl_ms)
{
    assert_ptr_equal(of, &backend);
    assert_ptr_equal(on, &entry);
    note("wants \"%s\" %d\n", audience, (int)ttl_ms);
    return !fails();
}

FAKE(enum wp_status, wp_backend_sign, const struct wp_sandbox_ref *on,
     struct wp_identity_token *token, struct wp_err *err)
{
    assert_ptr_equal(on, &entry);
    (void)snprintf(token->text, sizeof token->text, "%s", token_text);
    return signs == WP_OK ? WP_OK : wp_err_set(err, signs, "no key");
}

FAKE(void, wp_backend_identity_given, const struct wp_sandbox_ref *on)
{
    assert_ptr_equal(on, &entry);
    note("identity is given\n");
}

FAKE(void, wp_backend_end_identity, struct wp_sandbox_ref *on)
{
    assert_ptr_equal(on, &entry);
    note("identity ends\n");
}

FAKE(bool, wp_bind_pass_add, const struct wp_cluster_egress *egress,
     const struct wp_bind_pass *pass, struct evbuffer *parcel)
{
    assert_ptr_equal(egress, &parts.config.egress);
    note("pass %s/%s %s \"%.*s\" \"%.*s\" before %d\n", pass->ns, pass->sandbox,
         pass->ip, (int)pass->policy.len, pass->policy.ptr, (int)pass->by.len,
         pass->by.ptr, evbuffer_get_length(parcel) > 0);
    return passes;
}

FAKE(struct wp_bind_call *, wp_bind_call_start, struct event_base *base,
     const struct wp_bind_request *given)
{
    assert_ptr_equal(base, &parts_[0]);
    assert_int_equal(strlen(given->token), 64);
    note("call %s port %u %s identity %s parcel %d trees %d within %lld\n",
         given->ip, given->port, given->fingerprint,
         given->identity != NULL ? given->identity : "-", given->parcel != NULL,
         given->trees != NULL, (long long)given->within_ns);
    request = *given;
    return connects ? (void *)&parts_[7] : NULL;
}

FAKE(void, wp_bind_call_cancel, struct wp_bind_call *call)
{
    if (call != NULL) {
        note("cancel\n");
    }
}

/* --- The rig --- */

static void
done(struct wp_bind_op *of)
{
    note("done %s %s\n", wp_status_text(of->status), of->reason);
}

static void
begin(void)
{
    journal[0] = '\0';
    found = passes = connects = true;
    signs = WP_OK;
    token_text = "";
    fail_at = made = 0;
    wiped_len = 0;
    memset(&parts, 0, sizeof parts);
    parts.active = true;
    parts.base = (void *)&parts_[0];
    parts.repositories = (void *)&parts_[6];
    parts.config.sandbox_key = key;
    parts.config.sandbox_port = 8080;
    memset(&backend, 0, sizeof backend);
    backend.parts = &parts;
    backend.queue = (void *)&parts_[1];
    backend.channel = (void *)&parts_[2];
    wp_backend_open_binds(&backend, true);
    memset(&entry, 0, sizeof entry);
    (void)snprintf(entry.ns, sizeof entry.ns, "team");
    (void)snprintf(entry.name, sizeof entry.name, "s");
    binding = (struct wp_binding){.fingerprint = 0xab,
                                  .env = env,
                                  .n_env = 1,
                                  .egress = WP_STR("narrow"),
                                  .audience = WP_STR("aud"),
                                  .identity_ttl_ms = 9};
    memset(&op, 0, sizeof op);
    op = (struct wp_bind_op){.binding = &binding,
                             .tenant = WP_STR("t"),
                             .policy = WP_STR("wide"),
                             .ref = {5, 6},
                             .within_ns = 3 * WP_NS_PER_S,
                             .done = done};
}

static uint32_t
under_way(void)
{
    return atomic_load_explicit(&backend.binds, memory_order_relaxed);
}

static const char *
ask(void)
{
    assert_int_equal(wp_backend_bind(&backend, &op), WP_PENDING);
    message->run(message);
    return noted();
}

static const char *
bring(const char *ip)
{
    wp_backend_bring(&backend, &entry, ip);
    return noted();
}

static const char *
answer(enum wp_status status, bool lost, const char *reason)
{
    struct wp_bind_answer told = {.status = status, .lost = lost};

    (void)snprintf(told.reason, sizeof told.reason, "%s", reason);
    request.done(request.ctx, &told);
    return noted();
}

#define ASKED ARMED LOOK
#define SENT                                                                   \
    "pass team/s 10.0.0.9 \"wide\" \"narrow\" before 1\n"                      \
    "call 10.0.0.9 port 8080 00000000000000ab identity - parcel 1 trees 0 "    \
    "within 5000000000\n"

/* --- On the way --- */

static void
it_is_asked_for_brought_and_answered(void **state)
{
    (void)state;
    begin();
    assert_string_equal(ask(), "wants \"aud\" 9\n" ASKED);
    assert_int_equal(under_way(), 1);
    assert_string_equal(bring(""), "");
    assert_string_equal(bring("10.0.0.9"), SENT);
    assert_string_equal(bring("10.0.0.9"), "");
    assert_string_equal(answer(WP_OK, false, ""),
                        "identity is given\ntimer ends\ndone ok \n" LOOK);
    assert_string_equal(entry.bound_ip, "10.0.0.9");
    assert_false(entry.spoilt);
    assert_null(entry.binding);
    assert_int_equal(under_way(), 0);
    (void)ask();
    entry.bound_ip[0] = '\0';
    token_text = "jwt";
    assert_non_null(strstr(bring("10.0.0.9"), " identity jwt "));
    assert_string_equal(
        answer(WP_FAILED_PRECONDITION, true, "half of it"),
        "timer ends\ndone failed precondition half of it\n" LOOK);
    assert_string_equal(entry.bound_ip, "");
    assert_true(entry.spoilt);
}

static void
what_cannot_be_sent_is_answered(void **state)
{
    (void)state;
    begin();
    (void)ask();
    signs = WP_UNAVAILABLE;
    assert_string_equal(bring("10.0.0.9"), "timer ends\ndone unavailable "
                                           "binding: no key\n");
    signs = WP_OK;
    (void)ask();
    passes = false;
    assert_string_equal(bring("10.0.0.9"),
                        "pass team/s 10.0.0.9 \"wide\" \"narrow\" before 1\n"
                        "timer ends\ndone unavailable binding: no memory for "
                        "it; try again\n");
    passes = true;
    (void)ask();
    connects = false;
    assert_string_equal(bring("10.0.0.9"),
                        SENT "timer ends\ndone unavailable binding: the "
                             "sandbox's server cannot be reached\n");
    assert_int_equal(under_way(), 0);
}

static void
what_takes_too_long_says_what_did(void **state)
{
    (void)state;
    begin();
    (void)ask();
    late(-1, EV_TIMEOUT, late_ctx);
    assert_string_equal(noted(), "timer ends\ndone deadline exceeded binding: "
                                 "the lease could not be written on the "
                                 "sandbox in time\n");
    (void)ask();
    (void)bring("10.0.0.9");
    late(-1, EV_TIMEOUT, late_ctx);
    assert_string_equal(noted(),
                        "cancel\ntimer ends\ndone deadline exceeded binding: "
                        "the sandbox did not answer in time\n");
}

static void
a_repeat_hears_the_same(void **state)
{
    struct wp_bind_op again;

    (void)state;
    begin();
    again = op;
    (void)ask();
    assert_int_equal(wp_backend_bind(&backend, &again), WP_PENDING);
    message->run(message);
    assert_string_equal(noted(), LOOK);
    assert_int_equal(under_way(), 2);
    wp_backend_end_binding(&entry, WP_UNAVAILABLE, "over");
    assert_string_equal(noted(), "timer ends\n"
                                 "done unavailable binding: over\n"
                                 "done unavailable binding: over\n");
    assert_int_equal(under_way(), 0);
    wp_backend_end_binding(&entry, WP_UNAVAILABLE, "over");
    assert_string_equal(noted(), "");
}

static bool
is_wiped(size_t len)
{
    for (size_t i = 0; i < wiped_len; i++) {
        if (wiped[i] == len) {
            return true;
        }
    }
    return false;
}

/* Its token and identity once they are sent, its parcel once nobody needs it;
 * also that of a repeat. What lies below wipes its own. */
static void
what_is_secret_is_wiped(void **state)
{
    struct wp_bind_op again;
    size_t parcel = 0;

    (void)state;
    for (int i = 0; i < 2; i++) {
        begin();
        again = op;
        (void)ask();
        wiped_len = 0;
        if (i == 0) {
            assert_int_equal(wp_backend_bind(&backend, &again), WP_PENDING);
            message->run(message);
            assert_int_equal(wiped_len, 1);
            parcel = wiped[0];
            assert_true(parcel > 2 * WP_EGRESS_TEXT_MAX + WP_AUDIENCE_MAX +
                                     wp_parcel_size(&binding, WP_STR("")));
        } else {
            (void)bring("10.0.0.9");
            assert_true(is_wiped(64 + 1));
            assert_true(is_wiped(sizeof(struct wp_identity_token)));
            assert_false(is_wiped(parcel));
        }
        wp_backend_end_binding(&entry, WP_UNAVAILABLE, "over");
        assert_true(is_wiped(parcel));
    }
}

/* --- With repositories --- */

static void
trees_are_fetched_before(void **state)
{
    (void)state;
    begin();
    binding.n_repositories = 1;
    assert_string_equal(ask(), "wants \"aud\" 9\n" LOOK "fetch\n");
    assert_string_equal(bring("10.0.0.9"), "");
    fetched(fetched_ctx, WP_OK, "");
    assert_string_equal(noted(), ARMED LOOK);
    assert_string_equal(bring("10.0.0.9"),
                        "pass team/s 10.0.0.9 \"wide\" \"narrow\" before 1\n"
                        "no timer\n"
                        "call 10.0.0.9 port 8080 00000000000000ab identity - "
                        "parcel 1 trees 1 within 5000000000\n");
    assert_string_equal(answer(WP_OK, false, ""),
                        "identity is given\ntrees end\ntimer ends\n"
                        "done ok \n" LOOK);
    (void)ask();
    fetched(fetched_ctx, WP_NOT_FOUND, "no such ref");
    assert_string_equal(noted(), "trees end\ntimer ends\ndone failed "
                                 "precondition binding: no such ref\n");
    (void)ask();
    fetched(fetched_ctx, WP_CANCELLED, "x");
    assert_string_equal(
        noted(), "trees end\ntimer ends\ndone unavailable " NOT_HERE "\n");
    (void)ask();
    wp_backend_open_binds(&backend, false);
    assert_string_equal(noted(),
                        "all\nfetching ends\ntrees end\ntimer ends\n"
                        "done unavailable " NOT_HERE "\nidentity ends\n");
}

/* --- What is not begun --- */

static void
what_is_not_there_is_answered(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        begin();
        parts.active = i != 0;
        found = i != 1;
        entry.lost = i == 2;
        entry.unwanted = i == 3;
        assert_string_equal(
            ask(), i == 0 ? "done unavailable " NOT_HERE "\n"
                          : "done unavailable binding: the sandbox was lost "
                            "before it was bound; try again\n");
        assert_int_equal(under_way(), 0);
    }
    /* Who does not lead takes none. */
    begin();
    atomic_store_explicit(&backend.binds_open, false, memory_order_relaxed);
    assert_int_equal(wp_backend_bind(&backend, &op), WP_UNAVAILABLE);
    assert_string_equal(op.reason, NOT_HERE);
    assert_int_equal(under_way(), 0);
    /* Nobody waits for this one any more. */
    begin();
    binding.n_repositories = 1;
    assert_int_equal(wp_backend_bind(&backend, &op), WP_PENDING);
    message->drop(message);
    assert_string_equal(noted(), "trees end\n");
}

static void
too_many_are_refused(void **state)
{
    (void)state;
    begin();
    for (int room = 1; room >= 0; room--) {
        atomic_store_explicit(&backend.binds, 256 - (uint32_t)room,
                              memory_order_relaxed);
        assert_int_equal(wp_backend_bind(&backend, &op),
                         room > 0 ? WP_PENDING : WP_RESOURCE_EXHAUSTED);
        assert_int_equal(under_way(), 256);
        if (room > 0) {
            message->drop(message);
        }
    }
    assert_string_equal(op.reason, "binding: too many sandboxes are being "
                                   "bound; try again");
}

/* Each part in turn cannot be had: it is answered, and nothing is left. */
static void
without_memory_it_says_so(void **state)
{
    (void)state;
    for (int trees = 0; trees < 2; trees++) {
        int n = 0;
        enum wp_status status;

        do {
            begin();
            binding.n_repositories = (uint32_t)trees;
            fail_at = ++n;
            status = wp_backend_bind(&backend, &op);
            if (status != WP_PENDING) {
                assert_int_equal(status, WP_RESOURCE_EXHAUSTED);
                assert_true(n <= 1 + trees);
                assert_int_equal(under_way(), 0);
                continue;
            }
            message->run(message);
            if (made >= fail_at) {
                const char *told = noted();

                assert_non_null(strstr(told, "done unavailable binding: no "
                                             "memory for it; try again\n"));
                assert_int_equal(strstr(told, "trees end\n") != NULL, trees);
                /* What fetches them is the sixth part; those from the fourth
                 * on are all tried. */
                assert_int_equal(strstr(told, "fetching ends\n") != NULL,
                                 trees != 0 && n > 3 && n != 6);
                assert_null(entry.binding);
                assert_int_equal(under_way(), 0);
            }
        } while (status != WP_PENDING || made >= fail_at);
        /* What is asked for, and what it is begun with. */
        assert_int_equal(n - 1, trees == 0 ? 7 : 8);
        wp_backend_end_binding(&entry, WP_UNAVAILABLE, "over");
    }
}

/* --- What may be asked for --- */

static void
what_may_be_brought_the_settings_say(void **state)
{
    struct wp_err err;

    (void)state;
    begin();
    binding.n_volumes = 1;
    assert_int_equal(wp_backend_may_bring(&backend, &binding, &err),
                     WP_FAILED_PRECONDITION);
    assert_string_equal(err.msg,
                        "binding.volumes: a Pod gets none once it runs; a "
                        "template's volumeClaimTemplates bring storage");
    assert_false(wp_backend_passes(&backend));
    assert_int_equal(
        wp_backend_narrows(&backend, WP_STR("a.org"), WP_STR("a.org"), &err),
        WP_FAILED_PRECONDITION);
    parts.config.egress.proxy = "proxy";
    assert_true(wp_backend_passes(&backend));
    assert_int_equal(
        wp_backend_narrows(&backend, WP_STR("a.org"), WP_STR("a.org"), &err),
        WP_OK);
    parts.config.sandbox_key = NULL;
    assert_string_equal(
        wp_backend_unbound(&backend, WP_STR("n"), WP_STR("t")),
        "the daemon has no token_key_file, by which sandboxes know it");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_asked_for_brought_and_answered),
        cmocka_unit_test(what_cannot_be_sent_is_answered),
        cmocka_unit_test(what_takes_too_long_says_what_did),
        cmocka_unit_test(a_repeat_hears_the_same),
        cmocka_unit_test(what_is_secret_is_wiped),
        cmocka_unit_test(trees_are_fetched_before),
        cmocka_unit_test(what_is_not_there_is_answered),
        cmocka_unit_test(too_many_are_refused),
        cmocka_unit_test(without_memory_it_says_so),
        cmocka_unit_test(what_may_be_brought_the_settings_say),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
