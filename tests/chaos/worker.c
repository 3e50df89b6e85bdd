#include "tests/chaos/worker.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"

enum {
    TRIES_MAX = 40,
    NUMBER_SHIFT = 40,      /* claim = number << this | counter. */
    NEAR_DEADLINE_MS = 100, /* Too near to judge a missing sandbox. */
    LOOK_BACK_MS =
        6500, /* More than the checker lets a lease of nobody last. */
};

static int64_t
now_ns(void)
{
    return wp_clock_mono_ns(wp_clock_system());
}

static uint64_t
below(struct wp_client *client, uint64_t bound)
{
    return wp_rng_below(&client->rng, bound);
}

static bool
percent(struct wp_client *client, unsigned share)
{
    return below(client, 100) < share;
}

static void
wake_at(struct wp_worker *worker, int64_t at_ns)
{
    worker->wake_ns = at_ns;
    if (at_ns < worker->client->next_step_ns) {
        worker->client->next_step_ns = at_ns;
    }
}

/* --- What is granted --- */

static bool
uid_of(const char *endpoint, uint8_t uid[WP_UID_LEN])
{
    const char *slash = strrchr(endpoint, '/');

    return slash != NULL &&
           wp_hex_decode(wp_str_from(slash + 1), uid, WP_UID_LEN);
}

/* Is there a sandbox of that pool and name? */
static bool
is_there(const struct wp_client *client, const struct wp_grant *grant)
{
    char want[256];
    char have[256];
    ssize_t n = -1;
    int len = snprintf(want, sizeof want, "default\n%s\n", client->pool);
    int fd = open(grant->endpoint + strlen("unix:"), O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        n = read(fd, have, sizeof have - 1);
        (void)close(fd);
    }
    if (n < len) {
        return false;
    }
    have[n] = '\0';
    (void)snprintf(want + len, sizeof want - (size_t)len, "%s\n",
                   grant->sandbox);
    return strncmp(have, want, (size_t)len) == 0 &&
           strstr(have, want + len) != NULL;
}

static bool
far_from_deadline(int64_t deadline_ns)
{
    return now_ns() + NEAR_DEADLINE_MS * WP_NS_PER_MS < deadline_ns;
}

static void
take_lease(struct wp_worker *worker, const struct wp_link_call *call,
           struct wp_chaos_event *event)
{
    struct wp_client *client = worker->client;
    bool same;

    if (!uid_of(call->grant->endpoint, event->uid)) {
        event->status = 13;
        return;
    }
    same =
        worker->has_lease && memcmp(worker->uid, event->uid, WP_UID_LEN) == 0;
    if (!same) {
        if (worker->has_lease) {
            wp_marks_part(client->marks, worker->uid);
        }
        if (!wp_marks_set(client->marks, event->uid, worker->claim)) {
            event->flags |= WP_CHAOS_MARKED;
        }
        client->granted++;
    }
    if (!is_there(client, call->grant) &&
        far_from_deadline(call->deadline_ns)) {
        event->flags |= WP_CHAOS_ABSENT;
    }
    worker->has_lease = true;
    worker->over = false;
    memcpy(worker->uid, event->uid, WP_UID_LEN);
    (void)snprintf(worker->path, sizeof worker->path, "%s",
                   call->grant->endpoint + strlen("unix:"));
    memcpy(worker->token, call->token, WP_TOKEN_LEN);
    worker->deadline_ns = call->deadline_ns;
}

static void
take_renewal(struct wp_worker *worker, const struct wp_link_call *call,
             struct wp_chaos_event *event)
{
    memcpy(event->uid, worker->uid, WP_UID_LEN);
    memcpy(worker->token, call->token, WP_TOKEN_LEN);
    worker->deadline_ns = call->deadline_ns;
    worker->refused = 0;
    if (faccessat(AT_FDCWD, worker->path, F_OK, 0) != 0 &&
        far_from_deadline(call->deadline_ns)) {
        event->flags |= WP_CHAOS_ABSENT;
    }
}

static bool
is_denied(const struct wp_link_call *call)
{
    return call->what != WP_CHAOS_CLAIM && call->status != 8 &&
           call->status != 14 && call->status != 4 && call->status != 1 &&
           call->status != WP_CHAOS_NO_ANSWER;
}

