/* tests/unit/allocator/stores/redis/redis_recover_test.c - the steps of
 * recovery: each word that Redis is asked, and what is made of each answer. */
#include "tests/unit/allocator/stores/redis/store_rig.h"

#include <stdio.h>

#define CLOSED "$17\r\nc00000000000000ab\r\n"
#define OK ":0\r\n"

static struct wp_redis_pool *
pool_a(void)
{
    return &rig.redis->pools[0];
}

/* What this replica believes of the pool. */
static void
note_pool(void)
{
    journal_note("generation=%llx recovering=%llx distrusted=%llx of %s",
                 (unsigned long long)pool_a()->generation,
                 (unsigned long long)pool_a()->recovering,
                 (unsigned long long)pool_a()->distrusted,
                 pool_a()->restored_to);
}

static void
begin(const char *why)
{
    journal_note("# %s", why);
    rig_note_status(
        wp_lease_redis_begin_recovery(rig.redis, rig_pool("a"), &rig.err));
    note_pool();
}

static void
begin_with(const char *answer, const char *why)
{
    rig_answer(answer);
    begin(why);
}

static void
end(const char *answer, const char *why)
{
    journal_note("# %s", why);
    if (answer != NULL) {
        rig_answer(answer);
    }
    rig_note_status(
        wp_lease_redis_end_assert(rig.redis, rig_pool("a"), &rig.err));
}

static struct wp_lease_record
record_of(enum wp_record_state state)
{
    struct wp_lease_record record = {
        .uid = {0xc0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xcf},
        .state = state,
        .fence = 7,
        .deadline_wall_ms = 8000,
        .pool_namespace = "ns",
        .pool = "a",
        .sandbox = "box",
        .endpoint = "1.2.3.4:5",
    };

    if (state == WP_RECORD_HELD || state == WP_RECORD_LOST) {
        record.granted_wall_ms = 6000;
        record.fingerprint = 0xf1;
        record.served = 2;
        (void)strcpy(record.claim_id, "claim-1");
        (void)strcpy(record.tenant, "acme");
    }
    if (state == WP_RECORD_LOST) {
        (void)strcpy(record.lost_reason, "it burnt");
    }
    return record;
}

static void
assert_one(const struct wp_lease_record *record, bool last, const char *answer)
{
    rig_answer(answer);
    rig_note_status(
        (last ? wp_lease_redis_assert_last
              : wp_lease_redis_assert_record)(rig.redis, record, &rig.err));
}

static void
create(void)
{
    struct wp_lease_redis_config config = rig_config();

    rig_create(&config);
    (void)journal_told();
}

static void
create_behind_router(bool cluster)
{
    struct wp_lease_redis_config config = rig_config();

    config.redis.router = &rig_router;
    config.redis.cluster = cluster;
    rig_create(&config);
    (void)journal_told();
}

static void
test_a_recovery_begins(void **state)
{
    (void)state;
    create();
    atomic_store(&pool_a()->generation, 0x77);
    begin_with(CLOSED, "closed anew");
    begin_with("$17\r\nc00000000000000cd\r\n", "closed by another");
    begin_with("$17\r\no00000000000000ef\r\n", "open");
    begin_with("$17\r\nc0000000000000000\r\n", "no generation");
    begin_with("$3\r\nabc\r\n", "no generation either");
    begin_with(":5\r\n", "a number");
    begin_with("+c00000000000000ab\r\n", "no text");
    rig_answer("!lost");
    begin_with(CLOSED, "the connection was lost meanwhile");
    rig_answer("!lost");
    begin_with("!lost again", "and once more");
    begin_with("!lost", "a new one is lost");
    rig.open_status = WP_RESOURCE_EXHAUSTED;
    begin("nobody is reached");
    rig.open_status = WP_OK;
    rig.no_room = true;
    begin("there is no room");
    rig.no_room = false;
    begin_with(CLOSED, "all is well");
    journal_compare("recover_begin");
}

