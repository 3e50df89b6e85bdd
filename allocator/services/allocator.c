/* The methods of warmpool.v1.Allocator, but for ClaimBatch,
 * ClaimStream and WatchPools.
 *
 * A Claim's answer comes from the pool, on any thread; that its client has gone
 * comes from the transport, on its own. `settled` decides between the two:
 *
 *   OPEN --- the answer comes first --> ANSWERED   the reply is sent
 *     `----- the client goes first ---> GONE       a grant is taken back
 *
 * One compare-and-swap each way, so exactly one wins. Who finishes the call:
 * the transport's thread when the claim was withdrawn in time, for then no
 * answer comes; otherwise the answer, in the way `settled` tells it. The state
 * is in the call's arena and outlives both, because a transport keeps a call
 * until the thread that runs `cancelled` has processed its finish. */
#include "allocator/services/services.h"

#include <stdio.h>

#include "allocator/services/claim_binding.h"
#include "allocator/services/services_private.h"
#include "pool/base/assert.h"

enum settled {
    SETTLED_OPEN,
    SETTLED_ANSWERED,
    SETTLED_GONE,
};

struct claim_call {
    struct wp_claim claim;
    struct wp_call *call;
    /* NULL: it brings nothing. An empty one: its pool has all claims bound. */
    struct wp_claim_binding *binding;
    _Atomic(int) settled;
    bool waits;   /* It is counted among those that may wait. */
    bool crowded; /* It would have waited, but too many do. */
};

/* --- Claim --- */

/* So many calls may wait that others find room. */
static bool
claim_may_wait(struct claim_call *self)
{
    struct wp_services *services = wp_services_of(self->call);

    /* Relaxed: a count, nothing is read by it. */
    self->waits =
        self->waits ||
        atomic_fetch_add_explicit(&services->waiting, 1, memory_order_relaxed) <
            services->config.waiting_max;
    if (!self->waits) {
        (void)atomic_fetch_sub_explicit(&services->waiting, 1,
                                        memory_order_relaxed);
        self->crowded = true;
    }
    return self->waits;
}

/* It waits for another call's answer, a second at least, whatever it said of
 * waiting. */
static bool
claim_may_follow(struct wp_claim *claim)
{
    return claim_may_wait(claim->ctx);
}

/* Before the call is finished. */
static void
claim_waits_no_more(struct claim_call *self)
{
    if (self->waits) {
        (void)atomic_fetch_sub_explicit(&wp_services_of(self->call)->waiting, 1,
                                        memory_order_relaxed);
        self->waits = false;
    }
}

/* What has come to an end now, in the client's trace. */
static void
claim_trace_step(struct claim_call *self, const char *name)
{
    const struct wp_claim *claim = &self->claim;
    bool granted = claim->status == WP_OK;
    struct wp_span span = {
        .name = name,
        .kind = WP_SPAN_INTERNAL,
        .status = claim->status,
        .served = granted ? wp_served_text(claim->grant.served) : NULL,
    };

    WP_SPAN_TEXT(span.pool_namespace, claim->pool_namespace);
    WP_SPAN_TEXT(span.pool, claim->pool);
    WP_SPAN_TEXT(span.claim, claim->claim_id);
    if (granted) {
        WP_SPAN_TEXT(span.sandbox, wp_str_from(claim->grant.sandbox));
    }
    wp_trace_step(&self->call->trace, &span,
                  wp_clock_mono_ns(wp_services_of(self->call)->config.clock));
}

/* The same; next to nothing for who is not traced. */
static void
claim_trace(struct claim_call *self, const char *name)
{
    if (WP_UNLIKELY(self->call->trace.tracer != NULL)) {
        claim_trace_step(self, name);
    }
}

/* Takes back what the client will not hear of. */
static void
claim_undo(struct claim_call *self)
{
    if (self->claim.status == WP_OK) {
        wp_pools_undo(wp_services_of(self->call)->config.pools, &self->claim);
    }
}

