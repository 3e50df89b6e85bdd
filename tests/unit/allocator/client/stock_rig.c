#include "tests/unit/allocator/client/stock_rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"
#include "pool/base/rng.h"

enum {
    ROOM = 64 << 10,
};

struct golden seen;
struct warmpool client;
struct warmpool_stock *stock;
static char h2;
int64_t now_ns;
bool locked;

/* What those below answer. */
bool may_send;
bool may_start;
bool no_memory;
/* Happens while a thread waits; each wait the next. */
void (*const *script)(void);

const char *
at(int64_t ns)
{
    static char texts[8][40];
    static unsigned n;
    char *text = texts[n++ % 8];
    int64_t past_ns = ns - BEGIN_NS;

    if (ns == WP_TIME_NEVER) {
        return "never";
    }
    if (ns == 0) {
        return "0";
    }
    (void)snprintf(text, sizeof texts[0], "%s%lld.%06lld",
                   past_ns < 0 ? "-" : "", llabs((long long)past_ns / 1000000),
                   llabs((long long)past_ns % 1000000));
    return text;
}

/* --- What lies below --- */

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int
__wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    if (lock != &client.lock) {
        return __real_pthread_mutex_lock(lock);
    }
    assert_false(locked);
    locked = true;
    return 0;
}

int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
int
__wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    if (lock != &client.lock) {
        return __real_pthread_mutex_unlock(lock);
    }
    assert_true(locked);
    locked = false;
    return 0;
}

static const char *
name_of(const pthread_cond_t *cond)
{
    return cond == &client.stock_left ? "a stock's leaving" : "a job's end";
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int
__wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
    assert_ptr_equal(lock, &client.lock);
    assert_true(locked);
    NOTE("wait for %s\n", name_of(cond));
    assert_non_null(*script);
    locked = false;
    (*script++)();
    assert_false(locked);
    locked = true;
    return 0;
}

int __wrap_pthread_cond_init(pthread_cond_t *cond,
                             const pthread_condattr_t *attr);
int
__wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
    assert_null(attr);
    NOTE("begin of %s\n", name_of(cond));
    return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *cond);
int
__wrap_pthread_cond_destroy(pthread_cond_t *cond)
{
    assert_false(locked);
    NOTE("end of %s\n", name_of(cond));
    return 0;
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int
__wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    assert_true(locked);
    NOTE("signal %s\n", name_of(cond));
    return 0;
}

void __wrap_wp_client_wake(struct warmpool *of);
void
__wrap_wp_client_wake(struct warmpool *of)
{
    assert_ptr_equal(of, &client);
    NOTE("wake\n");
}

int64_t __wrap_wp_client_now_ns(void);
int64_t
__wrap_wp_client_now_ns(void)
{
    return now_ns;
}

static int64_t
wall_ns(const struct wp_clock *clock)
{
    (void)clock;
    return WALL_MS * WP_NS_PER_MS + (now_ns - BEGIN_NS);
}

const struct wp_clock *__wrap_wp_clock_system(void);
const struct wp_clock *
__wrap_wp_clock_system(void)
{
    static const struct wp_clock clock = {.wall_ns = wall_ns};

    return &clock;
}

int64_t __wrap_wp_backoff_ns(int64_t min_ns, int64_t max_ns, uint32_t failures);
int64_t
__wrap_wp_backoff_ns(int64_t min_ns, int64_t max_ns, uint32_t failures)
{
    NOTE("back off %lld to %lld ns, %u failures\n", (long long)min_ns,
         (long long)max_ns, failures);
    return MS(33);
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *
__wrap_malloc(size_t size)
{
    return no_memory ? NULL : __real_malloc(size);
}

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *
__wrap_aligned_alloc(size_t alignment, size_t size)
{
    void *room = no_memory ? NULL : __real_aligned_alloc(alignment, size);

    if (room != NULL) {
        memset(room, 0x5a, size);
    }
    return room;
}

/* In runs: the tests that fill a message are long otherwise. */
static void
note_numbers(const char *what, const uint64_t *numbers, uint32_t n)
{
    if (n == 0) {
        return;
    }
    NOTE(" %s", what);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t from = i;

        while (i + 1 < n && numbers[i + 1] == numbers[i] + 1) {
            i++;
        }
        NOTE(" %llu", (unsigned long long)numbers[from]);
        if (i > from) {
            NOTE("-%llu", (unsigned long long)numbers[i]);
        }
    }
}

