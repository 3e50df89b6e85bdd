#include "tests/support/pool/fake_backend.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"

struct wp_fake_sandbox {
    struct wp_list node; /* In warming, in dying, or in none. */
    struct wp_slot_ref ref;
    char name[WP_SANDBOX_NAME_MAX + 1];
    int64_t due_ns; /* Of the next report. */
    bool live;
    bool ready;
    bool dying;
};

/* A report that is made after the lock was given back. */
struct report {
    struct wp_slot_ref ref;
    enum {
        REPORT_READY,
        REPORT_LOST,
        REPORT_DESTROYED
    } kind;
    char endpoint[WP_ENDPOINT_MAX + 1];
    const char *reason;
};

void
wp_fake_backend_init(struct wp_fake_backend *fake, uint32_t cap,
                     const struct wp_clock *clock)
{
    *fake = (struct wp_fake_backend){
        .clock = clock, .cap = cap, .bind_status = WP_PENDING};
    WP_ASSERT(pthread_mutex_init(&fake->lock, NULL) == 0);
    fake->sandboxes = calloc(cap, sizeof *fake->sandboxes);
    WP_ASSERT(fake->sandboxes != NULL);
    wp_list_init(&fake->warming);
    wp_list_init(&fake->dying);
}

void
wp_fake_backend_attach(struct wp_fake_backend *fake, struct wp_pools *pools)
{
    fake->pools = pools;
}

void
wp_fake_backend_fini(struct wp_fake_backend *fake)
{
    free(fake->sandboxes);
    fake->sandboxes = NULL;
    (void)pthread_mutex_destroy(&fake->lock);
}

static void
make_report(struct wp_fake_backend *fake, const struct report *report)
{
    int times = fake->repeat_reports ? 2 : 1;

    for (int i = 0; i < times; i++) {
        switch (report->kind) {
        case REPORT_READY:
            wp_pools_on_ready(fake->pools, report->ref,
                              wp_str_from(report->endpoint));
            break;
        case REPORT_LOST:
            wp_pools_on_lost(fake->pools, report->ref,
                             wp_str_from(report->reason));
            break;
        case REPORT_DESTROYED:
            wp_pools_on_destroyed(fake->pools, report->ref);
            break;
        }
    }
}

/* Under the lock. */
static void
note_ready(struct wp_fake_backend *fake, struct wp_fake_sandbox *sandbox,
           struct report *report)
{
    wp_list_remove(&sandbox->node);
    sandbox->ready = true;
    fake->counts.warming--;
    report->kind = REPORT_READY;
    report->ref = sandbox->ref;
    (void)snprintf(report->endpoint, sizeof report->endpoint, "unix:/fake/%s",
                   sandbox->name);
}

/* Under the lock. */
static void
note_destroyed(struct wp_fake_backend *fake, struct wp_fake_sandbox *sandbox,
               struct report *report)
{
    wp_list_remove(&sandbox->node);
    sandbox->live = false;
    fake->counts.live--;
    fake->counts.destroyed++;
    report->kind = REPORT_DESTROYED;
    report->ref = sandbox->ref;
}

static enum wp_status
create(void *self, const struct wp_sandbox_order *order, struct wp_err *err)
{
    struct wp_fake_backend *fake = self;
    struct wp_fake_sandbox *sandbox;
    struct report report;
    bool now;

    (void)pthread_mutex_lock(&fake->lock);
    if (fake->create_status != WP_OK &&
        fake->counts.creates >= fake->creates_first) {
        enum wp_status status = fake->create_status;

        fake->counts.creates_refused++;
        (void)pthread_mutex_unlock(&fake->lock);
        return wp_err_set(err, status, "the fake backend was told to refuse");
    }
    WP_ASSERT(order->ref.index < fake->cap && order->ref.generation != 0);
    sandbox = &fake->sandboxes[order->ref.index];
    WP_ASSERT(!sandbox->live);
    *sandbox = (struct wp_fake_sandbox){.ref = order->ref, .live = true};
    WP_ASSERT(wp_str_copy(order->name, sandbox->name, sizeof sandbox->name));
    (void)snprintf(fake->order, sizeof fake->order,
                   "%.*s/%.*s of '%.*s', egress '%.*s', within %" PRId64,
                   (int)order->pool_namespace.len, order->pool_namespace.ptr,
                   (int)order->pool.len, order->pool.ptr,
                   (int)order->template_name.len, order->template_name.ptr,
                   (int)order->egress.len, order->egress.ptr,
                   order->ready_within_ns);
    memcpy(fake->order_uid, order->uid, sizeof fake->order_uid);
    wp_list_init(&sandbox->node);
    wp_list_push_back(&fake->warming, &sandbox->node);
    sandbox->due_ns = wp_clock_mono_ns(fake->clock);
    if (fake->ready == WP_FAKE_READY_DELAYED) {
        sandbox->due_ns += fake->ready_delay_ns;
    } else if (fake->ready != WP_FAKE_READY_NEXT_TURN) {
        sandbox->due_ns = WP_TIME_NEVER;
    }
    fake->counts.creates++;
    fake->counts.warming++;
    fake->counts.live++;
    if (fake->counts.live > fake->counts.live_max) {
        fake->counts.live_max = fake->counts.live;
    }
    now = fake->ready == WP_FAKE_READY_INLINE;
    if (now) {
        note_ready(fake, sandbox, &report);
    }
    (void)pthread_mutex_unlock(&fake->lock);
    if (now) {
        make_report(fake, &report);
    }
    return WP_OK;
}

