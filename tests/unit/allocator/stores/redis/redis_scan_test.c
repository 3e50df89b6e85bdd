/* tests/unit/allocator/stores/redis/redis_scan_test.c - pools that are read:
 * at the start, in a recovery, by the feed. What Redis is asked, in which
 * order, which records come of it, and what answers are none. */
#include "tests/unit/allocator/stores/redis/store_rig.h"

#include <stdio.h>
#include <stdlib.h>

#include "allocator/stores/codec.h"

#define UID_A "000102030405060708090a0b0c0d0e0f"
#define UID_B "1f1e1d1c1b1a19181716151413121110"
#define UID_C "ffeeddccbbaa99887766554433221100"
#define OPEN_AB "$17\r\no00000000000000ab\r\n"
#define LAST "*2\r\n$1\r\n0\r\n"
#define NOTHING LAST "*0\r\n"

static void
each(void *ctx, const struct wp_lease_record *record)
{
    (void)ctx;
    rig_note_record("record", record);
}

static struct wp_redis_pool *
pool_of(int i)
{
    return &rig.redis->pools[i];
}

static void
note_pools(void)
{
    for (int i = 0; i < 2; i++) {
        journal_note("%s: generation=%llx", pool_of(i)->key,
                     (unsigned long long)pool_of(i)->generation);
    }
    journal_note("corrupt=%u", (unsigned)rig.redis->corrupt);
}

/* An answer's line ends as blanks. */
static void
note_title(const char *why)
{
    char text[128];
    size_t len = 0;

    for (; *why != '\0' && len < sizeof text - 1; why++) {
        if (*why == '\n') {
            text[len++] = ' ';
        } else if (*why != '\r') {
            text[len++] = *why;
        }
    }
    text[len] = '\0';
    journal_note("# %s", text);
}

static void
load(const char *why)
{
    struct wp_lease_store store = wp_lease_redis_store(rig.redis);

    note_title(why);
    rig_note_status(store.ops->load(store.self, each, NULL, &rig.err));
    note_pools();
}

static void
read_pool(const char *name, const char *why)
{
    note_title(why);
    rig_note_status(wp_lease_redis_read_pool(rig.redis, rig_pool(name), each,
                                             NULL, &rig.err));
}

static void
create(const struct wp_redis_router *router)
{
    struct wp_lease_redis_config config = rig_config();

    config.redis.router = router;
    rig_create(&config);
    (void)journal_told();
}

static void
append_text(char *to, size_t cap, const char *text)
{
    size_t at = strlen(to);
    int n = snprintf(to + at, cap - at, "%s", text);

    if (n < 0 || (size_t)n >= cap - at) {
        abort();
    }
}

/* A field or value as Redis says it. */
static void
append(char *to, size_t cap, const char *bytes, size_t len)
{
    char text[WP_LEASE_PACKED_MAX + 32];
    int n =
        snprintf(text, sizeof text, "$%zu\r\n%.*s\r\n", len, (int)len, bytes);

    if (n < 0 || (size_t)n >= sizeof text) {
        abort();
    }
    append_text(to, cap, text);
}

static void
append_record(char *to, size_t cap, const char *field,
              enum wp_record_state state)
{
    struct wp_lease_record record = {
        .state = state,
        .fence = 3,
        .deadline_wall_ms = -4,
        .pool_namespace = "ns",
        .pool = "a",
        .sandbox = "box",
        .endpoint = "here",
    };
    char packed[WP_LEASE_PACKED_MAX];

    if (state == WP_RECORD_HELD) {
        (void)strcpy(record.claim_id, "claim");
        (void)strcpy(record.tenant, "acme");
        record.granted_wall_ms = 5;
        record.fingerprint = 6;
        record.served = 1;
    }
    append(to, cap, field, strlen(field));
    append(to, cap, packed, wp_lease_pack(&record, packed));
}

static void
test_all_pools_are_loaded_by_one_connection(void **state)
{
    static char page[4096] = "*2\r\n$2\r\n17\r\n*4\r\n";
    static char last[4096] = LAST "*2\r\n";

    (void)state;
    append_record(page, sizeof page, "r" UID_A, WP_RECORD_OPEN);
    append_record(page, sizeof page, "r" UID_B, WP_RECORD_ENDED);
    append_record(last, sizeof last, "r" UID_C, WP_RECORD_HELD);
    create(NULL);
    rig_answer(OPEN_AB);
    rig_answer(page);
    rig_answer(last);
    rig_answer("$17\r\no00000000000000cd\r\n");
    rig_answer(NOTHING);
    load("two pages, then none");
    rig_answer("$17\r\nc00000000000000ee\r\n");
    rig_answer(NOTHING);
    rig_answer(OPEN_AB);
    rig_answer(NOTHING);
    load("the first is closed");
    rig.redis->config.sink.on_doubt = NULL;
    rig_answer("$17\r\nc00000000000000ee\r\n");
    rig_answer(NOTHING);
    rig_answer("!lost");
    load("and nobody is told; the second is lost");
    journal_compare("scan_load");
}

