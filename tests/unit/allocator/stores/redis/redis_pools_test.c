/* tests/unit/allocator/stores/redis/redis_pools_test.c - the pools that a store
 * knows, what it believes of each, and how generations and fields are
 * written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/stores/redis/impl.h"
#include "pool/base/fnv.h"
#include "tests/support/base/heard.h"
#include "tests/unit/allocator/stores/redis/redis_journal.h"

enum {
    NAMES_MAX = 40,
};

#define FORGOTTEN                                                              \
    "WARN redis may have forgotten: the pool takes no commits until it is "    \
    "recovered namespace="

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void __wrap_wp_random_bytes(void *out, size_t len);

static uint32_t allocs;
static uint32_t alloc_fails; /* The one of that number, from 1. */
static uint64_t random_numbers[4];
static uint32_t n_random;
static struct wp_lease_redis *redis;
static struct wp_lease_redis_pool names[NAMES_MAX];
static struct heard heard;

void *
__wrap_calloc(size_t n, size_t size)
{
    return ++allocs == alloc_fails ? NULL : __real_calloc(n, size);
}

void
__wrap_wp_random_bytes(void *out, size_t len)
{
    assert_int_equal(len, sizeof random_numbers[0]);
    memcpy(out, &random_numbers[n_random++], len);
}

/* --- texts --- */

static void
test_fields(void **state)
{
    static const uint8_t uid[WP_UID_LEN] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab,
                                            0xcd, 0xef, 0,    0,    0,    0,
                                            0,    0,    0,    0xf0};
    static const char *const wrong[] = {
        "",
        "r",
        "r0123456789abcdef00000000000000f",
        "r0123456789abcdef00000000000000f00",
        "s0123456789abcdef00000000000000f0",
        "r0123456789abcdef00000000000000g0",
        "rg123456789abcdef00000000000000f0",
    };
    struct wp_lease_record record = {.fence = 7};
    char out[WP_REDIS_FIELD_LEN + 1];

    (void)state;
    wp_redis_field_make(uid, out);
    assert_string_equal(out, "r0123456789abcdef00000000000000f0");
    assert_true(wp_redis_field_parse(WP_STR("r0123456789ABCDEF"
                                            "00000000000000f0"),
                                     &record));
    assert_memory_equal(record.uid, uid, sizeof uid);
    assert_int_equal(record.fence, 7);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(wp_redis_field_parse(wp_str_from(wrong[i]), &record));
    }
}

static void
test_generations(void **state)
{
    static const char *const wrong[] = {
        "",
        "o",
        "o0123456789abcde",
        "o0123456789abcdef0",
        "p0123456789abcdef",
        "00123456789abcdef",
        "og123456789abcdef",
        "c0123456789abcdeg",
    };
    char out[WP_REDIS_GENERATION_LEN + 2];
    bool open = false;

    (void)state;
    memset(out, 'x', sizeof out);
    wp_redis_generation_make('o', UINT64_C(0x0123456789abcdef), out);
    assert_string_equal(out, "o0123456789abcdef");
    wp_redis_generation_make('c', UINT64_C(0xfedcba9876543210), out);
    assert_string_equal(out, "cfedcba9876543210");
    assert_true(wp_redis_generation_parse(WP_STR("o0123456789abcdef"), &open) ==
                UINT64_C(0x0123456789abcdef));
    assert_true(open);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(
            wp_redis_generation_parse(wp_str_from(wrong[i]), &open), 0);
        assert_true(open);
    }
    assert_true(wp_redis_generation_parse(WP_STR("cfedcba9876543210"), &open) ==
                UINT64_C(0xfedcba9876543210));
    assert_false(open);
    assert_int_equal(
        wp_redis_generation_parse(WP_STR("c0000000000000000"), &open), 0);
}

static void
test_a_new_generation_is_not_0(void **state)
{
    (void)state;
    n_random = 0;
    random_numbers[2] = UINT64_C(0x8000000000000000);
    assert_true(wp_redis_generation_new() == UINT64_C(0x8000000000000000));
    assert_int_equal(n_random, 3);
    random_numbers[3] = 1;
    assert_int_equal(wp_redis_generation_new(), 1);
    assert_int_equal(n_random, 4);
}

