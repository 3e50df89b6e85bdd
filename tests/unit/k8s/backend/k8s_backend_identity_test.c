/* Identities of sandboxes that gRPC leases hold, on parts that are none: each
 * call that is made of them is a line of the journal. What a lease's note is
 * sealed with, when the next one is made and when not, what is sent to the Pod
 * and what is made of its answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/backend/backend_impl.h"
#include "k8s/bind/bind_call.h"
#include "proto/formats/sandbox_token.h"

#define SIGNER "identity of lease fence 7 for \"aud\" ttl 60000\n"

static const uint8_t key[WP_SANDBOX_KEY_LEN] = {9, 8, 7};
static const struct wp_cluster_identity signer;
static struct wp_parts parts;
static struct wp_identity_renewals renewals;
static struct wp_cluster_backend backend;
static struct wp_sandbox_ref entry;
static struct wp_lease_note lease;
static struct wp_sandbox_view view;
static char pools;
static char base;
static char queue;
static char sandbox;
static char call;
static char journal[8192];

/* What the parts answer. */
static bool memory_lacks;
static bool leased;
static struct wp_slot_ref leased_ref;
static enum wp_status signs;
static const char *signed_text;
static int64_t wait_ns;
static bool begins;
static bool connects;
static struct wp_bind_request request;

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

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *
__wrap_calloc(size_t n, size_t size)
{
    return memory_lacks ? NULL : __real_calloc(n, size);
}

/* Secrets are wiped, all of them. What lies below wipes its own. */
void __wrap_explicit_bzero(void *at, size_t len);
void
__wrap_explicit_bzero(void *at, size_t len)
{
    memset(at, 0, len);
    if (len == sizeof(struct wp_identity_token)) {
        note("wipe identity\n");
    } else if (len == WP_SANDBOX_TOKEN_TEXT + 1) {
        note("wipe token\n");
    }
}

void __wrap___explicit_bzero_chk(void *at, size_t len, size_t room);
void
__wrap___explicit_bzero_chk(void *at, size_t len, size_t room)
{
    assert_true(len <= room);
    __wrap_explicit_bzero(at, len);
}

enum wp_status __wrap_wp_pools_find_sandbox(struct wp_pools *of,
                                            struct wp_str name,
                                            struct wp_claim_info *out);
enum wp_status
__wrap_wp_pools_find_sandbox(struct wp_pools *of, struct wp_str name,
                             struct wp_claim_info *out)
{
    assert_ptr_equal(of, &pools);
    note("find %.*s\n", (int)name.len, name.ptr);
    memset(out, 0, sizeof *out);
    out->ref = leased_ref;
    out->fence = 7;
    return leased ? WP_OK : WP_NOT_FOUND;
}

void __wrap_wp_sandbox_seal(const uint8_t with[WP_SANDBOX_KEY_LEN],
                            struct wp_str text,
                            char out[WP_SANDBOX_TOKEN_TEXT + 1]);
void
__wrap_wp_sandbox_seal(const uint8_t with[WP_SANDBOX_KEY_LEN],
                       struct wp_str text, char out[WP_SANDBOX_TOKEN_TEXT + 1])
{
    assert_ptr_equal(with, key);
    note("seal %.*s.\n", (int)text.len, text.ptr);
    (void)snprintf(out, WP_SANDBOX_TOKEN_TEXT + 1, "good");
}

bool __wrap_wp_sandbox_seal_fits(const uint8_t with[WP_SANDBOX_KEY_LEN],
                                 struct wp_str text, const char *seal);
bool
__wrap_wp_sandbox_seal_fits(const uint8_t with[WP_SANDBOX_KEY_LEN],
                            struct wp_str text, const char *seal)
{
    assert_ptr_equal(with, key);
    note("sealed %.*s.\n", (int)text.len, text.ptr);
    return strcmp(seal, "good") == 0;
}

enum wp_status __wrap_wp_identity_sign(const struct wp_identity *identity,
                                       const struct wp_cluster_identity *by,
                                       const struct wp_claim_info *of,
                                       const struct wp_identity_wanted *wanted,
                                       struct wp_identity_token *token,
                                       struct wp_err *err);
