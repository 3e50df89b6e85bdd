#include "k8s/lead/election.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"
#include "pool/base/rng.h"

#define DURATION_NS (3 * WP_NS_PER_S)
#define RENEW_NS (WP_NS_PER_S * 3 / 4)
#define DEADLINE_NS (WP_NS_PER_S * 9 / 4)
#define RELEASE_NS (2 * WP_NS_PER_S)
/* A holder that claims more than this is not waited for any longer. */
#define HELD_MAX_NS (600 * WP_NS_PER_S)

enum op_kind {
    OP_READ,
    OP_CREATE,
    OP_TAKE, /* Acquire or renew. */
    OP_EMPTY,
};

/* A call under way. One that got no answer in time is left to itself. */
struct op {
    struct wp_election *election; /* NULL: nobody waits for it any more. */
    enum op_kind kind;
    int64_t sent_ns;
};

struct wp_election {
    struct wp_election_config config;
    struct wp_rng rng;
    struct event *timer;
    struct op *op;
    int64_t op_until_ns;
    int64_t next_ns; /* When to do something next, without an op. */

    json_t *lease; /* As last seen; NULL: not there, or to be read again. */
    bool seen;     /* There was one, at some time. */
    char holder[256];
    char version[64];
    int64_t free_ns; /* When what was seen last has run out. */

    bool leads;
    bool serves;
    int64_t valid_until_ns;
    bool stopped;
    bool releasing;
    int64_t release_until_ns;
    void (*released)(void *ctx);
    void *released_ctx;
    enum wp_status complained; /* Logged last, so that it is said once. */
    bool refused;
};

static int64_t
now_of(const struct wp_election *e)
{
    return wp_clock_mono_ns(e->config.clock);
}

static bool
is_ours(const struct wp_election *e)
{
    return strcmp(e->holder, e->config.identity) == 0;
}

/* Between four and six fifths, so that standbys do not keep step. */
static int64_t
jittered(struct wp_election *e, int64_t pause_ns)
{
    return pause_ns * 4 / 5 +
           (int64_t)wp_rng_below(&e->rng, (uint64_t)(pause_ns * 2 / 5) + 1);
}

/* --- What is known of the object --- */

static void
forget_lease(struct wp_election *e)
{
    json_decref(e->lease);
    e->lease = NULL;
}

/* The object as a server just sent it. */
static void
note_lease(struct wp_election *e, json_t *lease)
{
    const char *version =
        wp_json_text(lease, "metadata", "resourceVersion", NULL);
    json_t *seconds = wp_json_at(lease, "spec", "leaseDurationSeconds", NULL);
    int64_t held_ns = e->config.duration_ns;
    bool same =
        e->seen && version[0] != '\0' && strcmp(version, e->version) == 0;

    json_incref(lease);
    forget_lease(e);
    e->lease = lease;
    if (same) {
        return; /* Its time runs on from when it was seen first. */
    }
    if (json_is_integer(seconds)) {
        json_int_t s = json_integer_value(seconds);

        s = s > HELD_MAX_NS / WP_NS_PER_S ? HELD_MAX_NS / WP_NS_PER_S : s;
        held_ns = s * WP_NS_PER_S > held_ns ? s * WP_NS_PER_S : held_ns;
    }
    /* A name that is too long to keep whole is still not ours. */
    (void)snprintf(e->holder, sizeof e->holder, "%s",
                   wp_json_text(lease, "spec", "holderIdentity", NULL));
    (void)snprintf(e->version, sizeof e->version, "%s", version);
    e->seen = true;
    e->free_ns = wp_time_add(now_of(e), held_ns);
}

/* May it be taken? */
static bool
is_free(const struct wp_election *e)
{
    return !e->seen || e->holder[0] == '\0' || is_ours(e) ||
           now_of(e) >= e->free_ns;
}

/* --- Leading and following --- */

static void
lose(struct wp_election *e, const char *why)
{
    if (!e->leads) {
        return;
    }
    e->leads = false;
    e->serves = false;
    e->valid_until_ns = 0;
    wp_log_info("no longer the leader", wp_kv_str("lease", e->config.name),
                wp_kv_str("why", why), wp_kv_str("holder", e->holder));
    if (e->config.on_following != NULL) {
        e->config.on_following(e->config.ctx, is_ours(e) ? "" : e->holder);
    }
}

