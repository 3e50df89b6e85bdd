/* tests/chaos/client.c - chaos_client: many workers that use warmpoold in every
 * way its clients may, good and bad, and write down what they see.
 *
 *   chaos_client --history FILE --marks DIR --number N [--workers N] [--seed N]
 *                [--claims N] [--pool NAME] [--look-back PERCENT] TARGET...
 *
 * A worker claims, sometimes the same id at two replicas at once or again
 * later; checks that the sandbox is there and nobody else's; renews, and while
 * nobody can say whether, asks again as long as the lease lasts; asks, repeats,
 * outstays its lease; releases, or vanishes without. Ends by SIGTERM, or after
 * --claims, when every worker has finished what it was at. --number is
 * different for each client of a run. Of so many claims of a hundred as
 * --look-back says, the id is asked for again seconds after the last caller has
 * left, which shows what is kept for nobody. */
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/str.h"
#include "tests/chaos/worker.h"

enum {
    WORKERS_MAX = 4096,
};

/* All workers, and when they are to stop. */
struct crowd {
    struct wp_client *client;
    struct wp_worker *workers;
    unsigned n_workers;
    uint64_t claims_max;
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

static void
step_all(struct crowd *crowd)
{
    struct wp_client *client = crowd->client;
    int64_t at_ns = now_ns();

    if (client->next_step_ns > at_ns) {
        return;
    }
    client->next_step_ns = WP_TIME_NEVER;
    for (unsigned i = 0; i < crowd->n_workers; i++) {
        struct wp_worker *worker = &crowd->workers[i];

        if (worker->calls_out == 0 && worker->wake_ns <= at_ns) {
            wp_worker_step(worker);
        }
        if (worker->calls_out == 0 && worker->wake_ns < client->next_step_ns) {
            client->next_step_ns = worker->wake_ns;
        }
    }
    wp_marks_remove_old(client->marks, at_ns);
}

static void
run(struct crowd *crowd)
{
    struct wp_client *client = crowd->client;

    while (client->n_stopped < crowd->n_workers) {
        int64_t look_ns = now_ns() + 100 * WP_NS_PER_MS;

        if (stop_asked != 0 ||
            (crowd->claims_max > 0 && client->counter >= crowd->claims_max)) {
            client->stopping = true;
        }
        step_all(crowd);
        wp_link_turn(client->link, client->next_step_ns < look_ns
                                       ? client->next_step_ns
                                       : look_ns);
    }
}

/* --- Options --- */

struct options {
    const char *history;
    const char *marks;
    const char *pool;
    uint64_t number;
    uint64_t workers;
    uint64_t claims_max; /* 0: without end. */
    uint64_t seed;
    uint64_t look_back;
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
parse(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {
        {"history", required_argument, NULL, 'h'},
        {"marks", required_argument, NULL, 'm'},
        {"number", required_argument, NULL, 'n'},
        {"workers", required_argument, NULL, 'w'},
        {"seed", required_argument, NULL, 's'},
        {"claims", required_argument, NULL, 'c'},
        {"pool", required_argument, NULL, 'p'},
        {"look-back", required_argument, NULL, 'l'},
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
            options->number = number(optarg);
            break;
        case 'w':
            options->workers = number(optarg);
            break;
        case 's':
            options->seed = number(optarg);
            break;
        case 'c':
            options->claims_max = number(optarg);
            break;
        case 'p':
            options->pool = optarg;
            break;
        case 'l':
            options->look_back = number(optarg);
            break;
        default:
            exit(2);
        }
    }
    if (options->history == NULL || options->marks == NULL ||
        options->number == 0 || options->workers > WORKERS_MAX ||
        options->look_back > 100 || optind == argc ||
        argc - optind > WP_LINK_REPLICAS_MAX) {
        (void)fputs("chaos_client: --history, --marks, --number and up to 8 "
                    "targets are needed\n",
                    stderr);
        exit(2);
    }
}

int
main(int argc, char **argv)
{
    struct options options = {.pool = "chaos", .workers = 64, .seed = 1};
    struct wp_client client = {.next_step_ns = 0};
    struct wp_link_config config = {.done = wp_worker_on_end};
    struct sigaction action = {.sa_handler = on_sigterm};
    struct crowd crowd = {.client = &client};

    parse(argc, argv, &options);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    config.history_fd =
        open(options.history,
             O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    client.marks = wp_marks_open(options.marks);
    if (config.history_fd < 0 || client.marks == NULL) {
        perror("chaos_client");
        return 2;
    }
    config.targets = (const char *const *)&argv[optind];
    config.n_targets = (unsigned)(argc - optind);
    client.pool = options.pool;
    client.number = options.number;
    client.look_back = (unsigned)options.look_back;
    wp_rng_init(&client.rng, options.seed);
    crowd.claims_max = options.claims_max;
    crowd.n_workers = (unsigned)options.workers;
    crowd.workers = calloc(crowd.n_workers, sizeof *crowd.workers);
    WP_ASSERT(crowd.workers != NULL);
    for (unsigned i = 0; i < crowd.n_workers; i++) {
        crowd.workers[i].client = &client;
    }
    client.link = wp_link_create(&config);
    run(&crowd);
    (void)printf("claims %" PRIu64 " granted %" PRIu64 "\n", client.counter,
                 client.granted);
    wp_link_destroy(client.link);
    wp_marks_close(client.marks);
    free(crowd.workers);
    return 0;
}