enum wp_status
__wrap_wp_identity_sign(const struct wp_identity *identity,
                        const struct wp_cluster_identity *by,
                        const struct wp_claim_info *of,
                        const struct wp_identity_wanted *wanted,
                        struct wp_identity_token *token, struct wp_err *err)
{
    assert_non_null(identity);
    assert_ptr_equal(by, &signer);
    note("identity of lease fence %u for \"%.*s\" ttl %lld\n",
         (unsigned)of->fence, (int)wanted->audience.len, wanted->audience.ptr,
         (long long)wanted->ttl_ms);
    (void)snprintf(token->text, sizeof token->text, "%s", signed_text);
    token->until_wall_ms = 4711;
    return signs == WP_OK ? WP_OK : wp_err_set(err, signs, "no key");
}

void __wrap_wp_identity_given(struct wp_identity *identity,
                              int64_t until_wall_ms,
                              const struct wp_clock *clock);
void
__wrap_wp_identity_given(struct wp_identity *identity, int64_t until_wall_ms,
                         const struct wp_clock *clock)
{
    assert_non_null(identity);
    assert_ptr_equal(clock, wp_clock_system());
    note("given until %lld\n", (long long)until_wall_ms);
}

bool __wrap_wp_identity_renewal_begin(struct wp_identity_renewals *of,
                                      struct wp_identity *identity);
bool
__wrap_wp_identity_renewal_begin(struct wp_identity_renewals *of,
                                 struct wp_identity *identity)
{
    assert_ptr_equal(of, &renewals);
    assert_non_null(identity);
    note("begin\n");
    return begins;
}

void __wrap_wp_identity_renewed(struct wp_identity_renewals *of,
                                struct wp_identity *identity,
                                int64_t until_wall_ms);
void
__wrap_wp_identity_renewed(struct wp_identity_renewals *of,
                           struct wp_identity *identity, int64_t until_wall_ms)
{
    assert_ptr_equal(of, &renewals);
    assert_non_null(identity);
    note("renewed until %lld\n", (long long)until_wall_ms);
}

void __wrap_wp_identity_not_renewed(struct wp_identity_renewals *of,
                                    struct wp_identity *identity,
                                    const char *ns, const char *name,
                                    const char *reason);
void
__wrap_wp_identity_not_renewed(struct wp_identity_renewals *of,
                               struct wp_identity *identity, const char *ns,
                               const char *name, const char *reason)
{
    assert_ptr_equal(of, &renewals);
    assert_non_null(identity);
    note("not renewed %s/%s: %s\n", ns, name, reason);
}

void __wrap_wp_identity_renewal_drop(struct wp_identity_renewals *of);
void
__wrap_wp_identity_renewal_drop(struct wp_identity_renewals *of)
{
    assert_ptr_equal(of, &renewals);
    note("drop\n");
}

int64_t __wrap_wp_identity_wait_ns(const struct wp_identity *identity,
                                   const struct wp_clock *clock);
int64_t
__wrap_wp_identity_wait_ns(const struct wp_identity *identity,
                           const struct wp_clock *clock)
{
    assert_non_null(identity);
    assert_ptr_equal(clock, wp_clock_system());
    return wait_ns;
}

int64_t __wrap_wp_identity_look_ns(const struct wp_identity *identity,
                                   const struct wp_clock *clock);
int64_t
__wrap_wp_identity_look_ns(const struct wp_identity *identity,
                           const struct wp_clock *clock)
{
    assert_non_null(identity);
    assert_ptr_equal(clock, wp_clock_system());
    return 33;
}

struct wp_bind_call *
__wrap_wp_bind_call_start(struct event_base *on,
                          const struct wp_bind_request *given);
struct wp_bind_call *
__wrap_wp_bind_call_start(struct event_base *on,
                          const struct wp_bind_request *given)
{
    char token[WP_SANDBOX_TOKEN_TEXT + 1];

    wp_sandbox_token(key, "ns", "s", token);
    assert_ptr_equal(on, &base);
    assert_string_equal(given->token, token);
    note("call %s port %u fingerprint %d identity %s parcel %d trees %d "
         "within %lld\n",
         given->ip, given->port, given->fingerprint != NULL, given->identity,
         given->parcel != NULL, given->trees != NULL,
         (long long)given->within_ns);
    request = *given;
    return connects ? (void *)&call : NULL;
}

void __wrap_wp_bind_call_cancel(struct wp_bind_call *ended);
void
__wrap_wp_bind_call_cancel(struct wp_bind_call *ended)
{
    assert_ptr_equal(ended, &call);
    note("cancel\n");
}

void __wrap_wp_work_add(struct wp_work_queue *to, const char *ns,
                        const char *name, bool first);
void
__wrap_wp_work_add(struct wp_work_queue *to, const char *ns, const char *name,
                   bool first)
{
    assert_ptr_equal(to, &queue);
    note("look at %s/%s first %d\n", ns, name, first);
}

