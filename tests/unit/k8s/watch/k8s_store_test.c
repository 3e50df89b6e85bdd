/* What a store knows, what it drops, and whom it tells. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "k8s/watch/store.h"

static struct wp_object *
make(const char *name, const char *uid, int version)
{
    json_t *json = json_pack("{s:{s:s,s:s,s:s,s:o}}", "metadata", "namespace",
                             "ns", "name", name, "uid", uid, "resourceVersion",
                             json_sprintf("%d", version));
    struct wp_object *object = wp_object_create(WP_KIND_SERVICE, json, NULL);

    assert_non_null(object);
    json_decref(json);
    return object;
}

static int
version_of(const struct wp_store *store, const char *name)
{
    const struct wp_object *object = wp_store_find(store, "ns", name);

    return object != NULL ? atoi(object->resource_version) : -1;
}

static void
put_order(void **state)
{
    struct wp_store *store = wp_store_create(WP_KIND_SERVICE, NULL);

    (void)state;
    wp_store_put(store, make("a", "u1", 5));
    wp_store_put(store, make("a", "u1", 4));
    assert_int_equal(version_of(store, "a"), 5);
    wp_store_put(store, make("a", "u1", 6));
    assert_int_equal(version_of(store, "a"), 6);
    /* Made anew under the same name. */
    wp_store_put(store, make("a", "u2", 7));
    assert_string_equal(wp_store_find(store, "ns", "a")->uid, "u2");
    assert_null(wp_store_find_uid(store, "u1"));
    assert_non_null(wp_store_find_uid(store, "u2"));
    assert_null(wp_store_find(store, "ns", "b"));
    assert_null(wp_store_find(store, "n", "a"));
    wp_store_destroy(store);
}

static void
learn_order(void **state)
{
    struct wp_store *store = wp_store_create(WP_KIND_SERVICE, NULL);
    struct wp_object *object;

    (void)state;
    wp_store_learn(store, make("a", "u1", 5));
    assert_int_equal(version_of(store, "a"), 5);
    wp_store_learn(store, make("a", "u1", 4));
    assert_int_equal(version_of(store, "a"), 5);
    wp_store_learn(store, make("a", "u1", 9));
    /* The watch is behind: what it says is old news. */
    assert_true(wp_store_knows(store, "ns", "a", "u1", "9"));
    assert_true(wp_store_knows(store, "ns", "a", "u1", "8"));
    assert_false(wp_store_knows(store, "ns", "a", "u1", "10"));
    assert_false(wp_store_knows(store, "ns", "a", "u2", "9"));
    assert_false(wp_store_knows(store, "ns", "b", "u1", "9"));
    assert_false(wp_store_knows(store, "ns", "a", "u1", ""));
    wp_store_put(store, make("a", "u1", 7));
    assert_int_equal(version_of(store, "a"), 9);
    /* The watch tells the end before the answer of a write comes. */
    object = make("a", "u1", 12);
    wp_store_remove(store, object);
    wp_object_unref(object);
    wp_store_learn(store, make("a", "u1", 11));
    assert_int_equal(version_of(store, "a"), -1);
    wp_store_learn(store, make("a", "u2", 13));
    assert_int_equal(version_of(store, "a"), 13);
    wp_store_destroy(store);
}

static void
remove_order(void **state)
{
    struct wp_store *store = wp_store_create(WP_KIND_SERVICE, NULL);
    struct wp_object *old = make("a", "u1", 6);

    (void)state;
    /* Learned before the end of its predecessor was told. */
    wp_store_learn(store, make("a", "u2", 9));
    wp_store_remove(store, old);
    assert_int_equal(version_of(store, "a"), 9);
    wp_store_learn(store, make("a", "u1", 5));
    assert_int_equal(version_of(store, "a"), 9);
    /* One may remove what find gave. */
    wp_store_remove(store, wp_store_find(store, "ns", "a"));
    assert_int_equal(wp_store_count(store), 0);
    /* One that was never known to be there is gone all the same. */
    wp_store_learn(store, make("a", "u1", 5));
    assert_int_equal(wp_store_count(store), 0);
    /* But the watch knows best. */
    wp_store_put(store, make("a", "u1", 20));
    wp_store_learn(store, make("a", "u1", 21));
    assert_int_equal(version_of(store, "a"), 21);
    wp_object_unref(old);
    wp_store_destroy(store);
}