void
wp_fake_backend_adopt(struct wp_fake_backend *fake, struct wp_slot_ref ref)
{
    struct wp_fake_sandbox *sandbox = &fake->sandboxes[ref.index];

    (void)pthread_mutex_lock(&fake->lock);
    WP_ASSERT(ref.index < fake->cap && !sandbox->live);
    *sandbox = (struct wp_fake_sandbox){
        .ref = ref, .due_ns = WP_TIME_NEVER, .live = true, .ready = true};
    wp_list_init(&sandbox->node);
    fake->counts.live++;
    (void)pthread_mutex_unlock(&fake->lock);
}

void
wp_fake_backend_found(struct wp_fake_backend *fake, struct wp_slot_ref ref,
                      const char *name)
{
    struct wp_fake_sandbox *sandbox = &fake->sandboxes[ref.index];

    (void)pthread_mutex_lock(&fake->lock);
    WP_ASSERT(ref.index < fake->cap && !sandbox->live);
    *sandbox = (struct wp_fake_sandbox){
        .ref = ref, .due_ns = WP_TIME_NEVER, .live = true};
    WP_ASSERT(
        wp_str_copy(wp_str_from(name), sandbox->name, sizeof sandbox->name));
    wp_list_init(&sandbox->node);
    wp_list_push_back(&fake->warming, &sandbox->node);
    fake->counts.warming++;
    fake->counts.live++;
    (void)pthread_mutex_unlock(&fake->lock);
}

/* Under the lock. The live sandbox of ref, or NULL. */
static struct wp_fake_sandbox *
lookup(struct wp_fake_backend *fake, struct wp_slot_ref ref)
{
    struct wp_fake_sandbox *sandbox;

    if (ref.index >= fake->cap) {
        return NULL;
    }
    sandbox = &fake->sandboxes[ref.index];
    return sandbox->live && wp_slot_ref_eq(sandbox->ref, ref) ? sandbox : NULL;
}

static enum wp_status
destroy(void *self, struct wp_slot_ref ref)
{
    struct wp_fake_backend *fake = self;
    enum wp_status status;
    struct wp_fake_sandbox *sandbox;
    struct report report;
    bool now = false;

    (void)pthread_mutex_lock(&fake->lock);
    status = fake->destroy_status;
    fake->counts.destroys_refused += status == WP_OK ? 0 : 1;
    sandbox = lookup(fake, ref);
    if (status == WP_OK && sandbox != NULL && !sandbox->dying) {
        wp_list_remove(&sandbox->node);
        wp_list_push_back(&fake->dying, &sandbox->node);
        sandbox->dying = true;
        fake->counts.warming -= sandbox->ready ? 0 : 1;
        fake->counts.destroys++;
        sandbox->due_ns =
            wp_clock_mono_ns(fake->clock) + fake->destroy_delay_ns;
        now = fake->destroy_inline;
        if (now) {
            note_destroyed(fake, sandbox, &report);
        }
    }
    (void)pthread_mutex_unlock(&fake->lock);
    if (now) {
        make_report(fake, &report);
    }
    return status;
}

