/* libwarmpool: jobs, each a single call from its making to its end. */
#include "allocator/client/internal.h"

#include <stdio.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"

enum {
    TRIES_MAX = 5, /* Of a call that the server ends without a word. */
};

static void call_done(struct wp_h2_call *call);

void
wp_job_init(struct wp_job *job, struct warmpool *client,
            enum wp_method_of_client method, int64_t for_ns)
{
    memset(job, 0, sizeof *job);
    job->client = client;
    job->method = method;
    job->until_ns = wp_time_add(wp_client_now_ns(), for_ns);
    job->call.method = (unsigned)method;
    job->call.request = job->request;
    job->call.reply = job->reply;
    job->call.reply_cap = sizeof job->reply;
    job->call.details = job->details;
    job->call.details_cap = sizeof job->details;
    job->call.done = call_done;
    job->call.ctx = job;
}

void
wp_job_renew(struct wp_job *job, const uint8_t token[WP_TOKEN_LEN],
             int64_t ttl_ms)
{
    struct wp_wire_renew_request request = {.ttl_ms = ttl_ms};

    memcpy(request.token, token, WP_TOKEN_LEN);
    memcpy(job->token, token, WP_TOKEN_LEN);
    job->call.request_len =
        wp_wire_pack_renew_request(&request, job->request + WP_H2_FRAME_HEAD);
}

void
wp_job_release(struct wp_job *job, const uint8_t token[WP_TOKEN_LEN])
{
    struct wp_wire_release_request request;

    memcpy(request.token, token, WP_TOKEN_LEN);
    memcpy(job->token, token, WP_TOKEN_LEN);
    job->call.request_len =
        wp_wire_pack_release_request(&request, job->request + WP_H2_FRAME_HEAD);
}

static bool
is_one_of(const struct wp_list *jobs, enum wp_method_of_client method,
          const uint8_t token[WP_TOKEN_LEN])
{
    for (struct wp_list *node = jobs->next; node != jobs; node = node->next) {
        const struct wp_job *job = WP_CONTAINER_OF(node, struct wp_job, node);

        if (job->method == method && job->over == NULL &&
            memcmp(job->token, token, WP_TOKEN_LEN) == 0) {
            return true;
        }
    }
    return false;
}

bool
wp_job_pends(struct warmpool *client, enum wp_method_of_client method,
             const uint8_t token[WP_TOKEN_LEN])
{
    bool queued;

    (void)pthread_mutex_lock(&client->lock);
    queued = is_one_of(&client->queue, method, token);
    (void)pthread_mutex_unlock(&client->lock);
    return queued || is_one_of(&client->under_way, method, token);
}

/* The job is its holder's, not a stock's own. */
static void
tell_stocks(struct wp_job *job)
{
    struct warmpool *client = job->client;

    (void)pthread_mutex_lock(&client->lock);
    for (struct wp_list *node = client->stocks.next; node != &client->stocks;
         node = node->next) {
        wp_stock_settled(wp_stock_of(node), job->token);
    }
    (void)pthread_mutex_unlock(&client->lock);
}

void
wp_job_queue(struct wp_job *job)
{
    struct warmpool *client = job->client;

    (void)pthread_mutex_lock(&client->lock);
    wp_list_push_back(&client->queue, &job->node);
    (void)pthread_mutex_unlock(&client->lock);
    wp_client_wake(client);
}

int
wp_job_run(struct wp_job *job, struct warmpool_error *error)
{
    struct warmpool *client = job->client;
    int status;

    WP_ASSERT(pthread_cond_init(&job->done, NULL) == 0);
    wp_job_queue(job);
    (void)pthread_mutex_lock(&client->lock);
    while (!job->is_done) {
        (void)pthread_cond_wait(&job->done, &client->lock);
    }
    (void)pthread_mutex_unlock(&client->lock);
    (void)pthread_cond_destroy(&job->done);
    status = job->call.status;
    wp_client_error(error, status, job->details);
    return status;
}

/* The client's thread. The job is its owner's from here on. */
static void
end_job(struct wp_job *job)
{
    struct warmpool *client = job->client;

    if (job->over != NULL) {
        job->over(job);
        return;
    }
    (void)pthread_mutex_lock(&client->lock);
    job->is_done = true;
    (void)pthread_cond_signal(&job->done);
    (void)pthread_mutex_unlock(&client->lock);
}

void
wp_job_fail(struct wp_job *job, int code, const char *why)
{
    job->call.status = code;
    (void)snprintf(job->details, sizeof job->details, "%s", why);
    end_job(job);
}

/* The job, which is in no list, was not answered: every call is idempotent, so
 * it is queued again, or fails when that was too often. The client's thread. */
static void
try_again(struct wp_job *job)
{
    if (++job->tries > TRIES_MAX) {
        char text[sizeof job->details];

        (void)snprintf(text, sizeof text,
                       "the daemon ends the call without an answer%s%.180s",
                       job->details[0] != '\0' ? ": " : "", job->details);
        wp_job_fail(job, WARMPOOL_UNAVAILABLE, text);
        return;
    }
    (void)pthread_mutex_lock(&job->client->lock);
    wp_list_push_back(&job->client->queue, &job->node);
    (void)pthread_mutex_unlock(&job->client->lock);
    wp_client_wake(job->client);
}

static void
call_done(struct wp_h2_call *call)
{
    struct wp_job *job = call->ctx;

    wp_list_remove(&job->node);
    if (call->status == WP_H2_NO_STATUS) {
        try_again(job);
    } else {
        if (job->over == NULL && call->status == WARMPOOL_OK &&
            (job->method == WP_CALL_RENEW || job->method == WP_CALL_RELEASE)) {
            tell_stocks(job);
        }
        end_job(job);
    }
}