/* Refused or out of reach: not again at once, and ever more seldom. */
static int64_t
pause_after(struct wp_worker *worker, const struct wp_link_call *call)
{
    unsigned doublings = (unsigned)worker->refused / 4;

    if (call->status != 8 && call->status != 14) {
        return 0;
    }
    return (int64_t)((1 + below(worker->client, 20))
                     << (doublings < 5 ? doublings : 5)) *
           WP_NS_PER_MS;
}

void
wp_worker_on_end(void *owner, const struct wp_link_call *call,
                 struct wp_chaos_event *event)
{
    struct wp_worker *worker = owner;

    worker->calls_out--;
    if (call->status == 0) {
        switch (call->what) {
        case WP_CHAOS_CLAIM:
            take_lease(worker, call, event);
            break;
        case WP_CHAOS_RENEW:
            take_renewal(worker, call, event);
            break;
        case WP_CHAOS_GET:
            if (call->grant->endpoint[0] == '\0') {
                /* The claim waits there, at another replica's doing: that
                 * says nothing of the lease. */
                event->status = WP_CHAOS_NO_ANSWER;
            } else if (!uid_of(call->grant->endpoint, event->uid)) {
                event->status = 13;
            }
            break;
        case WP_CHAOS_RELEASE:
            worker->over = true;
            break;
        case WP_CHAOS_DONE:
        case WP_CHAOS_ENDED:
        case WP_CHAOS_LEFT:
        default:
            WP_ASSERT(false);
        }
    } else if (is_denied(call)) {
        worker->over = true; /* The checker says whether rightly. */
    } else if (call->what == WP_CHAOS_RENEW && now_ns() < worker->deadline_ns) {
        worker->renewals++;
        worker->refused++;
    }
    if (worker->calls_out == 0) {
        wake_at(worker, now_ns() + pause_after(worker, call));
    }
}

/* --- What a worker does next --- */

/* Most clients are patient. Some give up early, so that the daemon has to take
 * back what it has just granted. */
static int64_t
some_timeout(struct wp_client *client)
{
    switch (below(client, 20)) {
    case 0:
        return (int64_t)(1 + below(client, 5)) * WP_NS_PER_MS;
    case 1:
        return 300 * WP_NS_PER_MS;
    default:
        return 3 * WP_NS_PER_S;
    }
}

/* A replica, most often another than the last; waits when there is none. */
static int
some_replica(struct wp_worker *worker)
{
    struct wp_client *client = worker->client;
    int avoid = percent(client, 70) ? worker->last_replica : -1;
    int replica =
        wp_link_choose(client->link, wp_rng_next(&client->rng) >> 1, avoid);

    if (replica < 0) {
        wake_at(worker, now_ns() + 10 * WP_NS_PER_MS);
    } else {
        worker->last_replica = replica;
    }
    return replica;
}

static void
claim(struct wp_worker *worker)
{
    struct wp_client *client = worker->client;
    const struct wp_wire_claim_request request = {
        .pool = {WP_STR("default"), wp_str_from(client->pool)},
        .claim_id = wp_str_from(worker->id),
        .ttl_ms = worker->ttl_ms,
        .wait_ms = worker->wait_ms,
    };
    /* Now and then at several replicas at once. */
    int times = percent(client, 4) ? 2 + (int)below(client, 2) : 1;

    for (int i = 0; i < times; i++) {
        int replica = some_replica(worker);

        if (replica >= 0) {
            worker->calls_out++;
            wp_link_claim(client->link, worker, replica, worker->claim,
                          &request, some_timeout(client));
        }
    }
}

static void
renew(struct wp_worker *worker)
{
    struct wp_wire_renew_request request = {.ttl_ms = worker->ttl_ms};
    int replica = some_replica(worker);

    if (replica >= 0) {
        worker->renewals--;
        memcpy(request.token, worker->token, WP_TOKEN_LEN);
        worker->calls_out++;
        wp_link_renew(worker->client->link, worker, replica, worker->claim,
                      &request, some_timeout(worker->client));
    }
}

static void
get(struct wp_worker *worker)
{
    const struct wp_wire_get_claim_request request = {
        .claim_id = wp_str_from(worker->id)};
    int replica = some_replica(worker);

    if (replica >= 0) {
        worker->calls_out++;
        wp_link_get(worker->client->link, worker, replica, worker->claim,
                    &request, some_timeout(worker->client));
    }
}

static void
release(struct wp_worker *worker)
{
    struct wp_wire_release_request request;
    int replica = some_replica(worker);

    if (replica >= 0) {
        memcpy(request.token, worker->token, WP_TOKEN_LEN);
        worker->calls_out++;
        wp_link_release(worker->client->link, worker, replica, worker->claim,
                        &request, some_timeout(worker->client));
    }
}

