/* proto/loop/loop.h - a thread that owns a libevent loop.
 *
 * The event base takes no locks, so nothing but its own thread may touch it or
 * anything registered with it. The only way in from other threads is
 * wp_loop_post: bounded, never allocating, at most one eventfd write a wake-up.
 * An idle loop sleeps: it has no timer of its own. */
#ifndef WP_PROTO_LOOP_LOOP_H
#define WP_PROTO_LOOP_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/status.h"

struct event_base;
struct wp_loop; /* Opaque. */

/* name: at most 15 characters, the thread's name. messages_max: posts that may
 * wait; rounded up to a power of two. NULL and err when memory or descriptors
 * lack. */
struct wp_loop *wp_loop_create(const char *name, uint32_t messages_max,
                               struct wp_err *err);
/* Starts the thread, with every signal blocked. Once. */
enum wp_status wp_loop_start(struct wp_loop *loop, struct wp_err *err);
/* Runs what was posted before, ends the loop and joins its thread. Not from the
 * loop thread. Harmless when not started. */
void wp_loop_stop(struct wp_loop *loop);
/* The same for a loop that ends itself, by event_base_loopbreak on its thread:
 * waits for that. It must have been started. */
void wp_loop_join(struct wp_loop *loop);
/* After stop, and after everything registered with the base was freed. NULL is
 * fine. */
void wp_loop_destroy(struct wp_loop *loop);

/* Has run(ctx, a, b) called on the loop thread. False when the channel is full:
 * the caller keeps the work and decides. What is posted to a loop that has been
 * stopped is never run: stop the posting threads first. Any thread. */
WP_MUST_CHECK bool wp_loop_post(struct wp_loop *loop,
                                void (*run)(void *ctx, uint64_t a, uint64_t b),
                                void *ctx, uint64_t a, uint64_t b);
/* Runs run(ctx) on the loop thread and waits for it. Not from the loop
 * thread; for start-up, shutdown and rare questions. Before start and after
 * stop it is run here: nobody else touches the base then. */
void wp_loop_call(struct wp_loop *loop, void (*run)(void *ctx), void *ctx);

/* A base that takes no locks, for a thread of another kind. NULL when memory or
 * descriptors lack. */
struct event_base *wp_loop_base_create(void);
/* After everything registered with the base was freed; NULL is fine. What a
 * freed bufferevent had deferred is run first, without calling its owner: each
 * such callback holds the bufferevent, and event_base_free drops callbacks. */
void wp_loop_base_destroy(struct event_base *base);
/* Loop thread; or any one thread before start and after stop. */
struct event_base *wp_loop_base(struct wp_loop *loop);
/* Aborts unless called where wp_loop_base may be. */
void wp_loop_assert_role(const struct wp_loop *loop);

#endif
