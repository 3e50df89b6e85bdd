/* A replica that begins to lead, step by step: what the cluster's backend asks
 * of the core before it serves, and what counts of what was under way. */
#include "tests/unit/k8s/backend/world.h"

#define COMPARE(name) compare(WP_TEST_FOLDER "/" name)

static void
ready(void *ctx)
{
    assert_ptr_equal(ctx, &parts_[2]);
    golden_add(&golden, " ready");
}

static void
put_all(void)
{
    put(WP_KIND_SANDBOX_WARM_POOL, POOL("p-uid"));
    put_sandbox("a", "0a", POOLED, READY);
    put_sandbox("b", "0b", POOLED ",'deletionTimestamp':'2026-01-01T00:00:00Z'",
                READY);
    put_sandbox("c", "0c", CLAIMED, READY);
    put_sandbox("d", "0d", NOTED(""), READY);
    put_sandbox("e", "0e",
                "'annotations':{'" WP_ANNOTATION_UID
                "':'000102030405060708090a0b0c0d0e0f'}",
                READY);
    put_sandbox("f", "0f", "", READY);
    put_sandbox("s", "01", POOLED, READY);
}

static void
activate(const char *what)
{
    step(what);
    wp_cluster_backend_activate(backend, ready, &parts_[2]);
    golden_add(&golden, " makes %d", wp_backend_makes(backend));
    show("s");
}

static void
deactivate(const char *what)
{
    step(what);
    wp_cluster_backend_deactivate(backend);
    golden_add(&golden, " makes %d", wp_backend_makes(backend));
    show("s");
}

static void
list_is_there(void)
{
    void (*done)(void *ctx) = listed;

    step("the list is there");
    assert_non_null(done);
    listed = NULL;
    done(listed_ctx);
    show("s");
}

static void
control(void)
{
    step("control");
    run_control();
    show("s");
}

static void
cluster(void)
{
    step("cluster");
    run_cluster();
    golden_add(&golden, " makes %d", wp_backend_makes(backend));
    show("s");
}

static void
what_there_is_is_asked_of_the_core(void **state)
{
    (void)state;
    begin();
    put_all();
    (void)add_entry("s", 1, WP_SANDBOX_READY);
    core.seen = true;
    activate("it leads");
    list_is_there();
    control();
    cluster();
    control();
    cluster();
    deactivate("no more");
    deactivate("still not");
    end();
    COMPARE("begin.txt");
}

/* Orders of before are outdated; what is known is looked at. */
static void
orders_of_before_come_to_nothing(void **state)
{
    (void)state;
    for (int phase = 0; phase <= WP_SANDBOX_DELETING; phase++) {
        begin();
        put_sandbox("other", "02", POOLED, READY);
        (void)add_entry("s", 1, (enum wp_sandbox_phase)phase);
        activate(phases[phase]);
        list_is_there();
        control();
        cluster();
        control();
        cluster();
        end();
    }
    COMPARE("begin_orders.txt");
}

/* It ends before the core has answered: that is of no term any more. */
static void
what_is_under_way_counts_no_more(void **state)
{
    char what[64];

    (void)state;
    for (int until = 0; until < 5; until++) {
        begin();
        put_sandbox("a", "0a", POOLED, READY);
        (void)add_entry("s", 1, WP_SANDBOX_CREATING);
        (void)snprintf(what, sizeof what, "until step %d", until);
        activate(what);
        if (until > 0) {
            list_is_there();
        }
        if (until > 1) {
            control();
        }
        if (until > 2) {
            cluster();
        }
        if (until > 3) {
            control();
        }
        deactivate("it leads no more");
        control();
        cluster();
        control();
        cluster();
        activate("it leads again");
        list_is_there();
        control();
        cluster();
        control();
        cluster();
        end();
    }
    COMPARE("begin_ends.txt");
}

/* What was counted in an earlier term says nothing of this one. */
static void
a_count_of_an_earlier_term_ends_nothing(void **state)
{
    (void)state;
    begin();
    backend->doubtful = true;
    step("a doubt is over");
    wp_cluster_backend_doubt(backend, false);
    show("s");
    control();
    deactivate("it leads no more");
    activate("it leads again");
    cluster();
    list_is_there();
    control();
    cluster();
    control();
    cluster();
    end();
    COMPARE("begin_counts.txt");
}

static bool has;

static bool
has_records(void *ctx)
{
    assert_ptr_equal(ctx, &parts_[1]);
    golden_add(&golden, " records?");
    return has;
}

static void
records_are_waited_for(void **state)
{
    (void)state;
    begin();
    put_sandbox("a", "0a", POOLED, READY);
    parts.core.ctx = &parts_[1];
    parts.core.has_records = has_records;
    has = false;
    activate("it leads");
    list_is_there();
    for (int i = 1; i <= 1001; i++) {
        if (i > 3 && (i % 500 > 1 && i % 500 < 499)) {
            run_control();
            run_cluster();
            wp_backend_on_records(-1, 0, backend);
            continue;
        }
        control();
        cluster();
        step("once more");
        wp_backend_on_records(-1, 0, backend);
        show("s");
    }
    has = true;
    control();
    cluster();
    end();
    COMPARE("begin_records.txt");
}

/* How often it was asked counts anew with each term. */
static void
each_term_asks_anew(void **state)
{
    (void)state;
    begin();
    backend->records_asked = 499;
    parts.core.ctx = &parts_[1];
    parts.core.has_records = has_records;
    has = false;
    activate("it leads");
    list_is_there();
    control();
    cluster();
    assert_int_equal(backend->records_asked, 1);
    end();
    COMPARE("begin_terms.txt");
}