static void
replace(void **state)
{
    struct wp_store *store = wp_store_create(WP_KIND_SERVICE, NULL);

    (void)state;
    wp_store_put(store, make("gone", "u1", 1));
    wp_store_put(store, make("stays", "u2", 2));
    wp_store_put(store, make("changes", "u3", 3));
    wp_store_replace_begin(store);
    assert_int_equal(wp_store_count(store), 3);
    /* Written after the list was made, answered before its end. */
    wp_store_learn(store, make("newer", "u4", 11));
    wp_store_put(store, make("stays", "u2", 2));
    wp_store_put(store, make("changes", "u3", 9));
    wp_store_replace_end(store, "10");
    assert_int_equal(wp_store_count(store), 3);
    assert_int_equal(version_of(store, "gone"), -1);
    assert_int_equal(version_of(store, "changes"), 9);
    assert_int_equal(version_of(store, "newer"), 11);
    wp_store_replace_begin(store);
    wp_store_replace_end(store, NULL);
    assert_int_equal(wp_store_count(store), 0);
    wp_store_destroy(store);
}

/* After a backup was restored versions may go on far beyond what was known, of
 * objects that are older than they were. */
static void
replace_after_a_restore(void **state)
{
    struct wp_store *store = wp_store_create(WP_KIND_SERVICE, NULL);

    (void)state;
    wp_store_put(store, make("back", "u1", 9));
    wp_store_put(store, make("written", "u2", 9));
    wp_store_put(store, make("lost", "u3", 9));
    wp_store_replace_begin(store);
    wp_store_replace_from(store, "1000");
    /* Ours, answered while the list came. */
    wp_store_learn(store, make("written", "u2", 1001));
    assert_false(wp_store_overruled(store));
    wp_store_put(store, make("back", "u1", 5));
    wp_store_put(store, make("written", "u2", 5));
    assert_int_equal(version_of(store, "back"), 5);
    assert_int_equal(version_of(store, "written"), 1001);
    assert_true(wp_store_overruled(store));
    wp_store_replace_end(store, "1000");
    assert_int_equal(wp_store_count(store), 2);
    /* Without a list nothing gets older, nor by one whose version is none. */
    wp_store_put(store, make("back", "u1", 4));
    assert_int_equal(version_of(store, "back"), 5);
    wp_store_replace_begin(store);
    assert_false(wp_store_overruled(store));
    wp_store_replace_from(store, "x");
    wp_store_put(store, make("back", "u1", 4));
    assert_int_equal(version_of(store, "back"), 5);
    wp_store_destroy(store);
}

/* A list that begins anew, or that is over, knows nothing of the one before. */
static void
replace_anew(void **state)
{
    struct wp_store *store = wp_store_create(WP_KIND_SERVICE, NULL);

    (void)state;
    wp_store_put(store, make("a", "u1", 9));
    wp_store_replace_begin(store);
    wp_store_replace_from(store, "20");
    wp_store_replace_begin(store);
    wp_store_put(store, make("a", "u1", 5));
    assert_int_equal(version_of(store, "a"), 9);
    wp_store_replace_all(store);
    wp_store_replace_begin(store);
    wp_store_put(store, make("a", "u1", 5));
    assert_int_equal(version_of(store, "a"), 9);
    assert_false(wp_store_overruled(store));
    wp_store_replace_all(store);
    wp_store_put(store, make("a", "u1", 5));
    assert_int_equal(version_of(store, "a"), 5);
    assert_true(wp_store_overruled(store));
    wp_store_replace_end(store, NULL);
    wp_store_put(store, make("a", "u1", 4));
    assert_int_equal(version_of(store, "a"), 5);
    wp_store_replace_begin(store);
    assert_false(wp_store_overruled(store));
    wp_store_replace_from(store, "20");
    wp_store_put(store, make("a", "u1", 3));
    assert_int_equal(version_of(store, "a"), 3);
    wp_store_replace_end(store, "20");
    wp_store_put(store, make("a", "u1", 2));
    assert_int_equal(version_of(store, "a"), 3);
    wp_store_destroy(store);
}

