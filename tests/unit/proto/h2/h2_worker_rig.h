/* h2_worker_rig.h - what lies below the HTTP/2 server's threads, replaced:
 * connections, streams, the door, the loop, threads and the clock. Each writes
 * what it is asked into the journal. */
#ifndef WP_TESTS_UNIT_PROTO_H2_H2_WORKER_RIG_H
#define WP_TESTS_UNIT_PROTO_H2_H2_WORKER_RIG_H

#include "proto/h2/internal.h"
#include "tests/support/pool/manual_clock.h"

enum {
    RIG_THREADS_MAX = 4,
    RIG_CONNS = 4,
    RIG_STEPS_MAX = 256,
};

/* What happens while the loop of a thread runs once. */
struct worker_step {
    uint32_t events;  /* So many were worked on. */
    int64_t ns;       /* It has taken so long. */
    bool wanted;      /* From then on a flush is wanted. */
    long preemptions; /* Others have had the processor so often. */
};

struct worker_rig {
    struct wp_h2_server *server;
    struct wp_clock_manual hands;
    struct wp_h2_config config;
    struct wp_h2_handler handler;
    char bases[RIG_THREADS_MAX]; /* Stand for loops. */
    char door;
    char tls;
    char limits;
    struct wp_h2_conn *conns[RIG_CONNS];

    const char *failing; /* A function. */
    unsigned fails_in;
    int n_fds;
    int n_bases;
    int n_threads;
    int n_cpus;
    long preempted;
    bool wanted;                  /* A flush. */
    int told;                     /* How often streams are still to be told. */
    struct wp_h2_worker *touches; /* In its next turn a connection. */
    struct worker_step steps[RIG_STEPS_MAX];
    size_t n_steps;
    size_t step_at;
    struct {
        void *(*run)(void *arg);
        struct wp_h2_worker *worker;
    } threads[RIG_THREADS_MAX];
    struct {
        const struct event *event;
        event_callback_fn on;
        void *arg;
    } events[RIG_THREADS_MAX];
    size_t n_events;
};

extern struct worker_rig rig;

int worker_rig_begin(void **state);
int worker_rig_end(void **state);
/* The nth call of this function fails, from now on. */
void worker_rig_fail(const char *function, unsigned nth);
/* The bytes of its eventfd wake a thread. */
void worker_rig_wake(struct wp_h2_worker *worker);
/* The connection has something to write. */
void worker_rig_dirty(struct wp_h2_conn *conn);
/* This is what lies behind the server's threads, and nobody has touched it. */
bool worker_rig_is_behind(const struct wp_h2_worker *worker);
/* The number of the thread that this is; -1: none. */
int worker_rig_here(void);

#endif