/* --- the rig --- */

static void
on_doubt(void *ctx, const struct wp_lease_redis_pool *pool)
{
    assert_ptr_equal(ctx, names);
    note("in doubt: %s/%s\n", pool->pool_namespace, pool->pool);
}

static void
name(uint32_t i, const char *pool_namespace, const char *pool)
{
    memset(&names[i], 0, sizeof names[i]);
    (void)snprintf(names[i].pool_namespace, sizeof names[i].pool_namespace,
                   "%s", pool_namespace);
    (void)snprintf(names[i].pool, sizeof names[i].pool, "%s", pool);
}

static enum wp_status
begin(uint32_t n, bool grows, struct wp_err *err)
{
    const struct wp_lease_redis_config config = {
        .pools = names, .n_pools = n, .grows = grows};

    redis = __real_calloc(1, sizeof *redis);
    assert_non_null(redis);
    redis->config.prefix = "wp";
    redis->config.sink.ctx = names;
    redis->config.sink.on_doubt = on_doubt;
    allocs = 0;
    journal_begin();
    return wp_redis_pools_init(redis, &config, err);
}

static void
end(void)
{
    free(redis->pools);
    free(redis->index);
    free(redis);
}

static struct wp_redis_pool *
find(const char *pool_namespace, const char *pool)
{
    return wp_redis_pool_find(redis, wp_str_from(pool_namespace),
                              wp_str_from(pool));
}

/* --- names --- */

static void
test_how_many_there_is_room_for(void **state)
{
    static const struct {
        uint32_t n;
        bool grows;
        uint32_t pools_max;
        uint32_t index_mask;
    } cases[] = {
        {1, false, 1, 15},
        {4, false, 4, 15},
        {5, false, 5, 31},
        {8, false, 8, 31},
        {9, false, 9, 63},
        {33, false, 33, 255},
        {1, true, WP_POOLS_MAX, 4 * WP_POOLS_MAX - 1},
    };
    struct wp_err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (uint32_t at = 0; at < cases[i].n; at++) {
            char text[16];

            (void)snprintf(text, sizeof text, "p%u", at);
            name(at, "ns", text);
        }
        assert_int_equal(begin(cases[i].n, cases[i].grows, &err), WP_OK);
        assert_int_equal(wp_redis_pools_len(redis), cases[i].n);
        assert_int_equal(redis->pools_max, cases[i].pools_max);
        assert_int_equal(redis->index_mask, cases[i].index_mask);
        for (uint32_t at = 0; at < cases[i].n; at++) {
            assert_ptr_equal(find("ns", names[at].pool), &redis->pools[at]);
        }
        assert_null(find("ns", "p"));
        end();
    }
}

static void
test_no_memory(void **state)
{
    struct wp_err err;

    (void)state;
    name(0, "ns", "p");
    for (alloc_fails = 1; alloc_fails < 3; alloc_fails++) {
        assert_int_equal(begin(1, false, &err), WP_RESOURCE_EXHAUSTED);
        assert_int_equal(err.status, WP_RESOURCE_EXHAUSTED);
        assert_string_equal(err.msg, "memory for redis");
        assert_int_equal(wp_redis_pools_len(redis), 0);
        end();
    }
    alloc_fails = 0;
}

static void
test_no_name_twice(void **state)
{
    struct wp_err err;

    (void)state;
    name(0, "ns", "p");
    name(1, "ns2", "p");
    name(2, "ns", "p");
    name(3, "ns", "q");
    assert_int_equal(begin(4, false, &err), WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "redis pools: 'ns/p' is named twice");
    assert_int_equal(wp_redis_pools_len(redis), 2);
    assert_null(find("ns", "q"));
    assert_non_null(find("ns2", "p"));
    assert_true(wp_lease_redis_knows(redis, WP_STR("ns2"), WP_STR("p")));
    assert_false(wp_lease_redis_knows(redis, WP_STR("ns2"), WP_STR("q")));
    end();
}

