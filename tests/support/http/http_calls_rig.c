#include "tests/support/http/http_calls_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pool/base/rng.h"

#define WRAP(result, name, ...)                                                \
    result __wrap_##name(__VA_ARGS__);                                         \
    result __wrap_##name(__VA_ARGS__)

struct rig rig;

static struct posted {
    void (*run)(void *ctx, uint64_t a, uint64_t b);
    void *ctx;
    uint64_t a;
    uint64_t b;
} posted[8];
static uint32_t n_posted;

static void
add_line(const char *fmt, va_list ap)
{
    char line[2048];

    (void)vsnprintf(line, sizeof line, fmt, ap);
    if (rig.terse && strstr(rig.journal.text, line) != NULL) {
        return;
    }
    golden_add(&rig.journal, "%s\n", line);
}

void
rig_say(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (!rig.terse) {
        add_line(fmt, ap);
    }
    va_end(ap);
}

/* The client is told. */
static WP_PRINTF(1, 2) void tell(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_line(fmt, ap);
    va_end(ap);
}

static void *
text_alloc(size_t size)
{
    bool fails = rig.texts == 0 || rig.text_fails == 0;

    rig.texts -= rig.texts > 0 ? 1 : 0;
    rig.text_fails -= rig.text_fails >= 0 ? 1 : 0;
    return fails ? NULL : malloc(size);
}

int
rig_begin(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof rig);
    n_posted = 0;
    wp_clock_manual_init(&rig.clock, 1000 * WP_NS_PER_S, 0);
    rig.claim_status = WP_PENDING;
    rig.release_status = WP_PENDING;
    rig.bind_status = WP_PENDING;
    rig.callocs = -1;
    rig.texts = -1;
    rig.text_fails = -1;
    json_set_alloc_funcs(text_alloc, free);
    return 0;
}

void
rig_is(const char *path)
{
    golden_compare(rig.journal.text, path);
}

/* --- Requests --- */

struct wp_http_req *
rig_req(const char *name, const char *head, const char *body)
{
    struct wp_http_req *req = &rig.reqs[rig.n_reqs++];
    const char *why = "";

    assert_true(rig.n_reqs <= RIG_REQS);
    req->name = name;
    req->body = body;
    (void)snprintf(req->head, sizeof req->head, "%s\r\n", head);
    if (!wp_http_parse_request(&req->message, wp_str_from(req->head), &why)) {
        fail_msg("%s", why);
    }
    rig_say("%s: %.*s", name, (int)strcspn(head, "\r"), head);
    return req;
}

WRAP(struct wp_http_message *, wp_http_message, struct wp_http_req *req)
{
    return &req->message;
}

WRAP(const char *, wp_http_method, const struct wp_http_req *req)
{
    static char method[16];

    (void)!wp_str_copy(req->message.method, method, sizeof method);
    return method;
}

WRAP(const char *, wp_http_header, const struct wp_http_req *req,
     const char *name)
{
    static char value[1024];
    const struct wp_http_field *field = wp_http_field(&req->message, name);

    return field != NULL && wp_str_copy(field->value, value, sizeof value)
               ? value
               : NULL;
}

WRAP(const char *, wp_http_body, struct wp_http_req *req, size_t *len)
{
    *len = strlen(req->body);
    return req->body;
}

WRAP(void, wp_http_set_user, struct wp_http_req *req, void *user)
{
    rig_say("%s: %s", req->name, user != NULL ? "has a call" : "has no call");
    req->user = user;
}

WRAP(void *, wp_http_user, const struct wp_http_req *req)
{
    return req->user;
}

WRAP(void, wp_http_add_header, struct wp_http_req *req, const char *name,
     const char *value)
{
    tell("%s: header %s: %s", req->name, name, value);
}

WRAP(void, wp_http_reply, struct wp_http_req *req, int status, const char *type,
     const void *data, size_t len)
{
    tell("%s: reply %d %s '%.*s'", req->name, status, type, (int)len,
         (const char *)data);
}

WRAP(void, wp_http_reply_error, struct wp_http_req *req, int status,
     const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    tell("%s: error %d '%s'", req->name, status, text);
}

