/* tests/unit/allocator/stores/redis/redis_store_test.c - a store comes and
 * goes: which settings it takes, what it makes of those that are not given,
 * pools that are added, and what it counts. */
#include "tests/unit/allocator/stores/redis/store_rig.h"

#include <stdio.h>
#include <stdlib.h>

static void
destroy(void)
{
    wp_lease_redis_destroy(rig.redis);
    rig.redis = NULL;
}

static void
note_store(void)
{
    const struct wp_lease_redis *redis = rig.redis;
    const struct wp_lease_redis_config *config = &redis->config;

    journal_note("prefix '%s' user '%s' password '%s' named '%s' host '%s'"
                 " writer '%s'",
                 config->prefix, config->redis.user, config->redis.password,
                 config->redis.client_name, config->host, redis->writer);
    journal_note(
        "heartbeat=%lld gone=%lld idle=%lld links=%u pools=%u of %u"
        " index=%u",
        (long long)config->heartbeat_ns, (long long)config->peer_gone_ns,
        (long long)config->server_idle_ns, redis->n_links,
        wp_redis_pools_len(redis), redis->pools_max, redis->index_mask);
    journal_note("pending=%u connect=%lld commit=%lld backoff=%lld..%lld",
                 config->redis.pending_max,
                 (long long)config->redis.connect_timeout_ns,
                 (long long)config->redis.commit_timeout_ns,
                 (long long)config->redis.backoff_min_ns,
                 (long long)config->redis.backoff_max_ns);
    journal_note("router=%d %d pools=%d hooks=%d %d %d",
                 config->redis.router == &redis->router,
                 redis->router.find == rig_router.find, config->pools != NULL,
                 redis->hooks.on_reply == wp_redis_commit_on_reply,
                 redis->hooks.on_end == wp_redis_commit_on_end,
                 redis->hooks.on_server != NULL);
    for (uint32_t i = 0; i < wp_redis_pools_len(redis); i++) {
        journal_note("%s len=%zu group=%d fresh=%d", redis->pools[i].key,
                     redis->pools[i].key_len, redis->pools[i].group != NULL,
                     redis->pools[i].fresh);
    }
}

static void
try_config(const struct wp_lease_redis_config *config, const char *what)
{
    journal_note("# %s", what);
    rig_create(config);
    if (rig.redis != NULL) {
        destroy();
    }
}

static void
test_which_settings_are_taken(void **state)
{
    struct wp_lease_redis_config config = rig_config();
    static struct wp_lease_redis_pool many[WP_POOLS_MAX + 1];
    char prefix[WP_REDIS_PREFIX_MAX + 2];

    (void)state;
    memset(prefix, 'p', sizeof prefix);
    prefix[WP_REDIS_PREFIX_MAX] = '\0';
    config.prefix = prefix;
    try_config(&config, "a prefix of all length");
    prefix[WP_REDIS_PREFIX_MAX] = 'p';
    prefix[WP_REDIS_PREFIX_MAX + 1] = '\0';
    try_config(&config, "a longer one");
    config.prefix = "a{b";
    try_config(&config, "a brace");
    config.prefix = "a}b";
    try_config(&config, "the other brace");
    config.prefix = "a\nb";
    try_config(&config, "a line end");
    config.prefix = NULL;
    config.n_pools = 0;
    try_config(&config, "no pools");
    for (uint32_t i = 0; i <= WP_POOLS_MAX; i++) {
        many[i] = *rig_pool("a");
        (void)snprintf(many[i].pool, sizeof many[i].pool, "p%u", i);
    }
    config.pools = many;
    config.n_pools = WP_POOLS_MAX;
    try_config(&config, "as many as there may be");
    config.n_pools = WP_POOLS_MAX + 1;
    try_config(&config, "one more");
    config.n_pools = 2;
    many[1] = many[0];
    try_config(&config, "one is named twice");
    config = rig_config();
    config.redis.cluster = true;
    try_config(&config, "a cluster that nobody looks at");
    config.redis.router = &rig_router;
    try_config(&config, "a cluster");
    config = rig_config();
    config.threads = WP_REDIS_LINKS_MAX - 1;
    try_config(&config, "as many threads as there may be");
    config.threads = WP_REDIS_LINKS_MAX;
    try_config(&config, "one more");
    rig.groups_status = WP_RESOURCE_EXHAUSTED;
    config.threads = 0;
    try_config(&config, "no groups");
    rig.groups_status = WP_OK;
    try_config(&config, "no threads");
    journal_compare("store_settings");
}

