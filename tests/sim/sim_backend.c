#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/mutant.h"
#include "tests/sim/sim.h"

enum {
    BINDERS_MAX = 8, /* Claims that wait for one sandbox to be bound. */
};

enum report_kind {
    REPORT_READY,
    REPORT_LOST,
    REPORT_DESTROYED,
};

/* What the backend tells a replica; it may come late, and more than once. */
struct report {
    struct sim_replica *to;
    uint32_t life;
    struct wp_slot_ref ref;
    enum report_kind kind;
    char endpoint[WP_ENDPOINT_MAX + 1];
    const char *reason;
};

static void
deliver(struct sim *sim, void *ctx, uint64_t arg)
{
    static const char *const kinds[] = {"ready", "lost", "destroyed"};
    struct report *report = ctx;
    struct sim_replica *to = report->to;

    (void)arg;
    if (sim_replica_lives(to, report->life)) {
        sim_trace(sim, "r%u: told that slot %u.%u is %s", to->index,
                  report->ref.index, report->ref.generation,
                  kinds[report->kind]);
        sim_replica_enter(to);
        switch (report->kind) {
        case REPORT_READY:
            wp_pools_on_ready(to->pools, report->ref,
                              wp_str_from(report->endpoint));
            break;
        case REPORT_LOST:
            wp_pools_on_lost(to->pools, report->ref,
                             wp_str_from(report->reason));
            break;
        case REPORT_DESTROYED:
            wp_pools_on_destroyed(to->pools, report->ref);
            break;
        }
    }
    free(report);
}

static void
tell(struct sim *sim, const struct sim_sandbox *sandbox, enum report_kind kind,
     const char *reason)
{
    uint32_t copies = sim_has_fault(sim, SIM_REPORTS_REPEAT) && !sim->healed &&
                              sim_chance(sim, 30)
                          ? 2
                          : 1;

    for (uint32_t i = 0; i < copies; i++) {
        struct report *report = sim_alloc(sizeof *report);
        int64_t delay_ns = sim_between(sim, 0, i == 0 ? 3 * SIM_MS : 5 * SIM_S);

        report->to = sandbox->owner;
        report->life = sandbox->owner_life;
        report->ref = sandbox->ref;
        report->kind = kind;
        report->reason = reason;
        (void)snprintf(report->endpoint, sizeof report->endpoint, "unix:/%s",
                       sandbox->name);
        sim_send(sim, delay_ns, report->to, deliver, report);
    }
}

static void
become_ready(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_sandbox *sandbox = ctx;

    (void)arg;
    if (!sandbox->gone && !sandbox->destroying && !sandbox->dead) {
        sandbox->answers = true;
        tell(sim, sandbox, REPORT_READY, NULL);
    }
}

static void
end_itself(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_sandbox *sandbox = ctx;

    (void)arg;
    if (!sandbox->gone && !sandbox->destroying && !sandbox->dead) {
        sim_trace(sim, "backend: %s ends by itself", sandbox->name);
        sandbox->dead = true;
        tell(sim, sandbox, REPORT_LOST, "it ended");
    }
}

void
sim_backend_kill(struct sim *sim, struct sim_sandbox *sandbox)
{
    end_itself(sim, sandbox, 0);
}

static void
be_gone(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_sandbox *sandbox = ctx;

    if (sandbox->destroying && arg == sandbox->owner_life) {
        sandbox->gone = true;
        tell(sim, sandbox, REPORT_DESTROYED, NULL);
    }
}

static void
begin_destroying(struct sim *sim, struct sim_sandbox *sandbox)
{
    sim_oracle_destroy(sim, sandbox);
    sandbox->destroying = true;
    sim_in(sim, sim_between(sim, 1, sim->profile.lead_ns), NULL, be_gone,
           sandbox, sandbox->owner_life);
}