/* Why it got nothing: a copy, for the reason may lie in what it brought. */
static void
claim_reason(const struct claim_call *self, char *out, size_t cap)
{
    const struct wp_claim *claim = &self->claim;
    const char *reason = claim->reason;
    struct wp_err err;

    if (!claim->bound) {
        reason = self->crowded && claim->status == WP_RESOURCE_EXHAUSTED
                     ? "no sandbox is ready and too many claims "
                       "wait (setting rpc_waiting_max)"
                     : wp_service_claim_reason(wp_services_of(self->call),
                                               claim, &err);
    }
    (void)snprintf(out, cap, "%s", reason);
}

static void
claim_refuse(struct claim_call *self)
{
    struct wp_call *call = self->call;
    char reason[sizeof(((struct wp_err *)NULL)->msg)];

    claim_reason(self, reason, sizeof reason);
    wp_service_binding_drop(wp_services_of(call), self->binding);
    call->ops->finish(call, self->claim.status, reason,
                      self->claim.retry_after_ns);
}

/* Finishes the call with the claim's answer; self is gone when it returns. */
static void
claim_reply(struct claim_call *self)
{
    const struct wp_claim *claim = &self->claim;
    struct wp_call *call = self->call;
    struct wp_wire_claim_response response = {
        .claim_id = claim->claim_id,
        .grant = &claim->grant,
        .replayed = claim->replayed,
    };
    uint8_t *buf;

    claim_waits_no_more(self);
    if (claim->status != WP_OK) {
        claim_refuse(self);
        return;
    }
    if (WP_UNLIKELY(claim->binding != 0)) {
        response.binding = wp_service_binding_view(self->binding);
    }
    buf = call->ops->reserve(call, wp_wire_size_claim_response(&response));
    if (WP_LIKELY(buf != NULL)) {
        (void)wp_wire_pack_claim_response(&response, buf);
    } else {
        claim_undo(self);
    }
    wp_service_binding_drop(wp_services_of(call), self->binding);
    if (WP_UNLIKELY(buf == NULL)) {
        call->ops->finish(call, WP_RESOURCE_EXHAUSTED,
                          "no memory for the reply", 0);
        return;
    }
    call->served = claim->grant.served;
    call->ops->finish(call, WP_OK, NULL, 0);
}

/* There is an answer, but its client may have gone first. Any thread. */
static void
claim_settle(struct claim_call *self)
{
    struct wp_call *call = self->call;
    int open = SETTLED_OPEN;

    /* Relaxed: the claim came with the call, only who won is asked. */
    if (atomic_compare_exchange_strong_explicit(
            &self->settled, &open, SETTLED_ANSWERED, memory_order_relaxed,
            memory_order_relaxed)) {
        claim_reply(self);
        return;
    }
    claim_waits_no_more(self);
    claim_undo(self);
    wp_service_binding_drop(wp_services_of(call), self->binding);
    call->ops->finish(call, WP_CANCELLED, NULL, 0);
}

static void
claim_bound(struct wp_bind *bind)
{
    claim_trace(bind->ctx, "bind");
    claim_settle(bind->ctx);
}

/* True: the claim is granted, and its sandbox takes what it brings; claim_bound
 * answers. */
static bool
claim_binds(struct claim_call *self)
{
    claim_trace(self, "grant");
    return WP_UNLIKELY(self->binding != NULL) && self->claim.status == WP_OK &&
           wp_service_binding_bind(wp_services_of(self->call), self->binding,
                                   &self->claim, claim_bound,
                                   self) == WP_PENDING;
}

/* The pool's answer. Any thread. */
static void
claim_done(struct wp_claim *claim)
{
    struct claim_call *self = claim->ctx;

    if (!claim_binds(self)) {
        claim_settle(self);
    }
}

static void
claim_cancelled(struct wp_call *call)
{
    struct claim_call *self = call->state;
    int open = SETTLED_OPEN;

    if (wp_pools_cancel(wp_services_of(call)->config.pools, &self->claim)) {
        claim_waits_no_more(self);
        wp_service_binding_drop(wp_services_of(call), self->binding);
        call->ops->finish(call, WP_CANCELLED, NULL, 0);
        return;
    }
    /* Lost: the reply is under way. Won: claim_done will see it. */
    (void)atomic_compare_exchange_strong_explicit(
        &self->settled, &open, SETTLED_GONE, memory_order_relaxed,
        memory_order_relaxed);
}

