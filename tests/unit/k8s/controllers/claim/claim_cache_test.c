/* What is remembered of each SandboxClaim: by name, each once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/controllers/claim/cache.h"

enum {
    CLAIMS = 20,
};

static int live; /* Made and not freed again. */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *
__wrap_calloc(size_t n, size_t size)
{
    live++;
    return __real_calloc(n, size);
}

void __real_free(void *at);
void __wrap_free(void *at);
void
__wrap_free(void *at)
{
    live -= at != NULL;
    __real_free(at);
}

static void
count(void *ctx, struct wp_claim_entry *entry)
{
    int *seen = ctx;

    seen[atoi(entry->key.name)]++;
}

static void
test_walk_meets_each_once(void **state)
{
    struct wp_claim_cache *cache = wp_claim_cache_create();
    int seen[CLAIMS] = {0};

    (void)state;
    assert_non_null(cache);
    for (int i = 0; i < CLAIMS; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "%d", i);
        (void)wp_claim_cache_enter(
            cache, &(struct wp_object){.ns = "n", .name = name, .uid = "u"});
    }
    wp_claim_cache_remove(cache, wp_claim_cache_find(cache, "n", "7"));
    wp_claim_cache_walk(cache, count, seen);
    for (int i = 0; i < CLAIMS; i++) {
        assert_int_equal(seen[i], i != 7);
    }
    assert_int_equal(live, CLAIMS);
    wp_claim_cache_destroy(cache);
    assert_int_equal(live, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk_meets_each_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
