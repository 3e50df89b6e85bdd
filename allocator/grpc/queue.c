/* Where call objects and their arenas are kept: fixed numbers of both, so that
 * a call costs no allocation of ours and clients cannot make us grow. */
#include "allocator/grpc/internal.h"

#include <errno.h>
#include <stdlib.h>

#include <sys/mman.h>

#include "pool/base/assert.h"

enum {
    /* An arena that was used beyond this gives its pages back. */
    ARENA_KEEP = 16384,
};

void
wp_rpc_queue_put_free(struct wp_rpc_call *call)
{
    struct wp_rpc_queue *queue = call->queue;

    call->next_free = queue->free_calls;
    queue->free_calls = call;
}

void
wp_rpc_queue_arm(struct wp_rpc_queue *queue, uint32_t method)
{
    struct wp_rpc_server *server = queue->server;
    struct wp_rpc_call *call = queue->free_calls;
    grpc_call_error error;

    if (call == NULL) {
        queue->unarmed[method]++;
        queue->n_unarmed++;
        return;
    }
    queue->free_calls = call->next_free;
    call->method = method;
    call->handle = NULL;
    call->request = NULL;
    error = grpc_server_request_registered_call(
        server->grpc, server->methods[method].handle, &call->handle,
        &call->deadline, &call->metadata, &call->request, queue->cq, queue->cq,
        &call->on_new);
    if (WP_UNLIKELY(error != GRPC_CALL_OK)) {
        /* The queue is being emptied for good. */
        WP_ASSERT(error == GRPC_CALL_ERROR_COMPLETION_QUEUE_SHUTDOWN);
        wp_rpc_queue_put_free(call);
    }
}

/* A method that had to go without an armed request gets one now. */
static void
arm_missing(struct wp_rpc_queue *queue)
{
    uint32_t n_methods = queue->server->n_methods;

    for (uint32_t i = 0; i < n_methods && queue->free_calls != NULL; i++) {
        if (queue->unarmed[i] > 0) {
            queue->unarmed[i]--;
            queue->n_unarmed--;
            wp_rpc_queue_arm(queue, i);
        }
    }
}

static void
give_arena_back(struct wp_rpc_call *call)
{
    struct wp_rpc_queue *queue = call->queue;

    if (call->arena == WP_RPC_NO_ARENA) {
        return;
    }
    if (call->base.arena.used > ARENA_KEEP) {
        (void)madvise(call->base.arena.base, WP_CALL_ARENA_SIZE, MADV_DONTNEED);
    }
    queue->free_arenas[queue->n_free_arenas++] = call->arena;
    call->arena = WP_RPC_NO_ARENA;
}

void
wp_rpc_queue_release(struct wp_rpc_call *call)
{
    struct wp_rpc_queue *queue = call->queue;

    if (call->request != NULL) {
        grpc_byte_buffer_destroy(call->request);
        call->request = NULL;
    }
    wp_rpc_reply_drop(call);
    grpc_metadata_array_destroy(&call->metadata);
    grpc_metadata_array_init(&call->metadata);
    grpc_call_unref(call->handle);
    call->handle = NULL;
    give_arena_back(call);
    WP_RPC_COUNT(&queue->in_flight, (uint32_t)-1);
    wp_rpc_queue_put_free(call);
    if (WP_UNLIKELY(queue->n_unarmed > 0)) {
        arm_missing(queue);
    }
}

void
wp_rpc_queue_open(struct wp_rpc_call *call)
{
    struct wp_rpc_queue *queue = call->queue;

    call->arena = WP_RPC_NO_ARENA;
    call->base.arena.used = 0;
    if (WP_LIKELY(queue->n_free_arenas > 0)) {
        call->arena = queue->free_arenas[--queue->n_free_arenas];
        wp_arena_init(&call->base.arena,
                      queue->arenas + (size_t)call->arena * WP_CALL_ARENA_SIZE,
                      WP_CALL_ARENA_SIZE);
    }
    WP_RPC_COUNT(&queue->in_flight, 1);
}

/* --- set-up --- */

static enum wp_status
init_arenas(struct wp_rpc_queue *queue, uint32_t n, struct wp_err *err)
{
    void *arenas =
        mmap(NULL, (size_t)n * WP_CALL_ARENA_SIZE, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (arenas == MAP_FAILED) {
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno,
                          "memory for %u calls (setting calls_max)", n);
    }
    queue->arenas = arenas;
    queue->n_arenas = n;
    queue->free_arenas = calloc(n, sizeof(queue->free_arenas[0]));
    if (queue->free_arenas == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "memory for %u calls (setting calls_max)", n);
    }
    for (uint32_t i = 0; i < n; i++) {
        queue->free_arenas[i] = n - 1 - i;
    }
    queue->n_free_arenas = n;
    return WP_OK;
}

enum wp_status
wp_rpc_queue_init_calls(struct wp_rpc_queue *queue, uint32_t calls_max,
                        struct wp_err *err)
{
    uint32_t n = queue->server->n_methods * WP_RPC_ARMED_PER_METHOD +
                 calls_max + WP_RPC_SPARE_CALLS;

    queue->calls = calloc(n, sizeof(queue->calls[0]));
    if (queue->calls == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "memory for %u calls (setting calls_max)", n);
    }
    queue->n_calls = n;
    for (uint32_t i = n; i > 0; i--) {
        wp_rpc_call_init(queue, &queue->calls[i - 1]);
        wp_rpc_queue_put_free(&queue->calls[i - 1]);
    }
    return init_arenas(queue, calls_max, err);
}

void
wp_rpc_queue_fini_calls(struct wp_rpc_queue *queue)
{
    for (uint32_t i = 0; i < queue->n_calls; i++) {
        grpc_metadata_array_destroy(&queue->calls[i].metadata);
    }
    free(queue->calls);
    free(queue->free_arenas);
    if (queue->arenas != NULL) {
        (void)munmap(queue->arenas,
                     (size_t)queue->n_arenas * WP_CALL_ARENA_SIZE);
    }
}

void
wp_rpc_queue_arm_all(struct wp_rpc_queue *queue)
{
    for (uint32_t m = 0; m < queue->server->n_methods; m++) {
        for (uint32_t i = 0; i < WP_RPC_ARMED_PER_METHOD; i++) {
            wp_rpc_queue_arm(queue, m);
        }
    }
    for (uint32_t i = 0; i < WP_RPC_STRAYS; i++) {
        queue->strays[i].queue = queue;
        wp_rpc_stray_arm(&queue->strays[i]);
    }
}