static struct sim_sandbox *
add_sandbox(struct sim *sim)
{
    struct sim_sandbox *sandbox = sim_alloc(sizeof *sandbox);

    if (sim->n_sandboxes == sim->sandboxes_cap) {
        sim->sandboxes_cap =
            sim->sandboxes_cap == 0 ? 64 : 2 * sim->sandboxes_cap;
        sim->sandboxes = realloc(sim->sandboxes,
                                 sim->sandboxes_cap * sizeof *sim->sandboxes);
        WP_ASSERT(sim->sandboxes != NULL);
    }
    sandbox->id = sim->n_sandboxes;
    sim->sandboxes[sim->n_sandboxes++] = sandbox;
    return sandbox;
}

static struct sim_sandbox *
find_by_ref(struct sim_replica *replica, struct wp_slot_ref ref)
{
    struct sim *sim = replica->sim;

    for (uint32_t i = sim->n_sandboxes; i-- > 0;) {
        struct sim_sandbox *sandbox = sim->sandboxes[i];

        if (!sandbox->gone && sandbox->owner == replica &&
            sandbox->owner_life == replica->life &&
            wp_slot_ref_eq(sandbox->ref, ref)) {
            return sandbox;
        }
    }
    return NULL;
}

static enum wp_status
create(void *self, const struct wp_sandbox_order *order, struct wp_err *err)
{
    struct sim_replica *replica = self;
    struct sim *sim = replica->sim;
    struct sim_sandbox *sandbox;
    int64_t lead_ns = sim_between(sim, 1, 2 * sim->profile.lead_ns);

    if (sim->backend_full_until_ns > sim->now_ns) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "the backend is full");
    }
    if (sim->create_fails_until_ns > sim->now_ns && sim_chance(sim, 20)) {
        return wp_err_set(err, WP_UNAVAILABLE, "the backend is broken");
    }
    WP_ASSERT(sim->lock == replica && find_by_ref(replica, order->ref) == NULL);
    sim_oracle_ordered(sim, replica);
    sandbox = add_sandbox(sim);
    memcpy(sandbox->uid, order->uid, sizeof sandbox->uid);
    WP_ASSERT(wp_str_copy(order->name, sandbox->name, sizeof sandbox->name));
    sandbox->owner = replica;
    sandbox->owner_life = replica->life;
    sandbox->ref = order->ref;
    sim_trace(sim, "r%u: orders %s, slot %u.%u", replica->index, sandbox->name,
              order->ref.index, order->ref.generation);
    if (sim->backend_slow_until_ns > sim->now_ns) {
        lead_ns *= 10;
    }
    if (sim->create_fails_until_ns > sim->now_ns && sim_chance(sim, 60)) {
        sim_in(sim, lead_ns, NULL, end_itself, sandbox, 0);
    } else if (lead_ns > order->ready_within_ns) {
        sim_in(sim, order->ready_within_ns, NULL, end_itself, sandbox, 0);
    } else {
        sim_in(sim, lead_ns, NULL, become_ready, sandbox, 0);
    }
    return WP_OK;
}

static enum wp_status
destroy(void *self, struct wp_slot_ref ref)
{
    struct sim_replica *replica = self;
    struct sim *sim = replica->sim;
    struct sim_sandbox *sandbox = find_by_ref(replica, ref);

    if (sim->backend_full_until_ns > sim->now_ns && sim_chance(sim, 50)) {
        return WP_RESOURCE_EXHAUSTED;
    }
    if (sandbox != NULL && !sandbox->destroying) {
        sim_trace(sim, "r%u: destroys %s, slot %u.%u", replica->index,
                  sandbox->name, ref.index, ref.generation);
        begin_destroying(sim, sandbox);
    }
    return WP_OK;
}

/* --- What sandboxes say of their leases --- */

bool
sim_backend_is_noted(const struct sim_sandbox *sandbox, const char *claim_id,
                     uint64_t fence)
{
    return sandbox->note.there && sandbox->note.fence == fence &&
           strcmp(sandbox->note.claim_id, claim_id) == 0;
}

