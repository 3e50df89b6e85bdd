#include <stdlib.h>
#include <string.h>

#include "k8s/backend/backend_impl.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

enum {
    RECORDS_AGAIN_US = 10000,
    RECORDS_SAID = 500, /* So often it was asked between two words of that. */
};

/* --- Counting --- */

/* An order that is not begun will not be. */
static void
outdate(void *ctx, struct wp_sandbox_ref *entry)
{
    if (entry->phase == WP_SANDBOX_CREATING) {
        entry->outdated = true;
        wp_backend_wake(ctx, entry->ns, entry->name);
    }
}

/* The core knows of all there was when the message left, and what it had
 * ordered before has come here. */
static void
end_count(struct wp_cluster_backend *backend,
          const struct wp_backend_message *message)
{
    if (backend->counting && message->count_nr == backend->count_nr) {
        backend->counting = false;
        wp_sandbox_refs_walk(backend->refs, outdate, backend);
    }
}

static void
take_counted(struct wp_cluster_message *from)
{
    struct wp_backend_message *counted =
        WP_CONTAINER_OF(from, struct wp_backend_message, base);

    end_count(counted->backend, counted);
    free(counted);
}

/* On the control thread, after all that was asked. */
static void
pass_back(struct wp_cluster_message *from)
{
    struct wp_backend_message *message =
        WP_CONTAINER_OF(from, struct wp_backend_message, base);

    message->base.run = take_counted;
    wp_cluster_channel_to_cluster(message->backend->channel, &message->base);
}

static bool
ask_if_unknown(void *ctx, const struct wp_object *sandbox)
{
    struct wp_cluster_backend *backend = ctx;

    if (wp_backend_is_pooled(backend, sandbox) && !sandbox->deleting &&
        wp_sandbox_refs_find(backend->refs, sandbox->ns, sandbox->name) ==
            NULL) {
        wp_backend_ask(backend, sandbox);
    }
    return true;
}

static void
begin_count(struct wp_cluster_backend *backend,
            struct wp_backend_message *message)
{
    backend->counting = true;
    message->count_nr = ++backend->count_nr;
    wp_cluster_channel_to_control(backend->channel, &message->base);
}

/* While this replica leads. */
void
wp_backend_count(struct wp_cluster_backend *backend)
{
    struct wp_backend_message *message = wp_backend_message(backend, pass_back);

    WP_ASSERT(message != NULL);
    wp_store_walk(backend->parts->stores[WP_KIND_SANDBOX], ask_if_unknown,
                  backend);
    begin_count(backend, message);
}

void
wp_cluster_backend_doubt(struct wp_cluster_backend *backend, bool doubtful)
{
    bool over = backend->doubtful && !doubtful;

    backend->doubtful = doubtful;
    if (over && backend->parts->active) {
        wp_backend_count(backend);
    }
}

bool
wp_backend_makes(const struct wp_cluster_backend *backend)
{
    return backend->parts->active && !backend->doubtful && !backend->counting;
}

bool
wp_cluster_backend_may_send(const struct wp_cluster_backend *backend,
                            const char *method, const char *path,
                            enum wp_http_priority priority)
{
    static const char sandboxes[] = "/sandboxes";
    size_t len = strlen(path);
    bool makes = priority >= WP_HTTP_REFILL && strcmp(method, "POST") == 0 &&
                 len >= sizeof sandboxes - 1 &&
                 strcmp(path + len - (sizeof sandboxes - 1), sandboxes) == 0;

    return !makes || wp_backend_makes(backend);
}

/* --- Leading --- */

static void
take_swept(struct wp_cluster_message *from)
{
    struct wp_backend_message *swept =
        WP_CONTAINER_OF(from, struct wp_backend_message, base);
    struct wp_cluster_backend *backend = swept->backend;

    if (swept->epoch == backend->epoch) {
        end_count(backend, swept);
        backend->ready(backend->ready_ctx);
    }
    free(swept);
}

static bool
ask_of_each(void *ctx, const struct wp_object *sandbox)
{
    struct wp_cluster_backend *backend = ctx;
    bool pooled = wp_backend_is_pooled(backend, sandbox);

    if ((pooled && !sandbox->deleting) ||
        (!pooled &&
         (wp_object_annotation(sandbox, WP_ANNOTATION_UID) != NULL ||
          wp_object_annotation(sandbox, WP_ANNOTATION_LEASE) != NULL ||
          wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_CLAIM)))) {
        wp_backend_ask(backend, sandbox);
    }
    return true;
}