/* A write that names us was confirmed; it was sent at sent_ns. */
static void
hold(struct wp_election *e, int64_t sent_ns)
{
    int64_t until_ns = sent_ns + e->config.deadline_ns;

    e->next_ns = sent_ns + e->config.renew_ns;
    e->complained = WP_OK;
    if (e->releasing || until_ns <= now_of(e)) {
        return;
    }
    e->valid_until_ns = until_ns;
    if (!e->leads) {
        e->leads = true;
        wp_log_info("leader", wp_kv_str("lease", e->config.name),
                    wp_kv_str("identity", e->config.identity));
        if (e->config.on_leading != NULL) {
            e->config.on_leading(e->config.ctx);
        }
    }
}

/* --- Writing it --- */

static json_t *
spec_of(struct wp_election *e, bool empty)
{
    char now[40];
    json_t *spec = json_object();
    const json_t *old =
        e->lease != NULL ? wp_json_at(e->lease, "spec", NULL) : NULL;
    const json_t *transitions =
        old != NULL ? json_object_get(old, "leaseTransitions") : NULL;
    json_int_t changes =
        json_is_integer(transitions) ? json_integer_value(transitions) : 0;
    const char *since =
        old != NULL ? wp_json_text(old, "acquireTime", NULL) : "";
    bool renewal = e->lease != NULL && is_ours(e) && since[0] != '\0';
    int64_t seconds = (e->config.duration_ns + WP_NS_PER_S - 1) / WP_NS_PER_S;

    (void)wp_time_format_utc(wp_clock_wall_ns(e->config.clock), 6, now);
    wp_json_set_text(spec, "holderIdentity", empty ? "" : e->config.identity);
    wp_json_set(spec, "leaseDurationSeconds",
                json_integer(empty ? 1 : seconds));
    wp_json_set_text(spec, "acquireTime", renewal ? since : now);
    wp_json_set_text(spec, "renewTime", now);
    wp_json_set(
        spec, "leaseTransitions",
        json_integer(e->lease == NULL || renewal ? changes : changes + 1));
    return spec;
}

/* What others may go by. Labels and the like of somebody else stay as they are.
 */
static void
set_metadata(const struct wp_election *e, json_t *metadata, bool empty)
{
    json_t *labels = wp_json_object_at(metadata, "labels");

    if (e->serves && e->leads && !empty) {
        wp_json_set_text(labels, WP_ELECTION_SERVING, "true");
    } else {
        (void)json_object_del(labels, WP_ELECTION_SERVING);
    }
    if (e->config.scope != NULL) {
        wp_json_set_text(wp_json_object_at(metadata, "annotations"),
                         WP_ELECTION_SCOPE, e->config.scope);
    }
}

static json_t *
body_of(struct wp_election *e, bool empty)
{
    json_t *body =
        e->lease != NULL ? wp_json_deep_copy(e->lease) : json_object();
    json_t *metadata;

    wp_json_set(body, "spec", spec_of(e, empty));
    metadata = wp_json_object_at(body, "metadata");
    set_metadata(e, metadata, empty);
    if (e->lease != NULL) {
        return body;
    }
    wp_json_set_text(metadata, "name", e->config.name);
    wp_json_set_text(metadata, "namespace", e->config.ns);
    wp_json_set_text(body, "apiVersion",
                     wp_kind_info(WP_KIND_LEASE)->api_version);
    wp_json_set_text(body, "kind", wp_kind_info(WP_KIND_LEASE)->kind);
    return body;
}

/* --- One thing at a time --- */

static void on_done(void *ctx, const struct wp_api_result *result);

