#include "tests/support/k8s/sandbox_journal.h"

#include <stddef.h>
#include <stdlib.h>

#include "k8s/api/api.h"
#include "k8s/watch/store.h"
#include "k8s/watch/work_queue.h"
#include "tests/support/base/journal.h"

static uint32_t calls_left; /* Until the one from which on it is heard. */

static bool with_bodies;

void
sandbox_journal_bodies(bool on)
{
    with_bodies = on;
}

void
sandbox_journal_from(uint32_t call)
{
    calls_left = call;
    journal_mute(call > 0);
}

void __real_wp_work_done(struct wp_work *work, enum wp_work_outcome outcome,
                         int64_t after_ns);
void __wrap_wp_work_done(struct wp_work *work, enum wp_work_outcome outcome,
                         int64_t after_ns);
void __real_wp_work_add(struct wp_work_queue *queue, const char *ns,
                        const char *name, bool first);
void __wrap_wp_work_add(struct wp_work_queue *queue, const char *ns,
                        const char *name, bool first);
void __real_wp_work_add_after(struct wp_work_queue *queue, const char *ns,
                              const char *name, int64_t delay_ns);
void __wrap_wp_work_add_after(struct wp_work_queue *queue, const char *ns,
                              const char *name, int64_t delay_ns);
void __real_wp_work_forget(struct wp_work_queue *queue, const char *ns,
                           const char *name);
void __wrap_wp_work_forget(struct wp_work_queue *queue, const char *ns,
                           const char *name);
void __real_wp_store_learn(struct wp_store *store, struct wp_object *object);
void __wrap_wp_store_learn(struct wp_store *store, struct wp_object *object);

void
__wrap_wp_work_done(struct wp_work *work, enum wp_work_outcome outcome,
                    int64_t after_ns)
{
    static const char *const outcomes[] = {"ok", "failed", "after"};

    journal("  done %s %lld", outcomes[outcome], (long long)after_ns);
    journal_line();
    __real_wp_work_done(work, outcome, after_ns);
}

void
__wrap_wp_work_add(struct wp_work_queue *queue, const char *ns,
                   const char *name, bool first)
{
    journal("  add %s/%s%s", ns, name, first ? " first" : "");
    journal_line();
    __real_wp_work_add(queue, ns, name, first);
}

void
__wrap_wp_work_add_after(struct wp_work_queue *queue, const char *ns,
                         const char *name, int64_t delay_ns)
{
    journal("  add %s/%s after %lld", ns, name, (long long)delay_ns);
    journal_line();
    __real_wp_work_add_after(queue, ns, name, delay_ns);
}

void
__wrap_wp_work_forget(struct wp_work_queue *queue, const char *ns,
                      const char *name)
{
    journal("  forget %s/%s", ns, name);
    journal_line();
    __real_wp_work_forget(queue, ns, name);
}

void
__wrap_wp_store_learn(struct wp_store *store, struct wp_object *object)
{
    journal("  learn %s %s", wp_kind_info(object->kind)->kind, object->name);
    journal_line();
    __real_wp_store_learn(store, object);
}

static void
called(const char *verb, const struct wp_api_target *target)
{
    if (calls_left > 0 && --calls_left == 0) {
        journal_mute(false);
    }
    journal("  %s %s%s%s %s priority %d", verb,
            wp_kind_info(target->kind)->kind,
            target->subresource != NULL ? "/" : "",
            target->subresource != NULL ? target->subresource : "",
            target->name != NULL ? target->name : "-", (int)target->priority);
    journal_line();
}

static void
brought(const json_t *body)
{
    char *text = with_bodies ? json_dumps(body, JSON_COMPACT) : NULL;

    if (text != NULL) {
        journal("    %s", text);
        journal_line();
    }
    free(text);
}

void __real_wp_api_get(struct wp_api *api, const struct wp_api_target *target,
                       wp_api_done *done, void *ctx);
void __wrap_wp_api_get(struct wp_api *api, const struct wp_api_target *target,
                       wp_api_done *done, void *ctx);
void __real_wp_api_post(struct wp_api *api, const struct wp_api_target *target,
                        json_t *body, wp_api_done *done, void *ctx);
void __wrap_wp_api_post(struct wp_api *api, const struct wp_api_target *target,
                        json_t *body, wp_api_done *done, void *ctx);
void __real_wp_api_patch(struct wp_api *api, const struct wp_api_target *target,
                         json_t *body, wp_api_done *done, void *ctx);
void __wrap_wp_api_patch(struct wp_api *api, const struct wp_api_target *target,
                         json_t *body, wp_api_done *done, void *ctx);
void __real_wp_api_delete(struct wp_api *api,
                          const struct wp_api_target *target,
                          const struct wp_api_delete *how, wp_api_done *done,
                          void *ctx);
void __wrap_wp_api_delete(struct wp_api *api,
                          const struct wp_api_target *target,
                          const struct wp_api_delete *how, wp_api_done *done,
                          void *ctx);

void
__wrap_wp_api_get(struct wp_api *api, const struct wp_api_target *target,
                  wp_api_done *done, void *ctx)
{
    called("GET", target);
    __real_wp_api_get(api, target, done, ctx);
}

void
__wrap_wp_api_post(struct wp_api *api, const struct wp_api_target *target,
                   json_t *body, wp_api_done *done, void *ctx)
{
    called("POST", target);
    brought(body);
    __real_wp_api_post(api, target, body, done, ctx);
}

void
__wrap_wp_api_patch(struct wp_api *api, const struct wp_api_target *target,
                    json_t *body, wp_api_done *done, void *ctx)
{
    called("PATCH", target);
    brought(body);
    __real_wp_api_patch(api, target, body, done, ctx);
}

void
__wrap_wp_api_delete(struct wp_api *api, const struct wp_api_target *target,
                     const struct wp_api_delete *how, wp_api_done *done,
                     void *ctx)
{
    called("DELETE", target);
    journal("    uid %s version %s foreground %d", how->uid,
            how->resource_version != NULL ? how->resource_version : "-",
            how->foreground);
    journal_line();
    __real_wp_api_delete(api, target, how, done, ctx);
}