static uint32_t
home_of(const char *pool)
{
    uint64_t hash = wp_fnv_name(WP_STR("ns"), wp_str_from(pool));

    return (uint32_t)((hash ^ hash >> 32) & redis->index_mask);
}

/* Names whose home is the last place go on at the first one. */
static void
test_names_at_one_place(void **state)
{
    struct wp_err err;
    uint32_t n = 0;

    (void)state;
    name(0, "ns", "none");
    assert_int_equal(begin(1, false, &err), WP_OK); /* For its mask. */
    for (uint32_t i = 0; n < 5; i++) {
        char text[16];

        (void)snprintf(text, sizeof text, "p%u", i);
        if (home_of(text) == redis->index_mask) {
            name(n++, "ns", text);
        }
    }
    end();
    assert_int_equal(begin(4, false, &err), WP_OK);
    assert_int_equal(redis->index_mask, 15);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(atomic_load(&redis->index[(15 + i) % 16]), i + 1);
        assert_ptr_equal(find("ns", names[i].pool), &redis->pools[i]);
    }
    for (uint32_t i = 3; i < 15; i++) {
        assert_int_equal(atomic_load(&redis->index[i]), 0);
    }
    assert_null(find("ns", names[4].pool));
    /* Names count when hashes do not tell them apart. */
    redis->pools[0].name.pool_namespace[1] = 'x';
    redis->pools[1].name.pool[0] = 'x';
    redis->pools[2].name_hash++;
    for (uint32_t i = 0; i < 3; i++) {
        assert_null(find("ns", names[i].pool));
    }
    end();
}

static void
test_keys(void **state)
{
    char longest[WP_REDIS_NAMES_MAX + 1];
    char wanted[512];
    struct wp_err err;

    (void)state;
    name(0, "ns", "p");
    assert_int_equal(begin(1, true, &err), WP_OK);
    assert_string_equal(redis->pools[0].key, "wp:{ns/p}");
    assert_int_equal(redis->pools[0].key_len, 9);
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    memset(names[1].pool_namespace, 'n', WP_NAMESPACE_MAX);
    memset(names[1].pool, 'p', WP_POOL_NAME_MAX);
    redis->config.prefix = longest;
    assert_int_equal(wp_redis_pool_add(redis, &names[1], &err), WP_OK);
    (void)snprintf(wanted, sizeof wanted, "%s:{%s/%s}", longest,
                   names[1].pool_namespace, names[1].pool);
    assert_string_equal(redis->pools[1].key, wanted);
    assert_int_equal(redis->pools[1].key_len, strlen(wanted));
    assert_memory_equal(&redis->pools[1].name, &names[1], sizeof names[1]);
    end();
}

/* While others are followed the feed has to learn a pool's generation; and with
 * one server it is where the others are. */
static void
test_pools_that_are_added(void **state)
{
    struct wp_redis_group *group;
    struct wp_err err;

    (void)state;
    name(0, "ns", "p0");
    name(1, "ns", "p1");
    name(2, "ns", "p2");
    for (int cluster = 0; cluster < 2; cluster++) {
        assert_int_equal(begin(1, true, &err), WP_OK);
        redis->config.redis.cluster = cluster != 0;
        group = &redis->groups[5];
        atomic_store(&redis->pools[0].group, group);
        assert_int_equal(wp_redis_pool_add(redis, &names[1], &err), WP_OK);
        redis->feed = (struct wp_redis_feed *)(void *)redis;
        assert_int_equal(wp_redis_pool_add(redis, &names[2], &err), WP_OK);
        assert_false(redis->pools[0].fresh);
        assert_false(redis->pools[1].fresh);
        assert_true(redis->pools[2].fresh);
        for (uint32_t i = 1; i < 3; i++) {
            assert_ptr_equal(atomic_load(&redis->pools[i].group),
                             cluster ? NULL : group);
        }
        end();
    }
}

/* --- doubt --- */

static void
believe(uint64_t generation)
{
    atomic_store(&redis->pools[0].generation, generation);
}

