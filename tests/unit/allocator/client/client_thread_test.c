/* The client's thread, turn by turn and without a connection: when it connects,
 * what it starts and gives up, how long it rests, and how all ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/client/internal.h"
#include "allocator/client/stock_impl.h"
#include "pool/base/clock.h"
#include "tests/support/base/golden.h"

#define GOLDEN(name) WP_TEST_GOLDEN "/" name ".txt"
#define MS(n) ((n)*WP_NS_PER_MS)
#define BEGIN_NS (1000 * WP_NS_PER_S)

enum {
    WAKE_FD = 7,
    H2_FD = 8,
    JOBS = 6,
    STOCKS = 3,
};

static struct golden seen;
static struct warmpool client;
static int64_t now_ns;
static char h2;
static struct wp_job jobs[JOBS];
static struct warmpool_stock *stocks[STOCKS];

/* What those below answer. */
static const char *no_connection; /* Why. */
static bool used_up;
static bool has_output;
static int starts; /* Calls that are taken; more are not. */
static uint64_t received;
static const char *breaks; /* At the next turn: why. */
static int64_t stock_ns[STOCKS];
static int leaving; /* The stock that leaves at its next turn; -1: none. */
static short woken; /* What poll says of the first. */
static int found;   /* What poll answers. */

/* What happens while the thread rests, or where it would have. */
typedef void (*happening)(void);
static const happening *script;

#define NOTE(...) golden_add(&seen, __VA_ARGS__)

static long
since_begin(int64_t at_ns)
{
    return (long)((at_ns - BEGIN_NS) / WP_NS_PER_MS);
}

static void
happen(void)
{
    if (*script == NULL) {
        client.closing = true;
        return;
    }
    (*script++)();
}

int64_t __wrap_wp_client_now_ns(void);
int64_t
__wrap_wp_client_now_ns(void)
{
    return now_ns;
}

bool __wrap_wp_credentials_read(struct warmpool *of, struct wp_err *err);
bool
__wrap_wp_credentials_read(struct warmpool *of, struct wp_err *err)
{
    (void)err;
    assert_ptr_equal(of, &client);
    NOTE("  credentials\n");
    return true;
}

bool __wrap_wp_h2_reopen(struct wp_h2 *of, unsigned conn, struct wp_err *err);
bool
__wrap_wp_h2_reopen(struct wp_h2 *of, unsigned conn, struct wp_err *err)
{
    assert_ptr_equal(of, &h2);
    NOTE("  connect %u at %ld ms%s\n", conn, since_begin(now_ns),
         no_connection != NULL ? ", in vain" : "");
    now_ns += MS(1);
    if (no_connection != NULL) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "%s", no_connection);
    }
    return no_connection == NULL;
}

void __wrap_wp_h2_shut(struct wp_h2 *of, unsigned conn);
void
__wrap_wp_h2_shut(struct wp_h2 *of, unsigned conn)
{
    assert_ptr_equal(of, &h2);
    NOTE("  shut %u\n", conn);
}

bool __wrap_wp_h2_takes_calls(const struct wp_h2 *of);
bool
__wrap_wp_h2_takes_calls(const struct wp_h2 *of)
{
    assert_ptr_equal(of, &h2);
    return !used_up;
}

bool __wrap_wp_h2_start(struct wp_h2 *of, struct wp_h2_call *call);
bool
__wrap_wp_h2_start(struct wp_h2 *of, struct wp_h2_call *call)
{
    struct wp_job *job = WP_CONTAINER_OF(call, struct wp_job, call);

    assert_ptr_equal(of, &h2);
    NOTE("  start %d%s\n", (int)(job - jobs), starts > 0 ? "" : ", in vain");
    return starts-- > 0;
}

uint64_t __wrap_wp_h2_received(const struct wp_h2 *of, unsigned conn);
uint64_t
__wrap_wp_h2_received(const struct wp_h2 *of, unsigned conn)
{
    assert_ptr_equal(of, &h2);
    assert_int_equal(conn, 0);
    return received;
}

void __wrap_wp_h2_cancel(struct wp_h2 *of, struct wp_h2_call *call);
void
__wrap_wp_h2_cancel(struct wp_h2 *of, struct wp_h2_call *call)
{
    struct wp_job *job = WP_CONTAINER_OF(call, struct wp_job, call);

    assert_ptr_equal(of, &h2);
    assert_true(wp_list_empty(&job->node));
    NOTE("  cancel %d\n", (int)(job - jobs));
}

enum wp_status __wrap_wp_h2_turn(struct wp_h2 *of, int64_t timeout_ns,
                                 struct wp_err *err);