static void
test_what_is_not_given(void **state)
{
    struct wp_lease_redis_config config = rig_config();
    char user[] = "user";
    char password[] = "secret";
    char name[] = "name";
    char host[] = "host";

    (void)state;
    rig_create(&config);
    note_store();
    destroy();
    config.prefix = "";
    config.redis.db = 3;
    config.host = "";
    config.heartbeat_ns = -1;
    config.peer_gone_ns = -1;
    config.server_idle_ns = -1;
    config.replicas = false;
    config.threads = 0;
    rig_create(&config);
    note_store();
    destroy();
    config.prefix = "x";
    config.redis.user = user;
    config.redis.password = password;
    config.redis.client_name = name;
    config.host = host;
    config.heartbeat_ns = 1;
    config.peer_gone_ns = 2;
    config.server_idle_ns = 3;
    config.grows = true;
    config.redis.router = &rig_router;
    config.redis.pending_max = 4;
    config.redis.connect_timeout_ns = 5;
    config.redis.commit_timeout_ns = 6;
    config.redis.backoff_min_ns = 7;
    config.redis.backoff_max_ns = 8;
    rig_create(&config);
    /* They are the caller's again. */
    user[0] = password[0] = name[0] = host[0] = '-';
    note_store();
    journal_compare("store_defaults");
}

static void
test_the_names_of_a_database_are_its_own(void **state)
{
    static const int dbs[] = {0, 1, WP_REDIS_DB_MAX};
    struct wp_lease_redis_pool longest = {.pool = ""};
    struct wp_lease_redis_config config = rig_config();
    char prefix[WP_REDIS_PREFIX_MAX + 1];

    (void)state;
    memset(prefix, 'p', sizeof prefix);
    prefix[WP_REDIS_PREFIX_MAX] = '\0';
    config.prefix = prefix;
    memset(longest.pool_namespace, 'n', WP_NAMESPACE_MAX);
    memset(longest.pool, 'l', WP_POOL_NAME_MAX);
    config.pools = &longest;
    config.n_pools = 1;
    for (size_t i = 0; i < WP_ARRAY_LEN(dbs); i++) {
        config.redis.db = dbs[i];
        rig_create(&config);
        journal_note("%s", rig.redis->config.prefix);
        rig_answer("!lost");
        rig_note_status(
            wp_lease_redis_begin_recovery(rig.redis, &longest, &rig.err));
        destroy();
    }
    journal_compare("store_names");
}

static void
test_a_store_without_memory(void **state)
{
    struct wp_lease_redis_config config = rig_config();
    int n = 0;

    (void)state;
    do {
        rig.fails_in = ++n;
        rig_create(&config);
    } while (rig.redis == NULL && n < 100);
    rig.fails_in = 0;
    journal_compare("store_memory");
}

static void
test_stores_are_told_apart(void **state)
{
    struct wp_lease_redis_config config = rig_config();
    struct wp_lease_redis *first;
    struct wp_lease_store store;

    (void)state;
    rig_create(&config);
    first = rig.redis;
    store = wp_lease_redis_store(first);
    assert_ptr_equal(store.self, first);
    assert_string_equal(store.ops->name, "redis");
    assert_true(store.ops->durable);
    assert_true(store.ops->shared);
    assert_ptr_equal(store.ops->commit, wp_redis_commit);
    assert_ptr_equal(store.ops->flush, wp_redis_commit_flush);
    assert_ptr_equal(store.ops->load, wp_redis_load);
    config.replicas = false;
    rig_create(&config);
    store = wp_lease_redis_store(rig.redis);
    assert_ptr_equal(store.self, rig.redis);
    assert_string_equal(store.ops->name, "redis");
    assert_true(store.ops->durable);
    assert_false(store.ops->shared);
    assert_ptr_equal(store.ops->commit, wp_redis_commit);
    assert_ptr_equal(store.ops->flush, wp_redis_commit_flush);
    assert_ptr_equal(store.ops->load, wp_redis_load);
    assert_int_not_equal(first->id, 0);
    assert_int_not_equal(rig.redis->id, 0);
    assert_int_not_equal(rig.redis->id, first->id);
    wp_lease_redis_destroy(first);
    wp_lease_redis_destroy(NULL);
}

static void
add(const char *name)
{
    struct wp_lease_redis_pool pool = {.pool_namespace = "ns"};

    (void)snprintf(pool.pool, sizeof pool.pool, "%s", name);
    journal_note("# add %s", name);
    rig_note_status(wp_lease_redis_add_pool(rig.redis, &pool, &rig.err));
    journal_note(
        "pools=%u known=%d doubt=%d", wp_redis_pools_len(rig.redis),
        wp_lease_redis_knows(rig.redis, WP_STR("ns"), wp_str_from(name)),
        wp_lease_redis_in_doubt(rig.redis, &pool));
}