const struct wp_sandbox_view *
__wrap_wp_sandbox_view(const struct wp_object *object);
const struct wp_sandbox_view *
__wrap_wp_sandbox_view(const struct wp_object *object)
{
    assert_ptr_equal(object, &sandbox);
    return &view;
}

/* --- The rig --- */

/* One that is leased, whose lease has an identity to come. */
static void
begin(const char *audience)
{
    memory_lacks = false;
    leased = true;
    signs = WP_OK;
    signed_text = "jwt";
    wait_ns = 0;
    begins = true;
    connects = true;
    journal[0] = '\0';
    parts = (struct wp_parts){
        .config = {.sandbox_key = key,
                   .sandbox_port = 8080,
                   .identities = &signer},
        .core = {.pools = (void *)&pools},
        .base = (void *)&base,
        .clock = wp_clock_system(),
        .renewals = &renewals,
    };
    backend =
        (struct wp_cluster_backend){.parts = &parts, .queue = (void *)&queue};
    entry = (struct wp_sandbox_ref){.phase = WP_SANDBOX_ADOPTED,
                                    .ref = {5, 6},
                                    .ns = "ns",
                                    .name = "s",
                                    .lease = &lease};
    leased_ref = entry.ref;
    lease = (struct wp_lease_note){
        .tenant = "t", .claim_id = "c", .fence = 12345678901234567890U};
    view = (struct wp_sandbox_view){.pod_ip = "10.0.0.9"};
    if (audience != NULL) {
        assert_true(
            wp_backend_want_identity(&backend, &entry, audience, 60000));
        (void)noted();
    }
}

static void
end(void)
{
    memory_lacks = false;
    wp_backend_end_identity(&entry);
    assert_null(entry.identity);
    journal[0] = '\0';
}

static int64_t
look(const struct wp_lease_note *told)
{
    const struct wp_backend_look at = {
        .backend = &backend, .entry = &entry, .sandbox = (void *)&sandbox};

    return wp_backend_look_at_identity(&at, told);
}

#define CALL                                                                   \
    "call 10.0.0.9 port 8080 fingerprint 0 identity jwt parcel 0 trees 0 "     \
    "within 5000000000\n"
#define SENT "find s\nbegin\nfind s\n" SIGNER CALL "wipe token\nwipe identity\n"
#define SEALED "ns\ns\nt\nc\n12345678901234567890\n60000\naud.\n"

/* --- What a lease says of it --- */

static void
a_lease_says_whose_it_is_under_a_seal(void **state)
{
    (void)state;
    begin(NULL);
    /* None is wanted. */
    assert_true(wp_backend_want_identity(&backend, &entry, "", 60000));
    assert_null(entry.identity);
    wp_backend_note_identity(&entry);
    assert_string_equal(noted(), "");
    assert_string_equal(lease.audience, "");
    assert_true(wp_backend_want_identity(&backend, &entry, "aud", 60000));
    assert_string_equal(noted(), "seal " SEALED);
    assert_string_equal(lease.audience, "aud");
    assert_int_equal(lease.identity_ttl_ms, 60000);
    assert_string_equal(lease.identity_seal, "good");
    /* Another one takes its place, or none. */
    assert_true(wp_backend_want_identity(&backend, &entry, "b", -1));
    assert_string_equal(noted(),
                        "seal ns\ns\nt\nc\n12345678901234567890\n-1\nb.\n");
    assert_true(wp_backend_want_identity(&backend, &entry, "", 1));
    assert_null(entry.identity);
    assert_string_equal(noted(), "");
    end();
}

static void
a_lease_that_comes_later_is_told(void **state)
{
    (void)state;
    begin(NULL);
    entry.lease = NULL;
    assert_true(wp_backend_want_identity(&backend, &entry, "aud", 60000));
    assert_string_equal(noted(), "");
    entry.lease = &lease;
    wp_backend_note_identity(&entry);
    assert_string_equal(noted(), "seal " SEALED);
    end();
}

