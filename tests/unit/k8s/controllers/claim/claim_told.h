/* tests/unit/k8s/controllers/claim/claim_told.h - the lives of SandboxClaims with
 * what leaves the room, and what is done with their queue: fakes before it write
 * a line into the story. Linked with wraps of them (CMakeLists.txt). */
#ifndef WP_TESTS_UNIT_K8S_CONTROLLERS_CLAIM_CLAIM_TOLD_H
#define WP_TESTS_UNIT_K8S_CONTROLLERS_CLAIM_CLAIM_TOLD_H

#include "k8s/controllers/claim/adopt.h"
#include "k8s/controllers/claim/reconcile.h"
#include "pool/trace/tracer.h"
#include "tests/unit/k8s/controllers/claim/claim_lives.h"

static char tracer[1];
static bool told_pauses; /* The rig's own are not told. */

/* --- What leaves the room --- */

#define TOLD(type, name, ...)                                                  \
    type __real_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__)

/* Whose queue; NULL: nobody's that is told of. */
static const char *
queue_name(const struct wp_work_queue *queue)
{
    const struct wp_claim_controller *self = rig.controller;

    return self != NULL && queue == self->queue ? "look" : "other";
}

TOLD(void, wp_work_add, struct wp_work_queue *queue, const char *ns,
     const char *name, bool ahead)
{
    (void)fprintf(story, "%s %s/%s%s\n", queue_name(queue), ns, name,
                  ahead ? " ahead" : "");
    __real_wp_work_add(queue, ns, name, ahead);
}

TOLD(void, wp_work_add_last, struct wp_work_queue *queue, const char *ns,
     const char *name)
{
    (void)fprintf(story, "%s %s/%s last\n", queue_name(queue), ns, name);
    __real_wp_work_add_last(queue, ns, name);
}

TOLD(void, wp_work_add_after, struct wp_work_queue *queue, const char *ns,
     const char *name, int64_t after_ns)
{
    (void)fprintf(story, "%s %s/%s after %lld\n", queue_name(queue), ns, name,
                  (long long)after_ns);
    __real_wp_work_add_after(queue, ns, name, after_ns);
}

TOLD(void, wp_work_done, struct wp_work *work, enum wp_work_outcome outcome,
     int64_t after_ns)
{
    static const char *const outcomes[] = {[WP_WORK_OK] = "ok",
                                           [WP_WORK_FAILED] = "failed",
                                           [WP_WORK_AFTER] = "after"};

    (void)fprintf(story, "done %s", outcomes[outcome]);
    (void)fprintf(story, outcome == WP_WORK_AFTER ? " %lld\n" : "\n",
                  (long long)after_ns);
    __real_wp_work_done(work, outcome, after_ns);
}

TOLD(void, wp_work_pause, struct wp_work_queue *queue, bool paused)
{
    if (told_pauses) {
        (void)fprintf(story, "pause %s %d\n", queue_name(queue), paused);
    }
    __real_wp_work_pause(queue, paused);
}

TOLD(void, wp_implicit_pools_pause, struct wp_implicit_pools *pools,
     bool paused)
{
    if (told_pauses) {
        (void)fprintf(story, "pause implicit %d\n", paused);
    }
    __real_wp_implicit_pools_pause(pools, paused);
}

TOLD(void, wp_implicit_pools_look, struct wp_implicit_pools *pools)
{
    (void)fprintf(story, "look at implicit pools\n");
    __real_wp_implicit_pools_look(pools);
}

TOLD(void, wp_implicit_pools_use, struct wp_implicit_pools *pools,
     const char *ns, const char *templ)
{
    (void)fprintf(story, "use %s/%s\n", ns, templ);
    __real_wp_implicit_pools_use(pools, ns, templ);
}

TOLD(void, wp_claim_aliases_activate, struct wp_claim_aliases *aliases)
{
    (void)fprintf(story, "aliases\n");
    __real_wp_claim_aliases_activate(aliases);
}

