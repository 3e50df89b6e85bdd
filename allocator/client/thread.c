/* libwarmpool: the client's thread, which has the connection. */
#include "allocator/client/internal.h"

#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "pool/base/rng.h"

#define RECONNECT_MIN_NS (20 * WP_NS_PER_MS)
#define RECONNECT_MAX_NS WP_NS_PER_S

static void
reconnect_later(struct warmpool *client, int64_t now_ns)
{
    client->failures++;
    client->reconnect_ns =
        wp_time_add(now_ns, wp_backoff_ns(RECONNECT_MIN_NS, RECONNECT_MAX_NS,
                                          client->failures));
}

/* For those who ask a stock, and those whose calls wait in vain. */
static void
note_unreachable(struct warmpool *client, const struct wp_err *err)
{
    (void)snprintf(client->unreachable, sizeof client->unreachable, "%s",
                   err->msg);
    (void)pthread_mutex_lock(&client->lock);
    for (struct wp_list *node = client->stocks.next; node != &client->stocks;
         node = node->next) {
        wp_stock_unreachable(wp_stock_of(node), client->unreachable);
    }
    (void)pthread_mutex_unlock(&client->lock);
}

void
wp_client_lost(void *ctx, unsigned conn, const struct wp_err *err)
{
    struct warmpool *client = ctx;
    int64_t now_ns = wp_client_now_ns();
    struct wp_list *node;

    (void)conn;
    client->connected = false;
    if (err != NULL) {
        note_unreachable(client, err);
    }
    if (client->connected_ns + RECONNECT_MAX_NS <= now_ns) {
        client->failures = 0;
        client->reconnect_ns = now_ns;
    } else { /* Who ends connections at once is come to as seldom as who takes
                none. */
        reconnect_later(client, now_ns);
    }
    (void)pthread_mutex_lock(&client->lock);
    while ((node = wp_list_pop_front(&client->under_way)) != NULL) {
        wp_list_push_back(&client->queue, node); /* All are idempotent. */
    }
    for (node = client->stocks.next; node != &client->stocks;
         node = node->next) {
        wp_stock_cut(wp_stock_of(node));
    }
    (void)pthread_mutex_unlock(&client->lock);
}

static bool
has_work(struct warmpool *client)
{
    bool has;

    (void)pthread_mutex_lock(&client->lock);
    has = !wp_list_empty(&client->queue) || !wp_list_empty(&client->stocks);
    (void)pthread_mutex_unlock(&client->lock);
    return has;
}

/* Until it is there, now and again, while somebody wants something of it: a
 * daemon lets connections go that say nothing. */
static void
reconnect(struct warmpool *client, int64_t now_ns)
{
    struct wp_err err;

    if (client->connected || now_ns < client->reconnect_ns ||
        !has_work(client)) {
        return;
    }
    /* Those of before may be good for longer than a file that is half there. */
    (void)wp_credentials_read(client, &err);
    client->connected = wp_h2_reopen(client->h2, 0, &err);
    now_ns = wp_client_now_ns();
    if (client->connected) {
        client->connected_ns = now_ns;
    } else {
        note_unreachable(client, &err);
        reconnect_later(client, now_ns);
    }
}

/* The daemon has said goodbye to this connection, or the numbers of its streams
 * are used up. What is under way there is told anew on another, which all of
 * it can be; streams may live for ever, so their ends are not waited for. */
static void
leave_used_up(struct warmpool *client)
{
    if (client->connected && !wp_h2_takes_calls(client->h2) &&
        has_work(client)) {
        wp_h2_shut(client->h2, 0);
        wp_client_lost(client, 0, NULL);
    }
}

static void
fail_unreached(struct wp_job *job)
{
    const char *why = job->client->unreachable;
    char text[sizeof job->details];

    (void)snprintf(text, sizeof text,
                   "the daemon could not be reached in time%s%.180s",
                   why[0] != '\0' ? ": " : "", why);
    wp_job_fail(job, WARMPOOL_UNAVAILABLE, text);
}

/* Starts what is queued, and gives up what has waited too long; returns when
 * the next one has. */
static int64_t
start_jobs(struct warmpool *client, int64_t now_ns)
{
    int64_t next_ns = WP_TIME_NEVER;
    struct wp_list queue;
    struct wp_list *node;

    wp_list_init(&queue);
    (void)pthread_mutex_lock(&client->lock);
    while ((node = wp_list_pop_front(&client->queue)) != NULL) {
        wp_list_push_back(&queue, node);
    }
    (void)pthread_mutex_unlock(&client->lock);
    while ((node = wp_list_pop_front(&queue)) != NULL) {
        struct wp_job *job = WP_CONTAINER_OF(node, struct wp_job, node);

        if (job->until_ns <= now_ns) {
            fail_unreached(job);
        } else if (client->connected && wp_h2_start(client->h2, &job->call)) {
            job->received = wp_h2_received(client->h2, 0);
            wp_list_push_back(&client->under_way, &job->node);
        } else {
            next_ns = job->until_ns < next_ns ? job->until_ns : next_ns;
            (void)pthread_mutex_lock(&client->lock);
            wp_list_push_back(&client->queue, &job->node);
            (void)pthread_mutex_unlock(&client->lock);
        }
    }
    return next_ns;
}

