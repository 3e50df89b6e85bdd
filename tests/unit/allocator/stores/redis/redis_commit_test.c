/* tests/unit/allocator/stores/redis/redis_commit_test.c - commits: the words
 * that each is for Redis, on which link they go out and when, and what each
 * answer is for who waits. */
#include "tests/unit/allocator/stores/redis/store_rig.h"

#include <stdio.h>
#include <stdlib.h>

#include "allocator/stores/codec.h"
#include "allocator/stores/redis/link/scripts.h"
#include "pool/base/clock.h"

enum {
    KINDS = WP_LEASE_GET_SNAPSHOT + 1,
    RESULTS = WP_RESULT_CORRUPT + 1,
    GENERATION = 0xab,
};

static const char *const kind_names[KINDS] = {
    "OFFER",    "GRANT", "RENEW", "RELEASE", "UNDO",         "EXPIRE",
    "WITHDRAW", "LOSE",  "FETCH", "FORGET",  "PUT_SNAPSHOT", "GET_SNAPSHOT"};

static struct wp_lease_record found;
static uint8_t bytes[2 * WP_REDIS_REPLY_MAX + 8];
static struct wp_pool_snapshot snapshot;
static struct wp_lease_op op;

static struct wp_redis_pool *
pool_of(int i)
{
    return &rig.redis->pools[i];
}

static void
done(struct wp_lease_op *it, enum wp_status status)
{
    journal_note("done %s %s", kind_names[it->kind], wp_status_name(status));
}

static void
begin_op(enum wp_lease_op_kind kind)
{
    memset(&found, 0, sizeof found);
    snapshot = (struct wp_pool_snapshot){.bytes = bytes, .cap = sizeof bytes};
    op = (struct wp_lease_op){
        .kind = kind,
        .uid = {0xc0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xcf},
        .fence = 7,
        .deadline_wall_ms = 8000,
        .granted_wall_ms = 6000,
        .served = 2,
        .fingerprint = 0xf1,
        .pool_namespace = WP_STR("ns"),
        .pool = WP_STR("a"),
        .sandbox = WP_STR("box"),
        .endpoint = WP_STR("1.2.3.4:5"),
        .claim_id = WP_STR("claim-1"),
        .tenant = WP_STR("acme"),
        .reason = WP_STR("it burnt"),
        .found = &found,
        .snapshot = &snapshot,
        .done = done,
    };
}

static void
commit(void)
{
    journal_note("= %s", wp_status_name(wp_redis_commit(rig.redis, &op)));
}

static void
commit_kind(enum wp_lease_op_kind kind)
{
    begin_op(kind);
    commit();
}

static void
create_with(bool cluster, const struct wp_redis_router *router)
{
    struct wp_lease_redis_config config = rig_config();

    config.redis.cluster = cluster;
    config.redis.router = router;
    rig_create(&config);
    for (int i = 0; i < 2; i++) {
        pool_of(i)->generation = GENERATION;
    }
    (void)journal_told();
}

static void
create(void)
{
    create_with(false, NULL);
}

/* --- answers --- */

static void
reply_as(const struct wp_redis_reply *reply)
{
    wp_redis_commit_on_reply(&rig.redis->groups[0], rig.link, rig.call, rig.tag,
                             reply);
}

static void
reply_number(int64_t number)
{
    journal_note("# %lld", (long long)number);
    reply_as(
        &(struct wp_redis_reply){.kind = WP_REPLY_NUMBER, .number = number});
}

static void
reply_text(const char *text, size_t len)
{
    reply_as(
        &(struct wp_redis_reply){.kind = WP_REPLY_TEXT, .text = {text, len}});
}

static void
reply_error(const char *text, uint32_t place)
{
    journal_note("# %s at %u", text, place);
    reply_as(&(struct wp_redis_reply){
        .kind = WP_REPLY_ERROR, .text = wp_str_from(text), .place = place});
}

static void
reply_other(void)
{
    journal_note("# something else");
    reply_as(&(struct wp_redis_reply){.kind = WP_REPLY_OTHER});
}

static void
note_counts(void)
{
    journal_note("commits=%u stale=%u corrupt=%u errors=%u noscript=%u",
                 (unsigned)rig.redis->commits, (unsigned)rig.redis->stale,
                 (unsigned)rig.redis->corrupt, (unsigned)rig.redis->errors,
                 (unsigned)rig.redis->noscript);
}

/* --- what is sent --- */