static void
note_request(const struct wp_h2_call *call)
{
    static alignas(max_align_t) char room[ROOM];
    struct wp_wire_stream_request request;
    const struct wp_wire_stream_open *open = &request.open;
    struct wp_arena arena;
    struct wp_err err;

    assert_ptr_equal(call, &stock->call);
    wp_arena_init(&arena, room, sizeof room);
    assert_int_equal(
        wp_wire_unpack_stream_request(&arena, call->request + WP_H2_FRAME_HEAD,
                                      call->request_len, &request, &err),
        WP_OK);
    if (request.has_open) {
        NOTE(" open pool %.*s/%.*s id %.*s tenant %.*s ttl %lld ahead %u%s",
             WP_STR_ARG(open->pool.pool_namespace), WP_STR_ARG(open->pool.name),
             WP_STR_ARG(open->stream_id), WP_STR_ARG(open->tenant),
             (long long)open->ttl_ms, open->ahead,
             open->resume ? " resume" : "");
        note_numbers("keep", open->keep, open->n_keep);
    }
    note_numbers("took", request.took, request.n_took);
    note_numbers("back", request.back, request.n_back);
    NOTE("\n");
}

bool __wrap_wp_h2_start(struct wp_h2 *of, struct wp_h2_call *call);
bool
__wrap_wp_h2_start(struct wp_h2 *of, struct wp_h2_call *call)
{
    assert_ptr_equal(of, &h2);
    assert_false(locked);
    assert_int_equal(call->method, WP_CALL_STREAM);
    assert_ptr_equal(call->request, stock->out);
    assert_ptr_equal(call->ctx, stock);
    assert_true(call->received == wp_stock_received);
    assert_ptr_equal(call->details, stock->details);
    assert_int_equal(call->details_cap, sizeof stock->details);
    NOTE("start%s:", may_start ? "" : " in vain");
    note_request(call);
    return may_start;
}

bool __wrap_wp_h2_may_send(const struct wp_h2_call *call);
bool
__wrap_wp_h2_may_send(const struct wp_h2_call *call)
{
    assert_ptr_equal(call, &stock->call);
    return may_send;
}

void __wrap_wp_h2_send(struct wp_h2 *of, struct wp_h2_call *call);
void
__wrap_wp_h2_send(struct wp_h2 *of, struct wp_h2_call *call)
{
    assert_ptr_equal(of, &h2);
    NOTE("send:");
    note_request(call);
}

void __wrap_wp_h2_end(struct wp_h2 *of, struct wp_h2_call *call);
void
__wrap_wp_h2_end(struct wp_h2 *of, struct wp_h2_call *call)
{
    assert_ptr_equal(of, &h2);
    assert_ptr_equal(call, &stock->call);
    NOTE("end the stream\n");
}

void __wrap_wp_h2_cancel(struct wp_h2 *of, struct wp_h2_call *call);
void
__wrap_wp_h2_cancel(struct wp_h2 *of, struct wp_h2_call *call)
{
    assert_ptr_equal(of, &h2);
    assert_ptr_equal(call, &stock->call);
    NOTE("cancel the stream\n");
}

static void
lost(void *ctx, const char *claim_id)
{
    assert_ptr_equal(ctx, &seen);
    assert_false(locked);
    NOTE("lost %s\n", claim_id);
}

/* --- The world --- */

struct warmpool_stock *
open_stock(const char *pool)
{
    const struct warmpool_stock_options options = {
        .pool = pool, .ahead = 3, .ttl_ms = TTL_MS, .lost = lost, .ctx = &seen};
    struct warmpool_stock *opened =
        warmpool_stock_open(&client, &options, NULL);

    assert_non_null(opened);
    return opened;
}

int
set_up(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof seen);
    memset(&client, 0, sizeof client);
    locked = false;
    may_send = true;
    may_start = true;
    no_memory = false;
    now_ns = BEGIN_NS;
    client.h2 = (struct wp_h2 *)&h2;
    wp_list_init(&client.queue);
    wp_list_init(&client.stocks);
    wp_list_init(&client.under_way);
    (void)snprintf(client.tenant, sizeof client.tenant, "ten");
    (void)snprintf(client.id, sizeof client.id, "cid");
    atomic_init(&client.n_ids, 5);
    stock = open_stock("here/p");
    return 0;
}

int
tear_down(void **state)
{
    (void)state;
    assert_false(locked);
    assert_true(wp_list_empty(&client.queue));
    assert_true(wp_list_empty(&client.under_way));
    free(stock);
    return 0;
}