static void
end_it(struct wp_store *store)
{
    wp_store_replace_end(store, "1");
}

static void
begin_from(struct wp_store *store)
{
    wp_store_replace_from(store, "1");
}

/* What belongs into a list ends the process outside of one. */
static void
replace_outside(void **state)
{
    void (*const calls[])(struct wp_store *) = {end_it, begin_from,
                                                wp_store_replace_all};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        struct wp_store *store = wp_store_create(WP_KIND_SERVICE, NULL);
        int status;
        pid_t pid;

        wp_store_replace_begin(store);
        wp_store_replace_end(store, NULL);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            (void)close(STDERR_FILENO);
            calls[i](store);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        wp_store_destroy(store);
    }
}

struct heard {
    const struct wp_store *store;
    char text[256];
};

static void
hear(void *ctx, const struct wp_object *before, const struct wp_object *after)
{
    struct heard *heard = ctx;
    size_t len = strlen(heard->text);
    const char *name = after != NULL ? after->name : before->name;

    /* The store already is as it will be. */
    assert_ptr_equal(wp_store_find(heard->store, "ns", name), after);
    (void)snprintf(heard->text + len, sizeof heard->text - len, "%s>%s ",
                   before != NULL ? before->resource_version : "",
                   after != NULL ? after->resource_version : "");
}

static void
listeners(void **state)
{
    struct wp_store *store = wp_store_create(WP_KIND_SERVICE, NULL);
    struct heard heard = {.store = store};
    struct wp_object *last = make("a", "u2", 9);

    (void)state;
    wp_store_listen(store, hear, &heard);
    wp_store_put(store, make("a", "u1", 1));
    wp_store_put(store, make("a", "u1", 1));
    wp_store_learn(store, make("a", "u1", 3));
    wp_store_put(store, make("a", "u1", 2));
    wp_store_put(store, make("a", "u1", 3));
    wp_store_put(store, make("a", "u2", 8));
    wp_store_remove(store, last);
    wp_store_remove(store, last);
    assert_string_equal(heard.text, ">1 1>3 3> >8 8> ");
    wp_object_unref(last);
    wp_store_destroy(store);
}

/* --- A model and random steps --- */

enum {
    NAMES = 600, /* Several blocks of an index. */
    OWNERS = 5,
    STEPS = 40000,
};

struct known {
    bool there;
    int version;
    int life; /* Counts the uids of the name. */
    int owner;
    int label; /* -1: none. */
    bool listed;
};

struct model {
    struct known known[NAMES];
    int version;
    uint32_t count;
    /* Of a walk. */
    const char *last;
    uint32_t walked;
};

static struct wp_object *
make_known(const struct known *known, int i)
{
    json_t *json = json_pack(
        "{s:{s:o,s:o,s:o,s:o,s:[{s:s,s:s,s:s,s:o,s:b}]}}", "metadata",
        "namespace", json_sprintf("n%d", i % 3), "name",
        json_sprintf("s%04d", i), "uid", json_sprintf("u%d-%d", i, known->life),
        "resourceVersion", json_sprintf("%d", known->version),
        "ownerReferences", "apiVersion", "v1", "kind", "Pod", "name", "o",
        "uid", json_sprintf("owner%d", known->owner), "controller", 1);
    struct wp_object *object;

    if (known->label >= 0) {
        wp_json_set(json_object_get(json, "metadata"), "labels",
                    json_pack("{s:o}", "l", json_sprintf("v%d", known->label)));
    }
    object = wp_object_create(WP_KIND_SERVICE, json, NULL);
    assert_non_null(object);
    json_decref(json);
    return object;
}

static bool
count_each(void *ctx, const struct wp_object *object)
{
    struct model *model = ctx;

    if (model->last != NULL) {
        assert_true(strcmp(model->last, object->name) < 0 ||
                    object->ns[1] != '0');
    }
    model->last = object->name;
    model->walked++;
    return true;
}