/* A connection on which nothing has come for all of a call's time leads
 * nowhere: its other end may be gone without a word, which TCP finds out much
 * later. */
static int64_t
end_late_jobs(struct warmpool *client, int64_t now_ns)
{
    int64_t next_ns = WP_TIME_NEVER;
    bool heard = true;

    for (struct wp_list *node = client->under_way.next;
         node != &client->under_way;) {
        struct wp_job *job = WP_CONTAINER_OF(node, struct wp_job, node);

        node = node->next;
        if (job->until_ns <= now_ns) {
            heard = heard && job->received != wp_h2_received(client->h2, 0);
            wp_list_remove(&job->node);
            wp_h2_cancel(client->h2, &job->call);
            wp_job_fail(job, WARMPOOL_DEADLINE_EXCEEDED,
                        "the daemon did not answer in time");
        } else if (job->until_ns < next_ns) {
            next_ns = job->until_ns;
        }
    }
    if (!heard) {
        struct wp_err err;

        (void)wp_err_set(&err, WP_UNAVAILABLE, "the daemon says nothing");
        wp_h2_shut(client->h2, 0);
        wp_client_lost(client, 0, &err);
    }
    return next_ns;
}

static int64_t
earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The stocks' turns; those that are over leave the list. */
static int64_t
turn_stocks(struct warmpool *client, int64_t now_ns)
{
    int64_t next_ns = WP_TIME_NEVER;
    struct wp_list *node;

    (void)pthread_mutex_lock(&client->lock);
    node = client->stocks.next;
    (void)pthread_mutex_unlock(&client->lock);
    while (node != &client->stocks) {
        struct warmpool_stock *stock = wp_stock_of(node);
        int64_t at_ns = wp_stock_turn(stock, now_ns);

        next_ns = earlier(next_ns, at_ns);
        (void)pthread_mutex_lock(&client->lock);
        node = node->next;
        if (wp_stock_leaves(stock)) {
            (void)pthread_cond_broadcast(&client->stock_left);
        }
        (void)pthread_mutex_unlock(&client->lock);
    }
    return next_ns;
}

/* Sleeps until something comes, or until then. */
static void
rest(struct warmpool *client, int64_t until_ns)
{
    struct pollfd fds[2] = {
        {.fd = client->wake_fd, .events = POLLIN},
        {.fd = wp_h2_fd(client->h2), .events = POLLIN},
    };
    int64_t left_ns = until_ns - wp_client_now_ns();
    struct timespec limit;
    uint64_t ignored;

    left_ns = left_ns > 0 ? left_ns : 0;
    limit = (struct timespec){left_ns / WP_NS_PER_S, left_ns % WP_NS_PER_S};
    if (ppoll(fds, client->connected ? 2 : 1,
              until_ns == WP_TIME_NEVER ? NULL : &limit, NULL) > 0 &&
        (fds[0].revents & POLLIN) != 0) {
        ssize_t n = read(client->wake_fd, &ignored, sizeof ignored);

        (void)n;
    }
}

/* What is left when the client goes. */
static void
end_jobs(struct warmpool *client)
{
    struct wp_list *node;

    while ((node = wp_list_pop_front(&client->under_way)) != NULL) {
        wp_job_fail(WP_CONTAINER_OF(node, struct wp_job, node),
                    WARMPOOL_UNAVAILABLE, "the client was closed");
    }
    while ((node = wp_list_pop_front(&client->queue)) != NULL) {
        wp_job_fail(WP_CONTAINER_OF(node, struct wp_job, node),
                    WARMPOOL_UNAVAILABLE, "the client was closed");
    }
}

static bool
is_closing(struct warmpool *client)
{
    bool closing;

    (void)pthread_mutex_lock(&client->lock);
    closing = client->closing;
    (void)pthread_mutex_unlock(&client->lock);
    return closing;
}

void *
wp_client_serve(void *ctx)
{
    struct warmpool *client = ctx;

    while (!is_closing(client)) {
        int64_t now_ns;
        int64_t next_ns;
        struct wp_err err;

        reconnect(client, wp_client_now_ns());
        if (client->connected) {
            /* A lost connection is told to wp_client_lost. */
            (void)!wp_h2_turn(client->h2, 0, &err);
        }
        leave_used_up(client);
        /* After what came in: it decides when there is more to do. */
        now_ns = wp_client_now_ns();
        next_ns = start_jobs(client, now_ns);
        next_ns = earlier(next_ns, end_late_jobs(client, now_ns));
        next_ns = earlier(next_ns, turn_stocks(client, now_ns));
        if (!client->connected && has_work(client)) {
            next_ns = earlier(next_ns, client->reconnect_ns);
        }
        if (!client->connected || !wp_h2_has_output(client->h2)) {
            rest(client, next_ns);
        }
    }
    end_jobs(client);
    return NULL;
}