/* A note on its way to the sandbox. */
struct noting {
    struct sim_sandbox *sandbox;
    struct sim_replica *from;
    uint32_t life;
    struct sim_note note;
};

/* Who has found the sandbox meanwhile has written, too: this one is refused. */
static void
note_arrives(struct sim *sim, void *ctx, uint64_t arg)
{
    struct noting *noting = ctx;
    struct sim_sandbox *sandbox = noting->sandbox;

    (void)arg;
    if (!sandbox->gone && !sandbox->destroying &&
        sandbox->owner_life == noting->life &&
        (!sandbox->note.there ||
         sandbox->note.deadline_wall_ms <= noting->note.deadline_wall_ms)) {
        sandbox->note = noting->note;
        sim_trace(sim, "backend: %s says that claim %s has it", sandbox->name,
                  sandbox->note.claim_id);
    }
    free(noting);
}

/* Once it has left, its sender may end. */
static void
note_leaves(struct sim *sim, void *ctx, uint64_t arg)
{
    struct noting *noting = ctx;
    struct noting *sent;

    (void)arg;
    if (sim_replica_lives(noting->from, noting->life)) {
        sent = sim_alloc(sizeof *sent);
        *sent = *noting;
        sim_send(sim, sim_between(sim, 0, 20 * SIM_MS), NULL, note_arrives,
                 sent);
    }
    free(noting);
}

/* Not each renewal is worth a note: it may have said that it can last so long.
 */
static void
note_lease(struct sim_replica *replica, struct sim_sandbox *sandbox,
           const struct wp_lease_notice *notice)
{
    struct sim *sim = replica->sim;
    int64_t now_ms = replica->clock.now_wall_ns / SIM_MS;
    const struct sim_note *old = &sandbox->note;
    struct noting *noting;
    struct sim_note *note;

    if (old->there && old->fence == notice->fence &&
        old->until_wall_ms >= notice->deadline_wall_ms) {
        return;
    }
    noting = sim_alloc(sizeof *noting);
    noting->sandbox = sandbox;
    noting->from = replica;
    noting->life = replica->life;
    note = &noting->note;
    note->there = true;
    WP_ASSERT(
        wp_str_copy(notice->claim_id, note->claim_id, sizeof note->claim_id) &&
        wp_str_copy(notice->tenant, note->tenant, sizeof note->tenant));
    note->fence = notice->fence;
    note->deadline_wall_ms = notice->deadline_wall_ms;
    note->until_wall_ms = notice->deadline_wall_ms;
    if (notice->deadline_wall_ms > now_ms) {
        note->until_wall_ms += notice->deadline_wall_ms - now_ms;
    }
    note->granted_wall_ms = notice->granted_wall_ms;
    note->fingerprint = notice->fingerprint;
    note->served = notice->served;
    sim_send(sim,
             sim_between(sim, 0,
                         sim->backend_slow_until_ns > sim->now_ns
                             ? 500 * SIM_MS
                             : 10 * SIM_MS),
             replica, note_leaves, noting);
}

static void
leased(void *self, const struct wp_lease_notice *notice)
{
    struct sim_replica *replica = self;
    struct sim_sandbox *sandbox = find_by_ref(replica, notice->ref);
    char name[WP_SANDBOX_NAME_MAX + 1];

    WP_ASSERT(wp_str_copy(notice->sandbox, name, sizeof name));
    sim_trace(replica->sim, "r%u: is told of the lease of %s, fence %llu",
              replica->index, name, (unsigned long long)notice->fence);
    /* It may be gone by now, but it is not another one. */
    if (sandbox != NULL &&
        (strcmp(sandbox->name, name) != 0 ||
         memcmp(sandbox->uid, notice->uid, sizeof sandbox->uid) != 0)) {
        sim_wrong(replica->sim, "r%u: the lease of %s is told as one of %s",
                  replica->index, name, sandbox->name);
    }
    if (!replica->keeper || notice->claim_id.len == 0 ||
        (sandbox != NULL && sandbox->shown.claim_id[0] != '\0' &&
         !wp_str_is(notice->claim_id, sandbox->shown.claim_id))) {
        sim_wrong(replica->sim, "r%u: the lease of %s is told wrongly",
                  replica->index, name);
    }
    if (sandbox != NULL && replica->sim->profile.noted) {
        note_lease(replica, sandbox, notice);
    }
}