/* What was restored in one process counts nothing in another. */
static void
test_what_is_restored_to_one_server_is_not_of_the_next(void **state)
{
    (void)state;
    create();
    begin_with(CLOSED, "begun");
    end(OK, "the same connection");
    rig_answer("!lost");
    end(OK, "the same server");
    rig.run_id = "run-2";
    rig_answer("!lost");
    end(NULL, "another server");
    note_pool();
    end(NULL, "not begun there");
    begin_with("$17\r\nc00000000000000cd\r\n", "what is not to be joined");
    end(OK, "goes on there");
    journal_compare("recover_restored");
}

static void
test_who_tells_of_others_is_the_one_that_is_restored(void **state)
{
    (void)state;
    create();
    begin_with(CLOSED, "nobody tells");
    rig.redis->feed = rig_feed();
    begin_with(CLOSED, "it does");
    rig.is_of = false;
    begin_with(CLOSED, "another does");
    begin_with(":1\r\n", "another does, and it was not begun");
    journal_compare("recover_feed");
}

static void
test_in_a_cluster_all_tell(void **state)
{
    (void)state;
    create_behind_router(true);
    rig.redis->feed = rig_feed();
    rig.is_of = false;
    begin_with(CLOSED, "whoever tells");
    journal_compare("recover_cluster");
}

static void
test_each_step_goes_where_the_pool_is(void **state)
{
    (void)state;
    create_behind_router(false);
    rig.found_port = 1;
    begin_with(CLOSED, "nothing is connected");
    end(OK, "it stays");
    rig.found_port = 2;
    rig.port = 2;
    end(OK, "it moves within the process");
    rig.find_status = WP_NOT_FOUND;
    end(NULL, "nobody knows");
    begin("nor does anybody when it begins");
    rig.find_status = WP_OK;
    end(OK, "there it is");
    journal_compare("recover_router");
}

static void
test_a_record_is_asserted(void **state)
{
    struct wp_lease_record record;

    (void)state;
    create();
    record = record_of(WP_RECORD_OPEN);
    journal_note("# not begun");
    rig_note_status(wp_lease_redis_assert_record(rig.redis, &record, &rig.err));
    begin_with(CLOSED, "begun");
    for (int i = WP_RECORD_OPEN; i <= WP_RECORD_ENDED; i++) {
        record = record_of((enum wp_record_state)i);
        journal_note("# in state %d", i);
        assert_one(&record, false, OK);
        assert_one(&record, true, OK);
    }
    journal_note("# of all lengths");
    memset(record.sandbox, 's', WP_SANDBOX_NAME_MAX);
    memset(record.endpoint, 'e', WP_ENDPOINT_MAX);
    record.state = WP_RECORD_LOST;
    memset(record.claim_id, 'c', WP_CLAIM_ID_MAX);
    memset(record.tenant, 't', WP_TENANT_MAX);
    memset(record.lost_reason, 'l', WP_REASON_MAX);
    assert_one(&record, false, OK);
    record = record_of(WP_RECORD_HELD);
    for (int i = -1; i <= 9; i++) {
        char answer[16];

        (void)snprintf(answer, sizeof answer, ":%d\r\n", i);
        journal_note("# answered %d", i);
        assert_one(&record, false, answer);
    }
    journal_note("# no number");
    assert_one(&record, false, "+OK\r\n");
    rig_answer("!lost");
    journal_note("# lost twice");
    assert_one(&record, false, "!lost again");
    journal_note("corrupt=%u", (unsigned)rig.redis->corrupt);
    (void)strcpy(record.pool, "none");
    rig_note_status(wp_lease_redis_assert_record(rig.redis, &record, &rig.err));
    rig_note_status(wp_lease_redis_assert_last(rig.redis, &record, &rig.err));
    journal_compare("recover_assert");
}

/* Without others nobody hears of what is written. */
static void
test_a_record_is_asserted_by_one_alone(void **state)
{
    struct wp_lease_redis_config config = rig_config();
    struct wp_lease_record record = record_of(WP_RECORD_OPEN);

    (void)state;
    config.replicas = false;
    rig_create(&config);
    begin_with(CLOSED, "begun");
    assert_one(&record, false, OK);
    end(OK, "it ends");
    journal_compare("recover_alone");
}