static void
test_the_words_of_each_kind(void **state)
{
    static const char text[] = "a snapshot";

    (void)state;
    create();
    for (int kind = 0; kind < KINDS; kind++) {
        journal_note("# %s", kind_names[kind]);
        begin_op((enum wp_lease_op_kind)kind);
        if (kind == WP_LEASE_PUT_SNAPSHOT) {
            memcpy(bytes, text, sizeof text - 1);
            snapshot.len = sizeof text - 1;
        } else {
            snapshot.len = 3; /* What GET begins with is nothing. */
        }
        commit();
    }
    journal_note("# FETCH by uid, of the other pool");
    begin_op(WP_LEASE_FETCH);
    op.claim_id = WP_STR("");
    op.pool = WP_STR("b");
    commit();
    journal_note("# numbers of all lengths");
    begin_op(WP_LEASE_RENEW);
    op.fence = UINT64_MAX;
    op.deadline_wall_ms = -1;
    commit();
    journal_note("# one alone says nothing to others");
    rig.redis->writer[0] = '\0';
    pool_of(0)->generation = UINT64_MAX;
    commit_kind(WP_LEASE_RELEASE);
    note_counts();
    journal_compare("commit_words");
}

/* Longest texts fit. */
static void
test_the_longest_words(void **state)
{
    static char most[WP_CLAIM_ID_MAX];

    (void)state;
    create();
    memset(most, 'm', sizeof most);
    for (int kind = 0; kind < WP_LEASE_PUT_SNAPSHOT; kind++) {
        begin_op((enum wp_lease_op_kind)kind);
        op.sandbox = (struct wp_str){most, WP_SANDBOX_NAME_MAX};
        op.endpoint = (struct wp_str){most, WP_ENDPOINT_MAX};
        op.claim_id = (struct wp_str){most, WP_CLAIM_ID_MAX};
        op.tenant = (struct wp_str){most, WP_TENANT_MAX};
        op.reason = (struct wp_str){most, WP_REASON_MAX};
        commit();
    }
    journal_compare("commit_longest");
}

static void
test_what_is_not_sent(void **state)
{
    (void)state;
    create();
    journal_note("# a pool that is not known");
    begin_op(WP_LEASE_GRANT);
    op.pool = WP_STR("none");
    commit();
    journal_note("# in doubt");
    pool_of(0)->generation = 0;
    commit_kind(WP_LEASE_GRANT);
    commit_kind(WP_LEASE_GET_SNAPSHOT);
    journal_note("# nowhere yet");
    pool_of(0)->generation = GENERATION;
    pool_of(0)->group = NULL;
    commit_kind(WP_LEASE_GRANT);
    journal_note("# the link is full");
    pool_of(0)->group = &rig.redis->groups[5];
    rig.send_status = WP_UNAVAILABLE;
    commit_kind(WP_LEASE_GRANT);
    commit_kind(WP_LEASE_FETCH);
    note_counts();
    journal_compare("commit_not_sent");
}

static void
flush(void)
{
    journal_note("flush");
    wp_redis_commit_flush(rig.redis);
}

static void *
commit_as_thread(void *arg)
{
    (void)arg;
    commit_kind(WP_LEASE_RENEW);
    flush(); /* A link is given. */
    flush();
    commit_kind(WP_LEASE_RENEW);
    flush();
    flush();
    return NULL;
}

static void
in_thread(void *(*run)(void *))
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void
test_a_thread_that_flushes_has_a_link(void **state)
{
    struct wp_lease_redis_config config = rig_config();
    struct wp_lease_redis *first;

    (void)state;
    create();
    (void)commit_as_thread(NULL);
    journal_note("# in two groups");
    commit_kind(WP_LEASE_RENEW);
    pool_of(1)->group = &rig.redis->groups[WP_REDIS_GROUPS_MAX - 1];
    begin_op(WP_LEASE_RENEW);
    op.pool = WP_STR("b");
    commit();
    commit_kind(WP_LEASE_FETCH);
    flush();
    journal_note("# in the last group only");
    begin_op(WP_LEASE_RENEW);
    op.pool = WP_STR("b");
    commit();
    flush();
    journal_note("# in the two first");
    pool_of(1)->group = &rig.redis->groups[1];
    commit_kind(WP_LEASE_RENEW);
    op.pool = WP_STR("b");
    commit();
    flush();
    commit();
    journal_note("# in another store meanwhile");
    first = rig.redis;
    rig_create(&config);
    pool_of(0)->generation = GENERATION;
    commit_kind(WP_LEASE_RENEW);
    flush();
    flush();
    commit_kind(WP_LEASE_RENEW);
    flush();
    wp_lease_redis_destroy(first);
    journal_compare("commit_flush");
}