static void
doubt(const char *what, bool doubtful)
{
    step(what);
    wp_cluster_backend_doubt(backend, doubtful);
    golden_add(&golden, " makes %d", wp_backend_makes(backend));
    show("s");
}

static void
after_a_doubt_all_is_counted(void **state)
{
    (void)state;
    begin();
    put_all();
    (void)add_entry("s", 1, WP_SANDBOX_CREATING);
    doubt("no doubt", false);
    doubt("a doubt", true);
    doubt("the same", true);
    doubt("it is over", false);
    control();
    /* Another one begins and ends: only the newest count ends it. */
    doubt("another", true);
    doubt("that is over", false);
    cluster();
    control();
    cluster();
    parts.active = false;
    doubt("not led", true);
    doubt("not led, over", false);
    end();
    COMPARE("doubts.txt");
}

static void
only_what_makes_sandboxes_is_held_back(void **state)
{
    static const struct {
        const char *method;
        const char *path;
        enum wp_http_priority priority;
        bool makes; /* It goes while orders are begun only. */
    } rows[] = {
        {"POST", "/apis/x/namespaces/ns/sandboxes", WP_HTTP_REFILL, true},
        {"POST", "/apis/x/namespaces/ns/sandboxes", WP_HTTP_SPARE, true},
        {"POST", "/apis/x/namespaces/ns/sandboxes", WP_HTTP_NORMAL, false},
        {"POST", "/apis/x/namespaces/ns/sandboxes", WP_HTTP_CLAIM, false},
        {"POST", "/sandboxes", WP_HTTP_REFILL, true},
        {"POST", "sandboxes", WP_HTTP_REFILL, false},
        {"POST", "", WP_HTTP_REFILL, false},
        {"POST", "/sandboxes/s", WP_HTTP_REFILL, false},
        {"POST", "/apis/x/namespaces/ns/sandboxclaims", WP_HTTP_REFILL, false},
        {"DELETE", "/apis/x/namespaces/ns/sandboxes", WP_HTTP_REFILL, false},
    };

    (void)state;
    begin();
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        for (int bits = 0; bits < 8; bits++) {
            bool makes;

            parts.active = (bits & 1) == 0;
            backend->doubtful = (bits & 2) != 0;
            backend->counting = (bits & 4) != 0;
            makes = bits == 0;
            assert_int_equal(wp_backend_makes(backend), makes);
            assert_int_equal(
                wp_cluster_backend_may_send(backend, rows[i].method,
                                            rows[i].path, rows[i].priority),
                makes || !rows[i].makes);
        }
    }
    end();
}

/* How the backend is made, when each of its parts cannot be had in its turn. */
static void
without_memory_there_is_no_backend(void **state)
{
    struct wp_cluster_backend *other = NULL;
    struct wp_cluster_backend *own;
    int n = 0;

    (void)state;
    begin();
    own = backend;
    backend = NULL;
    parts.refs = NULL;
    while (other == NULL) {
        struct wp_err err = {.msg = ""};

        made = 0;
        fail_at = ++n;
        other = wp_cluster_backend_create(&parts, &err);
        fail_at = 0;
        if (other == NULL) {
            assert_int_equal(err.status, WP_RESOURCE_EXHAUSTED);
            assert_string_equal(err.msg, "out of memory");
            assert_null(parts.refs);
        }
    }
    assert_int_equal(made, n - 1);
    assert_in_range(n, 6, 20);
    assert_int_equal(other->messages_max, parts.config.sandboxes_max);
    wp_cluster_backend_destroy(other);
    backend = own;
    parts.refs = own->refs;
    end();
}

/* Its counts, whole. */
static void
the_counts_are_told_whole(void **state)
{
    struct wp_cluster_backend_stats out;

    (void)state;
    begin();
    (void)add_entry("s", 1, WP_SANDBOX_READY);
    backend->stats = (struct wp_cluster_backend_stats){.known = 99,
                                                       .posted = 1,
                                                       .deleted = 2,
                                                       .adopted = 3,
                                                       .taken = 4,
                                                       .found = 5,
                                                       .orphans = 6,
                                                       .refused = 7,
                                                       .conflicts = 8};
    __real_wp_work_add(backend->queue, "ns", "a", false);
    __real_wp_work_add(backend->queue, "ns", "b", false);
    memset(&out, 0xff, sizeof out);
    wp_cluster_backend_stats(backend, &out);
    assert_int_equal(out.known, 1);
    assert_int_equal(out.posted, 1);
    assert_int_equal(out.deleted, 2);
    assert_int_equal(out.adopted, 3);
    assert_int_equal(out.taken, 4);
    assert_int_equal(out.found, 5);
    assert_int_equal(out.orphans, 6);
    assert_int_equal(out.refused, 7);
    assert_int_equal(out.conflicts, 8);
    assert_int_equal(out.queue.waiting, 2);
    assert_int_equal(out.queue.begun, 0);
    assert_int_equal(out.queue.failed, 0);
    end();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_there_is_is_asked_of_the_core),
        cmocka_unit_test(orders_of_before_come_to_nothing),
        cmocka_unit_test(what_is_under_way_counts_no_more),
        cmocka_unit_test(a_count_of_an_earlier_term_ends_nothing),
        cmocka_unit_test(records_are_waited_for),
        cmocka_unit_test(each_term_asks_anew),
        cmocka_unit_test(after_a_doubt_all_is_counted),
        cmocka_unit_test(only_what_makes_sandboxes_is_held_back),
        cmocka_unit_test(without_memory_there_is_no_backend),
        cmocka_unit_test(the_counts_are_told_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