static void
begin(struct wp_election *e, enum op_kind kind)
{
    const struct wp_api_target target = {
        .kind = WP_KIND_LEASE,
        .ns = e->config.ns,
        .name = kind == OP_CREATE ? NULL : e->config.name,
        .priority = WP_HTTP_CLAIM,
    };
    struct op *op = calloc(1, sizeof *op);

    WP_ASSERT(op != NULL && e->op == NULL);
    op->election = e;
    op->kind = kind;
    op->sent_ns = now_of(e);
    e->op = op;
    /* What was lost on the way must leave time to try again. */
    e->op_until_ns = op->sent_ns + e->config.renew_ns;
    switch (kind) {
    case OP_READ:
        wp_api_get(e->config.api, &target, on_done, op);
        break;
    case OP_CREATE:
        wp_api_post(e->config.api, &target, body_of(e, false), on_done, op);
        break;
    case OP_TAKE:
    case OP_EMPTY:
        wp_api_put(e->config.api, &target, body_of(e, kind == OP_EMPTY),
                   on_done, op);
        break;
    }
}

static void
finish_release(struct wp_election *e)
{
    void (*released)(void *ctx) = e->released;
    void *ctx = e->released_ctx;

    e->stopped = true;
    if (e->op != NULL) {
        e->op->election = NULL;
        e->op = NULL;
    }
    (void)event_del(e->timer);
    if (released != NULL) {
        released(ctx); /* May free e. */
    }
}

/* What the object, read just now or written by us, asks for. False when the
 * election has ended, and may be freed. */
static bool
decide(struct wp_election *e)
{
    int64_t again_ns = now_of(e) + jittered(e, e->config.renew_ns / 2);

    if (e->releasing) {
        if (e->seen && is_ours(e) && e->lease != NULL) {
            begin(e, OP_EMPTY);
            return true;
        }
        finish_release(e);
        return false;
    }
    if (e->leads && !is_ours(e)) {
        lose(e, "another one has taken the lease");
    }
    if (is_free(e)) {
        begin(e, e->lease != NULL ? OP_TAKE : OP_CREATE);
    } else {
        /* At the end of its time it is read once more before it is taken. */
        e->next_ns = again_ns < e->free_ns ? again_ns : e->free_ns;
    }
    return true;
}

/* False as in decide. */
static bool
act(struct wp_election *e)
{
    if (e->lease == NULL || (!is_ours(e) && !e->releasing)) {
        begin(e, OP_READ);
        return true;
    }
    return decide(e);
}

static void
arm(struct wp_election *e)
{
    int64_t due_ns = e->op != NULL ? e->op_until_ns : e->next_ns;
    struct timeval tv;

    if (e->stopped) {
        return;
    }
    if (e->leads && e->valid_until_ns < due_ns) {
        due_ns = e->valid_until_ns;
    }
    if (e->releasing && e->release_until_ns < due_ns) {
        due_ns = e->release_until_ns;
    }
    tv = wp_timeval(due_ns - now_of(e));
    WP_ASSERT(event_add(e->timer, &tv) == 0);
}

/* --- Answers --- */

static void
complain(struct wp_election *e, const struct wp_api_result *result)
{
    if (result->status == WP_PERMISSION_DENIED) {
        e->refused = true;
    }
    if (e->complained != result->status) {
        e->complained = result->status;
        wp_log_warn("the leader's lease: the API server refuses, or does not "
                    "answer",
                    wp_kv_str("lease", e->config.name),
                    wp_kv_str("status", wp_status_name(result->status)),
                    wp_kv_str("message",
                              result->message != NULL ? result->message : ""));
    }
}

static bool
on_failed(struct wp_election *e, const struct op *op,
          const struct wp_api_result *result)
{
    forget_lease(e); /* Whatever comes next, it is read first. */
    e->next_ns = now_of(e);
    if (result->status == WP_NOT_FOUND) {
        lose(e, "the lease was deleted");
        /* One that others held is made anew when its time is over: its holder
         * may not have noticed yet. */
        return op->kind != OP_READ || decide(e);
    }
    if (result->status == WP_ABORTED || result->status == WP_ALREADY_EXISTS) {
        return true;
    }
    complain(e, result);
    e->next_ns += jittered(e, e->config.renew_ns / 4);
    return true;
}

