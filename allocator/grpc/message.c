/* Messages out of a stream's bytes: five bytes that say how long it is and
 * whether it is compressed, then the message. One that comes in one piece, as
 * all but the longest do, is used where it lies. */
#include "allocator/grpc/internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* Of a thread's messages that are not whole yet. */
    PARTIAL_BYTES_MAX = 32 << 20,
    PARTIAL_FIRST = 1024,
};

static bool
is_busy(const struct wp_rpc_call *call)
{
    return (atomic_load_explicit(&call->flags, memory_order_acquire) &
            WP_RPC_WRITING) != 0;
}

static bool
is_over(const struct wp_rpc_call *call)
{
    return call->broken != WP_OK ||
           (atomic_load_explicit(&call->flags, memory_order_acquire) &
            WP_RPC_FINISHED) != 0;
}

/* Long messages may have files and secrets in them. */
static void
wipe_and_free(uint8_t *bytes, size_t len)
{
    explicit_bzero(bytes, len);
    free(bytes);
}

static void
drop_partial(struct wp_rpc_call *call)
{
    call->thread->partial_bytes -= call->partial_cap;
    wipe_and_free(call->partial, call->partial_len);
    call->partial = NULL;
    call->partial_cap = 0;
    call->partial_len = 0;
}

static void
drop_stash(struct wp_rpc_call *call)
{
    call->thread->partial_bytes -= call->stash_len;
    free(call->stash);
    call->stash = NULL;
    call->stash_len = 0;
}

void
wp_rpc_message_drop(struct wp_rpc_call *call)
{
    if (WP_UNLIKELY(call->partial != NULL)) {
        drop_partial(call);
    }
    if (WP_UNLIKELY(call->stash != NULL)) {
        drop_stash(call);
    }
}

/* Room for `more` bytes of the message; grows with what has come, never with
 * what was announced. */
static bool
make_room(struct wp_rpc_call *call, uint32_t more)
{
    uint32_t need = call->partial_len + more;
    uint32_t cap = call->partial_cap;
    uint8_t *grown;

    if (need <= cap) {
        return true;
    }
    cap = cap < PARTIAL_FIRST ? PARTIAL_FIRST : cap;
    while (cap < need) {
        cap *= 2;
    }
    if (call->thread->partial_bytes + cap - call->partial_cap >
        PARTIAL_BYTES_MAX) {
        return false;
    }
    grown = malloc(cap);
    if (grown == NULL) {
        return false;
    }
    if (call->partial != NULL) {
        memcpy(grown, call->partial, call->partial_len);
        wipe_and_free(call->partial, call->partial_len);
    }
    call->thread->partial_bytes += cap - call->partial_cap;
    call->partial = grown;
    call->partial_cap = cap;
    return true;
}

/* The prefix is there. False: the call has ended. */
static bool
judge_prefix(struct wp_rpc_call *call)
{
    const uint8_t *p = call->prefix;
    uint32_t max = call->server->config.receive_bytes_max;

    call->message_len = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 |
                        (uint32_t)p[3] << 8 | p[4];
    if (p[0] != 0) {
        call->compressed = p[0] == 1;
        wp_rpc_call_break(
            call, call->compressed ? WP_UNIMPLEMENTED : WP_INVALID_ARGUMENT,
            call->compressed ? "compressed messages are not understood"
                             : "request: expected 0 or 1 before its length");
        return false;
    }
    if (call->message_len > max) {
        wp_rpc_call_break(call, WP_RESOURCE_EXHAUSTED,
                          "the request is too long (setting message_max)");
        return false;
    }
    return true;
}

/* Takes what belongs to the next message; runs it when it is whole. Returns how
 * many bytes that were. */
