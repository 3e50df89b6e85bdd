/* tests/chaos/client.c - chaos_client: many workers that use warmpoold in every
 * way its clients may, good and bad, and write down what they see.
 *
 *   chaos_client --history FILE --marks DIR --number N [--workers N] [--seed N]
 *                [--claims N] [--pool NAME] TARGET...
 *
 * A worker claims, sometimes the same id at two replicas at once or again later;
 * checks that the sandbox is there and nobody else's; renews, and while nobody
 * can say whether, asks again as long as the lease lasts; asks, repeats, outstays
 * its lease; releases, or vanishes without. Ends by SIGTERM, or after
 * --claims, when every worker has finished what it was at. --number is different
 * for each client of a run. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/rng.h"
#include "tests/chaos/link.h"

enum {
    WORKERS_MAX = 4096,
    TRIES_MAX = 40,
    NUMBER_SHIFT = 40,      /* claim = number << this | counter. */
    NEAR_DEADLINE_MS = 100, /* Too near to judge a missing sandbox. */
    PARTING_MAX = 1 << 16,
};

#define MARK_STAYS_NS (10 * WP_NS_PER_S)

enum phase {
    IDLE,
    CLAIMING,
    HOLDING,
    RELEASING,
    STOPPED,
};

struct worker {
    struct client *client;
    enum phase phase;
    unsigned calls_out; /* Nothing happens until they have ended. */
    int64_t wake_ns;

    /* The claim. */
    uint64_t claim;
    char id[40];
    int64_t ttl_ms;
    int64_t wait_ms;
    int tries;
    int last_replica;
    bool has_lease;
    uint8_t uid[WP_UID_LEN];
    char path[WP_ENDPOINT_MAX + 1];
    uint8_t token[WP_TOKEN_LEN];
    int64_t deadline_ns;
    bool over; /* The last answer said so. */

    /* What it means to do with the lease. */
    int repeats;
    int renewals;
    int refused; /* Renewals in a row that were neither granted nor denied. */
    int gets;
    bool outstay;
    bool vanish;
};

/* A mark that is to be removed once its lease is surely over. */
struct parting {
    int64_t at_ns;
    uint8_t uid[WP_UID_LEN];
};

struct client {
    struct wp_link *link;
    struct worker *workers;
    unsigned n_workers;
    unsigned n_stopped;
    struct wp_rng rng;
    const char *pool;
    int marks_fd;
    uint64_t number;
    uint64_t counter;
    uint64_t claims_max;
    uint64_t granted;
    struct parting *partings; /* A ring. */
    uint64_t first_parting;
    uint64_t last_parting;
    int64_t next_step_ns;
    bool stopping;
};

static volatile sig_atomic_t stop_asked;

static void
on_sigterm(int sig)
{
    (void)sig;
    stop_asked = 1;
}

static int64_t
now_ns(void)
{
    return wp_clock_mono_ns(wp_clock_system());
}

static uint64_t
below(struct client *client, uint64_t bound)
{
    return wp_rng_below(&client->rng, bound);
}

static bool
percent(struct client *client, unsigned share)
{
    return below(client, 100) < share;
}

static void
wake_at(struct worker *worker, int64_t at_ns)
{
    worker->wake_ns = at_ns;
    if (at_ns < worker->client->next_step_ns) {
        worker->client->next_step_ns = at_ns;
    }
}

/* --- Marks: who holds a sandbox leaves a file named after it. --- */

static void
remove_mark(const struct client *client, const uint8_t *uid)
{
    char name[2 * WP_UID_LEN + 1];

    wp_hex_encode(uid, WP_UID_LEN, name);
    (void)unlinkat(client->marks_fd, name, 0);
}

/* False: another claim's mark is there. */
static bool
set_mark(const struct client *client, const uint8_t *uid, uint64_t claim)
{
    char name[2 * WP_UID_LEN + 1];
    uint64_t other = 0;
    int fd;

    wp_hex_encode(uid, WP_UID_LEN, name);
    fd = openat(client->marks_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                0600);
    if (fd >= 0) {
        bool ok = write(fd, &claim, sizeof claim) == sizeof claim;

        (void)close(fd);
        return ok;
    }
    fd = openat(client->marks_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (read(fd, &other, sizeof other) != sizeof other) {
            other = 0;
        }
        (void)close(fd);
    }
    return other == claim;
}