static void
claim_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct wp_services *services = wp_services_of(call);
    struct claim_call *self = wp_service_state(call, sizeof *self);
    struct wp_wire_claim_request request;
    struct wp_err err;

    if (WP_UNLIKELY(self == NULL) || !wp_service_serves(call)) {
        return;
    }
    if (wp_wire_unpack_claim_request(&call->arena, bytes, len, &request,
                                     &err) != WP_OK) {
        wp_service_refuse(call, &err);
        return;
    }
    if (!wp_service_tenant(call, request.tenant, &self->claim.tenant)) {
        return;
    }
    if (WP_UNLIKELY(request.binding.ptr != NULL ||
                    wp_pools_must_bind(services->config.pools,
                                       request.pool.pool_namespace,
                                       request.pool.name))) {
        self->binding = wp_service_binding_take(call, &request);
        if (self->binding == NULL) {
            return;
        }
        self->claim.binding =
            request.binding.ptr != NULL
                ? wp_service_binding_view(self->binding)->fingerprint
                : 0;
    }
    self->call = call;
    self->claim.pool_namespace = request.pool.pool_namespace;
    self->claim.pool = request.pool.name;
    self->claim.claim_id = request.claim_id;
    self->claim.ttl_ns = request.ttl_ms * WP_NS_PER_MS;
    self->claim.wait_ns = wp_service_wait_ns(call, request.wait_ms);
    self->claim.may_follow = claim_may_follow;
    self->claim.done = claim_done;
    self->claim.ctx = self;
    atomic_init(&self->settled, SETTLED_OPEN);
    if (self->claim.wait_ns > 0 && !claim_may_wait(self)) {
        self->claim.wait_ns = 0;
    }
    call->state = self;
    call->cancelled = claim_cancelled;
    if (wp_pools_claim(services->config.pools, &self->claim) != WP_PENDING &&
        !claim_binds(self)) {
        claim_reply(self);
    }
}

/* --- Renew and Release --- */

struct change_call {
    struct wp_lease_change change;
    struct wp_call *call;
};

/* The tenant of a call that names none: the credentials', if they fix one. */
static struct wp_str
change_tenant(const struct wp_call *call)
{
    return call->who.admin ? WP_STR("") : wp_str_from(call->who.tenant);
}

static void
change_init(struct change_call *self, struct wp_call *call,
            const uint8_t token[WP_TOKEN_LEN],
            void (*done)(struct wp_lease_change *change))
{
    self->call = call;
    memcpy(self->change.token, token, sizeof self->change.token);
    self->change.tenant = change_tenant(call);
    self->change.done = done;
    self->change.ctx = self;
    call->state = self;
}

static void
renew_done(struct wp_lease_change *change)
{
    struct change_call *self = change->ctx;
    struct wp_call *call = self->call;
    struct wp_wire_renew_response response;
    uint8_t *buf;

    if (change->status != WP_OK) {
        struct wp_err err;

        if (change->ttl_max_ns > 0) {
            wp_service_ttl_too_long(change->ttl_max_ns, &err);
        }
        call->ops->finish(call, change->status,
                          change->ttl_max_ns > 0 ? err.msg : change->reason, 0);
        return;
    }
    memcpy(response.token, change->new_token, sizeof response.token);
    response.fence = change->fence;
    response.deadline_wall_ms = change->deadline_wall_ms;
    buf = wp_service_reserve(call, wp_wire_size_renew_response(&response));
    if (buf != NULL) {
        (void)wp_wire_pack_renew_response(&response, buf);
        call->ops->finish(call, WP_OK, NULL, 0);
    }
}

static void
renew_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct change_call *self = wp_service_state(call, sizeof *self);
    struct wp_wire_renew_request request;
    struct wp_err err;

    if (self == NULL || !wp_service_serves(call)) {
        return;
    }
    if (wp_wire_unpack_renew_request(&call->arena, bytes, len, &request,
                                     &err) != WP_OK) {
        wp_service_refuse(call, &err);
        return;
    }
    change_init(self, call, request.token, renew_done);
    self->change.ttl_ns = request.ttl_ms * WP_NS_PER_MS;
    self->change.hold = request.hold;
    if (wp_pools_renew(wp_services_of(call)->config.pools, &self->change) !=
        WP_PENDING) {
        renew_done(&self->change);
    }
}