static size_t
take(struct wp_rpc_call *call, const uint8_t *bytes, size_t len)
{
    size_t used = 0;
    uint32_t missing;

    while (call->prefix_len < WP_RPC_PREFIX) {
        if (used == len) {
            return used;
        }
        call->prefix[call->prefix_len++] = bytes[used++];
        if (call->prefix_len == WP_RPC_PREFIX && !judge_prefix(call)) {
            return len;
        }
    }
    missing = call->message_len - call->partial_len;
    if (call->partial_len == 0 && len - used >= missing) {
        call->prefix_len = 0;
        wp_rpc_call_run(call, bytes + used, missing);
        return used + missing;
    }
    if (len - used < missing) {
        missing = (uint32_t)(len - used);
    }
    if (missing == 0) {
        return used; /* Only the prefix so far. */
    }
    if (!make_room(call, missing)) {
        wp_rpc_call_break(call, WP_RESOURCE_EXHAUSTED,
                          "too many requests that are not whole");
        return len;
    }
    memcpy(call->partial + call->partial_len, bytes + used, missing);
    call->partial_len += missing;
    used += missing;
    if (call->partial_len == call->message_len) {
        uint8_t *whole = call->partial;
        uint32_t cap = call->partial_cap;
        uint32_t whole_len = call->message_len;

        call->prefix_len = 0;
        call->partial = NULL;
        call->partial_cap = 0;
        call->partial_len = 0;
        wp_rpc_call_run(call, whole, whole_len);
        wipe_and_free(whole, whole_len);
        call->thread->partial_bytes -= cap;
    }
    return used;
}

static bool
stash(struct wp_rpc_call *call, const uint8_t *bytes, size_t len)
{
    uint8_t *grown;

    if (call->stash_len + len >
            (size_t)call->server->config.receive_bytes_max + WP_RPC_PREFIX ||
        call->thread->partial_bytes + len > PARTIAL_BYTES_MAX) {
        return false;
    }
    grown = realloc(call->stash, call->stash_len + len);
    if (grown == NULL) {
        return false;
    }
    memcpy(grown + call->stash_len, bytes, len);
    call->stash = grown;
    call->stash_len += len;
    call->thread->partial_bytes += len;
    return true;
}

void
wp_rpc_message_data(struct wp_h2_stream *stream, const uint8_t *bytes,
                    size_t len)
{
    struct wp_rpc_call *call =
        WP_CONTAINER_OF(stream, struct wp_rpc_call, stream);
    enum wp_rpc_kind kind = wp_rpc_call_method(call)->kind;
    bool lockstep = kind == WP_RPC_LOCKSTEP;

    while (len > 0 && !is_over(call)) {
        size_t used;

        if (lockstep && (is_busy(call) || call->stash != NULL)) {
            if (!stash(call, bytes, len)) {
                wp_rpc_call_fail(call, WP_RESOURCE_EXHAUSTED,
                                 "too many requests before the answer");
            }
            return;
        }
        if (!lockstep && kind != WP_RPC_BIDIRECTIONAL && call->started) {
            return; /* It has its one message. */
        }
        used = take(call, bytes, len);
        bytes += used;
        len -= used;
    }
}

void
wp_rpc_message_ended(struct wp_h2_stream *stream)
{
    struct wp_rpc_call *call =
        WP_CONTAINER_OF(stream, struct wp_rpc_call, stream);

    call->ended = true;
    if (is_over(call)) {
        return;
    }
    if (wp_rpc_call_method(call)->kind == WP_RPC_LOCKSTEP) {
        if (!is_busy(call)) {
            wp_rpc_call_fail(call, WP_OK, NULL);
        }
    } else if (!call->started) {
        wp_rpc_call_fail(call, WP_INVALID_ARGUMENT,
                         "request: a message was expected");
    } else if (wp_rpc_call_method(call)->kind == WP_RPC_BIDIRECTIONAL) {
        if (call->prefix_len > 0) { /* Whoever ends so has more to say. */
            wp_rpc_call_break(call, WP_INVALID_ARGUMENT,
                              "request: ends in the middle of a message");
            return;
        }
        call->base.ended(&call->base);
    }
}

void
wp_rpc_message_go_on(struct wp_rpc_call *call)
{
    uint8_t *bytes = call->stash;
    size_t len = call->stash_len;
    size_t at = 0;

    call->stash = NULL;
    call->stash_len = 0;
    while (at < len && !is_busy(call) && !is_over(call)) {
        at += take(call, bytes + at, len - at);
    }
    call->thread->partial_bytes -= len;
    if (at < len && !is_over(call) && !stash(call, bytes + at, len - at)) {
        wp_rpc_call_fail(call, WP_RESOURCE_EXHAUSTED, "memory");
    }
    free(bytes);
    if (call->ended && call->stash == NULL && !is_busy(call) &&
        !is_over(call)) {
        wp_rpc_call_fail(call, WP_OK, NULL);
    }
}