static void
test_behind_a_router_each_pool_is_loaded_by_its_own(void **state)
{
    (void)state;
    create(&rig_router);
    for (int i = 0; i < 2; i++) {
        rig_answer(OPEN_AB);
        rig_answer(NOTHING);
    }
    load("both");
    rig_answer(":7\r\n");
    load("the first has no generation");
    journal_compare("scan_router");
}

static void
move_pool(void)
{
    atomic_store(&pool_of(0)->group, &rig.redis->groups[1]);
    rig.on_ask = NULL;
}

static void
test_what_cannot_be_loaded(void **state)
{
    static const char *const no_generations[] = {
        "!lost",
        ":7\r\n",
        "$17\r\no0000000000000000\r\n",
        "$17\r\nx00000000000000ab\r\n",
        "$16\r\no0000000000000ab\r\n",
        "+o00000000000000ab\r\n",
    };

    (void)state;
    create(NULL);
    for (size_t i = 0; i < WP_ARRAY_LEN(no_generations); i++) {
        rig_answer(no_generations[i]);
        load(no_generations[i]);
    }
    rig.open_status = WP_UNAVAILABLE;
    load("out of reach");
    rig.open_status = WP_OK;
    rig.no_room = true;
    load("no room");
    rig.no_room = false;
    rig_answer(OPEN_AB);
    rig_answer("!lost");
    load("lost while it is read");
    rig_answer(OPEN_AB);
    rig_answer(NOTHING);
    rig.on_ask = move_pool;
    load("it moves");
    journal_compare("scan_not_loaded");
}

static void
test_what_is_no_page(void **state)
{
    static const char *const pages[] = {
        "!lost",
        ":7\r\n",
        "*1\r\n$1\r\n0\r\n",
        "*3\r\n$1\r\n0\r\n*0\r\n*0\r\n",
        "*2\r\n:0\r\n*0\r\n",
        "*2\r\n$1\r\n0\r\n:0\r\n",
        "*2\r\n$24\r\n123456789012345678901234\r\n*0\r\n",
    };

    (void)state;
    create(NULL);
    read_pool("-", "not known");
    for (size_t i = 0; i < WP_ARRAY_LEN(pages); i++) {
        rig_answer(pages[i]);
        read_pool("b", pages[i]);
    }
    rig_answer("*2\r\n$23\r\n12345678901234567890123\r\n*0\r\n");
    rig_answer("*2\r\n$2\r\n01\r\n*0\r\n");
    rig_answer("*2\r\n$1\r\n1\r\n*0\r\n");
    rig_answer(NOTHING);
    read_pool("b", "four pages");
    rig.open_status = WP_UNAVAILABLE;
    read_pool("b", "out of reach");
    journal_compare("scan_pages");
}

static void
test_what_is_no_record(void **state)
{
    static char pairs[8192] = LAST "*21\r\n";

    (void)state;
    create(NULL);
    append_record(pairs, sizeof pairs, "c02claim", WP_RECORD_OPEN);
    append_record(pairs, sizeof pairs, "", WP_RECORD_OPEN);
    append_record(pairs, sizeof pairs, "r", WP_RECORD_OPEN);
    append_record(pairs, sizeof pairs, "r" UID_A "0", WP_RECORD_OPEN);
    append_record(pairs, sizeof pairs, "r" UID_A, WP_RECORD_NONE);
    append_text(pairs, sizeof pairs, "$33\r\nr" UID_A "\r\n$3\r\nabc\r\n");
    append_text(pairs, sizeof pairs, "$33\r\nr" UID_A "\r\n:5\r\n");
    append_text(pairs, sizeof pairs, ":6\r\n$1\r\nx\r\n");
    append_record(pairs, sizeof pairs, "r" UID_A, WP_RECORD_ENDED);
    append_record(pairs, sizeof pairs, "r" UID_A, WP_RECORD_LOST);
    append_text(pairs, sizeof pairs, "$33\r\nr" UID_A "\r\n");
    rig_answer(pairs);
    read_pool("a", "one record among what is none");
    note_pools();
    journal_compare("scan_pairs");
}

/* --- for the feed --- */

static int room;
static uint64_t number;