static void
leased(void *self, const struct wp_lease_notice *notice)
{
    struct wp_fake_backend *fake = self;
    struct wp_fake_notice *kept = &fake->notice;

    (void)pthread_mutex_lock(&fake->lock);
    fake->notices++;
    kept->ref = notice->ref;
    memcpy(kept->uid, notice->uid, sizeof kept->uid);
    WP_ASSERT(wp_str_copy(notice->pool, kept->pool, sizeof kept->pool));
    WP_ASSERT(
        wp_str_copy(notice->sandbox, kept->sandbox, sizeof kept->sandbox));
    WP_ASSERT(
        wp_str_copy(notice->claim_id, kept->claim_id, sizeof kept->claim_id));
    WP_ASSERT(wp_str_copy(notice->tenant, kept->tenant, sizeof kept->tenant));
    kept->fence = notice->fence;
    kept->keep = notice->keep;
    kept->freeze_after_ns = notice->freeze_after_ns;
    kept->deadline_wall_ms = notice->deadline_wall_ms;
    (void)pthread_mutex_unlock(&fake->lock);
}

static enum wp_status
bind(void *self, struct wp_bind_op *op)
{
    struct wp_fake_backend *fake = self;
    enum wp_status status;

    (void)pthread_mutex_lock(&fake->lock);
    WP_ASSERT(lookup(fake, op->ref) != NULL);
    status = fake->bind_status;
    /* It need not be there any more when the bind is over. */
    WP_ASSERT(
        wp_str_copy(op->policy, fake->bind_policy, sizeof fake->bind_policy));
    if (status == WP_PENDING) {
        WP_ASSERT(fake->n_binds < WP_ARRAY_LEN(fake->binds));
        fake->binds[fake->n_binds++] = op;
    } else {
        (void)snprintf(op->reason, sizeof op->reason, "as it was told");
    }
    (void)pthread_mutex_unlock(&fake->lock);
    return status;
}

bool
wp_fake_backend_bound(struct wp_fake_backend *fake, enum wp_status status,
                      const char *reason)
{
    struct wp_bind_op *op = NULL;

    (void)pthread_mutex_lock(&fake->lock);
    if (fake->n_binds > 0) {
        op = fake->binds[0];
        fake->n_binds--;
        memmove(fake->binds, fake->binds + 1,
                fake->n_binds * sizeof(struct wp_bind_op *));
    }
    (void)pthread_mutex_unlock(&fake->lock);
    if (op == NULL) {
        return false;
    }
    op->status = status;
    (void)snprintf(op->reason, sizeof op->reason, "%s", reason);
    op->done(op);
    return true;
}

static const char *
unbound(void *self, struct wp_str template_namespace, struct wp_str name)
{
    struct wp_fake_backend *fake = self;

    WP_ASSERT(wp_str_is(template_namespace, "default") && name.len > 0);
    (void)pthread_mutex_lock(&fake->lock);
    (void)snprintf(fake->unbound_of, sizeof fake->unbound_of, "%.*s",
                   (int)name.len, name.ptr);
    (void)pthread_mutex_unlock(&fake->lock);
    return fake->unbound;
}

static enum wp_status
narrows(void *self, struct wp_str policy, struct wp_str by, struct wp_err *err)
{
    struct wp_fake_backend *fake = self;

    WP_ASSERT(wp_str_copy(policy, fake->narrowed, sizeof fake->narrowed));
    return fake->beyond == NULL || !wp_str_is(by, fake->beyond)
               ? WP_OK
               : wp_err_set(err, WP_FAILED_PRECONDITION, "'%s' is too much",
                            fake->beyond);
}

static bool
passes(void *self)
{
    const struct wp_fake_backend *fake = self;

    return fake->passes;
}

static enum wp_status
may_sign(void *self, struct wp_err *err)
{
    (void)self;
    (void)err;
    return WP_OK;
}

static const struct wp_backend_ops foreign_ops = {
    .name = "foreign",
    .foreign = true,
    .create = create,
    .destroy = destroy,
    .leased = leased,
    .bind = bind,
    .unbound = unbound,
};

static const struct wp_backend_ops fake_ops = {
    .name = "fake",
    .create = create,
    .destroy = destroy,
    .leased = leased,
    .bind = bind,
    .unbound = unbound,
    .narrows = narrows,
    .may_sign = may_sign,
    .passes = passes,
};

struct wp_backend
wp_fake_backend_port(struct wp_fake_backend *fake)
{
    return (struct wp_backend){.ops = &fake_ops, .self = fake};
}