static void
release_done(struct wp_lease_change *change)
{
    struct change_call *self = change->ctx;
    struct wp_call *call = self->call;
    const struct wp_wire_release_response response = {
        .was_held = change->was_held,
    };
    uint8_t *buf;

    if (change->status != WP_OK) {
        call->ops->finish(call, change->status, change->reason, 0);
        return;
    }
    buf = wp_service_reserve(call, wp_wire_size_release_response(&response));
    if (buf != NULL) {
        (void)wp_wire_pack_release_response(&response, buf);
        call->ops->finish(call, WP_OK, NULL, 0);
    }
}

static void
release_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct change_call *self = wp_service_state(call, sizeof *self);
    struct wp_wire_release_request request;
    struct wp_err err;

    if (self == NULL || !wp_service_serves(call)) {
        return;
    }
    if (wp_wire_unpack_release_request(&call->arena, bytes, len, &request,
                                       &err) != WP_OK) {
        wp_service_refuse(call, &err);
        return;
    }
    change_init(self, call, request.token, release_done);
    if (wp_pools_release(wp_services_of(call)->config.pools, &self->change) !=
        WP_PENDING) {
        release_done(&self->change);
    }
}

/* --- GetClaim and ListClaims --- */

static void
get_claim_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct wp_wire_get_claim_request request;
    struct wp_claim_info info;
    struct wp_str tenant;
    struct wp_err err;
    enum wp_status status;
    uint8_t *buf;

    if (!wp_service_serves(call)) {
        return;
    }
    if (wp_wire_unpack_get_claim_request(&call->arena, bytes, len, &request,
                                         &err) != WP_OK) {
        wp_service_refuse(call, &err);
        return;
    }
    if (!wp_service_tenant(call, request.tenant, &tenant)) {
        return;
    }
    status = wp_pools_get(wp_services_of(call)->config.pools, tenant,
                          request.claim_id, &info);
    if (status != WP_OK) {
        (void)wp_service_no_claim(wp_services_of(call), tenant,
                                  request.claim_id, &err);
        wp_service_refuse(call, &err);
        return;
    }
    buf = wp_service_reserve(call, wp_wire_size_claim_info(&info));
    if (buf != NULL) {
        (void)wp_wire_pack_claim_info(&info, buf);
        call->ops->finish(call, WP_OK, NULL, 0);
    }
}

enum {
    CURSOR_LEN = 16, /* Hexadecimal digits of a page token. */
};

static bool
cursor_in(struct wp_str token, uint64_t *cursor)
{
    uint8_t bytes[CURSOR_LEN / 2];

    *cursor = 0;
    if (token.len == 0) {
        return true;
    }
    if (!wp_hex_decode(token, bytes, sizeof bytes)) {
        return false;
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        *cursor = *cursor << 8 | bytes[i];
    }
    return *cursor != 0;
}

static void
refuse_cursor(struct wp_call *call)
{
    call->ops->finish(
        call, WP_INVALID_ARGUMENT,
        "page_token: next_page_token of an earlier answer expected", 0);
}

static void
list_claims_page(struct wp_call *call,
                 const struct wp_wire_list_claims_request *request,
                 const struct wp_str *tenant, uint64_t cursor)
{
    struct wp_services *services = wp_services_of(call);
    struct wp_wire_list_claims_response response = {.claims = services->claims};
    const struct wp_claim_filter filter = {tenant, request->pool.pool_namespace,
                                           request->pool.name};
    char next[CURSOR_LEN + 1];
    uint8_t *buf;

    (void)pthread_mutex_lock(&services->page_lock);
    response.n_claims = wp_pools_list(services->config.pools, &filter, &cursor,
                                      services->claims, request->page_size);
    if (cursor != 0) {
        (void)snprintf(next, sizeof next, "%016llx",
                       (unsigned long long)cursor);
        response.next_page_token = wp_str_from(next);
    }
    buf =
        call->ops->reserve(call, wp_wire_size_list_claims_response(&response));
    if (buf != NULL) {
        (void)wp_wire_pack_list_claims_response(&response, buf);
    }
    (void)pthread_mutex_unlock(&services->page_lock);
    if (buf != NULL) {
        call->ops->finish(call, WP_OK, NULL, 0);
    } else {
        call->ops->finish(call, WP_RESOURCE_EXHAUSTED,
                          "page_size: no memory for so long a reply", 0);
    }
}