/* The mark of a worker that vanishes stays as long as others must not have the
 * sandbox. */
static void
part_with_mark(struct client *client, const uint8_t *uid)
{
    struct parting *parting =
        &client->partings[client->last_parting++ % PARTING_MAX];

    if (client->last_parting - client->first_parting > PARTING_MAX) {
        remove_mark(client, parting->uid);
        client->first_parting++;
    }
    parting->at_ns = now_ns() + MARK_STAYS_NS;
    memcpy(parting->uid, uid, WP_UID_LEN);
}

static void
remove_old_marks(struct client *client, int64_t at_ns)
{
    while (client->first_parting < client->last_parting &&
           client->partings[client->first_parting % PARTING_MAX].at_ns <=
               at_ns) {
        remove_mark(
            client,
            client->partings[client->first_parting++ % PARTING_MAX].uid);
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
is_there(const struct client *client, const struct wp_grant *grant)
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
take_lease(struct worker *worker, const struct wp_link_call *call,
           struct wp_chaos_event *event)
{
    struct client *client = worker->client;
    bool same;

    if (!uid_of(call->grant->endpoint, event->uid)) {
        event->status = 13;
        return;
    }
    same =
        worker->has_lease && memcmp(worker->uid, event->uid, WP_UID_LEN) == 0;
    if (!same) {
        if (worker->has_lease) {
            part_with_mark(client, worker->uid);
        }
        if (!set_mark(client, event->uid, worker->claim)) {
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
take_renewal(struct worker *worker, const struct wp_link_call *call,
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
pause_after(struct worker *worker, const struct wp_link_call *call)
{
    unsigned doublings = (unsigned)worker->refused / 4;

    if (call->status != 8 && call->status != 14) {
        return 0;
    }
    return (int64_t)((1 + below(worker->client, 20))
                     << (doublings < 5 ? doublings : 5)) *
           WP_NS_PER_MS;
}

/* The link's done. */
static void
on_end(void *owner, const struct wp_link_call *call,
       struct wp_chaos_event *event)
{
    struct worker *worker = owner;

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
some_timeout(struct client *client)
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
some_replica(struct worker *worker)
{
    struct client *client = worker->client;
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
claim(struct worker *worker)
{
    struct client *client = worker->client;
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
renew(struct worker *worker)
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
get(struct worker *worker)
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
release(struct worker *worker)
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
begin(struct worker *worker)
{
    struct client *client = worker->client;

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
    worker->phase = CLAIMING;
    claim(worker);
}

static void
end(struct worker *worker)
{
    struct client *client = worker->client;

    if (worker->has_lease && worker->over) {
        remove_mark(client, worker->uid);
    } else if (worker->has_lease) {
        part_with_mark(client, worker->uid);
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
    worker->phase = IDLE;
    wake_at(worker, now_ns());
}

static void
hold(struct worker *worker)
{
    struct client *client = worker->client;

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
        worker->phase = RELEASING;
        worker->tries = 0;
        release(worker);
    }
}

static void
step(struct worker *worker)
{
    struct client *client = worker->client;

    worker->wake_ns = WP_TIME_NEVER;
    switch (worker->phase) {
    case IDLE:
        if (client->stopping) {
            worker->phase = STOPPED;
            client->n_stopped++;
        } else {
            begin(worker);
        }
        break;
    case CLAIMING:
        if (worker->has_lease) {
            worker->phase = HOLDING;
            wake_at(worker,
                    now_ns() + (int64_t)below(client, 4) * WP_NS_PER_MS);
        } else if (++worker->tries > TRIES_MAX || percent(client, 3)) {
            end(worker); /* Gives up; the lease may be there all the same. */
        } else {
            claim(worker);
        }
        break;
    case HOLDING:
        hold(worker);
        break;
    case RELEASING:
        if (worker->over || ++worker->tries > TRIES_MAX) {
            end(worker);
        } else {
            release(worker);
        }
        break;
    case STOPPED:
    default:
        break;
    }
}

static void
step_all(struct client *client)
{
    int64_t at_ns = now_ns();

    if (client->next_step_ns > at_ns) {
        return;
    }
    client->next_step_ns = WP_TIME_NEVER;
    for (unsigned i = 0; i < client->n_workers; i++) {
        struct worker *worker = &client->workers[i];

        if (worker->calls_out == 0 && worker->wake_ns <= at_ns) {
            step(worker);
        }
        if (worker->calls_out == 0 && worker->wake_ns < client->next_step_ns) {
            client->next_step_ns = worker->wake_ns;
        }
    }
    remove_old_marks(client, at_ns);
}

static void
run(struct client *client)
{
    while (client->n_stopped < client->n_workers) {
        int64_t look_ns = now_ns() + 100 * WP_NS_PER_MS;

        if (stop_asked != 0 ||
            (client->claims_max > 0 && client->counter >= client->claims_max)) {
            client->stopping = true;
        }
        step_all(client);
        wp_link_turn(client->link, client->next_step_ns < look_ns
                                       ? client->next_step_ns
                                       : look_ns);
    }
    remove_old_marks(client, WP_TIME_NEVER);
}

/* --- Options --- */

struct options {
    const char *history;
    const char *marks;
    uint64_t workers;
    uint64_t seed;
};

static uint64_t
number(const char *text)
{
    uint64_t value;

    if (!wp_str_to_u64(wp_str_from(text), &value)) {
        (void)fprintf(stderr, "chaos_client: '%s' is no number\n", text);
        exit(2);
    }
    return value;
}

static void
parse(int argc, char **argv, struct client *client, struct options *options)
{
    static const struct option names[] = {
        {"history", required_argument, NULL, 'h'},
        {"marks", required_argument, NULL, 'm'},
        {"number", required_argument, NULL, 'n'},
        {"workers", required_argument, NULL, 'w'},
        {"seed", required_argument, NULL, 's'},
        {"claims", required_argument, NULL, 'c'},
        {"pool", required_argument, NULL, 'p'},
        {NULL, 0, NULL, 0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (c) {
        case 'h':
            options->history = optarg;
            break;
        case 'm':
            options->marks = optarg;
            break;
        case 'n':
            client->number = number(optarg);
            break;
        case 'w':
            options->workers = number(optarg);
            break;
        case 's':
            options->seed = number(optarg);
            break;
        case 'c':
            client->claims_max = number(optarg);
            break;
        case 'p':
            client->pool = optarg;
            break;
        default:
            exit(2);
        }
    }
    if (options->history == NULL || options->marks == NULL ||
        client->number == 0 || options->workers > WORKERS_MAX ||
        optind == argc || argc - optind > WP_LINK_REPLICAS_MAX) {
        (void)fputs("chaos_client: --history, --marks, --number and up to 8 "
                    "targets are needed\n",
                    stderr);
        exit(2);
    }
}

int
main(int argc, char **argv)
{
    struct client client = {.pool = "chaos", .next_step_ns = 0};
    struct options options = {.workers = 64, .seed = 1};
    struct wp_link_config config = {.done = on_end};
    struct sigaction action = {.sa_handler = on_sigterm};

    parse(argc, argv, &client, &options);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    config.history_fd =
        open(options.history,
             O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    client.marks_fd = open(options.marks, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (config.history_fd < 0 || client.marks_fd < 0) {
        perror("chaos_client");
        return 2;
    }
    config.targets = (const char *const *)&argv[optind];
    config.n_targets = (unsigned)(argc - optind);
    wp_rng_init(&client.rng, options.seed);
    client.n_workers = (unsigned)options.workers;
    client.workers = calloc(client.n_workers, sizeof *client.workers);
    client.partings = calloc(PARTING_MAX, sizeof *client.partings);
    WP_ASSERT(client.workers != NULL && client.partings != NULL);
    for (unsigned i = 0; i < client.n_workers; i++) {
        client.workers[i].client = &client;
    }
    client.link = wp_link_create(&config);
    run(&client);
    (void)printf("claims %" PRIu64 " granted %" PRIu64 "\n", client.counter,
                 client.granted);
    wp_link_destroy(client.link);
    free(client.workers);
    free(client.partings);
    return 0;
}