static void
test_links_are_for_so_many_threads(void **state)
{
    (void)state;
    create();
    for (int i = 0; i < 4; i++) {
        journal_note("# thread %d", i + 1);
        in_thread(commit_as_thread);
    }
    journal_compare("commit_threads");
}

/* --- what is answered --- */

static void
test_numbers_are_outcomes(void **state)
{
    (void)state;
    create();
    for (int i = -1; i <= RESULTS; i++) {
        pool_of(0)->generation = GENERATION;
        commit_kind(WP_LEASE_RENEW);
        reply_number(i);
        journal_note("generation=%llx",
                     (unsigned long long)pool_of(0)->generation);
    }
    reply_other();
    note_counts();
    journal_compare("commit_numbers");
}

/* What was sent under a generation that is not believed in any more may have
 * been done by who counts no more. */
static void
test_outdated_answers(void **state)
{
    static const uint64_t later[] = {
        GENERATION + 1,
        /* Tags have room for its lowest bits. */
        GENERATION | UINT64_C(1) << 18,
        GENERATION | UINT64_C(1) << 19,
    };
    static const enum wp_lease_op_kind kinds[] = {
        WP_LEASE_RENEW, WP_LEASE_FETCH, WP_LEASE_PUT_SNAPSHOT};

    (void)state;
    create();
    for (size_t k = 0; k < WP_ARRAY_LEN(kinds); k++) {
        for (size_t l = 0; l < WP_ARRAY_LEN(later); l++) {
            for (int i = 0; i <= RESULTS; i++) {
                pool_of(0)->generation = GENERATION;
                commit_kind(kinds[k]);
                pool_of(0)->generation = later[l];
                reply_number(i);
                journal_note("generation=%llx",
                             (unsigned long long)pool_of(0)->generation);
            }
        }
    }
    note_counts();
    journal_compare("commit_outdated");
}

/* The other pool's number is in the tag as well. */
static void
test_doubt_is_about_the_pool_of_the_command(void **state)
{
    (void)state;
    create();
    begin_op(WP_LEASE_RENEW);
    op.pool = WP_STR("b");
    commit();
    reply_number(WP_RESULT_STALE);
    journal_note("%llx %llx", (unsigned long long)pool_of(0)->generation,
                 (unsigned long long)pool_of(1)->generation);
    reply_number(WP_RESULT_STALE); /* Known. */
    journal_compare("commit_doubt");
}

static void
test_the_last_pool_of_all_has_its_number(void **state)
{
    static struct wp_lease_redis_pool many[WP_POOLS_MAX];
    struct wp_lease_redis_config config = rig_config();

    (void)state;
    for (uint32_t i = 0; i < WP_POOLS_MAX; i++) {
        many[i] = *rig_pool("a");
        (void)snprintf(many[i].pool, sizeof many[i].pool, "p%u", i);
    }
    config.pools = many;
    config.n_pools = WP_POOLS_MAX;
    rig_create(&config);
    pool_of(WP_POOLS_MAX - 1)->generation = UINT64_MAX;
    begin_op(WP_LEASE_RENEW);
    op.pool = wp_str_from(many[WP_POOLS_MAX - 1].pool);
    commit();
    reply_number(WP_RESULT_STALE);
    journal_compare("commit_last_pool");
}

static void
test_texts_are_records(void **state)
{
    static const enum wp_lease_op_kind kinds[] = {WP_LEASE_FETCH,
                                                  WP_LEASE_EXPIRE};
    const struct wp_lease_record record = {
        .state = WP_RECORD_HELD,
        .fence = 5,
        .deadline_wall_ms = 6,
        .granted_wall_ms = 7,
        .fingerprint = 8,
        .served = 1,
        .pool_namespace = "ns",
        .pool = "a",
        .sandbox = "sandbox",
        .endpoint = "there",
        .claim_id = "id",
        .tenant = "acme",
    };
    char text[WP_REDIS_FIELD_LEN + WP_LEASE_PACKED_MAX] =
        "r000102030405060708090a0b0c0d0e0f";
    size_t len =
        WP_REDIS_FIELD_LEN + wp_lease_pack(&record, text + WP_REDIS_FIELD_LEN);

    (void)state;
    create();
    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        commit_kind(kinds[i]);
        reply_text(text, len);
        rig_note_record("found", &found);
        op.found = NULL;
        reply_text(text, len);
        op.found = &found;
        journal_note("# one byte less");
        reply_text(text, len - 1);
        journal_note("# a name only");
        reply_text(text, WP_REDIS_FIELD_LEN);
        reply_text(text, WP_REDIS_FIELD_LEN - 1);
        reply_text(text, 0);
        journal_note("# another name");
        text[0] = 'c';
        reply_text(text, len);
        text[0] = 'r';
        pool_of(0)->generation++;
        journal_note("# outdated");
        reply_text(text, len);
    }
    note_counts();
    journal_compare("commit_records");
}