enum wp_status
__wrap_wp_h2_turn(struct wp_h2 *of, int64_t timeout_ns, struct wp_err *err)
{
    assert_ptr_equal(of, &h2);
    NOTE("  turn %lld\n", (long long)timeout_ns);
    if (breaks != NULL) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "%s", breaks);
        breaks = NULL;
        wp_client_lost(&client, 0, err);
    }
    return WP_OK;
}

bool __wrap_wp_h2_has_output(const struct wp_h2 *of);
bool
__wrap_wp_h2_has_output(const struct wp_h2 *of)
{
    assert_ptr_equal(of, &h2);
    if (has_output) {
        NOTE("  more to send\n");
        happen();
    }
    return has_output;
}

int __wrap_wp_h2_fd(const struct wp_h2 *of);
int
__wrap_wp_h2_fd(const struct wp_h2 *of)
{
    assert_ptr_equal(of, &h2);
    return H2_FD;
}

void __wrap_wp_job_fail(struct wp_job *job, int code, const char *why);
void
__wrap_wp_job_fail(struct wp_job *job, int code, const char *why)
{
    assert_true(wp_list_empty(&job->node));
    NOTE("  fail %d: %d, %s\n", (int)(job - jobs), code, why);
}

static int
number_of(const struct warmpool_stock *stock)
{
    int i = 0;

    while (stocks[i] != stock) {
        i++;
    }
    return i;
}

int64_t __wrap_wp_stock_turn(struct warmpool_stock *stock, int64_t at_ns);
int64_t
__wrap_wp_stock_turn(struct warmpool_stock *stock, int64_t at_ns)
{
    assert_int_equal(pthread_mutex_trylock(&client.lock), 0);
    assert_int_equal(pthread_mutex_unlock(&client.lock), 0);
    NOTE("  turn of stock %d at %ld ms\n", number_of(stock),
         since_begin(at_ns));
    return stock_ns[number_of(stock)];
}

void __wrap_wp_stock_cut(struct warmpool_stock *stock);
void
__wrap_wp_stock_cut(struct warmpool_stock *stock)
{
    assert_int_equal(pthread_mutex_trylock(&client.lock), EBUSY);
    NOTE("  cut stock %d\n", number_of(stock));
}

void __wrap_wp_stock_unreachable(struct warmpool_stock *stock, const char *why);
void
__wrap_wp_stock_unreachable(struct warmpool_stock *stock, const char *why)
{
    assert_int_equal(pthread_mutex_trylock(&client.lock), EBUSY);
    NOTE("  stock %d is told: %s\n", number_of(stock), why);
}

bool __wrap_wp_stock_leaves(struct warmpool_stock *stock);
bool
__wrap_wp_stock_leaves(struct warmpool_stock *stock)
{
    assert_int_equal(pthread_mutex_trylock(&client.lock), EBUSY);
    if (number_of(stock) != leaving) {
        return false;
    }
    leaving = -1;
    wp_list_remove(&stock->node);
    return true;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int
__wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    assert_ptr_equal(cond, &client.stock_left);
    NOTE("  a stock has left\n");
    return 0;
}

int __wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *limit,
                 const sigset_t *mask);
int
__wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *limit,
             const sigset_t *mask)
{
    assert_null(mask);
    NOTE("rest on");
    for (nfds_t i = 0; i < n; i++) {
        NOTE(" %d/%d", fds[i].fd, fds[i].events);
    }
    if (limit == NULL) {
        NOTE(" for ever\n");
    } else {
        NOTE(" for %ld.%09ld s\n", limit->tv_sec, limit->tv_nsec);
    }
    fds[0].revents = woken;
    happen();
    return found;
}

ssize_t __wrap_read(int fd, void *bytes, size_t cap);
ssize_t
__wrap_read(int fd, void *bytes, size_t cap)
{
    NOTE("  read %d %zu\n", fd, cap);
    memset(bytes, 0, cap);
    return (ssize_t)cap;
}

/* --- The world --- */

static void
queue_job(int i, int64_t for_ns)
{
    jobs[i].client = &client;
    jobs[i].until_ns = now_ns + for_ns;
    wp_list_push_back(&client.queue, &jobs[i].node);
}

