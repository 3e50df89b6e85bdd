#include "tests/support/services/fake_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"

enum {
    WAIT_MAX_S = 60,
};

static struct wp_fake_call *
from_call(struct wp_call *call)
{
    return WP_CONTAINER_OF(call, struct wp_fake_call, call);
}

static uint8_t *
fake_reserve(struct wp_call *call, size_t len)
{
    struct wp_fake_call *fake = from_call(call);
    uint8_t *buf = NULL;

    (void)pthread_mutex_lock(&fake->lock);
    WP_ASSERT(!fake->finished);
    fake->reserves++;
    free(fake->reserved);
    fake->reserved = NULL;
    if (!fake->no_memory) {
        buf = malloc(len > 0 ? len : 1);
        WP_ASSERT(buf != NULL);
        fake->reserved = buf;
        fake->reserved_len = len;
    }
    (void)pthread_mutex_unlock(&fake->lock);
    return buf;
}

/* Under the lock. */
static void
take_reply(struct wp_fake_call *fake)
{
    free(fake->reply);
    fake->reply = fake->reserved;
    fake->reply_len = fake->reserved_len;
    fake->reserved = NULL;
}

static void
fake_finish(struct wp_call *call, enum wp_status status, const char *message,
            int64_t retry_after_ns)
{
    struct wp_fake_call *fake = from_call(call);

    (void)pthread_mutex_lock(&fake->lock);
    WP_ASSERT(!fake->finished);
    WP_ASSERT(status != WP_PENDING);
    WP_ASSERT(status != WP_OK || fake->reserved != NULL || fake->streaming);
    if (status == WP_OK && fake->reserved != NULL) {
        take_reply(fake);
    }
    fake->finished = true;
    fake->status = status;
    fake->retry_after_ns = retry_after_ns;
    (void)snprintf(fake->message, sizeof fake->message, "%s",
                   message != NULL ? message : "");
    (void)pthread_cond_broadcast(&fake->ended);
    (void)pthread_mutex_unlock(&fake->lock);
}

static bool
fake_send(struct wp_call *call)
{
    struct wp_fake_call *fake = from_call(call);
    bool sent;

    (void)pthread_mutex_lock(&fake->lock);
    WP_ASSERT(fake->streaming && !fake->finished && fake->reserved != NULL);
    sent = !fake->block_sends;
    if (sent) {
        take_reply(fake);
        fake->sends++;
    }
    (void)pthread_mutex_unlock(&fake->lock);
    if (sent && fake->sent != NULL) {
        fake->sent(fake);
    }
    return sent;
}

static const struct wp_call_ops fake_ops = {
    .reserve = fake_reserve,
    .finish = fake_finish,
    .send = fake_send,
};

void
wp_fake_call_init(struct wp_fake_call *fake)
{
    memset(fake, 0, sizeof *fake);
    fake->call.ops = &fake_ops;
    (void)snprintf(fake->call.who.name, sizeof fake->call.who.name,
                   "anonymous");
    fake->call.deadline_ns = INT64_MAX / 2;
    wp_arena_init(&fake->call.arena, fake->arena, sizeof fake->arena);
    WP_ASSERT(pthread_mutex_init(&fake->lock, NULL) == 0);
    WP_ASSERT(pthread_cond_init(&fake->ended, NULL) == 0);
}

void
wp_fake_call_fini(struct wp_fake_call *fake)
{
    WP_ASSERT(fake->finished || fake->call.service == NULL);
    free(fake->reserved);
    free(fake->reply);
    (void)pthread_cond_destroy(&fake->ended);
    (void)pthread_mutex_destroy(&fake->lock);
}

static const struct wp_method *
find_method(const struct wp_service *service, const char *name)
{
    for (size_t i = 0; i < service->n_methods; i++) {
        const char *slash = strrchr(service->methods[i].path, '/');

        if (slash != NULL && strcmp(slash + 1, name) == 0) {
            return &service->methods[i];
        }
    }
    return NULL;
}

static uint8_t *
copy_of(const uint8_t *request, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);

    WP_ASSERT(copy != NULL);
    if (len > 0) {
        memcpy(copy, request, len);
    }
    return copy;
}

void
wp_fake_call_start(struct wp_fake_call *fake, const struct wp_service *service,
                   const char *name, const uint8_t *request, size_t len)
{
    const struct wp_method *method = find_method(service, name);
    uint8_t *copy = copy_of(request, len);

    WP_ASSERT(method != NULL);
    fake->call.service = service->self;
    fake->streaming = method->server_streaming || method->bidirectional;
    method->start(&fake->call, copy, len);
    free(copy);
}

void
wp_fake_call_receive(struct wp_fake_call *fake, const uint8_t *request,
                     size_t len)
{
    uint8_t *copy = copy_of(request, len);

    if (!wp_fake_call_finished(fake)) {
        fake->call.received(&fake->call, copy, len);
    }
    free(copy);
}

void
wp_fake_call_end(struct wp_fake_call *fake)
{
    if (!wp_fake_call_finished(fake)) {
        fake->call.ended(&fake->call);
    }
}

void
wp_fake_call_cancel(struct wp_fake_call *fake)
{
    bool tell;

    (void)pthread_mutex_lock(&fake->lock);
    tell = !fake->finished && !fake->cancel_told;
    fake->cancel_told = true;
    (void)pthread_mutex_unlock(&fake->lock);
    if (tell && fake->call.cancelled != NULL) {
        fake->call.cancelled(&fake->call);
    }
}

void
wp_fake_call_unblock(struct wp_fake_call *fake)
{
    bool tell;

    (void)pthread_mutex_lock(&fake->lock);
    fake->block_sends = false;
    tell = !fake->finished;
    (void)pthread_mutex_unlock(&fake->lock);
    if (tell && fake->call.writable != NULL) {
        fake->call.writable(&fake->call);
    }
}

bool
wp_fake_call_finished(struct wp_fake_call *fake)
{
    bool finished;

    (void)pthread_mutex_lock(&fake->lock);
    finished = fake->finished;
    (void)pthread_mutex_unlock(&fake->lock);
    return finished;
}

bool
wp_fake_call_wait(struct wp_fake_call *fake)
{
    struct timespec until;
    int error = 0;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_MAX_S;
    (void)pthread_mutex_lock(&fake->lock);
    while (!fake->finished && error == 0) {
        error = pthread_cond_timedwait(&fake->ended, &fake->lock, &until);
    }
    (void)pthread_mutex_unlock(&fake->lock);
    return error == 0;
}