static bool
on_answer(struct wp_election *e, const struct op *op,
          const struct wp_api_result *result)
{
    if (result->status != WP_OK || !json_is_object(result->object)) {
        return on_failed(e, op, result);
    }
    note_lease(e, result->object);
    /* Whether a free one may be taken is not known before it was. */
    if (op->kind != OP_READ || !is_free(e)) {
        e->refused = false;
    }
    switch (op->kind) {
    case OP_READ:
        return decide(e);
    case OP_CREATE:
    case OP_TAKE:
        if (!is_ours(e)) {
            return decide(e); /* An admission webhook's idea. */
        }
        hold(e, op->sent_ns);
        return true;
    case OP_EMPTY:
    default:
        return decide(e);
    }
}

static void
on_done(void *ctx, const struct wp_api_result *result)
{
    struct op *op = ctx;
    struct wp_election *e = op->election;

    if (e != NULL) {
        e->op = NULL;
        if (result->status == WP_CANCELLED) {
            e->stopped = true; /* The client is going. */
            (void)event_del(e->timer);
        } else if (on_answer(e, op, result)) {
            arm(e);
        }
    }
    free(op);
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_election *e = ctx;
    int64_t now_ns = now_of(e);

    (void)fd;
    (void)what;
    if (e->leads && now_ns >= e->valid_until_ns) {
        lose(e, "it could not be renewed in time");
    }
    if (e->releasing && now_ns >= e->release_until_ns) {
        finish_release(e);
        return;
    }
    if (e->op != NULL && now_ns >= e->op_until_ns) {
        e->op->election = NULL;
        e->op = NULL;
        forget_lease(e);
        e->next_ns = now_ns;
    }
    if (e->op == NULL && now_ns >= e->next_ns && !act(e)) {
        return;
    }
    arm(e);
}

/* --- Outside --- */

struct wp_election *
wp_election_start(const struct wp_election_config *config)
{
    struct wp_election *e = calloc(1, sizeof *e);

    if (e == NULL) {
        return NULL;
    }
    e->config = *config;
    if (e->config.duration_ns == 0) {
        e->config.duration_ns = DURATION_NS;
    }
    if (e->config.renew_ns == 0) {
        e->config.renew_ns = RENEW_NS;
    }
    if (e->config.deadline_ns == 0) {
        e->config.deadline_ns = DEADLINE_NS;
    }
    WP_ASSERT(e->config.renew_ns < e->config.deadline_ns &&
              e->config.deadline_ns < e->config.duration_ns);
    WP_ASSERT(config->identity[0] != '\0' &&
              strlen(config->identity) < sizeof e->holder);
    wp_rng_init(&e->rng, config->seed);
    e->timer = evtimer_new(config->base, on_timer, e);
    if (e->timer == NULL) {
        free(e);
        return NULL;
    }
    e->next_ns = now_of(e);
    arm(e);
    return e;
}

bool
wp_election_leads(const struct wp_election *election)
{
    return wp_election_valid_until_ns(election) > now_of(election);
}

int64_t
wp_election_valid_until_ns(const struct wp_election *election)
{
    return election->leads ? election->valid_until_ns : 0;
}

bool
wp_election_refused(const struct wp_election *election)
{
    return election->refused;
}

void
wp_election_serving(struct wp_election *e, bool serving)
{
    e->serves = serving;
}

void
wp_election_look(struct wp_election *election)
{
    if (!election->stopped) {
        arm(election);
    }
}

void
wp_election_release(struct wp_election *election, void (*released)(void *ctx),
                    void *ctx)
{
    WP_ASSERT(!election->releasing);
    election->released = released;
    election->released_ctx = ctx;
    election->releasing = true;
    election->release_until_ns = now_of(election);
    if (!election->stopped) {
        election->release_until_ns += RELEASE_NS;
    }
    election->stopped = false; /* Its timer has to answer. */
    lose(election, "it was given up");
    if (election->op == NULL) {
        election->next_ns = now_of(election);
    }
    arm(election);
}

void
wp_election_stop(struct wp_election *election)
{
    if (election == NULL) {
        return;
    }
    if (election->op != NULL) {
        election->op->election = NULL;
    }
    forget_lease(election);
    event_free(election->timer);
    free(election);
}