static void
list_claims_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct wp_wire_list_claims_request request;
    struct wp_str tenant;
    struct wp_err err;
    uint64_t cursor;
    bool all;

    if (!wp_service_serves(call)) {
        return;
    }
    if (wp_wire_unpack_list_claims_request(&call->arena, bytes, len, &request,
                                           &err) != WP_OK) {
        wp_service_refuse(call, &err);
        return;
    }
    if (!cursor_in(request.page_token, &cursor)) {
        refuse_cursor(call);
        return;
    }
    all = call->who.admin && request.tenant.len == 0;
    if (!wp_service_tenant(call, request.tenant, &tenant)) {
        return;
    }
    if (request.pool.name.len != 0 &&
        wp_service_find_pool(call, &request.pool) == UINT32_MAX) {
        return;
    }
    list_claims_page(call, &request, all ? NULL : &tenant, cursor);
}

/* --- ListTenants --- */

static void
list_tenants_page(struct wp_call *call, uint32_t pool_index,
                  const struct wp_str *tenant, uint64_t cursor)
{
    struct wp_tenant_stats tenants[WP_WIRE_TENANTS_MAX];
    struct wp_wire_list_tenants_response response = {.tenants = tenants};
    uint32_t at = cursor < UINT32_MAX ? (uint32_t)cursor : UINT32_MAX;
    char next[CURSOR_LEN + 1];
    uint8_t *buf;

    response.n_tenants =
        wp_pools_tenants(wp_services_of(call)->config.pools, pool_index, tenant,
                         &at, tenants, WP_WIRE_TENANTS_MAX);
    if (at != 0) {
        (void)snprintf(next, sizeof next, "%016llx", (unsigned long long)at);
        response.next_page_token = wp_str_from(next);
    }
    buf =
        wp_service_reserve(call, wp_wire_size_list_tenants_response(&response));
    if (buf != NULL) {
        (void)wp_wire_pack_list_tenants_response(&response, buf);
        call->ops->finish(call, WP_OK, NULL, 0);
    }
}

static void
list_tenants_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct wp_wire_list_tenants_request request;
    uint32_t pool_index = UINT32_MAX;
    struct wp_str tenant;
    struct wp_err err;
    uint64_t cursor;
    bool all;

    if (wp_wire_unpack_list_tenants_request(&call->arena, bytes, len, &request,
                                            &err) != WP_OK) {
        wp_service_refuse(call, &err);
        return;
    }
    if (!cursor_in(request.page_token, &cursor)) {
        refuse_cursor(call);
        return;
    }
    all = call->who.admin && request.tenant.len == 0;
    if (!wp_service_tenant(call, request.tenant, &tenant)) {
        return;
    }
    if (request.pool.name.len != 0) {
        pool_index = wp_service_find_pool(call, &request.pool);
        if (pool_index == UINT32_MAX) {
            return;
        }
    }
    list_tenants_page(call, pool_index, all ? NULL : &tenant, cursor);
}

static const struct wp_method allocator_methods[] = {
    {.path = "/warmpool.v1.Allocator/Claim", .start = claim_start},
    {.path = "/warmpool.v1.Allocator/ClaimBatch",
     .start = wp_service_batch_start},
    {.path = "/warmpool.v1.Allocator/ClaimStream",
     .bidirectional = true,
     .start = wp_service_stream_start},
    {.path = "/warmpool.v1.Allocator/Renew", .start = renew_start},
    {.path = "/warmpool.v1.Allocator/Release", .start = release_start},
    {.path = "/warmpool.v1.Allocator/GetClaim", .start = get_claim_start},
    {.path = "/warmpool.v1.Allocator/ListClaims", .start = list_claims_start},
    {.path = "/warmpool.v1.Allocator/ListTenants", .start = list_tenants_start},
    {.path = "/warmpool.v1.Allocator/WatchPools",
     .server_streaming = true,
     .start = wp_service_watch_start},
};

struct wp_service
wp_service_allocator(struct wp_services *services)
{
    return (struct wp_service){
        .name = "warmpool.v1.Allocator",
        .methods = allocator_methods,
        .n_methods = WP_ARRAY_LEN(allocator_methods),
        .self = services,
    };
}
