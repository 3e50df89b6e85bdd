/* What the store of a file does with its parts: the file, the turn, the queue
 * and the two threads, all of which are the test's; and what is left when one of
 * them does not begin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/stores/sqlite/db.h"
#include "allocator/stores/sqlite/log_sync.h"
#include "allocator/stores/sqlite/store.h"
#include "allocator/stores/sqlite/turn.h"
#include "pool/leases/commit_queue.h"
#include "proto/loop/thread.h"
#include "tests/support/base/journal.h"

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_wp_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);
int __wrap_pthread_join(pthread_t thread, void **out);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);
struct wp_lease_db *
__wrap_wp_lease_db_open(const struct wp_lease_sqlite_config *config,
                        struct wp_err *err);
void __wrap_wp_lease_db_close(struct wp_lease_db *db);
const char *__wrap_wp_lease_db_path(const struct wp_lease_db *db);
enum wp_status __wrap_wp_lease_db_load(
    struct wp_lease_db *db,
    void (*each)(void *ctx, const struct wp_lease_record *record), void *ctx,
    struct wp_err *err);
enum wp_status __wrap_wp_lease_log_sync_start(struct wp_lease_log_sync *sync,
                                              const char *path,
                                              struct wp_err *err);
void __wrap_wp_lease_log_sync_stop(struct wp_lease_log_sync *sync);
void __wrap_wp_lease_turn_init(struct wp_lease_turn *turn,
                               const struct wp_lease_sqlite_config *config,
                               struct wp_lease_db *db,
                               struct wp_lease_log_sync *log);
void __wrap_wp_lease_turn_fini(struct wp_lease_turn *turn);
bool __wrap_wp_lease_turn_serve(struct wp_lease_turn *turn,
                                struct wp_lease_op *list);
bool __wrap_wp_lease_turn_is_slow(const struct wp_lease_turn *turn);
void __wrap_wp_lease_turn_finish(struct wp_lease_turn *turn,
                                 struct wp_lease_op *list);
void __wrap_wp_lease_turn_stats(struct wp_lease_turn *turn,
                                struct wp_lease_sqlite_stats *stats);
void __wrap_wp_commit_queue_init(struct wp_commit_queue *queue);
void __wrap_wp_commit_queue_fini(struct wp_commit_queue *queue);
bool __wrap_wp_commit_queue_push(struct wp_commit_queue *queue,
                                 struct wp_lease_op *op);
bool __wrap_wp_commit_queue_gather(struct wp_commit_queue *queue,
                                   struct wp_lease_op *op);
struct wp_lease_op *
__wrap_wp_commit_queue_try_take(struct wp_commit_queue *queue);
struct wp_lease_op *
__wrap_wp_commit_queue_take_more(struct wp_commit_queue *queue);
void __wrap_wp_commit_queue_hand_over(struct wp_commit_queue *queue);
bool __wrap_wp_commit_queue_take(struct wp_commit_queue *queue,
                                 struct wp_lease_op **list);
void __wrap_wp_commit_queue_close(struct wp_commit_queue *queue);

static struct wp_lease_op ops[8];
static struct wp_lease_turn *the_turn;
static void *(*committer)(void *);
static void *committer_arg;

/* What the parts answer. */
static struct {
    bool no_memory;
    enum wp_status db;
    enum wp_status log;
    int thread;
    bool closed; /* The queue. */
    unsigned
        lists; /* So many are taken, one after the other, of one op each. */
    unsigned taken;
    unsigned slow_at; /* From that list on it is slow. */
    unsigned fails_at;
} parts;

static void
tell(const char *what)
{
    journal("%s", what);
    journal_line();
}

void *
__wrap_aligned_alloc(size_t alignment, size_t size)
{
    void *memory =
        parts.no_memory ? NULL : __real_aligned_alloc(alignment, size);

    if (memory != NULL) {
        memset(memory, 0xff, size); /* Whatever was there. */
    }
    return memory;
}