static bool
each_or_full(void *ctx, const struct wp_lease_record *record)
{
    journal_note("%s has room for %d", (const char *)ctx, room);
    rig_note_record("record", record);
    return room-- > 0;
}

static bool
page_or_full(void *ctx)
{
    journal_note("%s: page, room for %d", (const char *)ctx, room);
    return room-- > 0;
}

static void
scan(const char *why, const struct wp_redis_scan *how)
{
    note_title(why);
    number = 99;
    rig_note_status(wp_redis_pool_scan(rig.redis, rig_connection(), pool_of(0),
                                       how, &rig.err));
    journal_note("number=%llu generation=%llx", (unsigned long long)number,
                 (unsigned long long)pool_of(0)->generation);
}

static void
test_a_receiver_may_be_full(void **state)
{
    static char text[] = "feed";
    static char pairs[4096] = LAST "*4\r\n";
    const struct wp_redis_scan records = {.ctx = text, .each = each_or_full};
    const struct wp_redis_scan pages = {
        .ctx = text, .each = each_or_full, .page = page_or_full};

    (void)state;
    create(NULL);
    append_record(pairs, sizeof pairs, "r" UID_A, WP_RECORD_OPEN);
    append_record(pairs, sizeof pairs, "r" UID_A, WP_RECORD_HELD);
    for (int i = 0; i < 3; i++) {
        room = i;
        rig_answer(pairs);
        scan("records", &records);
    }
    for (int i = 0; i < 4; i++) {
        room = i;
        rig_answer(pairs);
        scan("pages", &pages);
    }
    room = 0;
    rig_answer("*2\r\n$1\r\n5\r\n*0\r\n");
    scan("not the last page", &pages);
    journal_compare("scan_full");
}

#define NUMBER_7 "*2\r\n$1\r\n7\r\n" OPEN_AB
#define BEGUN_7(after) NUMBER_7, NOTHING, after

static void
test_the_number_of_the_last_change_comes_first(void **state)
{
    static const char *const answers[][3] = {
        {BEGUN_7("*2\r\n$1\r\n8\r\n" OPEN_AB)},
        {"*2\r\n$-1\r\n" OPEN_AB, NOTHING, NUMBER_7},
        {"*2\r\n$2\r\n7x\r\n" OPEN_AB, NOTHING, NUMBER_7},
        {"*2\r\n:7\r\n" OPEN_AB, NOTHING, NUMBER_7},
        {"*1\r\n$1\r\n7\r\n", NOTHING, NUMBER_7},
        {"*3\r\n$1\r\n7\r\n$1\r\nx\r\n$1\r\ny\r\n", NOTHING, NUMBER_7},
        {":7\r\n", NOTHING, NUMBER_7},
        {"!lost"},
        {NUMBER_7, "!lost"},
        {BEGUN_7("!lost")},
        {BEGUN_7("*2\r\n$1\r\n7\r\n$17\r\no00000000000000ee\r\n")},
        {"*2\r\n$1\r\n7\r\n$-1\r\n", NOTHING, NUMBER_7},
        {"*2\r\n$1\r\n7\r\n:5\r\n", NOTHING, NUMBER_7},
    };
    const struct wp_redis_scan how = {.each = each_or_full, .number = &number};

    (void)state;
    create(NULL);
    for (size_t i = 0; i < WP_ARRAY_LEN(answers); i++) {
        atomic_store(&pool_of(0)->generation, 0xab);
        for (size_t k = 0; k < 3 && answers[i][k] != NULL; k++) {
            rig_answer(answers[i][k]);
        }
        scan(answers[i][0], &how);
    }
    journal_compare("scan_number");
}

static void
test_a_generation_is_learned(void **state)
{
    static const char *const answers[] = {
        "!lost", ":5\r\n", "$17\r\nc00000000000000ab\r\n", OPEN_AB};

    (void)state;
    create(NULL);
    for (size_t i = 0; i < WP_ARRAY_LEN(answers); i++) {
        rig_answer(answers[i]);
        rig_note_status(wp_redis_pool_learn(rig.redis, pool_of(1),
                                            rig_connection(), &rig.err));
        note_pools();
    }
    journal_compare("scan_learn");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_begin, rig_end)
    const struct CMUnitTest tests[] = {
        TEST(test_all_pools_are_loaded_by_one_connection),
        TEST(test_behind_a_router_each_pool_is_loaded_by_its_own),
        TEST(test_what_cannot_be_loaded),
        TEST(test_what_is_no_page),
        TEST(test_what_is_no_record),
        TEST(test_a_receiver_may_be_full),
        TEST(test_the_number_of_the_last_change_comes_first),
        TEST(test_a_generation_is_learned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