static void
note_generation(void)
{
    const struct wp_lease_redis_pool unknown = {"ns", "q"};

    note("%llu%s\n",
         (unsigned long long)atomic_load(&redis->pools[0].generation),
         wp_lease_redis_in_doubt(redis, &names[0]) ? ", in doubt" : "");
    assert_true(wp_lease_redis_in_doubt(redis, &unknown));
}

static void
test_doubt_is_told_once(void **state)
{
    struct wp_redis_pool *pool;
    struct wp_err err;

    (void)state;
    name(0, "ns", "p");
    assert_int_equal(begin(1, false, &err), WP_OK);
    pool = &redis->pools[0];
    heard_begin(&heard);
    wp_redis_pool_doubt(redis, pool, 0); /* Not loaded yet. */
    wp_redis_pool_doubt(redis, pool, 7);
    note_generation();
    believe(7);
    note_generation();
    wp_redis_pool_doubt(redis, pool, 8);
    note_generation();
    wp_redis_pool_doubt(redis, pool, 7);
    note_generation();
    wp_redis_pool_doubt(redis, pool, 7);
    wp_redis_pool_doubt(redis, pool, 0);
    believe(9);
    wp_redis_pool_doubt(redis, pool, 0);
    note_generation();
    redis->config.sink.on_doubt = NULL;
    believe(9);
    wp_redis_pool_doubt(redis, pool, 9);
    note_generation();
    assert_string_equal(heard_end(&heard),
                        FORGOTTEN "ns pool=p\n" FORGOTTEN
                                  "ns pool=p\n" FORGOTTEN "ns pool=p\n");
    assert_string_equal(journal_take(), "0, in doubt\n"
                                        "7\n"
                                        "7\n"
                                        "in doubt: ns/p\n"
                                        "0, in doubt\n"
                                        "in doubt: ns/p\n"
                                        "0, in doubt\n"
                                        "0, in doubt\n");
    end();
}

static void
test_another_generation_is_doubt(void **state)
{
    struct wp_redis_pool *pool;
    struct wp_err err;

    (void)state;
    name(0, "ns", "p");
    assert_int_equal(begin(1, false, &err), WP_OK);
    pool = &redis->pools[0];
    heard_begin(&heard);
    wp_redis_generation_met(redis, pool, WP_STR("o0000000000000008"));
    note_generation();
    believe(7);
    wp_redis_generation_met(redis, pool, WP_STR("o0000000000000007"));
    wp_redis_generation_met(redis, pool, WP_STR("c0000000000000007"));
    note_generation();
    wp_redis_generation_met(redis, pool, WP_STR("o0000000000000008"));
    note_generation();
    believe(7);
    wp_redis_generation_met(redis, pool, WP_STR(""));
    note_generation();
    (void)heard_end(&heard);
    assert_string_equal(journal_take(), "0, in doubt\n"
                                        "7\n"
                                        "in doubt: ns/p\n"
                                        "0, in doubt\n"
                                        "in doubt: ns/p\n"
                                        "0, in doubt\n");
    end();
}

/* A later one does not make an earlier one trusted. */
static void
test_a_recovery_is_distrusted(void **state)
{
    struct wp_redis_pool pool = {.name = {"ns", "p"}};

    (void)state;
    wp_redis_pool_distrust(&pool);
    assert_int_equal(pool.distrusted, 0);
    atomic_store(&pool.recovering, 5);
    wp_redis_pool_distrust(&pool);
    assert_int_equal(pool.recovering, 0);
    assert_int_equal(pool.distrusted, 5);
    wp_redis_pool_distrust(&pool);
    assert_int_equal(pool.recovering, 0);
    assert_int_equal(pool.distrusted, 5);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_generations),
        cmocka_unit_test(test_a_new_generation_is_not_0),
        cmocka_unit_test(test_how_many_there_is_room_for),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_name_twice),
        cmocka_unit_test(test_names_at_one_place),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_pools_that_are_added),
        cmocka_unit_test(test_doubt_is_told_once),
        cmocka_unit_test(test_another_generation_is_doubt),
        cmocka_unit_test(test_a_recovery_is_distrusted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