static void
check(struct model *model, const struct wp_store *store)
{
    uint32_t owned[OWNERS] = {0};
    uint32_t labelled[OWNERS] = {0};
    char text[32];

    assert_int_equal(wp_store_count(store), model->count);
    for (int i = 0; i < NAMES; i++) {
        const struct known *known = &model->known[i];
        const struct wp_object *found;
        char ns[16];

        (void)snprintf(ns, sizeof ns, "n%d", i % 3);
        (void)snprintf(text, sizeof text, "s%04d", i);
        found = wp_store_find(store, ns, text);
        assert_int_equal(found != NULL, known->there);
        if (found != NULL) {
            (void)snprintf(text, sizeof text, "u%d-%d", i, known->life);
            assert_ptr_equal(wp_store_find_uid(store, text), found);
            assert_int_equal(atoi(found->resource_version), known->version);
            owned[known->owner]++;
            if (known->label >= 0 && i % 3 == 0) {
                labelled[known->label]++;
            }
        }
    }
    for (int i = 0; i < OWNERS; i++) {
        (void)snprintf(text, sizeof text, "owner%d", i);
        model->walked = 0;
        model->last = NULL;
        wp_store_owned_by(store, text, count_each, model);
        assert_int_equal(model->walked, owned[i]);
        (void)snprintf(text, sizeof text, "v%d", i);
        model->walked = 0;
        model->last = NULL;
        wp_store_labelled(store, "n0", text, count_each, model);
        assert_int_equal(model->walked, labelled[i]);
    }
    model->walked = 0;
    model->last = NULL;
    wp_store_walk(store, count_each, model);
    assert_int_equal(model->walked, model->count);
}

static uint32_t seed = 1;

static int
below(int bound)
{
    seed = seed * 1664525 + 1013904223;
    return (int)((seed >> 8) % (uint32_t)bound);
}

static void
change(struct model *model, struct wp_store *store, int i, bool learn)
{
    struct known *known = &model->known[i];
    struct wp_object *object;

    if (!known->there) {
        known->there = true;
        known->life++;
        model->count++;
    }
    known->owner = below(OWNERS);
    known->label = below(OWNERS + 1) - 1;
    known->version = ++model->version;
    known->listed = true; /* By the version rule, if not by the list. */
    object = make_known(known, i);
    if (learn) {
        wp_store_learn(store, object);
    } else {
        wp_store_put(store, object);
    }
}

static void
drop(struct model *model, struct wp_store *store, int i)
{
    struct known *known = &model->known[i];
    struct wp_object *object;

    if (!known->there) {
        return;
    }
    known->version = ++model->version;
    object = make_known(known, i);
    wp_store_remove(store, object);
    /* An answer from before must not bring it back. */
    object->seen = 0;
    wp_store_learn(store, object);
    known->there = false;
    model->count--;
}

/* A list in which some are missing, with changes while it comes. */
static void
relist(struct model *model, struct wp_store *store)
{
    char version[16];

    (void)snprintf(version, sizeof version, "%d", model->version);
    wp_store_replace_begin(store);
    for (int i = 0; i < NAMES; i++) {
        struct known *known = &model->known[i];

        known->listed = known->there && below(10) != 0;
        if (known->listed) {
            wp_store_put(store, make_known(known, i));
        }
        if (below(20) == 0) {
            change(model, store, below(i + 1), true);
        }
    }
    wp_store_replace_end(store, version);
    for (int i = 0; i < NAMES; i++) {
        if (model->known[i].there && !model->known[i].listed) {
            model->known[i].there = false;
            model->count--;
        }
    }
}