static void
note_snapshot(void)
{
    journal_note("len=%zu %02x %02x", snapshot.len, bytes[0],
                 bytes[snapshot.len > 0 ? snapshot.len - 1 : 0]);
}

static void
test_snapshots_come_in_pieces(void **state)
{
    static char piece[WP_REDIS_REPLY_MAX];

    (void)state;
    create();
    memset(piece, 'p', sizeof piece);
    journal_note("# there is none");
    commit_kind(WP_LEASE_GET_SNAPSHOT);
    reply_text(NULL, 0);
    journal_note("# a short one");
    memset(bytes, 0, sizeof bytes);
    commit_kind(WP_LEASE_GET_SNAPSHOT);
    reply_text(piece, sizeof piece - 1);
    note_snapshot();
    journal_note("# one piece");
    memset(bytes, 0, sizeof bytes);
    commit_kind(WP_LEASE_GET_SNAPSHOT);
    reply_text(piece, sizeof piece);
    note_snapshot();
    reply_text(piece, 0);
    note_snapshot();
    journal_note("# as much as there is room for");
    commit_kind(WP_LEASE_GET_SNAPSHOT);
    for (int i = 0; i < 2; i++) {
        memset(piece, 'q' + i, sizeof piece);
        reply_text(piece, sizeof piece);
    }
    reply_text(piece, sizeof bytes - 2 * sizeof piece);
    note_snapshot();
    journal_note("# one byte more");
    commit_kind(WP_LEASE_GET_SNAPSHOT);
    reply_text(piece, sizeof piece);
    reply_text(piece, sizeof piece);
    reply_text(piece, sizeof bytes - 2 * sizeof piece + 1);
    note_snapshot();
    journal_note("# the next piece cannot be asked for");
    commit_kind(WP_LEASE_GET_SNAPSHOT);
    rig.send_status = WP_UNAVAILABLE;
    reply_text(piece, sizeof piece);
    rig.send_status = WP_PENDING;
    journal_note("# answered with what is no snapshot");
    commit_kind(WP_LEASE_GET_SNAPSHOT);
    reply_number(0);
    reply_other();
    reply_error("ERR no", 0);
    journal_note("# written");
    commit_kind(WP_LEASE_PUT_SNAPSHOT);
    reply_other();
    reply_text("OK", 2);
    reply_error("OOM no", 0);
    pool_of(0)->generation++;
    journal_note("# whatever the generation");
    reply_other();
    note_counts();
    journal_compare("commit_snapshots");
}

/* --- errors --- */

static void
test_scripts_that_are_lost_are_sent_whole_once(void **state)
{
    (void)state;
    create();
    flush();
    for (int kind = 0; kind <= WP_LEASE_FORGET; kind++) {
        commit_kind((enum wp_lease_op_kind)kind);
        reply_error("NOSCRIPT No matching script", 0);
        if (kind == WP_LEASE_RENEW) {
            reply_number(0);
        } else {
            reply_error("NOSCRIPT No matching script", 0);
        }
    }
    journal_note("# those that shared its command come after it");
    commit_kind(WP_LEASE_RENEW);
    reply_error("NOSCRIPT No matching script", 1);
    reply_error("NOSCRIPT No matching script", 1);
    commit_kind(WP_LEASE_RENEW);
    reply_error("NOSCRIPT", 0);
    journal_note("# the link is full");
    commit_kind(WP_LEASE_RENEW);
    rig.send_status = WP_UNAVAILABLE;
    reply_error("NOSCRIPT No matching script", 0);
    note_counts();
    journal_compare("commit_noscript");
}

static const char *const errors[] = {
    "NOSCRIPT ", "LOADING ",    "READONLY ",    "OOM ",        "MISCONF ",
    "NOAUTH ",   "NOREPLICAS ", "CLUSTERDOWN ", "MOVED ",      "ASK ",
    "TRYAGAIN ", "MASTERDOWN ", "CROSSSLOT ",   "NOPERM ",     "BUSY ",
    "BUSYKEY ",  "DENIED ",     "WRONGTYPE ",   "NOTBUSY ",    "ERR ",
    "LOADING",   "READONLYX ",  "moved ",       "UNKILLABLE ", "",
};

static void
answer_errors(void)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(errors); i++) {
        char text[64];

        (void)snprintf(text, sizeof text, "%sxyz", errors[i]);
        commit_kind(WP_LEASE_RENEW);
        if (i == 0) {
            reply_error(text, 0);
        }
        reply_error(text, 0);
    }
    note_counts();
}