static void
begin(struct wp_worker *worker)
{
    struct wp_client *client = worker->client;

    worker->claim = client->number << NUMBER_SHIFT | ++client->counter;
    (void)snprintf(worker->id, sizeof worker->id, "chaos-%" PRIx64 "-%" PRIx64,
                   client->number, client->counter);
    worker->has_lease = false;
    worker->over = false;
    worker->tries = 0;
    worker->last_replica = -1;
    worker->wait_ms = percent(client, 20) ? 0 : 2000;
    worker->outstay = percent(client, 1);
    worker->vanish = percent(client, 2);
    worker->ttl_ms = worker->outstay || worker->vanish
                         ? (int64_t)(1000 + below(client, 1500))
                         : (int64_t)(2000 + below(client, 8000));
    worker->repeats = percent(client, 10) ? 1 + (int)below(client, 2) : 0;
    worker->renewals = percent(client, 10) ? 1 + (int)below(client, 3) : 0;
    worker->refused = 0;
    worker->gets = percent(client, 5) ? 1 : 0;
    worker->look_back = client->look_back > 0 && !client->stopping &&
                        percent(client, client->look_back);
    worker->phase = WP_WORKER_CLAIMING;
    claim(worker);
}

static void
end(struct wp_worker *worker)
{
    struct wp_client *client = worker->client;

    if (worker->has_lease && worker->over) {
        wp_marks_remove(client->marks, worker->uid);
    } else if (worker->has_lease) {
        wp_marks_part(client->marks, worker->uid);
    }
    if (worker->look_back && !worker->vanish) {
        worker->look_back = false;
        worker->has_lease = false;
        worker->phase = WP_WORKER_LOOKING_BACK;
        wake_at(worker, now_ns() + LOOK_BACK_MS * WP_NS_PER_MS);
        return;
    }
    wp_link_claim_over(client->link, worker->claim);
    /* And now and then a whole connection breaks. */
    if (below(client, 5000) == 0) {
        int victim =
            wp_link_choose(client->link, wp_rng_next(&client->rng) >> 1, -1);

        if (victim >= 0) {
            wp_link_cut(client->link, victim);
        }
    }
    worker->phase = WP_WORKER_IDLE;
    wake_at(worker, now_ns());
}

static void
hold(struct wp_worker *worker)
{
    struct wp_client *client = worker->client;

    if (worker->over) {
        end(worker);
    } else if (worker->repeats > 0) {
        worker->repeats--;
        claim(worker);
    } else if (worker->renewals > 0) {
        renew(worker);
    } else if (worker->gets > 0) {
        worker->gets--;
        get(worker);
    } else if (worker->outstay) {
        worker->outstay = false;
        worker->renewals = (int)below(client, 2);
        worker->repeats = percent(client, 30);
        wake_at(worker, worker->deadline_ns +
                            (int64_t)below(client, 300) * WP_NS_PER_MS);
    } else if (worker->vanish) {
        end(worker);
    } else {
        worker->phase = WP_WORKER_RELEASING;
        worker->tries = 0;
        release(worker);
    }
}

void
wp_worker_step(struct wp_worker *worker)
{
    struct wp_client *client = worker->client;

    worker->wake_ns = WP_TIME_NEVER;
    switch (worker->phase) {
    case WP_WORKER_IDLE:
        if (client->stopping) {
            worker->phase = WP_WORKER_STOPPED;
            client->n_stopped++;
        } else {
            begin(worker);
        }
        break;
    case WP_WORKER_CLAIMING:
        if (worker->has_lease) {
            worker->phase = WP_WORKER_HOLDING;
            wake_at(worker,
                    now_ns() + (int64_t)below(client, 4) * WP_NS_PER_MS);
        } else if (++worker->tries > TRIES_MAX || percent(client, 3)) {
            end(worker); /* Gives up; the lease may be there all the same. */
        } else {
            claim(worker);
        }
        break;
    case WP_WORKER_HOLDING:
        hold(worker);
        break;
    case WP_WORKER_RELEASING:
        if (worker->over || ++worker->tries > TRIES_MAX) {
            end(worker);
        } else {
            release(worker);
        }
        break;
    case WP_WORKER_LOOKING_BACK:
        worker->phase = WP_WORKER_CLAIMING;
        worker->tries = 0;
        claim(worker);
        break;
    case WP_WORKER_STOPPED:
    default:
        break;
    }
}