static void
random_steps(void **state)
{
    static struct model model;
    struct wp_store *store = wp_store_create(WP_KIND_SERVICE, "l");

    (void)state;
    for (int step = 0; step < STEPS; step++) {
        int i = below(NAMES);
        /* It grows to nearly all and shrinks to few, in turns. */
        bool grows = step / 4000 % 2 == 0;

        if (below(10) < (grows ? 8 : 2)) {
            change(&model, store, i, below(2) == 0);
        } else {
            drop(&model, store, i);
        }
        if (below(3000) == 0) {
            relist(&model, store);
        }
        if (step % 500 == 0) {
            check(&model, store);
        }
    }
    check(&model, store);
    wp_store_destroy(store);
}

/* A sandbox as pools make them, about 2.5 KB as the server sends it. */
static json_t *
typical(int i)
{
    json_t *json = json_pack(
        "{s:s,s:s,s:{s:s,s:o,s:o,s:o,s:i,s:s,s:{s:s,s:s,s:s,s:s,s:s},s:{s:s},"
        "s:[{s:s,s:s,s:s,s:s,s:b,s:b}]}}",
        "apiVersion", "agents.x-k8s.io/v1beta1", "kind", "Sandbox", "metadata",
        "namespace", "default", "name", json_sprintf("python-pool-%08x", i),
        "uid", json_sprintf("7f0a3e52-3c1d-4f0e-9a55-%012x", i),
        "resourceVersion", json_sprintf("%d", 1000000 + i), "generation", 1,
        "creationTimestamp", "2026-08-22T10:00:00Z", "labels",
        "agents.x-k8s.io/warm-pool-sandbox", "8c6a35c6",
        "agents.x-k8s.io/sandbox-template-ref-hash", "694aaa0b",
        "agents.x-k8s.io/sandbox-template-hash", "abdcc27b",
        "agents.x-k8s.io/launch-type", "warm", "agents.x-k8s.io/created-by",
        "controller", "annotations", "agents.x-k8s.io/sandbox-template-ref",
        "python", "ownerReferences", "apiVersion",
        "extensions.agents.x-k8s.io/v1beta1", "kind", "SandboxWarmPool", "name",
        "python-pool", "uid", "11111111-3c1d-4f0e-9a55-000000000000",
        "controller", 1, "blockOwnerDeletion", 1);
    char filler[1401];

    memset(filler, 'x', sizeof filler - 1);
    filler[sizeof filler - 1] = '\0';
    wp_json_set(json, "spec",
                json_pack("{s:{s:{s:[{s:s,s:s,s:s}]}}}", "podTemplate", "spec",
                          "containers", "name", "main", "image", "python",
                          "rest", filler));
    wp_json_set(json, "status",
                json_pack("{s:[s],s:s,s:[{s:s,s:s,s:s,s:s,s:s}]}", "podIPs",
                          "10.123.45.67", "nodeName", "node-0123456789",
                          "conditions", "type", "Ready", "status", "True",
                          "reason", "DependenciesReady", "message",
                          "Pod is Ready", "lastTransitionTime",
                          "2026-08-22T10:00:02Z"));
    return json;
}

/* 10,000 sandboxes watched must leave most of 200 MiB to others. */
static void
memory(void **state)
{
    enum {
        COUNT = 10000
    };
    struct wp_store *store =
        wp_store_create(WP_KIND_SANDBOX, "agents.x-k8s.io/warm-pool-sandbox");
    size_t text = 0;

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        json_t *json = typical(i);
        struct wp_object *object =
            wp_object_create(WP_KIND_SANDBOX, json, NULL);

        assert_non_null(object);
        text += object->text.len;
        json_decref(json);
        wp_store_put(store, object);
    }
    (void)printf("%d sandboxes of %zu bytes JSON: %llu bytes each\n", COUNT,
                 text / COUNT,
                 (unsigned long long)(wp_store_bytes(store) / COUNT));
    assert_true(wp_store_bytes(store) / COUNT < text / COUNT + 2048);
    wp_store_destroy(store);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_order),
        cmocka_unit_test(learn_order),
        cmocka_unit_test(remove_order),
        cmocka_unit_test(replace),
        cmocka_unit_test(replace_after_a_restore),
        cmocka_unit_test(replace_anew),
        cmocka_unit_test(replace_outside),
        cmocka_unit_test(listeners),
        cmocka_unit_test(random_steps),
        cmocka_unit_test(memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
