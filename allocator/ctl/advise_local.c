#include "allocator/ctl/advise_local.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pool/base/clock.h"

enum {
    /* Holds some hundred million claims; what is not used is not taken. */
    HISTORY_BYTES = WP_HISTORY_BYTES_MAX,
    THREADS_MAX = 16,
    WHOLE = 1000000, /* Of a row. */
};

#define TICK_NS (100 * WP_NS_PER_MS)

struct wp_history *
wp_advise_read_csv(const char *path, struct wp_err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "re");
    struct wp_history *history = wp_history_create(HISTORY_BYTES);
    enum wp_status status = WP_OK;
    struct wp_history_csv csv;
    char piece[65536];
    size_t n = 1;

    if (file == NULL) {
        status = wp_err_sys(err, WP_INVALID_ARGUMENT, errno,
                            "%.120s cannot be read", path);
    } else if (history == NULL) {
        status = wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    wp_history_csv_init(&csv, history);
    while (status == WP_OK && n > 0) {
        n = fread(piece, 1, sizeof piece, file);
        status = wp_history_csv_feed(&csv, (struct wp_str){piece, n}, err);
        if (status != WP_OK) {
            (void)wp_err_wrap(err, "%.120s", path);
        } else if (ferror(file) != 0) {
            status = wp_err_sys(err, WP_INVALID_ARGUMENT, errno,
                                "%.120s cannot be read", path);
        }
    }
    if (file != NULL && !is_stdin) {
        (void)fclose(file);
    }
    if (status != WP_OK) {
        wp_history_destroy(history);
        return NULL;
    }
    return history;
}

struct run {
    struct wp_advice *advice;
    _Atomic(uint32_t) next_row;
    _Atomic(uint32_t) done[WP_ADVICE_ROWS_MAX]; /* Millionths of each. */
    pthread_mutex_t lock;                       /* guards: left, status, err */
    pthread_cond_t ended;
    uint32_t left; /* Threads. */
    enum wp_status status;
    struct wp_err err;
};

struct row_of {
    struct run *run;
    uint32_t row;
};

static bool
row_progress(void *ctx, double share)
{
    struct row_of *of = ctx;

    atomic_store_explicit(&of->run->done[of->row], (uint32_t)(share * WHOLE),
                          memory_order_relaxed);
    return true;
}

static void *
worker(void *ctx)
{
    struct run *run = ctx;
    uint32_t n_rows = wp_advice_n_rows(run->advice);
    struct row_of of = {.run = run};
    struct wp_err err = {0};
    enum wp_status status = WP_OK;

    while (status == WP_OK &&
           (of.row = atomic_fetch_add_explicit(
                &run->next_row, 1, memory_order_relaxed)) < n_rows) {
        status = wp_advice_run(run->advice, of.row, row_progress, &of, &err);
        (void)row_progress(&of, 1);
    }
    (void)pthread_mutex_lock(&run->lock);
    if (status != WP_OK) {
        run->status = status;
        run->err = err;
    }
    run->left--;
    (void)pthread_cond_signal(&run->ended);
    (void)pthread_mutex_unlock(&run->lock);
    return NULL;
}

static double
share_done(struct run *run)
{
    uint32_t n = wp_advice_n_rows(run->advice);
    double sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        sum += atomic_load_explicit(&run->done[i], memory_order_relaxed);
    }
    return sum / n / WHOLE;
}

static uint32_t
processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : (uint32_t)n;
}

/* Until all threads have ended, of which is told, too. */
static void
wait_for_all(struct run *run, void (*progress)(void *ctx, double share),
             void *ctx)
{
    bool over = false;

    while (!over) {
        struct timespec until;

        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += TICK_NS;
        until.tv_sec += until.tv_nsec / WP_NS_PER_S;
        until.tv_nsec %= WP_NS_PER_S;
        (void)pthread_mutex_lock(&run->lock);
        if (run->left > 0) {
            (void)pthread_cond_timedwait(&run->ended, &run->lock, &until);
        }
        over = run->left == 0;
        (void)pthread_mutex_unlock(&run->lock);
        if (progress != NULL) {
            progress(ctx, share_done(run));
        }
    }
}

enum wp_status
wp_advise_run_all(struct wp_advice *advice,
                  void (*progress)(void *ctx, double share), void *ctx,
                  struct wp_err *err)
{
    struct run run = {.advice = advice, .left = processors()};
    pthread_t threads[THREADS_MAX];
    uint32_t n = 0;

    (void)pthread_mutex_init(&run.lock, NULL);
    (void)pthread_cond_init(&run.ended, NULL);
    for (uint32_t i = run.left; i > 0; i--) {
        if (pthread_create(&threads[n], NULL, worker, &run) == 0) {
            n++;
        } else {
            (void)pthread_mutex_lock(&run.lock);
            run.left--;
            (void)pthread_mutex_unlock(&run.lock);
        }
    }
    if (n == 0) {
        run.left = 1;
        (void)worker(&run);
    }
    wait_for_all(&run, progress, ctx);
    for (uint32_t i = 0; i < n; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    (void)pthread_cond_destroy(&run.ended);
    (void)pthread_mutex_destroy(&run.lock);
    if (run.status != WP_OK) {
        *err = run.err;
    }
    return run.status;
}
