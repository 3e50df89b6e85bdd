/* proto/loop/thread.h - threads beside main. */
#ifndef WP_PROTO_LOOP_THREAD_H
#define WP_PROTO_LOOP_THREAD_H

#include <pthread.h>

#include "pool/base/compiler.h"

/* Starts a thread that gets no signal: those are main's, which waits for them.
 * 0, or the errno of pthread_create. Any thread. */
WP_MUST_CHECK int wp_thread_start(pthread_t *thread, void *(*run)(void *ctx),
                                  void *ctx);

#endif