int
__wrap_wp_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    memset(thread, 0x77, sizeof *thread);
    committer = run;
    committer_arg = arg;
    tell("thread start");
    return parts.thread;
}

int
__wrap_pthread_join(pthread_t thread, void **out)
{
    pthread_t expected;

    memset(&expected, 0x77, sizeof expected);
    assert_memory_equal(&thread, &expected, sizeof thread);
    assert_null(out);
    tell("join");
    return 0;
}

int
__wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    assert_true(pthread_equal(thread, pthread_self()));
    journal("name '%s'", name);
    journal_line();
    return 0;
}

static void
tell_config(const struct wp_lease_sqlite_config *config)
{
    journal(" '%s' sync %d busy %u batch %u records %u pages %u", config->path,
            (int)config->synchronous, config->busy_timeout_ms,
            config->batch_max, config->records, config->checkpoint_pages);
}

static struct wp_lease_db *
the_db(void)
{
    return (struct wp_lease_db *)(void *)&ops[7];
}

struct wp_lease_db *
__wrap_wp_lease_db_open(const struct wp_lease_sqlite_config *config,
                        struct wp_err *err)
{
    journal("db open");
    tell_config(config);
    journal_line();
    (void)wp_err_set(err, parts.db, "the file is odd");
    return parts.db == WP_OK ? the_db() : NULL;
}

void
__wrap_wp_lease_db_close(struct wp_lease_db *db)
{
    assert_ptr_equal(db, the_db());
    tell("db close");
}

const char *
__wrap_wp_lease_db_path(const struct wp_lease_db *db)
{
    assert_ptr_equal(db, the_db());
    return "./as/it/is";
}

enum wp_status
__wrap_wp_lease_db_load(struct wp_lease_db *db,
                        void (*each)(void *ctx,
                                     const struct wp_lease_record *record),
                        void *ctx, struct wp_err *err)
{
    const struct wp_lease_record record = {.fence = 7};

    assert_ptr_equal(db, the_db());
    tell("db load");
    each(ctx, &record);
    return wp_err_set(err, WP_UNAVAILABLE, "read in part");
}

enum wp_status
__wrap_wp_lease_log_sync_start(struct wp_lease_log_sync *sync, const char *path,
                               struct wp_err *err)
{
    assert_ptr_equal(the_turn->log, sync);
    journal("log sync start '%s'", path);
    journal_line();
    return parts.log != WP_OK ? wp_err_set(err, parts.log, "the log is odd")
                              : WP_OK;
}

void
__wrap_wp_lease_log_sync_stop(struct wp_lease_log_sync *sync)
{
    assert_false(sync->running);
    tell("log sync stop");
}

void
__wrap_wp_lease_turn_init(struct wp_lease_turn *turn,
                          const struct wp_lease_sqlite_config *config,
                          struct wp_lease_db *db, struct wp_lease_log_sync *log)
{
    assert_ptr_equal(db, the_db());
    assert_null(turn->waiting);
    assert_int_equal(turn->commits, 0);
    turn->config = *config;
    turn->log = log;
    the_turn = turn;
    journal("turn init");
    tell_config(config);
    journal("%s", log != NULL ? " with a log" : "");
    journal_line();
}

void
__wrap_wp_lease_turn_fini(struct wp_lease_turn *turn)
{
    assert_ptr_equal(turn, the_turn);
    tell("turn fini");
}

static void
tell_op(const char *what, const struct wp_lease_op *op)
{
    journal("%s %d", what, op != NULL ? (int)(op - ops) : -1);
    journal_line();
}

bool
__wrap_wp_lease_turn_serve(struct wp_lease_turn *turn, struct wp_lease_op *list)
{
    assert_ptr_equal(turn, the_turn);
    tell_op("serve", list);
    return parts.taken < parts.fails_at;
}