TOLD(void, wp_claim_aliases_deactivate, struct wp_claim_aliases *aliases)
{
    (void)fprintf(story, "no aliases\n");
    __real_wp_claim_aliases_deactivate(aliases);
}

TOLD(enum wp_status, wp_adoption_refresh, const struct wp_adoption *adoption,
     const struct wp_object *sandbox, json_t **patch, struct wp_err *err)
{
    enum wp_status status =
        __real_wp_adoption_refresh(adoption, sandbox, patch, err);

    (void)fprintf(story, "refresh %s: %s%s\n", sandbox->name,
                  wp_status_text(status), *patch != NULL ? ", differs" : "");
    return status;
}

TOLD(void, wp_histogram_record, struct wp_histogram *histogram, int64_t ns)
{
    const struct wp_claim_controller *self = rig.controller;

    for (int i = 0; self != NULL && i < 2; i++) {
        if (histogram == &self->metrics.startup[i]) {
            (void)fprintf(story, "took %s %lld\n",
                          wp_claim_launch_text((enum wp_claim_launch)i),
                          (long long)ns);
        }
    }
    __real_wp_histogram_record(histogram, ns);
}

static inline void
tell_span(const char *what, const struct wp_span *span, int64_t now_ns)
{
    (void)fprintf(story, "%s %s %d %s %s/%s claim %s sandbox %s at %lld\n",
                  what, span->name, (int)span->kind,
                  wp_status_text(span->status), span->pool_namespace,
                  span->pool, span->claim, span->sandbox, (long long)now_ns);
}

TOLD(void, wp_trace_begin, struct wp_trace *trace, struct wp_tracer *of,
     const struct wp_trace_context *client, int64_t now_ns)
{
    assert_ptr_equal(of, tracer);
    (void)fprintf(story, "trace %02x %02x %d at %lld\n", client->trace_id[0],
                  client->span_id[0], client->sampled, (long long)now_ns);
    trace->tracer = of;
}

TOLD(void, wp_trace_step, struct wp_trace *trace, struct wp_span *span,
     int64_t now_ns)
{
    assert_ptr_equal(trace->tracer, tracer);
    tell_span("step", span, now_ns);
}

TOLD(void, wp_trace_end, struct wp_trace *trace, struct wp_span *span,
     int64_t now_ns)
{
    assert_ptr_equal(trace->tracer, tracer);
    tell_span("trace ends:", span, now_ns);
    memset(trace, 0, sizeof *trace);
}

/* --- What happens --- */

/* Everything goes on but the API server's answers. */
static inline void
go_on(void)
{
    for (int i = 0; i < 10; i++) {
        wp_recorder_notify(rig.api);
        (void)wp_pools_run(rig.pools);
        assert_int_not_equal(event_base_loop(rig.parts.base, EVLOOP_NONBLOCK),
                             -1);
        for (uint32_t m = 0; m < rig.messages_len; m++) {
            rig.messages[m].run(rig.messages[m].arg, 0, 0);
        }
        rig.messages_len = 0;
    }
}

/* The oldest call is answered. */
static inline void
step(void)
{
    assert_true(wp_recorder_step(rig.api));
    go_on();
}

static inline void
put(const char *name, const char *spec)
{
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\"},"
                   "\"spec\":{\"warmPoolRef\":{\"name\":\"p\"}%s%s}}",
                   name, spec[0] != '\0' ? "," : "", spec);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM, text);
}

#define RED                                                                    \
    "\"additionalPodMetadata\":{\"labels\":{\"sandbox.users.io/"               \
    "team\":\"red\"}}"
#define BAD "\"additionalPodMetadata\":{\"labels\":{\"team\":\"red\"}}"
#define SPEC(more) "{\"spec\":{" more "}}"
#define ENDS(policy)                                                           \
    "\"lifecycle\":{\"shutdownTime\":\"2026-01-01T00:00:01Z\","                \
    "\"shutdownPolicy\":\"" policy "\"}"

#endif
