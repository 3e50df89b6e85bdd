/* Pools that memory lacks for: each piece that is asked for is refused in its
 * turn. It is said, nothing is kept of what was begun, and the next try goes
 * through. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/support/pool/fake_backend.h"
#include "tests/support/pool/manual_clock.h"
#include "tests/support/stores/model_store.h"

enum {
    PIECES_MAX = 500,
    SLOTS_MAX = 16,
};

#define S WP_NS_PER_S

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *memory);
void __wrap_free(void *memory);
void *__real_mmap(void *at, size_t size, int prot, int flags, int fd,
                  off_t from);
void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd,
                  off_t from);
int __real_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size);

static int countdown = -1; /* Below 0: nothing is refused. */
static bool refused;
static int live; /* Pieces that were not given back. */

static bool
is_refused(void)
{
    bool is = countdown >= 0 && countdown-- == 0;

    refused = refused || is;
    return is;
}

static void *
counted(void *memory)
{
    live += memory != NULL;
    return memory;
}

void *
__wrap_malloc(size_t size)
{
    return is_refused() ? NULL : counted(__real_malloc(size));
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return is_refused() ? NULL : counted(__real_calloc(n, size));
}

void *
__wrap_realloc(void *old, size_t size)
{
    if (is_refused()) {
        return NULL;
    }
    live -= old != NULL;
    return counted(__real_realloc(old, size));
}

void *
__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return is_refused() ? NULL : counted(__real_aligned_alloc(alignment, size));
}

void
__wrap_free(void *memory)
{
    live -= memory != NULL;
    __real_free(memory);
}

void *
__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t from)
{
    if (is_refused()) {
        return MAP_FAILED;
    }
    live++;
    return __real_mmap(at, size, prot, flags, fd, from);
}

int
__wrap_munmap(void *at, size_t size)
{
    live--;
    return __real_munmap(at, size);
}

/* --- --- */

static struct wp_clock_manual clock_;
static struct wp_fake_backend backend;
static struct wp_model_store store;
static struct wp_pools_config config;
static struct wp_pools *pools;

static void
wake(void *ctx)
{
    (void)ctx;
}

static int
set_up(void **state)
{
    static const struct wp_budget_total budgets[] = {{"g", 100}, {"h", 200}};

    (void)state;
    wp_clock_manual_init(&clock_, 1000 * S, INT64_C(1700000000) * S);
    wp_fake_backend_init(&backend, SLOTS_MAX, &clock_.clock);
    wp_model_init(&store, true);
    config = (struct wp_pools_config){
        .slots_max = SLOTS_MAX,
        .claims_max = 2 * SLOTS_MAX,
        .clock = &clock_.clock,
        .backend = wp_fake_backend_foreign_port(&backend),
        .store = wp_model_port(&store, 0),
        .seed = 3,
        .history_bytes_max = 1 << 16,
        .budgets = budgets,
        .n_budgets = 2,
        .wake = wake,
    };
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_fake_backend_fini(&backend);
    return 0;
}

/* With each piece refused, until there are enough; how many those are. */
static int
create(void)
{
    struct wp_err err;
    int before = live;
    int n = 0;

    for (pools = NULL; pools == NULL; n++) {
        assert_true(n < PIECES_MAX);
        memset(&err, 0, sizeof err);
        countdown = n;
        refused = false;
        pools = wp_pools_create(&config, &err);
        countdown = -1;
        assert_int_equal(pools == NULL, refused);
        if (pools == NULL) {
            assert_int_equal(live, before);
            assert_int_equal(err.status, WP_RESOURCE_EXHAUSTED);
            assert_string_equal(
                err.msg, n == 0 ? "out of memory"
                                : "no memory for 16 slots and 32 claims");
        }
    }
    wp_fake_backend_attach(&backend, pools);
    return n;
}

static void
test_no_pools_without_memory(void **state)
{
    int before = live;
    int n;

    (void)state;
    n = create();
    print_message("    %d pieces\n", n - 1);
    assert_true(n > 10);
    wp_pools_destroy(pools);
    assert_int_equal(live, before);
    /* Without what is only there for a store that keeps something. */
    config.n_budgets = 0;
    config.history_bytes_max = 0;
    assert_true(create() < n);
    wp_pools_destroy(pools);
    assert_int_equal(live, before);
}

static struct wp_pool_spec
spec_of(const char *name, const char *objective)
{
    struct wp_pool_spec spec;

    wp_pool_spec_init(&spec);
    (void)snprintf(spec.name, sizeof spec.name, "%s", name);
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
    spec.target = 2;
    spec.create_inflight_max = SLOTS_MAX;
    if (objective != NULL) {
        assert_int_equal(wp_scale_policy_set(&spec.scale, WP_STR("objective"),
                                             wp_str_from(objective), NULL),
                         WP_OK);
    }
    return spec;
}

/* What is added, each piece refused in its turn. */
static void
add(const char *name, const char *objective)
{
    struct wp_pool_spec spec = spec_of(name, objective);
    struct wp_pool_stats stats;
    enum wp_status status = WP_INTERNAL;
    char expected[100];
    struct wp_err err;
    uint32_t index = UINT32_MAX;
    int n = 0;

    for (; status != WP_OK; n++) {
        uint32_t count = wp_pools_count(pools);
        uint64_t bytes = wp_pools_memory_bytes(pools);

        assert_true(n < PIECES_MAX);
        memset(&err, 0, sizeof err);
        countdown = n;
        refused = false;
        status = wp_pools_add(pools, &spec, &index, &err);
        countdown = -1;
        /* The record of its claims may do without. */
        assert_true(status == WP_OK || refused);
        if (status != WP_OK) {
            assert_int_equal(status, WP_RESOURCE_EXHAUSTED);
            assert_int_equal(err.status, WP_RESOURCE_EXHAUSTED);
            (void)snprintf(expected, sizeof expected,
                           "pool '%s': no room for it; at most %d pools", name,
                           WP_POOLS_MAX);
            assert_string_equal(err.msg, expected);
            assert_int_equal(wp_pools_count(pools), count);
            assert_int_equal(wp_pools_memory_bytes(pools), bytes);
            assert_int_equal(
                wp_pools_index(pools, WP_STR("default"), wp_str_from(name)),
                UINT32_MAX);
        }
    }
    assert_true(n > 3);
    wp_pools_stats(pools, index, &stats);
    assert_int_equal(stats.scaled, objective != NULL);
    assert_string_equal(stats.spec.name, name);
}

static void
test_no_pool_without_memory(void **state)
{
    int before = live;

    (void)state;
    (void)create();
    add("p", NULL);
    add("q", "99%");
    for (int i = 0; i < 20; i++) {
        (void)wp_pools_run(pools);
        (void)wp_fake_backend_turn(&backend);
    }
    wp_pools_check(pools);
    assert_true(wp_fake_backend_counts(&backend).live >= 2);
    wp_pools_destroy(pools);
    assert_int_equal(live, before);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_no_pools_without_memory),
        TEST(test_no_pool_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