bool
__wrap_wp_lease_turn_is_slow(const struct wp_lease_turn *turn)
{
    assert_ptr_equal(turn, the_turn);
    return parts.taken >= parts.slow_at;
}

void
__wrap_wp_lease_turn_finish(struct wp_lease_turn *turn,
                            struct wp_lease_op *list)
{
    assert_ptr_equal(turn, the_turn);
    tell_op("finish", list);
}

void
__wrap_wp_lease_turn_stats(struct wp_lease_turn *turn,
                           struct wp_lease_sqlite_stats *stats)
{
    assert_ptr_equal(turn, the_turn);
    assert_int_equal(stats->commits, 0);
    stats->failures = 3;
}

void
__wrap_wp_commit_queue_init(struct wp_commit_queue *queue)
{
    queue->sleeps = 5;
    tell("queue init");
}

void
__wrap_wp_commit_queue_fini(struct wp_commit_queue *queue)
{
    assert_int_equal(queue->sleeps, 5);
    tell("queue fini");
}

bool
__wrap_wp_commit_queue_push(struct wp_commit_queue *queue,
                            struct wp_lease_op *op)
{
    assert_int_equal(queue->sleeps, 5);
    tell_op("push", op);
    return !parts.closed;
}

bool
__wrap_wp_commit_queue_gather(struct wp_commit_queue *queue,
                              struct wp_lease_op *op)
{
    assert_int_equal(queue->sleeps, 5);
    tell_op("gather", op);
    return !parts.closed;
}

static struct wp_lease_op *
take_one(void)
{
    return parts.taken < parts.lists ? &ops[parts.taken++] : NULL;
}

struct wp_lease_op *
__wrap_wp_commit_queue_try_take(struct wp_commit_queue *queue)
{
    assert_int_equal(queue->sleeps, 5);
    tell("try take");
    return take_one();
}

struct wp_lease_op *
__wrap_wp_commit_queue_take_more(struct wp_commit_queue *queue)
{
    assert_int_equal(queue->sleeps, 5);
    tell("take more");
    return take_one();
}

void
__wrap_wp_commit_queue_hand_over(struct wp_commit_queue *queue)
{
    assert_int_equal(queue->sleeps, 5);
    tell_op("hand over", the_turn->waiting);
}

bool
__wrap_wp_commit_queue_take(struct wp_commit_queue *queue,
                            struct wp_lease_op **list)
{
    assert_int_equal(queue->sleeps, 5);
    tell("take");
    *list = take_one();
    return *list != NULL;
}

void
__wrap_wp_commit_queue_close(struct wp_commit_queue *queue)
{
    assert_int_equal(queue->sleeps, 5);
    tell("close");
}

/* --- the store --- */

static int
set_up(void **state)
{
    (void)state;
    memset(&parts, 0, sizeof parts);
    parts.slow_at = 100;
    parts.fails_at = 100;
    the_turn = NULL;
    journal_drop();
    return 0;
}

static struct wp_lease_sqlite *
create(const struct wp_lease_sqlite_config *config, bool tells)
{
    struct wp_err err = {0};
    struct wp_lease_sqlite *sqlite =
        wp_lease_sqlite_create(config, tells ? &err : NULL);

    journal("%s", sqlite != NULL ? "created" : "not created");
    if (sqlite == NULL && tells) {
        journal(": %s %d '%s'", wp_status_name(err.status), err.os_errno,
                err.msg);
    }
    journal_line();
    return sqlite;
}

static void
each(void *ctx, const struct wp_lease_record *record)
{
    *(uint64_t *)ctx += record->fence;
}