/* --- Binding --- */

/* From the backend to a sandbox's init, and back; and who waits for it. */
struct sim_binding {
    struct sim_replica *from;
    uint32_t life;
    struct wp_bind_op *ops[BINDERS_MAX]; /* Gone with that life. */
    uint32_t n_ops;
    struct sim_sandbox *sandbox;
    uint64_t fingerprint;
    int64_t until_ns; /* The backend waits no longer. */
    bool bound;
};

/* The answer, or the end of the time for it. */
static void
end_bind(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_binding *binding = ctx;
    bool late = sim->now_ns >= binding->until_ns;

    (void)arg;
    if (binding->sandbox->binding == binding) {
        binding->sandbox->binding = NULL;
    }
    if (sim_replica_lives(binding->from, binding->life)) {
        sim_trace(sim, "r%u: told that %s is %s", binding->from->index,
                  binding->sandbox->name,
                  late             ? "not bound in time"
                  : binding->bound ? "bound"
                                   : "not bound");
        sim_replica_enter(binding->from);
        for (uint32_t i = 0; i < binding->n_ops; i++) {
            struct wp_bind_op *op = binding->ops[i];

            op->status = late             ? WP_DEADLINE_EXCEEDED
                         : binding->bound ? WP_OK
                                          : WP_FAILED_PRECONDITION;
            (void)snprintf(op->reason, sizeof op->reason,
                           "not all could be bound");
            op->done(op);
        }
    }
    free(binding);
}

/* An init takes a binding whole, or leaves, whoever is there to hear of it. */
static void
take_binding(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_binding *binding = ctx;
    struct sim_sandbox *sandbox = binding->sandbox;
    int64_t back_ns = sim_between(sim, 1, 10 * SIM_MS);

    (void)arg;
    if (!sandbox->gone && !sandbox->dead && sandbox->bound == 0) {
        if (sim_chance(sim, 10)) {
            end_itself(sim, sandbox, 0);
        } else {
            sandbox->bound = binding->fingerprint;
        }
    }
    binding->bound = !sandbox->gone && !sandbox->dead &&
                     sandbox->bound == binding->fingerprint;
    if (sandbox->dead || sim_chance(sim, 5) ||
        sim->now_ns + back_ns > binding->until_ns) {
        back_ns = binding->until_ns - sim->now_ns;
    }
    sim_send(sim, back_ns, binding->from, end_bind, binding);
}

/* A sandbox is bound once it says whose it is, so that no next process takes it
 * for an idle one. */
static void
begin_bind(struct sim *sim, void *ctx, uint64_t arg)
{
    struct sim_binding *binding = ctx;
    bool waits = sim->profile.noted && !binding->sandbox->note.there;

    if (!sim_replica_lives(binding->from, binding->life)) {
        end_bind(sim, binding, arg);
    } else if (waits && sim->now_ns + SIM_MS < binding->until_ns) {
        sim_send(sim, SIM_MS, NULL, begin_bind, binding);
    } else if (waits) {
        sim_send(sim, binding->until_ns - sim->now_ns, binding->from, end_bind,
                 binding);
    } else {
        sim_send(sim, sim_between(sim, 1, 10 * SIM_MS), NULL, take_binding,
                 binding);
    }
}

static enum wp_status
refuse_bind(struct wp_bind_op *op, enum wp_status status)
{
    (void)snprintf(op->reason, sizeof op->reason, "not now");
    return status;
}