static void
test_errors_of_one_server(void **state)
{
    (void)state;
    create();
    answer_errors();
    journal_compare("commit_errors");
}

static void
test_errors_behind_a_router(void **state)
{
    (void)state;
    create_with(false, &rig_router);
    answer_errors();
    journal_compare("commit_errors_router");
}

static void
test_errors_of_a_cluster(void **state)
{
    (void)state;
    create_with(true, &rig_router);
    answer_errors();
    journal_compare("commit_errors_cluster");
}

static void
test_how_often_errors_are_told_and_links_made_anew(void **state)
{
    static const int64_t at_ns[] = {
        1,
        WP_NS_PER_S,
        WP_NS_PER_S + 1,
        2 * WP_NS_PER_S,
        2 * WP_NS_PER_S + 1,
        5 * WP_NS_PER_S,
        5 * WP_NS_PER_S + 1,
        10 * WP_NS_PER_S,
        10 * WP_NS_PER_S + 1,
    };

    (void)state;
    create();
    for (size_t i = 0; i < WP_ARRAY_LEN(at_ns); i++) {
        rig.now_ns = at_ns[i];
        commit_kind(WP_LEASE_RENEW);
        journal_note("# at %lld", (long long)rig.now_ns);
        reply_error("READONLY no", 0);
    }
    journal_compare("commit_often");
}

static void
test_a_slot_that_leaves_is_followed(void **state)
{
    (void)state;
    create_with(true, &rig_router);
    flush();
    journal_note("# nowhere to go");
    commit_kind(WP_LEASE_GRANT);
    reply_error("ASK 5 h:7", 0);
    journal_note("# it is this one");
    rig.other = &rig.redis->groups[0];
    reply_error("ASK 5 h:7", 0);
    journal_note("# not said so");
    rig.other = &rig.redis->groups[1];
    reply_error("ASK 5 ?:0", 0);
    reply_error("MOVED 5 h:7", 0);
    journal_note("# followed");
    reply_error("ASK 5 h:7", 0);
    journal_note("# not followed twice, nor sent whole");
    reply_error("ASK 5 h:8", 0);
    reply_error("NOSCRIPT no", 0);
    reply_error("MOVED 5 h:8", 0);
    reply_error("ERR no", 0);
    reply_number(0);
    journal_note("# the second time it was sent");
    commit_kind(WP_LEASE_GRANT);
    reply_error("NOSCRIPT no", 0);
    reply_error("ASK 5 h:7", 0);
    reply_number(0);
    journal_note("# FETCH");
    commit_kind(WP_LEASE_FETCH);
    reply_error("ASK 5 h:7", 0);
    journal_note("# that link is full");
    commit_kind(WP_LEASE_GRANT);
    rig.send_status = WP_UNAVAILABLE;
    reply_error("ASK 5 h:7", 0);
    rig.send_status = WP_PENDING;
    journal_note("# in doubt meanwhile");
    commit_kind(WP_LEASE_GRANT);
    pool_of(0)->generation = 0;
    reply_error("ASK 5 h:7", 0);
    note_counts();
    journal_compare("commit_ask");
}

static void
test_what_is_never_answered(void **state)
{
    (void)state;
    create();
    begin_op(WP_LEASE_GRANT);
    wp_redis_commit_on_end(&rig.redis->groups[0], &op, WP_UNKNOWN_OUTCOME);
    wp_redis_commit_on_end(NULL, &op, WP_UNAVAILABLE);
    assert_string_equal(journal_told(), "done GRANT UNKNOWN_OUTCOME\n"
                                        "done GRANT UNAVAILABLE\n");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_begin, rig_end)
    const struct CMUnitTest tests[] = {
        TEST(test_the_words_of_each_kind),
        TEST(test_the_longest_words),
        TEST(test_what_is_not_sent),
        TEST(test_a_thread_that_flushes_has_a_link),
        TEST(test_links_are_for_so_many_threads),
        TEST(test_numbers_are_outcomes),
        TEST(test_outdated_answers),
        TEST(test_doubt_is_about_the_pool_of_the_command),
        TEST(test_the_last_pool_of_all_has_its_number),
        TEST(test_texts_are_records),
        TEST(test_snapshots_come_in_pieces),
        TEST(test_scripts_that_are_lost_are_sent_whole_once),
        TEST(test_errors_of_one_server),
        TEST(test_errors_behind_a_router),
        TEST(test_errors_of_a_cluster),
        TEST(test_how_often_errors_are_told_and_links_made_anew),
        TEST(test_a_slot_that_leaves_is_followed),
        TEST(test_what_is_never_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