/* All that a store is asked for. */
static void
use(struct wp_lease_sqlite *sqlite)
{
    struct wp_lease_store store = wp_lease_sqlite_store(sqlite);
    struct wp_lease_sqlite_stats stats;
    struct wp_err err = {0};
    uint64_t fences = 0;

    journal("store '%s'%s%s%s", store.ops->name,
            store.ops->durable ? " durable" : "",
            store.ops->shared ? " shared" : "",
            store.ops->flush != NULL ? " flush" : "");
    journal_line();
    assert_ptr_equal(store.self, sqlite);
    for (int i = 0; i < 4; i++) {
        ops[i].gathered = (i & 1) != 0;
        parts.closed = (i & 2) != 0;
        journal("=> %s",
                wp_status_name(store.ops->commit(store.self, &ops[i])));
        journal_line();
    }
    journal("=> %s",
            wp_status_name(store.ops->load(store.self, each, &fences, &err)));
    journal(" '%s' %d", err.msg, (int)fences);
    journal_line();
    memset(&stats, 0xff, sizeof stats);
    wp_lease_sqlite_stats(sqlite, &stats);
    journal("%d failures %d wakeups %d commits", (int)stats.failures,
            (int)stats.wakeups, (int)stats.commits);
    journal_line();
}

static void
end(struct wp_lease_sqlite *sqlite)
{
    parts.taken = 0;
    parts.lists = 2;
    assert_null(committer(committer_arg));
    tell("stop");
    wp_lease_sqlite_stop(sqlite);
    tell("destroy");
    wp_lease_sqlite_destroy(sqlite);
}

static void
test_all_that_it_does(void **state)
{
    static const struct wp_lease_sqlite_config configs[] = {
        {.path = "x"},
        {.path = "x", .synchronous = WP_LEASE_SQLITE_NORMAL},
        {.path = "x",
         .synchronous = WP_LEASE_SQLITE_NORMAL,
         .busy_timeout_ms = 1,
         .batch_max = 2,
         .records = 3,
         .checkpoint_pages = 4},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(configs); i++) {
        struct wp_lease_sqlite *sqlite = create(&configs[i], true);

        use(sqlite);
        end(sqlite);
    }
    wp_lease_sqlite_destroy(NULL);
    journal_compare(WP_TEST_GOLDEN "/store.txt");
}

/* Who flushes does what has come, for a while; the rest is the committer's. */
static void
test_a_flush(void **state)
{
    static const struct wp_lease_sqlite_config config = {
        .path = "x", .synchronous = WP_LEASE_SQLITE_NORMAL};
    struct wp_lease_sqlite *sqlite = create(&config, true);
    struct wp_lease_store store = wp_lease_sqlite_store(sqlite);

    (void)state;
    journal_drop();
    for (unsigned i = 0; i < 10; i++) {
        parts.lists = i < 5 ? i : 3;
        parts.slow_at = i < 5 ? 100 : i - 4;
        parts.fails_at = i < 7 ? 100 : i - 6;
        parts.taken = 0;
        the_turn->waiting = NULL;
        journal("--- %u lists, slow at %u, fails at %u", parts.lists,
                parts.slow_at, parts.fails_at);
        journal_line();
        store.ops->flush(store.self);
    }
    journal_mute(true);
    end(sqlite);
    journal_mute(false);
    journal_compare(WP_TEST_GOLDEN "/store_flush.txt");
}

/* Whichever part does not begin: all before it are ended, and it says why. */
static void
test_what_does_not_begin(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        const struct wp_lease_sqlite_config config = {
            .path = "x",
            .synchronous =
                i / 2 == 4 ? WP_LEASE_SQLITE_FULL : WP_LEASE_SQLITE_NORMAL};

        parts.no_memory = i / 2 == 0;
        parts.db = i / 2 == 1 ? WP_FAILED_PRECONDITION : WP_OK;
        parts.log = i / 2 == 2 ? WP_UNAVAILABLE : WP_OK;
        parts.thread = i / 2 >= 3 ? EAGAIN : 0;
        assert_null(create(&config, i % 2 == 0));
    }
    journal_compare(WP_TEST_GOLDEN "/store_not.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_all_that_it_does, set_up),
        cmocka_unit_test_setup(test_a_flush, set_up),
        cmocka_unit_test_setup(test_what_does_not_begin, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