/* --- Pools --- */

static void
fill(struct wp_claim *claim, enum wp_status status)
{
    struct wp_grant *grant = &claim->grant;

    claim->status = status;
    claim->replayed = status == WP_OK && rig.replayed;
    claim->reason = status == WP_OK ? NULL : rig.reason;
    claim->retry_after_ns = status == WP_OK ? 0 : rig.retry_after_ns;
    grant->ref = (struct wp_slot_ref){7, 3};
    (void)snprintf(grant->sandbox, sizeof grant->sandbox, "box-of-grant");
    (void)snprintf(grant->endpoint, sizeof grant->endpoint, "10.0.0.1:8080");
    (void)snprintf(grant->pool, sizeof grant->pool, "granted");
    (void)snprintf(grant->pool_namespace, sizeof grant->pool_namespace,
                   "grants");
    for (size_t i = 0; i < sizeof grant->token; i++) {
        grant->token[i] = (uint8_t)(i + 1);
    }
}

/* All but the request itself, as the pools want it. */
static void
assert_rest_is_zero(const struct wp_claim *claim)
{
    static const struct wp_claim zero;
    struct wp_claim rest;

    memcpy(&rest, claim, sizeof rest);
    rest.pool_namespace = zero.pool_namespace;
    rest.pool = zero.pool;
    rest.claim_id = zero.claim_id;
    rest.tenant = zero.tenant;
    rest.ttl_ns = 0;
    rest.wait_ns = 0;
    rest.lasting = false;
    rest.n_after = 0;
    rest.binding = 0;
    rest.done = NULL;
    rest.ctx = NULL;
    assert_memory_equal(&rest, &zero, sizeof zero);
}

WRAP(enum wp_status, wp_pools_claim, struct wp_pools *pools,
     struct wp_claim *claim)
{
    assert_ptr_equal(pools, RIG_THE_POOLS);
    rig_say("claim '%.*s' of '%.*s' from %.*s/%.*s lasting=%d ttl=%lld "
            "wait=%lld after=%u ahead=%d binding=%llx -> %s",
            (int)claim->claim_id.len, claim->claim_id.ptr,
            (int)claim->tenant.len, claim->tenant.ptr,
            (int)claim->pool_namespace.len, claim->pool_namespace.ptr,
            (int)claim->pool.len, claim->pool.ptr, claim->lasting,
            (long long)claim->ttl_ns, (long long)claim->wait_ns, claim->n_after,
            claim->ahead, (unsigned long long)claim->binding,
            wp_status_name(rig.claim_status));
    assert_rest_is_zero(claim);
    rig.claim = claim;
    if (rig.n_claims < RIG_ASKED) {
        rig.claims[rig.n_claims++] = claim;
    }
    if (rig.claim_status != WP_PENDING) {
        fill(claim, rig.claim_status);
    }
    return rig.claim_status;
}

WRAP(bool, wp_pools_cancel, struct wp_pools *pools, struct wp_claim *claim)
{
    assert_ptr_equal(pools, RIG_THE_POOLS);
    rig_say("cancel '%.*s' -> %d", (int)claim->claim_id.len,
            claim->claim_id.ptr, rig.cancels);
    return rig.cancels;
}

WRAP(void, wp_pools_undo, struct wp_pools *pools, const struct wp_claim *claim)
{
    assert_ptr_equal(pools, RIG_THE_POOLS);
    rig_say("undo '%.*s'", (int)claim->claim_id.len, claim->claim_id.ptr);
}

WRAP(void, wp_pools_end, struct wp_pools *pools, struct wp_slot_ref ref)
{
    assert_ptr_equal(pools, RIG_THE_POOLS);
    rig_say("end slot %u.%u", ref.index, ref.generation);
}

WRAP(enum wp_status, wp_pools_release, struct wp_pools *pools,
     struct wp_lease_change *change)
{
    assert_ptr_equal(pools, RIG_THE_POOLS);
    rig_say("release by token %02x%02x..%02x of '%.*s' -> %s", change->token[0],
            change->token[1], change->token[WP_TOKEN_LEN - 1],
            (int)change->tenant.len, change->tenant.ptr,
            wp_status_name(rig.release_status));
    rig.change = change;
    change->status = rig.release_status;
    change->reason = rig.reason;
    return rig.release_status;
}