static enum wp_status
bind(void *self, struct wp_bind_op *op)
{
    struct sim_replica *replica = self;
    struct sim *sim = replica->sim;
    struct sim_sandbox *sandbox = find_by_ref(replica, op->ref);
    struct sim_binding *binding;

    if (sandbox == NULL || sandbox->destroying || sandbox->dead) {
        return refuse_bind(op, WP_UNAVAILABLE);
    }
    binding = sandbox->binding;
    if (binding != NULL && binding->from == replica &&
        binding->life == replica->life) {
        if (binding->n_ops == BINDERS_MAX) {
            return refuse_bind(op, WP_RESOURCE_EXHAUSTED);
        }
        binding->ops[binding->n_ops++] = op;
        return WP_PENDING;
    }
    if (sim->backend_full_until_ns > sim->now_ns) {
        return refuse_bind(op, WP_RESOURCE_EXHAUSTED);
    }
    sim_trace(sim, "r%u: binds %s", replica->index, sandbox->name);
    binding = sim_alloc(sizeof *binding);
    binding->from = replica;
    binding->life = replica->life;
    binding->ops[binding->n_ops++] = op;
    binding->sandbox = sandbox;
    binding->fingerprint = op->binding->fingerprint;
    binding->until_ns = sim->now_ns + op->within_ns;
    sandbox->binding = binding;
    sim_send(sim, 1, NULL, begin_bind, binding);
    return WP_PENDING;
}

static const char *
unbound(void *self, struct wp_str template_namespace, struct wp_str name)
{
    (void)self;
    (void)template_namespace;
    (void)name;
    return NULL;
}

void
sim_backend_find_foreign(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;
    struct sim_sandbox *sandbox = add_sandbox(sim);
    uint64_t uid[WP_UID_LEN / 8] = {wp_rng_next(&sim->rng),
                                    wp_rng_next(&sim->rng)};

    memcpy(sandbox->uid, uid, sizeof sandbox->uid);
    (void)snprintf(sandbox->name, sizeof sandbox->name, "p-f%04x",
                   sandbox->id & 0xffff);
    sandbox->owner = replica;
    sandbox->owner_life = replica->life;
    sandbox->foreign = true;
    sim_replica_enter(replica);
    if (!wp_pools_found(replica->pools, 0, sandbox->uid,
                        wp_str_from(sandbox->name), &sandbox->ref)) {
        sandbox->ref = WP_SLOT_REF_NONE;
        begin_destroying(sim, sandbox);
        return;
    }
    sim_trace(sim, "r%u: finds %s, slot %u.%u", replica->index, sandbox->name,
              sandbox->ref.index, sandbox->ref.generation);
    sim_in(sim, sim_between(sim, 1, sim->profile.lead_ns), NULL, become_ready,
           sandbox, 0);
}

struct wp_backend
sim_backend_port(struct sim_replica *replica)
{
    static const struct wp_backend_ops told = {
        .name = "simulated",
        .foreign = true,
        .create = create,
        .destroy = destroy,
        .leased = leased,
        .bind = bind,
        .unbound = unbound,
    };
    static const struct wp_backend_ops untold = {
        .name = "simulated",
        .foreign = true,
        .create = create,
        .destroy = destroy,
        .bind = bind,
        .unbound = unbound,
    };

    /* Where it is told of leases, an undone one costs the sandbox. */
    return (struct wp_backend){.ops = replica->sim->seed % 3 == 0 &&
                                              !replica->sim->profile.noted
                                          ? &untold
                                          : &told,
                               .self = replica};
}

/* The next process of a world whose sandboxes say who has them: it knows of
 * nothing else. */
