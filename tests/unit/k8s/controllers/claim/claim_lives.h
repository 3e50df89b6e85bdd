/* tests/unit/k8s/controllers/claim/claim_lives.h - what the lives of SandboxClaims
 * are made of, and how they are told (tests/support/k8s/story.h). */
#ifndef WP_TESTS_UNIT_K8S_CONTROLLERS_CLAIM_CLAIM_LIVES_H
#define WP_TESTS_UNIT_K8S_CONTROLLERS_CLAIM_CLAIM_LIVES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/names.h"
#include "tests/support/k8s/claim_rig.h"
#include "tests/support/k8s/story.h"

#define S WP_NS_PER_S
#define MS WP_NS_PER_MS

static struct wp_claim_rig rig;
static FILE *story;
static uint32_t told;

/* --- Telling --- */

static inline void
tell_calls(const char *what)
{
    (void)fprintf(story, "-- %s\n", what);
    told = wp_story_calls(story, rig.api, told);
}

static inline void
tell_series(const struct wp_claim_metrics *metrics)
{
    for (uint32_t i = 0; i < atomic_load(&metrics->creations_len); i++) {
        const struct wp_claim_creations *at = &metrics->creations[i];

        (void)fprintf(
            story, "created %s %s %s %s %s %s %d\n", at->ns, at->templ,
            at->pool, at->created_by, wp_claim_launch_text(at->launch),
            at->ready ? "ready" : "not_ready", (int)atomic_load(&at->count));
    }
    for (uint32_t i = 0; i < atomic_load(&metrics->latencies_len); i++) {
        const struct wp_claim_latencies *at = &metrics->latencies[i];

        (void)fprintf(story, "took %d %s %s %d ms:", (int)at->what, at->templ,
                      wp_claim_launch_text(at->launch),
                      (int)atomic_load(&at->sum_ms));
        for (size_t b = 0; b <= WP_CLAIM_LATENCY_BUCKETS; b++) {
            (void)fprintf(story, " %d", (int)atomic_load(&at->bucket[b]));
        }
        (void)fputc('\n', story);
    }
}

static inline void
tell_numbers(void)
{
    const struct wp_claim_metrics *metrics =
        wp_claim_controller_metrics(rig.controller);
    struct wp_pool_stats pool = wp_claim_rig_stats(&rig);

    tell_series(metrics);
    (void)fprintf(story, "queued %d conflicts %d lost %d writes",
                  (int)wp_counter_read(&metrics->queued),
                  (int)wp_counter_read(&metrics->conflicts),
                  (int)wp_counter_read(&metrics->lost));
    for (size_t i = 0; i < WP_ARRAY_LEN(metrics->writes); i++) {
        (void)fprintf(story, " %d", (int)wp_counter_read(&metrics->writes[i]));
    }
    (void)fprintf(story, "; %d looks; pool: %u ready, %u leased, %u waiting\n",
                  (int)wp_claim_rig_reconciles(&rig), pool.ready, pool.leased,
                  pool.waiting);
}

static inline void
tell_ready(const char *claim)
{
    (void)fprintf(story, "%s: %s %s \"%s\" of \"%s\"\n", claim,
                  wp_claim_rig_ready(&rig, claim, "status"),
                  wp_claim_rig_ready(&rig, claim, "reason"),
                  wp_claim_rig_ready(&rig, claim, "message"),
                  wp_claim_rig_sandbox(&rig, claim));
}

static inline void
end(void)
{
    tell_numbers();
    wp_claim_rig_fini(&rig);
}

/* All that is left, and the end of the life. */
static inline void
tell_end(void)
{
    static const enum wp_kind kinds[] = {WP_KIND_SANDBOX_CLAIM,
                                         WP_KIND_SANDBOX};

    tell_calls("at the end");
    for (size_t k = 0; k < WP_ARRAY_LEN(kinds); k++) {
        for (uint32_t i = 0; i < wp_recorder_objects(rig.api, kinds[k]); i++) {
            wp_story_json(story, wp_kind_info(kinds[k])->kind,
                          wp_recorder_object_at(rig.api, kinds[k], i));
        }
    }
    end();
}

/* --- What happens --- */

static inline void
begin(uint32_t target)
{
    told = 0;
    wp_claim_rig_init(&rig);
    wp_claim_rig_start(&rig, target);
}

/* The same without Events. */
static inline void
begin_silent(uint32_t target)
{
    told = 0;
    wp_claim_rig_init(&rig);
    rig.parts.config.claim_events = false;
    wp_claim_rig_start(&rig, target);
}

static inline void
pass(int64_t ns, int steps)
{
    for (int i = 0; i < steps; i++) {
        wp_claim_rig_advance(&rig, ns / steps);
    }
}

static inline void
plan(enum wp_verb verb, enum wp_kind kind, const char *sub,
     enum wp_status status, uint32_t times)
{
    wp_recorder_plan(
        rig.api, &(struct wp_recorder_fault){.verb = verb,
                                             .kind = kind,
                                             .subresource = sub,
                                             .status = status,
                                             .times = times,
                                             .message = "the server's words"});
}

static inline void
merge(enum wp_kind kind, const char *name, const char *patch)
{
    (void)wp_recorder_merge(rig.api, kind, "ns", name, patch);
    wp_claim_rig_settle(&rig);
}

/* v1alpha1: by its template. */
static inline void
claim_template(const char *name, const char *templ)
{
    char text[256];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\"},"
                   "\"spec\":{\"warmPoolRef\":{\"name\":\"shadow-pool-%s\"}}}",
                   name, templ);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM, text);
    wp_claim_rig_settle(&rig);
}

static inline void
put_pool(const char *name, const char *templ, const char *metadata)
{
    char text[512];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\"%s},"
                   "\"spec\":{\"replicas\":0,\"sandboxTemplateRef\":{\"name\":"
                   "\"%s\"}}}",
                   name, metadata, templ);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_WARM_POOL, text);
}

#define READY(status, reason, at)                                              \
    "{\"status\":{\"podIPs\":[\"10.1.1.1\"],\"conditions\":[{\"type\":"        \
    "\"Ready\",\"status\":\"" status "\",\"reason\":\"" reason                 \
    "\",\"message\":\"m\",\"lastTransitionTime\":\"" at "\"}]}}"

static inline void
put_sandbox(const char *name, const char *more, const char *kind,
            const char *owner, const char *uid)
{
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\",%s"
                   "\"ownerReferences\":[{\"apiVersion\":"
                   "\"extensions.agents.x-k8s.io/v1beta1\",\"kind\":\"%s\","
                   "\"name\":\"%s\",\"uid\":\"%s\",\"controller\":true}]},"
                   "\"spec\":{}}",
                   name, more, kind, owner, uid);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX, text);
}

static inline void
put_claim(const char *metadata)
{
    char text[512];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",%s},\"spec\":{"
                   "\"warmPoolRef\":{\"name\":\"p\"}}}",
                   metadata);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM, text);
    wp_claim_rig_settle(&rig);
}

#define GOING "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\","

#endif