WRAP(enum wp_status, wp_pools_bind, struct wp_pools *pools,
     struct wp_bind *bind)
{
    const struct wp_binding *binding = bind->binding;

    assert_ptr_equal(pools, RIG_THE_POOLS);
    rig_say("bind '%.*s' by %llx -> %s", (int)bind->claim->claim_id.len,
            bind->claim->claim_id.ptr, (unsigned long long)binding->fingerprint,
            wp_status_name(rig.bind_status));
    for (uint32_t i = 0; i < binding->n_env; i++) {
        rig_say("  %.*s=%.*s", (int)binding->env[i].name.len,
                binding->env[i].name.ptr, (int)binding->env[i].value.len,
                binding->env[i].value.ptr);
    }
    rig.bind = bind;
    return rig.bind_status;
}

WRAP(enum wp_status, wp_pools_may_bind, struct wp_pools *pools,
     struct wp_str pool_namespace, struct wp_str pool, struct wp_err *err)
{
    assert_ptr_equal(pools, RIG_THE_POOLS);
    rig_say("may bind in %.*s/%.*s -> %s", (int)pool_namespace.len,
            pool_namespace.ptr, (int)pool.len, pool.ptr,
            wp_status_name(rig.may_bind_status));
    return rig.may_bind_status == WP_OK
               ? WP_OK
               : wp_err_set(err, rig.may_bind_status, "it may not");
}

WRAP(uint64_t, wp_pools_fingerprint, const struct wp_pools *pools,
     struct wp_str bytes)
{
    assert_ptr_equal(pools, RIG_THE_POOLS);
    rig_say("fingerprint of %zu bytes", bytes.len);
    return 0xf00d;
}

WRAP(enum wp_status, wp_pools_get, struct wp_pools *pools, struct wp_str tenant,
     struct wp_str claim_id, struct wp_claim_info *out)
{
    assert_ptr_equal(pools, RIG_THE_POOLS);
    rig_say("get '%.*s' of '%.*s' -> %s", (int)claim_id.len, claim_id.ptr,
            (int)tenant.len, tenant.ptr,
            rig.info == NULL    ? "none"
            : rig.info->lost    ? "lost"
            : rig.info->waiting ? "waiting"
                                : "there");
    if (rig.info == NULL) {
        return WP_NOT_FOUND;
    }
    *out = *rig.info;
    return WP_OK;
}

WRAP(uint32_t, wp_pools_count, const struct wp_pools *pools)
{
    assert_ptr_equal(pools, RIG_THE_POOLS);
    return rig.n_pools;
}

WRAP(void, wp_pools_stats, struct wp_pools *pools, uint32_t index,
     struct wp_pool_stats *out)
{
    assert_ptr_equal(pools, RIG_THE_POOLS);
    rig_say("stats %u", index);
    *out = rig.pools[index];
}

WRAP(uint32_t, wp_pools_index, const struct wp_pools *pools,
     struct wp_str pool_namespace, struct wp_str name)
{
    assert_ptr_equal(pools, RIG_THE_POOLS);
    rig_say("index of %.*s/%.*s", (int)pool_namespace.len, pool_namespace.ptr,
            (int)name.len, name.ptr);
    for (uint32_t i = 0; i < rig.n_pools; i++) {
        if (wp_str_eq(name, wp_str_from(rig.pools[i].spec.name))) {
            return i;
        }
    }
    return UINT32_MAX;
}

void
rig_claimed(struct wp_claim *claim, enum wp_status status)
{
    rig_say("claimed: %s%s", wp_status_name(status),
            status == WP_OK && rig.replayed ? ", again" : "");
    fill(claim, status);
    claim->done(claim);
}

void
rig_released(enum wp_status status)
{
    rig_say("released: %s", wp_status_name(status));
    rig.change->status = status;
    rig.change->reason = rig.reason;
    rig.change->done(rig.change);
}