/* On the control thread, after all that was asked. */
static void
sweep(struct wp_cluster_message *from)
{
    struct wp_backend_message *message =
        WP_CONTAINER_OF(from, struct wp_backend_message, base);

    wp_pools_lose_unseen(message->backend->parts->core.pools);
    message->base.run = take_swept;
    wp_cluster_channel_to_cluster(message->backend->channel, &message->base);
}

void
wp_backend_drop_sweep(struct wp_cluster_backend *backend)
{
    wp_fresh_list_cancel(backend->fresh);
    (void)event_del(backend->records);
    if (backend->sweeping != NULL) {
        wp_backend_message_drop(backend->sweeping);
        backend->sweeping = NULL;
    }
}

static void
look_at_entry(void *ctx, struct wp_sandbox_ref *entry)
{
    wp_backend_recheck(ctx, entry);
    wp_backend_wake(ctx, entry->ns, entry->name);
}

/* The core is told of each sandbox, and then that those were all. */
static void
count_all(struct wp_cluster_backend *backend)
{
    struct wp_backend_message *message =
        WP_CONTAINER_OF(backend->sweeping, struct wp_backend_message, base);

    backend->sweeping = NULL;
    wp_work_pause(backend->queue, false);
    wp_sandbox_refs_walk(backend->refs, look_at_entry, backend);
    wp_store_walk(backend->parts->stores[WP_KIND_SANDBOX], ask_of_each,
                  backend);
    begin_count(backend, message);
}

static void
take_records(struct wp_cluster_message *from)
{
    struct wp_backend_message *records =
        WP_CONTAINER_OF(from, struct wp_backend_message, base);
    struct wp_cluster_backend *backend = records->backend;

    if (records->epoch == backend->epoch && records->has_records) {
        count_all(backend);
    } else if (records->epoch == backend->epoch) {
        const struct timeval again = {.tv_usec = RECORDS_AGAIN_US};

        if (++backend->records_asked % RECORDS_SAID == 0) {
            wp_log_warn("the lease store has not told of all pools: this "
                        "replica does not serve as the leader yet");
        }
        (void)event_add(backend->records, &again);
    }
    free(records);
}

/* On the control thread. */
static void
see_records(struct wp_cluster_message *from)
{
    struct wp_backend_message *records =
        WP_CONTAINER_OF(from, struct wp_backend_message, base);
    const struct wp_cluster_core *core = &records->backend->parts->core;

    records->has_records =
        core->has_records == NULL || core->has_records(core->ctx);
    records->base.run = take_records;
    wp_cluster_channel_to_cluster(records->backend->channel, &records->base);
}

/* A sandbox that the core takes for unknown is a new one, or nobody's; a record
 * that comes after that is taken for one of a sandbox that is gone. */
static void
await_records(struct wp_cluster_backend *backend)
{
    struct wp_backend_message *records =
        wp_backend_message(backend, see_records);

    WP_ASSERT(records != NULL);
    records->epoch = backend->epoch;
    wp_cluster_channel_to_control(backend->channel, &records->base);
}

void
wp_backend_on_records(int fd, short what, void *backend)
{
    (void)fd;
    (void)what;
    await_records(backend);
}

/* What the leader before this one has made is in the store by now. */
static void
on_listed(void *backend)
{
    await_records(backend);
}

void
wp_cluster_backend_activate(struct wp_cluster_backend *backend,
                            void (*ready)(void *ctx), void *ctx)
{
    struct wp_backend_message *message = wp_backend_message(backend, sweep);

    WP_ASSERT(message != NULL && backend->parts->active);
    backend->epoch++;
    backend->records_asked = 0;
    backend->ready = ready;
    backend->ready_ctx = ctx;
    backend->counting = true; /* Before anything is looked at. */
    wp_backend_open_binds(backend, true);
    message->epoch = backend->epoch;
    backend->sweeping = &message->base;
    /* What is known to be taken is not offered meanwhile. */
    wp_sandbox_refs_walk(backend->refs, look_at_entry, backend);
    wp_fresh_list_begin(backend->fresh, on_listed, backend);
}

void
wp_cluster_backend_deactivate(struct wp_cluster_backend *backend)
{
    backend->epoch++;
    backend->count_nr++; /* What is under way counts no more. */
    wp_backend_drop_sweep(backend);
    wp_backend_open_binds(backend, false);
    wp_work_pause(backend->queue, true);
}