static int
set_up(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof seen);
    memset(&client, 0, sizeof client);
    memset(jobs, 0, sizeof jobs);
    assert_int_equal(pthread_mutex_init(&client.lock, NULL), 0);
    client.wake_fd = WAKE_FD;
    client.h2 = (struct wp_h2 *)&h2;
    wp_list_init(&client.queue);
    wp_list_init(&client.stocks);
    wp_list_init(&client.under_way);
    for (int i = 0; i < JOBS; i++) {
        wp_list_init(&jobs[i].node);
    }
    for (int i = 0; i < STOCKS; i++) {
        stocks[i] = aligned_alloc(64, sizeof *stocks[i]);
        assert_non_null(stocks[i]);
        memset(stocks[i], 0, sizeof *stocks[i]);
        stock_ns[i] = WP_TIME_NEVER;
    }
    now_ns = BEGIN_NS;
    no_connection = NULL;
    used_up = false;
    has_output = false;
    starts = 100;
    received = 0;
    breaks = NULL;
    leaving = -1;
    woken = 0;
    found = 0;
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < STOCKS; i++) {
        free(stocks[i]);
    }
    return pthread_mutex_destroy(&client.lock);
}

static void
serve(const happening *some)
{
    script = some;
    assert_null(wp_client_serve(&client));
    assert_null(*script);
    NOTE("connected %d, since %ld ms; again at %ld ms after %u failures; %s\n",
         client.connected, since_begin(client.connected_ns),
         since_begin(client.reconnect_ns), client.failures, client.unreachable);
}

/* --- Connecting --- */

static void
passes_10_ms(void)
{
    now_ns += MS(10);
}

static void
passes_to_reconnect(void)
{
    now_ns = client.reconnect_ns;
}

static void
nearly_passes(void)
{
    now_ns = client.reconnect_ns - 1;
}

static void
first_job(void)
{
    queue_job(0, MS(100));
}

static void
first_stock(void)
{
    wp_list_push_back(&client.stocks, &stocks[0]->node);
}

static void
can_connect(void)
{
    no_connection = NULL;
    now_ns = client.reconnect_ns;
}

static void
test_it_connects_for_somebody(void **state)
{
    static const happening some[] = {passes_10_ms, first_job, passes_10_ms,
                                     NULL};
    static const happening stock[] = {passes_10_ms, first_stock, NULL};

    (void)state;
    serve(some);
    NOTE("\n");
    client.closing = false;
    client.connected = false;
    serve(stock);
    golden_compare(seen.text, GOLDEN("connects"));
}

static void
test_it_tries_again(void **state)
{
    static const happening some[] = {nearly_passes,
                                     passes_to_reconnect,
                                     passes_to_reconnect,
                                     passes_to_reconnect,
                                     passes_to_reconnect,
                                     passes_to_reconnect,
                                     passes_to_reconnect,
                                     passes_to_reconnect,
                                     passes_to_reconnect,
                                     can_connect,
                                     NULL};

    (void)state;
    no_connection = "there is no such socket";
    queue_job(0, 60 * WP_NS_PER_S);
    wp_list_push_back(&client.stocks, &stocks[0]->node);
    wp_list_push_back(&client.stocks, &stocks[1]->node);
    serve(some);
    golden_compare(seen.text, GOLDEN("tries_again"));
}

/* --- Losing the connection --- */

static void
loses_it(void)
{
    breaks = "it broke";
}

static void
loses_it_after_a_second(void)
{
    now_ns = client.connected_ns + WP_NS_PER_S;
    breaks = "it broke";
}

static void
loses_it_within_a_second(void)
{
    now_ns = client.connected_ns + WP_NS_PER_S - 1;
    breaks = "it broke at once";
}

static void
test_a_connection_that_breaks(void **state)
{
    static const happening some[] = {loses_it_after_a_second,
                                     passes_10_ms,
                                     loses_it_within_a_second,
                                     passes_to_reconnect,
                                     loses_it,
                                     passes_to_reconnect,
                                     NULL};

    (void)state;
    queue_job(0, 60 * WP_NS_PER_S);
    queue_job(1, 60 * WP_NS_PER_S);
    wp_list_push_back(&client.stocks, &stocks[0]->node);
    wp_list_push_back(&client.stocks, &stocks[1]->node);
    serve(some);
    golden_compare(seen.text, GOLDEN("breaks"));
}

static void
is_used_up(void)
{
    used_up = true;
    now_ns = client.connected_ns + WP_NS_PER_S;
}

static void
is_new(void)
{
    used_up = false;
}

static void
nobody_wants_it(void)
{
    while (wp_list_pop_front(&client.under_way) != NULL) {
    }
    used_up = true;
}

static void
test_a_connection_that_is_used_up(void **state)
{
    static const happening some[] = {nobody_wants_it, first_stock, is_new,
                                     is_used_up,      is_new,      NULL};

    (void)state;
    queue_job(0, 60 * WP_NS_PER_S);
    serve(some);
    golden_compare(seen.text, GOLDEN("used_up"));
}

