/* tests/unit/allocator/daemon/daemon_store_test.c - what keeps leases: which
 * store the settings choose, what it promises, what stands before it and in
 * which order all ends. The stores are fakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/buffer.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "allocator/daemon/store.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/heard.h"

#define WRAP(result, name, ...)                                                \
    result __wrap_##name(__VA_ARGS__);                                         \
    result __wrap_##name(__VA_ARGS__)

static struct golden journal;
static struct heard heard;
static struct wp_conf *conf;
static struct wp_daemon_core core;
static struct wp_daemon_store *store;
static bool fails;
static bool is_tmpfs;
static bool is_missing;
static int allocs = -1; /* So many succeed; < 0: all. */

static const struct wp_lease_store_ops sqlite_ops = {.name = "sqlite",
                                                     .durable = true};
static const struct wp_lease_store_ops redis_ops = {
    .name = "redis", .durable = true, .shared = true};

WRAP(struct wp_lease_sqlite *, wp_lease_sqlite_create,
     const struct wp_lease_sqlite_config *config, struct wp_err *err)
{
    golden_add(&journal, "sqlite: %u records in %s, %s; busy %u batch %u\n",
               config->records, config->path,
               config->synchronous == WP_LEASE_SQLITE_FULL ? "full" : "normal",
               config->busy_timeout_ms, config->batch_max);
    if (fails) {
        (void)wp_err_set(err, WP_INTERNAL, "it is no database");
        return NULL;
    }
    return (struct wp_lease_sqlite *)(void *)&journal;
}

WRAP(struct wp_lease_store, wp_lease_sqlite_store, struct wp_lease_sqlite *of)
{
    return (struct wp_lease_store){.ops = &sqlite_ops, .self = of};
}

WRAP(void, wp_lease_sqlite_destroy, struct wp_lease_sqlite *of)
{
    golden_add(&journal, "sqlite destroyed: %d\n", of != NULL);
}

WRAP(struct wp_daemon_redis *, wp_daemon_redis_open, struct wp_daemon_core *of,
     const struct wp_manifest *manifest, const struct wp_daemon_locks *locks,
     struct wp_err *err)
{
    assert_ptr_equal(of, &core);
    assert_ptr_equal(manifest, &heard);
    assert_ptr_equal(locks, &fails);
    golden_add(&journal, "redis opens\n");
    if (fails) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "it is not there");
        return NULL;
    }
    return (struct wp_daemon_redis *)(void *)&journal;
}

WRAP(struct wp_lease_store, wp_daemon_redis_store, struct wp_daemon_redis *of)
{
    return (struct wp_lease_store){.ops = &redis_ops, .self = of};
}

WRAP(void, wp_daemon_redis_close, struct wp_daemon_redis *of)
{
    golden_add(&journal, "redis closed: %d\n", of != NULL);
}

WRAP(void, wp_daemon_sqlite_metrics, struct wp_lease_sqlite *of,
     struct evbuffer *out)
{
    assert_ptr_equal(of, &journal);
    (void)evbuffer_add_printf(out, "sqlite's");
}

WRAP(void, wp_daemon_redis_metrics, const struct wp_daemon_redis *of,
     struct evbuffer *out)
{
    assert_ptr_equal(of, &journal);
    (void)evbuffer_add_printf(out, "redis'");
}

/* The name depends on how the product is compiled. */
WRAP(int, statfs, const char *path, struct statfs *out)
{
    golden_add(&journal, "where is %s?\n", path);
    memset(out, 0, sizeof *out);
    out->f_type = is_tmpfs ? TMPFS_MAGIC : EXT4_SUPER_MAGIC;
    return is_missing ? -1 : 0;
}

WRAP(int, statfs64, const char *path, struct statfs *out)
{
    return __wrap_statfs(path, out);
}

static bool
has_memory(void)
{
    if (allocs == 0) {
        return false;
    }
    allocs -= allocs > 0 ? 1 : 0;
    return true;
}

void *__real_calloc(size_t n, size_t size);
WRAP(void *, calloc, size_t n, size_t size)
{
    return has_memory() ? __real_calloc(n, size) : NULL;
}