void
show_slot(uint32_t i)
{
    static const char *const names[] = {"free", "stocked", "renewing", "taken",
                                        "old"};
    const struct wp_stock_slot *slot = &stock->slots[i];
    enum wp_stock_slot_state state = wp_stock_slot_state(stock, i);

    if (state == WP_STOCK_SLOT_FREE) {
        return;
    }
    NOTE("  %u %s number %lld%s%s renew %s useful %s ask %s; %s %s %s %02x "
         "%llu %lld\n",
         i, names[state], (long long)slot->number, slot->told ? " told" : "",
         slot->settled ? " settled" : "", at(slot->renew_ns),
         at(slot->useful_ns), at(slot->ask_ns), slot->lease.claim_id,
         slot->lease.sandbox, slot->lease.endpoint, slot->lease.token[67],
         (unsigned long long)slot->lease.fence,
         (long long)(slot->lease.deadline_unix_ms - WALL_MS));
}

void
show_head(void)
{
    static const char *const names[] = {"none", "opening", "open", "ending"};
    struct warmpool_error error;
    unsigned n = warmpool_stock_state(stock, &error);

    NOTE("= %s: %s%s%s%s%s%u in stock, %u jobs, %u bytes, %u failures, "
         "reopen %s, busy %s, close %s; %d %s\n",
         at(now_ns), names[stock->state], stock->resumes ? " resumes " : " ",
         stock->usable ? "usable " : "", stock->dozes ? "dozes " : "",
         stock->has_orphans ? "orphans " : "", n, stock->n_jobs, stock->n_in,
         stock->failures, at(stock->reopen_ns), at(stock->busy_until_ns),
         at(stock->close_ns), error.code, error.message);
}

void
show(void)
{
    show_head();
    for (uint32_t i = 0; i < WP_STOCK_SLOTS; i++) {
        show_slot(i);
    }
}

void
turn(void)
{
    int64_t next_ns = wp_stock_turn(stock, now_ns);

    NOTE("turn at %s: next %s\n", at(now_ns), at(next_ns));
}

void
turn_at(int64_t ns)
{
    now_ns = ns;
    turn();
}

void
take(void)
{
    struct warmpool_lease lease;

    memset(&lease, 0, sizeof lease);
    if (warmpool_stock_take(stock, &lease)) {
        NOTE("take %s %s %s %02x %llu %lld\n", lease.claim_id, lease.sandbox,
             lease.endpoint, lease.token[67], (unsigned long long)lease.fence,
             (long long)(lease.deadline_unix_ms - WALL_MS));
    } else {
        NOTE("take nothing\n");
    }
}

/* --- What the daemon says --- */

bool
hear(const struct wp_wire_stream_response *response)
{
    static uint8_t bytes[WP_H2_FRAME_HEAD + ROOM];
    size_t len = wp_wire_size_stream_response(response);

    assert_true(len <= ROOM);
    for (int i = 0; i < 4; i++) {
        bytes[1 + i] = (uint8_t)(len >> (24 - 8 * i));
    }
    (void)wp_wire_pack_stream_response(response, bytes + WP_H2_FRAME_HEAD);
    return wp_stock_received(&stock->call, bytes, WP_H2_FRAME_HEAD + len);
}

void
hear_leases(uint64_t first, uint32_t n, int64_t for_ms)
{
    static struct wp_grant grants[100];
    static char ids[100][16];
    static struct wp_wire_lease_ahead leases[100];

    assert_true(n <= 100);
    memset(grants, 0, sizeof grants);
    for (uint32_t i = 0; i < n; i++) {
        unsigned long long number = first + i;

        grants[i].fence = 100 + number;
        grants[i].deadline_wall_ms =
            WALL_MS + (now_ns - BEGIN_NS) / WP_NS_PER_MS + for_ms;
        grants[i].served = WP_SERVED_WARM;
        (void)snprintf(grants[i].sandbox, sizeof grants[i].sandbox, "box-%llu",
                       number);
        (void)snprintf(grants[i].endpoint, sizeof grants[i].endpoint,
                       "unix:/b/%llu", number);
        (void)snprintf(grants[i].pool, sizeof grants[i].pool, "p");
        memset(grants[i].token, (int)number, sizeof grants[i].token);
        (void)snprintf(ids[i], sizeof ids[i], "s/%llu", number);
        leases[i] = (struct wp_wire_lease_ahead){number, wp_str_from(ids[i]),
                                                 &grants[i]};
    }
    assert_true(hear(
        &(struct wp_wire_stream_response){.leases = leases, .n_leases = n}));
}