static void
the_longest_names_are_sealed_whole(void **state)
{
    char want[4096];

    (void)state;
    begin(NULL);
    memset(entry.ns, 'n', WP_NAMESPACE_MAX);
    memset(entry.name, 's', WP_SANDBOX_NAME_MAX);
    memset(lease.tenant, 't', WP_TENANT_MAX);
    memset(lease.claim_id, 'c', WP_CLAIM_ID_MAX);
    memset(lease.audience, 'a', WP_AUDIENCE_MAX);
    (void)snprintf(want, sizeof want,
                   "seal %s\n%s\n%s\n%s\n12345678901234567890\n"
                   "-9223372036854775808\n%s.\n",
                   entry.ns, entry.name, lease.tenant, lease.claim_id,
                   lease.audience);
    assert_true(
        wp_backend_want_identity(&backend, &entry, lease.audience, INT64_MIN));
    assert_string_equal(noted(), want);
    end();
}

static void
without_memory_there_is_none(void **state)
{
    (void)state;
    begin("aud");
    memory_lacks = true;
    assert_true(wp_backend_want_identity(&backend, &entry, "", 0));
    assert_false(wp_backend_want_identity(&backend, &entry, "aud", 0));
    assert_null(entry.identity);
    end();
}

/* --- The first --- */

static void
the_first_goes_with_what_is_bound(void **state)
{
    struct wp_identity_token token;
    struct wp_err err;

    (void)state;
    begin("aud");
    assert_int_equal(wp_backend_sign(&entry, &token, &err), WP_OK);
    assert_string_equal(token.text, "jwt");
    wp_backend_identity_given(&entry);
    assert_string_equal(noted(), "find s\n" SIGNER "given until 4711\n");
    signs = WP_UNAVAILABLE;
    assert_int_equal(wp_backend_sign(&entry, &token, &err), WP_UNAVAILABLE);
    assert_string_equal(err.msg, "no key");
    (void)noted();
    /* The core knows of none, or of another one's. */
    for (int i = 0; i < 3; i++) {
        leased = i != 0;
        leased_ref = entry.ref;
        leased_ref.index += i == 1;
        leased_ref.generation += i == 2;
        memset(&token, 'x', sizeof token);
        assert_int_equal(wp_backend_sign(&entry, &token, &err), WP_UNAVAILABLE);
        assert_string_equal(err.msg, "identity: it is not leased");
        assert_string_equal(token.text, "");
        assert_string_equal(noted(), "find s\n");
    }
    end();
    /* None is wanted. */
    memset(&token, 'x', sizeof token);
    assert_int_equal(wp_backend_sign(&entry, &token, &err), WP_OK);
    assert_string_equal(token.text, "");
    wp_backend_identity_given(&entry);
    assert_string_equal(noted(), "");
}

/* --- Anew --- */

static void
answer(enum wp_status status, const char *reason)
{
    struct wp_bind_answer told = {.status = status};

    (void)snprintf(told.reason, sizeof told.reason, "%s", reason);
    request.done(request.ctx, &told);
}

static void
the_next_is_sent_by_itself(void **state)
{
    (void)state;
    begin("aud");
    assert_int_equal(look(NULL), 33);
    assert_string_equal(noted(), SENT);
    /* One at a time. */
    assert_int_equal(look(NULL), 0);
    assert_string_equal(noted(), "");
    answer(WP_OK, "");
    assert_string_equal(noted(), "renewed until 4711\nlook at ns/s first 0\n");
    assert_int_equal(look(NULL), 33);
    assert_string_equal(noted(), SENT);
    answer(WP_FAILED_PRECONDITION, "it takes none");
    assert_string_equal(noted(), "not renewed ns/s: it takes none\n"
                                 "look at ns/s first 0\n");
    /* What is on its way when it ends. */
    assert_int_equal(look(NULL), 33);
    (void)noted();
    wp_backend_end_identity(&entry);
    assert_string_equal(noted(), "cancel\ndrop\n");
    wp_backend_end_identity(&entry);
    assert_string_equal(noted(), "");
    end();
}

static void
what_cannot_be_sent_is_told(void **state)
{
    (void)state;
    begin("aud");
    signs = WP_UNAVAILABLE;
    assert_int_equal(look(NULL), 33);
    assert_string_equal(noted(), "find s\nbegin\nfind s\n" SIGNER
                                 "not renewed ns/s: no key\nwipe identity\n");
    /* It has what it needs. */
    signs = WP_OK;
    signed_text = "";
    assert_int_equal(look(NULL), 33);
    assert_string_equal(noted(), "find s\nbegin\nfind s\n" SIGNER
                                 "renewed until 4711\nwipe identity\n");
    signed_text = "jwt";
    connects = false;
    assert_int_equal(look(NULL), 33);
    assert_string_equal(noted(),
                        "find s\nbegin\nfind s\n" SIGNER CALL
                        "wipe token\nnot renewed ns/s: the sandbox's server "
                        "cannot be reached\nwipe identity\n");
    end();
}

