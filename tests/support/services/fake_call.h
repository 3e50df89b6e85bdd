/* tests/support/services/fake_call.h - a transport without a network, for services.
 *
 * One call at a time per object. It keeps the transport's half of
 * allocator/services/service.h and aborts when a service breaks its own: finishing twice,
 * sending or reserving after the end, answering OK without a message. The
 * request is gone when start returns, as a transport's buffer would be.
 *
 * finish and send may come from any thread; cancel, writable, receive and end
 * are for the thread that started the call. */
#ifndef WP_TESTS_SUPPORT_SERVICES_FAKE_CALL_H
#define WP_TESTS_SUPPORT_SERVICES_FAKE_CALL_H

#include <pthread.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/services/service.h"

struct wp_fake_call {
    struct wp_call call; /* Set who and deadline_ns before start. */

    /* Set by the test. */
    bool no_memory;   /* reserve answers NULL. */
    bool block_sends; /* send answers false. */
    /* Told of each message that send took, on its thread; or NULL. */
    void (*sent)(struct wp_fake_call *fake);
    void *ctx; /* The test's. */

    /* What the service did; read it when finished, or with the lock. */
    bool finished;
    enum wp_status status;
    char message[256];
    int64_t retry_after_ns;
    uint8_t *reply; /* Owned; of finish, or of the last send. */
    size_t reply_len;
    uint32_t reserves; /* Asked for, NULL included. */
    uint32_t sends;    /* Taken. */

    /* Private. */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool streaming;
    bool cancel_told;
    uint8_t *reserved; /* Owned. */
    size_t reserved_len;
    alignas(max_align_t) char arena[WP_CALL_ARENA_SIZE];
};

/* An anonymous caller with a deadline far away. */
void wp_fake_call_init(struct wp_fake_call *fake);
/* The call must have finished, or never have started. */
void wp_fake_call_fini(struct wp_fake_call *fake);

/* Starts the method whose path ends with "/name"; aborts when there is none. */
void wp_fake_call_start(struct wp_fake_call *fake,
                        const struct wp_service *service, const char *name,
                        const uint8_t *request, size_t len);
/* A stream in both directions: another request has come; the client sends no
 * more. Nothing when the call has finished. */
void wp_fake_call_receive(struct wp_fake_call *fake, const uint8_t *request,
                          size_t len);
void wp_fake_call_end(struct wp_fake_call *fake);
/* The client has gone: tells the service, unless the call has finished. */
void wp_fake_call_cancel(struct wp_fake_call *fake);
/* Lets sends through again, and tells the service so. */
void wp_fake_call_unblock(struct wp_fake_call *fake);
bool wp_fake_call_finished(struct wp_fake_call *fake);
/* Waits for the end; false when it has not come within a minute. */
bool wp_fake_call_wait(struct wp_fake_call *fake);

#endif