void *__real_aligned_alloc(size_t align, size_t size);
WRAP(void *, aligned_alloc, size_t align, size_t size)
{
    return has_memory() ? __real_aligned_alloc(align, size) : NULL;
}

static void
set(const char *text)
{
    struct wp_err err;

    if (wp_conf_read_text(conf, wp_str_from(text), "test", &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
}

static void
renew_conf(const char *text)
{
    wp_conf_destroy(conf);
    conf = wp_conf_create();
    assert_non_null(conf);
    core.conf = conf;
    set("slots_max: 41\nlease_store_path: /db\n");
    set(text);
    golden_add(&journal, "# %s", text);
}

static int
begin(void **state)
{
    (void)state;
    allocs = -1;
    fails = false;
    is_tmpfs = false;
    is_missing = false;
    journal.len = 0;
    journal.text[0] = '\0';
    return 0;
}

static int
end(void **state)
{
    (void)state;
    wp_conf_destroy(conf);
    conf = NULL;
    return 0;
}

static void
open_it(void)
{
    struct wp_err err;

    memset(&err, 0, sizeof err);
    heard_begin(&heard);
    store = wp_daemon_store_open(
        &core, (const struct wp_manifest *)(const void *)&heard,
        (const struct wp_daemon_locks *)(const void *)&fails, &err);
    golden_add(&journal, "%s", heard_end(&heard));
    if (store == NULL) {
        golden_add(&journal, "not open, %s: %s\n", wp_status_name(err.status),
                   err.msg);
    }
}

static void
show(void)
{
    struct wp_lease_meter *meter = wp_daemon_store_meter(store);
    struct wp_lease_store port = wp_daemon_store_port(store);
    struct evbuffer *out = evbuffer_new();

    wp_daemon_store_metrics(store, out);
    golden_add(&journal, "port '%s', metered %d, redis %d, metrics '%.*s'\n",
               port.ops->name, meter != NULL && port.self == meter,
               wp_daemon_store_redis(store) != NULL,
               (int)evbuffer_get_length(out),
               (const char *)evbuffer_pullup(out, -1));
    if (meter != NULL) {
        assert_ptr_equal(meter->store.self, &journal);
        assert_ptr_equal(meter->clock, wp_clock_system());
    }
    evbuffer_free(out);
}

static void
finish(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/store_%s.txt", WP_TEST_GOLDEN, name);
    golden_compare(journal.text, path);
}

static void
test_the_settings_choose_the_store(void **state)
{
    static const char *const all[] = {
        "lease_store: memory\n",
        "lease_store: memory\nbackend: kubernetes\n",
        "lease_store: redis\n",
        "lease_store: sqlite\n",
        "lease_store: sqlite\nsqlite_synchronous: full\n",
        "lease_store: sqlite\nbackend: kubernetes\n",
        "lease_store: sqlite\nsqlite_synchronous: full\nbackend: kubernetes\n",
        "lease_store: sqlite\nsqlite_synchronous: normal\n"
        "backend: kubernetes\n",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        for (int where = 0; where < 3; where++) {
            is_tmpfs = where != 0;
            is_missing = where == 2;
            golden_add(&journal, "# %s\n",
                       where == 0   ? "on a disk"
                       : where == 1 ? "in memory"
                                    : "not there");
            renew_conf(all[i]);
            open_it();
            show();
            wp_daemon_store_close(store);
            show();
            wp_daemon_store_destroy(store);
        }
    }
    wp_daemon_store_destroy(NULL);
    finish("settings");
}

static void
test_what_cannot_be_opened_is_said(void **state)
{
    static const char *const all[] = {
        "lease_store: memory\n",
        "lease_store: redis\n",
        "lease_store: sqlite\n",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        renew_conf(all[i]);
        fails = i > 0;
        for (int n = 0; n < (i > 0 ? 2 : 1); n++) {
            allocs = n;
            open_it();
            assert_null(store);
        }
        fails = false;
        for (allocs = 1; allocs < 3; allocs++) {
            int n = allocs;

            open_it();
            wp_daemon_store_destroy(store);
            allocs = n;
        }
        allocs = -1;
    }
    finish("failures");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_the_settings_choose_the_store),
        TEST(test_what_cannot_be_opened_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