static struct wp_slot_ref
take_noted(struct sim_replica *replica, struct sim_sandbox *sandbox)
{
    const struct sim_note *note = &sandbox->note;
    struct wp_lease_record record = {
        .state = WP_RECORD_HELD,
        .fence = note->fence,
        .deadline_wall_ms = WP_MUTANT(REBUILT_WITHOUT_RENEWALS)
                                ? note->deadline_wall_ms
                                : note->until_wall_ms,
        .granted_wall_ms = note->granted_wall_ms,
        .fingerprint = note->fingerprint,
        .served = note->served,
        .pool_namespace = "default",
        .pool = "p",
    };
    struct wp_slot_ref ref = WP_SLOT_REF_NONE;

    memcpy(record.uid, sandbox->uid, sizeof record.uid);
    memcpy(record.claim_id, note->claim_id, sizeof note->claim_id);
    memcpy(record.tenant, note->tenant, sizeof note->tenant);
    memcpy(record.sandbox, sandbox->name, sizeof record.sandbox);
    (void)snprintf(record.endpoint, sizeof record.endpoint, "unix:/%s",
                   sandbox->name);
    wp_pools_on_record(replica->pools, &record);
    if (wp_pools_seen(replica->pools, sandbox->uid, &ref)) {
        replica->sim->n_met[SIM_MET_REBUILT]++;
    }
    return ref;
}

static struct wp_slot_ref
take_idle(struct sim_replica *replica, struct sim_sandbox *sandbox)
{
    struct sim *sim = replica->sim;
    struct wp_slot_ref ref = WP_SLOT_REF_NONE;

    if (wp_pools_found(replica->pools, 0, sandbox->uid,
                       wp_str_from(sandbox->name), &ref)) {
        sandbox->foreign = true; /* Not ordered in this life. */
        sim_in(sim, sim_between(sim, 1, sim->profile.lead_ns), NULL,
               become_ready, sandbox, 0);
    }
    return ref;
}

static void
take_found(struct sim_replica *replica, struct sim_sandbox *sandbox)
{
    struct sim *sim = replica->sim;
    bool noted = sandbox->note.there && !WP_MUTANT(LEASE_NOT_REBUILT);

    sandbox->ref =
        noted ? take_noted(replica, sandbox) : take_idle(replica, sandbox);
    sim_trace(sim, "r%u: finds %s%s, slot %u.%u", replica->index, sandbox->name,
              noted ? ", which is leased" : "", sandbox->ref.index,
              sandbox->ref.generation);
    if (sandbox->ref.generation == 0) {
        begin_destroying(sim, sandbox);
    }
}

void
sim_backend_take_over(struct sim_replica *replica)
{
    struct sim *sim = replica->sim;

    for (uint32_t i = 0; i < sim->n_sandboxes; i++) {
        struct sim_sandbox *sandbox = sim->sandboxes[i];
        struct wp_slot_ref ref = WP_SLOT_REF_NONE;
        bool destroying = sandbox->destroying;

        if (sandbox->gone) {
            continue;
        }
        sandbox->owner = replica;
        sandbox->owner_life = replica->life;
        sandbox->ref = WP_SLOT_REF_NONE;
        /* Who was destroying it is gone; it may not have come to it. */
        sandbox->destroying = false;
        sandbox->dead = sandbox->dead || (destroying && sim_chance(sim, 50));
        if (sim->profile.noted && (!sandbox->dead || sandbox->note.there)) {
            take_found(replica, sandbox);
            if (sandbox->dead) {
                tell(sim, sandbox, REPORT_LOST, "it had ended");
            }
        } else if (!sandbox->dead &&
                   wp_pools_seen(replica->pools, sandbox->uid, &ref)) {
            sim_trace(sim, "r%u: takes over %s, slot %u.%u", replica->index,
                      sandbox->name, ref.index, ref.generation);
            sandbox->ref = ref;
        } else {
            sim_trace(sim, "r%u: clears %s away", replica->index,
                      sandbox->name);
            begin_destroying(sim, sandbox);
        }
    }
}

struct sim_sandbox *
sim_backend_find(struct sim *sim, const char *name)
{
    for (uint32_t i = sim->n_sandboxes; i-- > 0;) {
        if (strcmp(sim->sandboxes[i]->name, name) == 0) {
            return sim->sandboxes[i];
        }
    }
    return NULL;
}

uint32_t
sim_backend_living(const struct sim *sim)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < sim->n_sandboxes; i++) {
        count += sim->sandboxes[i]->gone ? 0 : 1;
    }
    return count;
}