static void
test_who_has_ended(void **state)
{
    static const uint8_t other[WP_REPLICA_ID_LEN] = {0xaa, 0, 0, 0,
                                                     0,    0, 0, 0xbb};

    (void)state;
    create();
    end(NULL, "not begun");
    rig_note_status(
        wp_lease_redis_has_ended(rig.redis, rig_pool("a"), other, &rig.err));
    rig_note_status(
        wp_lease_redis_has_ended(rig.redis, rig_pool("-"), other, &rig.err));
    rig_note_status(
        wp_lease_redis_end_assert(rig.redis, rig_pool("-"), &rig.err));
    begin_with(CLOSED, "begun");
    for (int i = -1; i <= 9; i++) {
        char answer[16];

        (void)snprintf(answer, sizeof answer, ":%d\r\n", i);
        end(answer, answer + 1);
        rig_answer(answer);
        rig_note_status(wp_lease_redis_has_ended(rig.redis, rig_pool("a"),
                                                 other, &rig.err));
    }
    end("$1\r\n0\r\n", "no number");
    rig_answer("!lost");
    end("!lost again", "lost twice");
    journal_compare("recover_ended");
}

static void
open_with(const char *answer, uint32_t n_peers, const char *why)
{
    static struct wp_lease_redis_peer peers[WP_PEERS_MAX];

    for (uint32_t i = 0; i < n_peers; i++) {
        peers[i].replica_id[0] = 0xd0;
        peers[i].replica_id[WP_REPLICA_ID_LEN - 1] = (uint8_t)i;
    }
    journal_note("# %s", why);
    if (answer != NULL) {
        rig_answer(answer);
    }
    rig_note_status(wp_lease_redis_open_generation(rig.redis, rig_pool("a"),
                                                   peers, n_peers, &rig.err));
    note_pool();
}

static void
lose_server(void)
{
    wp_redis_pool_distrust(pool_a());
    rig.on_ask = NULL;
}

static void
test_a_pool_is_opened(void **state)
{
    (void)state;
    create();
    open_with(NULL, 0, "not begun");
    begin_with(CLOSED, "begun");
    for (int i = -1; i <= 9; i++) {
        char answer[16];

        if (i != 0) {
            (void)snprintf(answer, sizeof answer, ":%d\r\n", i);
            open_with(answer, 1, answer + 1);
        }
    }
    open_with("+OK\r\n", 0, "no number");
    rig_answer("!lost");
    open_with("!lost again", 0, "lost twice");
    rig.redis->feed = rig_feed();
    rig.has_heard = false;
    open_with(NULL, 0, "others were not heard yet");
    rig.has_heard = true;
    open_with(":7\r\n", 0, "they were, and are not done");
    open_with(OK, 2, "open");
    open_with(NULL, 2, "open already");
    begin_with(CLOSED, "begun again");
    rig.on_ask = lose_server;
    open_with(OK, 0, "its server was lost meanwhile");
    begin_with("$17\r\nc00000000000000ee\r\n", "begun once more");
    open_with(OK, WP_PEERS_MAX, "as many as there may be");
    rig_note_status(wp_lease_redis_open_generation(rig.redis, rig_pool("-"),
                                                   NULL, 0, &rig.err));
    rig_note_status(
        wp_lease_redis_begin_recovery(rig.redis, rig_pool("-"), &rig.err));
    journal_compare("recover_open");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_begin, rig_end)
    const struct CMUnitTest tests[] = {
        TEST(test_a_recovery_begins),
        TEST(test_what_is_restored_to_one_server_is_not_of_the_next),
        TEST(test_who_tells_of_others_is_the_one_that_is_restored),
        TEST(test_in_a_cluster_all_tell),
        TEST(test_each_step_goes_where_the_pool_is),
        TEST(test_a_record_is_asserted),
        TEST(test_a_record_is_asserted_by_one_alone),
        TEST(test_who_has_ended),
        TEST(test_a_pool_is_opened),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