static void
it_waits_until_one_is_due_of_a_lease_that_is_known(void **state)
{
    (void)state;
    begin("aud");
    begins = false;
    assert_int_equal(look(NULL), 33);
    assert_string_equal(noted(), "find s\nbegin\n");
    wait_ns = 1;
    assert_int_equal(look(NULL), 33);
    assert_string_equal(noted(), "begin\n");
    wait_ns = 0;
    leased = false;
    assert_int_equal(look(NULL), 1000000000);
    assert_string_equal(noted(), "find s\n");
    leased = true;
    leased_ref.generation++;
    assert_int_equal(look(NULL), 1000000000);
    assert_string_equal(noted(), "find s\n");
    leased_ref = entry.ref;
    /* Its Pod has no address. */
    view.pod_ip = "";
    assert_int_equal(look(NULL), 0);
    assert_string_equal(noted(), "");
    end();
}

static void
one_that_is_not_in_a_leases_hands_gets_none(void **state)
{
    (void)state;
    begin("aud");
    entry.lost = true;
    assert_int_equal(look(NULL), 0);
    entry.lost = false;
    entry.binding = (void *)&sandbox;
    assert_int_equal(look(NULL), 0);
    entry.binding = NULL;
    for (int phase = 0; phase <= 8; phase++) {
        entry.phase = (enum wp_sandbox_phase)phase;
        if (entry.phase != WP_SANDBOX_ADOPTED) {
            assert_int_equal(look(NULL), 0);
        }
    }
    entry.phase = WP_SANDBOX_ADOPTED;
    parts.config.sandbox_key = NULL;
    assert_int_equal(look(NULL), 0);
    parts.config.sandbox_key = key;
    assert_string_equal(noted(), "");
    assert_int_equal(look(NULL), 33);
    end();
}

/* --- Of the leader before --- */

static void
a_new_leader_goes_on_with_what_a_daemon_has_sealed(void **state)
{
    struct wp_lease_note told;

    (void)state;
    begin(NULL);
    told = lease;
    told.identity_ttl_ms = 60000;
    (void)snprintf(told.identity_seal, sizeof told.identity_seal, "good");
    assert_int_equal(look(NULL), 0);
    assert_int_equal(look(&told), 0);
    assert_string_equal(noted(), "");
    (void)snprintf(told.audience, sizeof told.audience, "aud");
    (void)snprintf(told.identity_seal, sizeof told.identity_seal, "forged");
    assert_int_equal(look(&told), 0);
    assert_string_equal(noted(), "sealed " SEALED);
    assert_null(entry.identity);
    (void)snprintf(told.identity_seal, sizeof told.identity_seal, "good");
    memory_lacks = true;
    assert_int_equal(look(&told), 0);
    assert_string_equal(noted(), "sealed " SEALED);
    assert_null(entry.identity);
    memory_lacks = false;
    assert_int_equal(look(&told), 33);
    assert_string_equal(noted(), "sealed " SEALED "seal " SEALED SENT);
    assert_non_null(entry.identity);
    /* It is known now, and no note is asked. */
    answer(WP_OK, "");
    (void)noted();
    assert_int_equal(look(NULL), 33);
    assert_string_equal(noted(), SENT);
    end();
}

static void
who_has_no_keys_signs_nothing(void **state)
{
    struct wp_err err;

    (void)state;
    begin(NULL);
    assert_int_equal(wp_backend_may_sign(&backend, &err), WP_OK);
    parts.config.identities = NULL;
    assert_int_equal(wp_backend_may_sign(&backend, &err),
                     WP_FAILED_PRECONDITION);
    assert_string_equal(err.msg, "the daemon has no identity_secret");
    end();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_says_whose_it_is_under_a_seal),
        cmocka_unit_test(a_lease_that_comes_later_is_told),
        cmocka_unit_test(the_longest_names_are_sealed_whole),
        cmocka_unit_test(without_memory_there_is_none),
        cmocka_unit_test(the_first_goes_with_what_is_bound),
        cmocka_unit_test(the_next_is_sent_by_itself),
        cmocka_unit_test(what_cannot_be_sent_is_told),
        cmocka_unit_test(it_waits_until_one_is_due_of_a_lease_that_is_known),
        cmocka_unit_test(one_that_is_not_in_a_leases_hands_gets_none),
        cmocka_unit_test(a_new_leader_goes_on_with_what_a_daemon_has_sealed),
        cmocka_unit_test(who_has_no_keys_signs_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