void
rig_bound(enum wp_status status)
{
    rig_say("bound: %s", wp_status_name(status));
    rig.bind->claim->status = status;
    rig.bind->claim->reason = status == WP_OK ? NULL : rig.reason;
    rig.bind->done(rig.bind);
}

/* --- The loop, its timers, time --- */

WRAP(struct event_base *, wp_loop_base, struct wp_loop *loop)
{
    assert_ptr_equal(loop, &rig);
    return (struct event_base *)(void *)&rig;
}

WRAP(bool, wp_loop_post, struct wp_loop *loop,
     void (*run)(void *ctx, uint64_t a, uint64_t b), void *ctx, uint64_t a,
     uint64_t b)
{
    assert_ptr_equal(loop, &rig);
    rig_say("post -> %d", !rig.channel_full);
    if (rig.channel_full) {
        return false;
    }
    assert_true(n_posted < WP_ARRAY_LEN(posted));
    posted[n_posted++] = (struct posted){run, ctx, a, b};
    return true;
}

static void
run_posted(void)
{
    uint32_t n = n_posted;

    n_posted = 0;
    for (uint32_t i = 0; i < n; i++) {
        posted[i].run(posted[i].ctx, posted[i].a, posted[i].b);
    }
}

void
rig_turn(void)
{
    rig_say("the loop's turn");
    run_posted();
}

/* What was posted before is run before. */
WRAP(void, wp_loop_call, struct wp_loop *loop, void (*run)(void *ctx),
     void *ctx)
{
    assert_ptr_equal(loop, &rig);
    run_posted();
    run(ctx);
}

WRAP(struct event *, event_new, struct event_base *base, evutil_socket_t fd,
     short what, event_callback_fn callback, void *ctx)
{
    assert_ptr_equal(base, &rig);
    rig_say("timer new fd=%d what=%d", (int)fd, what);
    rig.tick = callback;
    rig.tick_ctx = ctx;
    return rig.no_timer ? NULL : (struct event *)(void *)&rig;
}

WRAP(int, event_add, struct event *event, const struct timeval *in)
{
    assert_ptr_equal(event, &rig);
    rig_say("timer in %lld us",
            (long long)in->tv_sec * 1000000 + (long long)in->tv_usec);
    rig.tick_set = true;
    return 0;
}

WRAP(int, event_del, struct event *event)
{
    assert_ptr_equal(event, &rig);
    rig_say("timer off");
    rig.tick_set = false;
    return 0;
}

WRAP(int, event_pending, const struct event *event, short what,
     struct timeval *in)
{
    assert_ptr_equal(event, &rig);
    assert_int_equal(what, EV_TIMEOUT);
    assert_null(in);
    return rig.tick_set ? EV_TIMEOUT : 0;
}

WRAP(void, event_free, struct event *event)
{
    assert_ptr_equal(event, &rig);
    rig_say("timer freed");
}

void
rig_run_tick(void)
{
    assert_true(rig.tick_set);
    rig_say("the timer is over");
    rig.tick_set = false;
    rig.tick(-1, EV_TIMEOUT, rig.tick_ctx);
}

WRAP(const struct wp_clock *, wp_clock_system, void)
{
    return &rig.clock.clock;
}

WRAP(int, nanosleep, const struct timespec *in, struct timespec *left)
{
    assert_null(left);
    assert_int_equal(in->tv_sec, 0);
    assert_int_equal(in->tv_nsec, 1000000);
    rig.naps++;
    if (rig.nap != NULL) {
        rig.nap();
    }
    return 0;
}

WRAP(void, wp_random_bytes, void *out, size_t len)
{
    static const uint8_t bytes[] = {0x1a, 0x2b, 0x3c, 0x4d};

    assert_true(len <= sizeof bytes);
    memcpy(out, bytes, len);
}

void *__real_calloc(size_t n, size_t size);
WRAP(void *, calloc, size_t n, size_t size)
{
    if (rig.callocs == 0) {
        return NULL;
    }
    rig.callocs -= rig.callocs > 0 ? 1 : 0;
    return __real_calloc(n, size);
}