static void
test_pools_are_added(void **state)
{
    struct wp_lease_redis_config config = rig_config();

    (void)state;
    rig_create(&config);
    add("a");
    add("c"); /* It does not grow. */
    destroy();
    config.grows = true;
    rig_create(&config);
    add("c");
    rig.redis->feed = rig_feed();
    add("b");
    add("d");
    note_store();
    journal_compare("store_add");
    while (wp_redis_pools_len(rig.redis) < WP_POOLS_MAX - 1) {
        struct wp_lease_redis_pool pool = {.pool_namespace = "ns"};

        (void)snprintf(pool.pool, sizeof pool.pool, "p%u",
                       wp_redis_pools_len(rig.redis));
        assert_int_equal(wp_lease_redis_add_pool(rig.redis, &pool, &rig.err),
                         WP_OK);
    }
    (void)journal_told();
    add("the-last");
    add("too-many");
    assert_false(wp_lease_redis_knows(rig.redis, WP_STR("ns2"), WP_STR("a")));
    assert_false(wp_lease_redis_knows(rig.redis, WP_STR(""), WP_STR("")));
    journal_compare("store_full");
}

static void
test_in_a_cluster_an_added_pool_is_nowhere_yet(void **state)
{
    struct wp_lease_redis_config config = rig_config();

    (void)state;
    config.grows = true;
    config.redis.cluster = true;
    config.redis.router = &rig_router;
    rig_create(&config);
    add("c");
    note_store();
    journal_compare("store_add_cluster");
}

static void
doubt(uint64_t believed, uint64_t generation)
{
    struct wp_redis_pool *pool = &rig.redis->pools[0];

    journal_note("# believed %u, doubted %u", (unsigned)believed,
                 (unsigned)generation);
    pool->generation = believed;
    wp_redis_pool_doubt(rig.redis, pool, generation);
    journal_note("generation=%u", (unsigned)pool->generation);
}

/* Of the generation that is believed in, or of any; and once. */
static void
test_a_pool_is_doubted_once(void **state)
{
    struct wp_lease_redis_config config = rig_config();

    (void)state;
    rig_create(&config);
    doubt(7, 7);
    doubt(7, 8);
    doubt(7, 0);
    doubt(0, 7);
    doubt(0, 0);
    rig.redis->config.sink.on_doubt = NULL;
    doubt(7, 0);
    journal_compare("store_doubt");
}

static void
test_what_is_counted(void **state)
{
    struct wp_lease_redis_config config = rig_config();
    struct wp_lease_redis_stats stats;
    struct wp_lease_redis *redis;

    (void)state;
    rig_create(&config);
    (void)journal_told();
    redis = rig.redis;
    redis->commits = 1;
    redis->stale = 2;
    redis->corrupt = 3;
    redis->errors = 4;
    redis->noscript = 5;
    redis->records_heard = 6;
    redis->gaps = 7;
    redis->syncs = 8;
    redis->sync_failures = 9;
    for (uint32_t i = 0; i < 3; i++) {
        memset(&stats, 0xff, sizeof stats);
        wp_lease_redis_read_stats(redis, &stats);
        assert_int_equal(stats.in_doubt, 2 - i);
        assert_string_equal(journal_told(), "peers 0 0\n");
        if (i < 2) {
            redis->pools[i].generation = 1;
        }
    }
    assert_int_equal(stats.servers, 71);
    assert_int_equal(stats.servers_ended, 0);
    assert_int_equal(stats.redis.links, 72);
    assert_int_equal(stats.redis.links_up, 0);
    assert_int_equal(stats.commits, 1);
    assert_int_equal(stats.stale, 2);
    assert_int_equal(stats.corrupt, 3);
    assert_int_equal(stats.errors, 4);
    assert_int_equal(stats.noscript, 5);
    assert_int_equal(stats.records_heard, 6);
    assert_int_equal(stats.gaps, 7);
    assert_int_equal(stats.syncs, 8);
    assert_int_equal(stats.sync_failures, 9);
    assert_int_equal(stats.peers, 73);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_begin, rig_end)
    const struct CMUnitTest tests[] = {
        TEST(test_which_settings_are_taken),
        TEST(test_what_is_not_given),
        TEST(test_the_names_of_a_database_are_its_own),
        TEST(test_a_store_without_memory),
        TEST(test_stores_are_told_apart),
        TEST(test_pools_are_added),
        TEST(test_in_a_cluster_an_added_pool_is_nowhere_yet),
        TEST(test_a_pool_is_doubted_once),
        TEST(test_what_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