void
hear_of(uint64_t taken, uint64_t ended)
{
    assert_true(hear(&(struct wp_wire_stream_response){.taken = &taken,
                                                       .n_taken = taken != 0,
                                                       .ended = &ended,
                                                       .n_ended = ended != 0}));
}

/* --- Jobs, which the test answers --- */

static void
note_job(const struct wp_job *job)
{
    static const char *const names[] = {"claim", "renew", "release"};
    static alignas(max_align_t) char room[ROOM];
    const uint8_t *bytes = job->request + WP_H2_FRAME_HEAD;
    size_t len = job->call.request_len;
    struct wp_wire_claim_request claim;
    struct wp_wire_renew_request renew;
    struct wp_wire_release_request release;
    struct wp_arena arena;
    struct wp_err err;

    assert_ptr_equal(job->client, &client);
    assert_ptr_equal(job->call.request, job->request);
    assert_ptr_equal(job->call.reply, job->reply);
    assert_int_equal(job->call.reply_cap, sizeof job->reply);
    assert_ptr_equal(job->call.details, job->details);
    assert_int_equal(job->call.details_cap, sizeof job->details);
    assert_ptr_equal(job->call.ctx, job);
    assert_null(job->call.received);
    assert_int_equal(job->call.method, job->method);
    assert_false(job->is_done);
    wp_arena_init(&arena, room, sizeof room);
    NOTE("job %s until %s, tried %u:", names[job->method], at(job->until_ns),
         job->tries);
    if (job->over != NULL) {
        NOTE(" of slot %llu,", (unsigned long long)job->number);
        assert_ptr_equal(job->ctx, stock);
    }
    if (job->method == WP_CALL_CLAIM) {
        assert_int_equal(
            wp_wire_unpack_claim_request(&arena, bytes, len, &claim, &err),
            WP_OK);
        NOTE(" pool %.*s/%.*s id %.*s tenant %.*s ttl %lld wait %lld\n",
             WP_STR_ARG(claim.pool.pool_namespace), WP_STR_ARG(claim.pool.name),
             WP_STR_ARG(claim.claim_id), WP_STR_ARG(claim.tenant),
             (long long)claim.ttl_ms, (long long)claim.wait_ms);
    } else if (job->method == WP_CALL_RENEW) {
        assert_int_equal(
            wp_wire_unpack_renew_request(&arena, bytes, len, &renew, &err),
            WP_OK);
        assert_memory_equal(job->token, renew.token, sizeof renew.token);
        NOTE(" token %02x ttl %lld\n", renew.token[67],
             (long long)renew.ttl_ms);
    } else {
        assert_int_equal(
            wp_wire_unpack_release_request(&arena, bytes, len, &release, &err),
            WP_OK);
        assert_memory_equal(job->token, release.token, sizeof release.token);
        NOTE(" token %02x\n", release.token[67]);
    }
}

/* As the client's thread does, with what is first in the queue. */
struct wp_job *
start_job(void)
{
    struct wp_list *node = wp_list_pop_front(&client.queue);
    struct wp_job *job;

    assert_non_null(node);
    job = WP_CONTAINER_OF(node, struct wp_job, node);
    note_job(job);
    wp_list_push_back(&client.under_way, &job->node);
    return job;
}

void
answer(struct wp_job *job, int status)
{
    NOTE("answer %d\n", status);
    job->call.status = status;
    job->call.done(&job->call);
}

void
answer_renewal(struct wp_job *job, uint8_t token, int64_t deadline_ms)
{
    struct wp_wire_renew_response response = {
        .fence = 9, .deadline_wall_ms = WALL_MS + deadline_ms};

    memset(response.token, token, sizeof response.token);
    job->call.reply_len =
        wp_wire_pack_renew_response(&response, job->reply + WP_H2_FRAME_HEAD);
    answer(job, WARMPOOL_OK);
}

/* Connected, and the stream is answered. */
void
bring_open(void)
{
    client.connected = true;
    turn();
    assert_true(hear(&(struct wp_wire_stream_response){.n_leases = 0}));
}

/* Nothing is to be taken any more. */
void
drain(void)
{
    while (wp_stock_get(stock) != UINT32_MAX) {
    }
}

void
stream_ends(int status, const char *details)
{
    (void)snprintf(stock->details, sizeof stock->details, "%s", details);
    stock->call.status = status;
    NOTE("the stream ends: %d\n", status);
    stock->call.done(&stock->call);
    show();
}