/* --- Jobs --- */

static void
more_jobs(void)
{
    queue_job(1, MS(50));
    queue_job(2, MS(30));
    queue_job(3, MS(40));
    starts = 1;
}

static void
starts_again(void)
{
    starts = 1;
}

static void
passes_30_ms(void)
{
    now_ns += MS(30);
}

static void
hears(void)
{
    received += 100;
}

static void
test_jobs_in_their_order(void **state)
{
    static const happening some[] = {more_jobs,    starts_again, passes_10_ms,
                                     passes_30_ms, hears,        passes_30_ms,
                                     NULL};

    (void)state;
    queue_job(0, MS(1000));
    serve(some);
    golden_compare(seen.text, GOLDEN("jobs"));
}

/* A call is late: the connection stays when something came since it began. */
static void
test_late_answers(void **state)
{
    static const happening heard[] = {hears, passes_30_ms, passes_30_ms, NULL};
    static const happening silence[] = {passes_30_ms, passes_10_ms, NULL};

    (void)state;
    queue_job(0, MS(31));
    queue_job(1, MS(61));
    serve(heard);
    NOTE("\n");
    client.closing = false;
    client.connected = false;
    queue_job(2, MS(31));
    queue_job(3, MS(31));
    queue_job(4, MS(500));
    wp_list_push_back(&client.stocks, &stocks[0]->node);
    serve(silence);
    golden_compare(seen.text, GOLDEN("late"));
}

/* A call that waited for a connection in vain says why there was none. */
static void
test_calls_that_never_began(void **state)
{
    static const happening some[] = {passes_30_ms, passes_10_ms, NULL};
    static const happening others[] = {passes_30_ms, NULL};

    (void)state;
    client.reconnect_ns = now_ns + MS(500);
    queue_job(0, MS(30));
    queue_job(1, MS(29));
    queue_job(2, MS(41));
    serve(some);
    NOTE("\n");
    client.closing = false;
    no_connection =
        "0123456789012345678901234567890123456789012345678901234567890123456789"
        "0123456789012345678901234567890123456789012345678901234567890123456789"
        "01234567890123456789012345678901234567890123456789012345678901234567";
    client.reconnect_ns = now_ns;
    queue_job(0, MS(30));
    serve(others);
    golden_compare(seen.text, GOLDEN("never_began"));
}

/* --- Stocks --- */

static void
second_leaves(void)
{
    leaving = 1;
}

static void
others_leave(void)
{
    leaving = 2;
}

static void
stocks_turn(void)
{
    stock_ns[0] = now_ns + MS(500);
    stock_ns[1] = now_ns + MS(300);
    stock_ns[2] = now_ns + MS(400);
}

static void
test_stocks(void **state)
{
    static const happening some[] = {stocks_turn, second_leaves, others_leave,
                                     passes_10_ms, NULL};

    (void)state;
    for (int i = 0; i < STOCKS; i++) {
        wp_list_push_back(&client.stocks, &stocks[i]->node);
    }
    serve(some);
    golden_compare(seen.text, GOLDEN("stocks"));
}

/* --- Resting --- */

static void
sends(void)
{
    has_output = true;
}

static void
sent(void)
{
    has_output = false;
}

static void
wakes(void)
{
    woken = POLLIN;
    found = 1;
}

static void
others_wake(void)
{
    woken = POLLERR;
    found = 1;
}

static void
wakes_in_vain(void)
{
    woken = POLLIN;
    found = 0;
}

static void
is_overdue(void)
{
    stock_ns[0] = now_ns - 1;
}

static void
is_due_soon(void)
{
    stock_ns[0] = now_ns + 1500000001;
}

static void
test_rests(void **state)
{
    static const happening some[] = {sends,         passes_10_ms, sent,
                                     wakes,         passes_10_ms, others_wake,
                                     wakes_in_vain, is_overdue,   is_due_soon,
                                     passes_10_ms,  NULL};

    (void)state;
    wp_list_push_back(&client.stocks, &stocks[0]->node);
    serve(some);
    golden_compare(seen.text, GOLDEN("rests"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(test_it_connects_for_somebody),
        TEST(test_it_tries_again),
        TEST(test_a_connection_that_breaks),
        TEST(test_a_connection_that_is_used_up),
        TEST(test_jobs_in_their_order),
        TEST(test_late_answers),
        TEST(test_calls_that_never_began),
        TEST(test_stocks),
        TEST(test_rests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