struct wp_backend
wp_fake_backend_foreign_port(struct wp_fake_backend *fake)
{
    return (struct wp_backend){.ops = &foreign_ops, .self = fake};
}

/* Takes the first sandbox of list that is due by now_ns and fills report. */
static bool
take_due(struct wp_fake_backend *fake, struct wp_list *list, int64_t now_ns,
         struct report *report)
{
    WP_LIST_FOREACH (node, list) {
        struct wp_fake_sandbox *sandbox =
            WP_CONTAINER_OF(node, struct wp_fake_sandbox, node);

        if (sandbox->due_ns <= now_ns) {
            if (sandbox->dying) {
                note_destroyed(fake, sandbox, report);
            } else {
                note_ready(fake, sandbox, report);
            }
            return true;
        }
    }
    return false;
}

uint32_t
wp_fake_backend_turn(struct wp_fake_backend *fake)
{
    int64_t now_ns = wp_clock_mono_ns(fake->clock);
    uint32_t n = 0;

    for (;;) {
        struct report report;
        bool found;

        (void)pthread_mutex_lock(&fake->lock);
        found = take_due(fake, &fake->warming, now_ns, &report) ||
                take_due(fake, &fake->dying, now_ns, &report);
        (void)pthread_mutex_unlock(&fake->lock);
        if (!found) {
            return n;
        }
        make_report(fake, &report);
        n++;
    }
}

uint32_t
wp_fake_backend_make_ready(struct wp_fake_backend *fake, uint32_t n)
{
    uint32_t made = 0;

    while (made < n) {
        struct report report;
        bool found;

        (void)pthread_mutex_lock(&fake->lock);
        found = take_due(fake, &fake->warming, WP_TIME_NEVER, &report);
        (void)pthread_mutex_unlock(&fake->lock);
        if (!found) {
            break;
        }
        make_report(fake, &report);
        made++;
    }
    return made;
}

uint32_t
wp_fake_backend_fail(struct wp_fake_backend *fake, uint32_t n,
                     const char *reason)
{
    uint32_t failed = 0;

    while (failed < n) {
        struct report report = {.kind = REPORT_LOST, .reason = reason};
        struct wp_list *node;

        (void)pthread_mutex_lock(&fake->lock);
        node = wp_list_pop_front(&fake->warming);
        if (node != NULL) {
            /* In no list from here on, until the pool destroys it. */
            struct wp_fake_sandbox *sandbox =
                WP_CONTAINER_OF(node, struct wp_fake_sandbox, node);

            sandbox->ready = true;
            fake->counts.warming--;
            report.ref = sandbox->ref;
        }
        (void)pthread_mutex_unlock(&fake->lock);
        if (node == NULL) {
            break;
        }
        make_report(fake, &report);
        failed++;
    }
    return failed;
}

bool
wp_fake_backend_lose(struct wp_fake_backend *fake, struct wp_slot_ref ref,
                     const char *reason)
{
    struct report report = {.kind = REPORT_LOST, .ref = ref, .reason = reason};
    struct wp_fake_sandbox *sandbox;
    bool found;

    (void)pthread_mutex_lock(&fake->lock);
    sandbox = lookup(fake, ref);
    found = sandbox != NULL && !sandbox->dying;
    if (found && !sandbox->ready) {
        wp_list_remove(&sandbox->node);
        sandbox->ready = true;
        fake->counts.warming--;
    }
    (void)pthread_mutex_unlock(&fake->lock);
    if (found) {
        make_report(fake, &report);
    }
    return found;
}

struct wp_slot_ref
wp_fake_backend_find(struct wp_fake_backend *fake, struct wp_str name)
{
    struct wp_slot_ref ref = WP_SLOT_REF_NONE;

    (void)pthread_mutex_lock(&fake->lock);
    for (uint32_t i = 0; i < fake->cap; i++) {
        if (fake->sandboxes[i].live &&
            wp_str_is(name, fake->sandboxes[i].name)) {
            ref = fake->sandboxes[i].ref;
        }
    }
    (void)pthread_mutex_unlock(&fake->lock);
    return ref;
}

struct wp_fake_counts
wp_fake_backend_counts(struct wp_fake_backend *fake)
{
    struct wp_fake_counts counts;

    (void)pthread_mutex_lock(&fake->lock);
    counts = fake->counts;
    (void)pthread_mutex_unlock(&fake->lock);
    return counts;
}
