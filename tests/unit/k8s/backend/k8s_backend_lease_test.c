/* The core's backend for a cluster, on a small server in memory: leases of
 * gRPC, which are written on their Sandboxes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "k8s/objects/lease_annotation.h"
#include "k8s/objects/names.h"
#include "tests/support/k8s/cluster_rig.h"

#define S WP_NS_PER_S
#define KIND WP_KIND_SANDBOX

static struct wp_cluster_rig rig;

static void
a_lease_is_written_on_its_sandbox_behind(void **state)
{
    struct wp_lease_note note;
    const json_t *sandbox;
    struct wp_claim held;
    const char *name;

    (void)state;
    wp_cluster_rig_start(&rig, 1);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "job-1", "team"), WP_OK);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_PATCH, KIND), 0);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_PATCH, KIND), 1);
    name = held.grant.sandbox;
    sandbox = wp_recorder_object(rig.api, KIND, "ns", name);
    assert_true(wp_lease_note_read(
        wp_cluster_rig_annotation(&rig, name, WP_ANNOTATION_LEASE), &note));
    assert_string_equal(note.claim_id, "job-1");
    assert_string_equal(note.tenant, "team");
    assert_int_equal(note.fence, held.grant.fence);
    assert_int_equal(note.deadline_wall_ms, held.grant.deadline_wall_ms);
    assert_string_equal(
        wp_cluster_rig_annotation(&rig, name, WP_ANNOTATION_POD_NAME), name);
    assert_int_equal(json_array_size(wp_json_at(sandbox, "metadata",
                                                "ownerReferences", NULL)),
                     0);
    assert_null(
        wp_json_at(sandbox, "metadata", "labels", WP_LABEL_WARM_POOL, NULL));
    assert_null(wp_json_at(sandbox, "spec", "podTemplate", "metadata", "labels",
                           WP_LABEL_WARM_POOL, NULL));
    assert_null(wp_json_at(sandbox, "spec", "podTemplate", "metadata",
                           "annotations", WP_ANNOTATION_SAFE_TO_EVICT, NULL));
    assert_string_equal(
        wp_json_text(sandbox, "metadata", "labels", WP_LABEL_LAUNCH_TYPE, NULL),
        "warm");
    /* Released: deleted. */
    wp_pools_end(rig.pools, held.grant.ref);
    wp_cluster_rig_settle(&rig);
    assert_null(wp_recorder_object(rig.api, KIND, "ns", name));
    /* However it has changed meanwhile. */
    assert_string_equal(
        wp_recorder_last(rig.api, WP_VERB_DELETE, KIND)->resource_version, "");
    assert_int_equal(wp_cluster_rig_stats(&rig).leased, 0);
    wp_cluster_rig_fini(&rig);
}

static void
renew(const struct wp_claim *held, int64_t ttl_ns)
{
    struct wp_lease_change change;

    memset(&change, 0, sizeof change);
    memcpy(change.token, held->grant.token, sizeof change.token);
    change.ttl_ns = ttl_ns;
    assert_int_equal(wp_pools_renew(rig.pools, &change), WP_OK);
    wp_cluster_rig_settle(&rig);
}

static void
a_note_follows_renewals_that_count(void **state)
{
    struct wp_lease_note note;
    struct wp_claim held;

    (void)state;
    wp_cluster_rig_start(&rig, 1);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "a", "t"),
                     WP_OK); /* For an hour. */
    wp_cluster_rig_settle(&rig);
    rig.offset_ns += 600 * S;
    renew(&held, 3600 * S);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_PATCH, KIND), 1);
    rig.offset_ns += 2000 * S;
    renew(&held, 3600 * S);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_PATCH, KIND), 1);
    /* Beyond what the note allows for: twice its first hour. */
    rig.offset_ns += 2000 * S;
    renew(&held, 3600 * S);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_PATCH, KIND), 2);
    assert_true(
        wp_lease_note_read(wp_cluster_rig_annotation(&rig, held.grant.sandbox,
                                                     WP_ANNOTATION_LEASE),
                           &note));
    assert_true(note.deadline_wall_ms - held.grant.deadline_wall_ms >=
                4600 * 1000);
    assert_int_equal(wp_cluster_rig_stats(&rig).leased, 1);
    wp_cluster_rig_fini(&rig);
}

static void
a_lease_of_a_claim_object_is_its_controllers_to_write(void **state)
{
    struct wp_claim held;
    char text[512];

    (void)state;
    wp_cluster_rig_start(&rig, 1);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "claim-uid",
                                          WP_TENANT_SANDBOX_CLAIMS),
                     WP_OK);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_PATCH, KIND), 0);
    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"ownerReferences\":[{\"apiVersion\":"
                   "\"extensions.agents.x-k8s.io/v1beta1\",\"kind\":"
                   "\"SandboxClaim\",\"name\":\"c\",\"uid\":\"claim-uid\","
                   "\"controller\":true}]}}");
    (void)wp_recorder_merge(rig.api, KIND, "ns", held.grant.sandbox, text);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).taken, 0);
    assert_int_equal(wp_cluster_rig_stats(&rig).leased, 1);
    wp_pools_end(rig.pools, held.grant.ref);
    wp_cluster_rig_settle(&rig);
    assert_null(wp_recorder_object(rig.api, KIND, "ns", held.grant.sandbox));
    wp_cluster_rig_fini(&rig);
}

/* Only the claim that has the lease may have the Sandbox. */
static void
a_claim_object_without_the_lease_has_taken_it(void **state)
{
    static const struct {
        const char *id;
        const char *tenant;
        bool lost;
    } rows[] = {
        {"their-claim", WP_TENANT_SANDBOX_CLAIMS, false},
        {"another-claim", WP_TENANT_SANDBOX_CLAIMS, true},
        {"their-claim", "t", true},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_claim_info info;
        struct wp_claim held;

        wp_cluster_rig_start(&rig, 1);
        wp_cluster_rig_all_ready(&rig);
        assert_int_equal(
            wp_cluster_rig_claim(&rig, &held, rows[i].id, rows[i].tenant),
            WP_OK);
        wp_cluster_rig_settle(&rig);
        wp_cluster_rig_take_away(&rig, held.grant.sandbox);
        wp_cluster_rig_settle(&rig);
        assert_int_equal(wp_pools_get(rig.pools, wp_str_from(rows[i].tenant),
                                      wp_str_from(rows[i].id), &info),
                         WP_OK);
        assert_int_equal(info.lost, rows[i].lost);
        assert_int_equal(wp_cluster_rig_backend_stats(&rig).taken,
                         rows[i].lost ? 1 : 0);
        wp_pools_end(rig.pools, info.ref);
        wp_cluster_rig_settle(&rig);
        wp_cluster_rig_fini(&rig);
    }
}

static void
a_conflict_is_read_again(void **state)
{
    struct wp_lease_note note;
    struct wp_claim held;

    (void)state;
    wp_cluster_rig_start(&rig, 1);
    wp_cluster_rig_all_ready(&rig);
    /* Its status has changed, unheard; and one answer is lost. */
    wp_recorder_hold(rig.api, true);
    (void)wp_recorder_merge(rig.api, KIND, "ns", wp_cluster_rig_name(&rig, 0),
                            "{\"status\":{\"nodeName\":\"n\"}}");
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_PATCH,
                                                 .kind = KIND,
                                                 .skip = 1,
                                                 .status = WP_UNKNOWN_OUTCOME,
                                                 .effect = true});
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "a", "t"), WP_OK);
    for (int i = 0; i < 100000 && wp_recorder_planned(rig.api) > 0; i++) {
        wp_cluster_rig_settle(&rig);
    }
    wp_recorder_hold(rig.api, false);
    wp_cluster_rig_settle(&rig);
    assert_true(
        wp_lease_note_read(wp_cluster_rig_annotation(&rig, held.grant.sandbox,
                                                     WP_ANNOTATION_LEASE),
                           &note));
    assert_true(wp_cluster_rig_backend_stats(&rig).conflicts >= 1);
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).taken, 0);
    assert_int_equal(wp_cluster_rig_stats(&rig).leased, 1);
    wp_cluster_rig_fini(&rig);
}

static void
a_lease_that_lost_the_race_tells_its_holder(void **state)
{
    struct wp_claim_info info;
    struct wp_claim held;
    const char *name;

    (void)state;
    wp_cluster_rig_start(&rig, 1);
    wp_cluster_rig_all_ready(&rig);
    name = wp_cluster_rig_name(&rig, 0);
    wp_recorder_hold(rig.api, true);
    wp_cluster_rig_take_away(&rig, name);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "a", "t"), WP_OK);
    wp_cluster_rig_settle(&rig);
    wp_recorder_hold(rig.api, false);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_pools_get(rig.pools, WP_STR("t"), WP_STR("a"), &info),
                     WP_OK);
    assert_true(info.lost);
    assert_string_equal(info.lost_reason, "another controller took it");
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "a", "t"),
                     WP_FAILED_PRECONDITION);
    wp_pools_end(rig.pools, info.ref);
    wp_cluster_rig_settle(&rig);
    assert_non_null(wp_recorder_object(rig.api, KIND, "ns", name));
    assert_int_equal(wp_cluster_rig_stats(&rig).dying, 0);
    wp_cluster_rig_fini(&rig);
}

static void
put_noted(const char *name, int64_t deadline_wall_ms)
{
    struct wp_lease_note note = {.claim_id = "lost", .tenant = "t", .fence = 1};
    char text[WP_LEASE_NOTE_MAX];
    json_t *json;
    char *body;

    note.deadline_wall_ms = deadline_wall_ms;
    wp_lease_note_write(&note, text);
    json = json_pack("{s:{s:s, s:s, s:{s:s}}, s:{s:{s:{}}}}", "metadata",
                     "namespace", "ns", "name", name, "annotations",
                     WP_ANNOTATION_LEASE, text, "spec", "podTemplate", "spec");
    assert_non_null(json);
    body = json_dumps(json, 0);
    (void)wp_recorder_put(rig.api, KIND, body);
    free(body);
    json_decref(json);
}

static void
a_lease_that_nobody_knows_is_left_until_its_deadline(void **state)
{
    static const char *const names[] = {"p-aaaaaaaa", "p-bbbbbbbb",
                                        "p-cccccccc"};
    int64_t now_ms;

    (void)state;
    wp_cluster_rig_init(&rig, 0, NULL);
    now_ms = wp_clock_wall_ns(&rig.clock) / WP_NS_PER_MS;
    put_noted(names[0], now_ms - 1000);
    put_noted(names[1], now_ms + 3600 * 1000);
    put_noted(names[2], WP_WALL_NEVER_MS);
    wp_recorder_notify(rig.api);
    wp_cluster_rig_lead(&rig);
    for (size_t i = 0; i < 3; i++) {
        (void)wp_recorder_merge(rig.api, KIND, "ns", names[i],
                                "{\"status\":{\"nodeName\":\"n\"}}");
    }
    wp_cluster_rig_settle(&rig);
    assert_null(wp_recorder_object(rig.api, KIND, "ns", "p-aaaaaaaa"));
    assert_non_null(wp_recorder_object(rig.api, KIND, "ns", "p-bbbbbbbb"));
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).orphans, 1);
    rig.offset_ns += 3601 * S;
    for (size_t i = 1; i < 3; i++) {
        (void)wp_recorder_merge(rig.api, KIND, "ns", names[i],
                                "{\"status\":{\"nodeName\":\"m\"}}");
    }
    wp_cluster_rig_settle(&rig);
    assert_null(wp_recorder_object(rig.api, KIND, "ns", "p-bbbbbbbb"));
    assert_non_null(wp_recorder_object(rig.api, KIND, "ns", "p-cccccccc"));
    wp_cluster_rig_fini(&rig);
}

/* What the cluster has of a kind, as another client would put it there. */
static uint32_t
save(enum wp_kind kind, char *texts[16])
{
    uint32_t n = wp_recorder_objects(rig.api, kind);

    assert_true(n <= 16);
    for (uint32_t i = 0; i < n; i++) {
        json_t *copy = json_deep_copy(wp_recorder_object_at(rig.api, kind, i));

        (void)json_object_del(json_object_get(copy, "metadata"),
                              "resourceVersion");
        texts[i] = json_dumps(copy, JSON_COMPACT);
        assert_non_null(texts[i]);
        json_decref(copy);
    }
    return n;
}

/* The process ends, whatever way, and another one leads on a store that has
 * kept nothing. */
static void
restart(int replicas)
{
    char *texts[16];
    uint32_t n = save(WP_KIND_SANDBOX, texts);
    int64_t offset_ns = rig.offset_ns;

    wp_cluster_rig_fini(&rig);
    wp_cluster_rig_init(&rig, replicas, NULL);
    rig.offset_ns = offset_ns;
    rig.parts.config.rebuild_leases = true;
    for (uint32_t i = 0; i < n; i++) {
        (void)wp_recorder_put(rig.api, KIND, texts[i]);
        free(texts[i]);
    }
    wp_recorder_notify(rig.api); /* It has read all there is. */
    wp_cluster_rig_lead(&rig);
    wp_cluster_rig_all_ready(&rig);
}

/* The leases of the process before are there when this one serves: the same id
 * gets the same sandbox, and as long as it was promised, however often that
 * happens. */
static void
leases_are_rebuilt_from_their_notes(void **state)
{
    struct wp_claim_info first;
    struct wp_claim_info info;
    struct wp_claim held;
    struct wp_claim again;
    char name[WP_SANDBOX_NAME_MAX + 1];

    (void)state;
    wp_cluster_rig_start(&rig, 2);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "job-1", "team"),
                     WP_OK); /* For an hour. */
    (void)snprintf(name, sizeof name, "%s", held.grant.sandbox);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(
        wp_pools_get(rig.pools, WP_STR("team"), WP_STR("job-1"), &first),
        WP_OK);
    rig.offset_ns += 1800 * S;
    renew(&held, 3600 * S);
    for (int i = 0; i < 5; i++) {
        uint32_t objects;

        restart(2);
        assert_int_equal(
            wp_pools_get(rig.pools, WP_STR("team"), WP_STR("job-1"), &info),
            WP_OK);
        assert_int_equal(info.granted_wall_ms, first.granted_wall_ms);
        assert_string_equal(info.tenant, "team");
        assert_string_equal(info.pool, "p");
        assert_string_equal(info.pool_namespace, "ns");
        assert_string_equal(info.sandbox, name);
        assert_false(info.lost);
        objects = wp_cluster_rig_objects(&rig);
        assert_int_equal(wp_cluster_rig_stats(&rig).leased, 1);
        assert_int_equal(wp_cluster_rig_claim(&rig, &again, "job-1", "team"),
                         WP_OK);
        assert_true(again.replayed);
        assert_string_equal(again.grant.sandbox, name);
        assert_true(again.grant.fence >= held.grant.fence);
        assert_in_range(again.grant.deadline_wall_ms -
                            held.grant.deadline_wall_ms,
                        1800 * 1000, 3601 * 1000);
        assert_int_equal(wp_cluster_rig_objects(&rig), objects);
    }
    /* Over at last. */
    rig.offset_ns += 7200 * S;
    for (int i = 0; i < 200 && wp_cluster_rig_stats(&rig).leased > 0; i++) {
        wp_cluster_rig_pass(&rig, 10 * S);
    }
    assert_int_equal(wp_cluster_rig_stats(&rig).leased, 0);
    assert_null(wp_recorder_object(rig.api, KIND, "ns", name));
    wp_cluster_rig_fini(&rig);
}

/* Tokens of the process before name their sandboxes, wherever these lie in the
 * new one's table. */
static void
tokens_are_good_after_a_restart(void **state)
{
    struct wp_claim held[4];

    (void)state;
    wp_cluster_rig_start(&rig, 4);
    wp_cluster_rig_all_ready(&rig);
    for (int i = 0; i < 4; i++) {
        char id[24];

        (void)snprintf(id, sizeof id, "job-%d", i);
        assert_int_equal(wp_cluster_rig_claim(&rig, &held[i], id, "team"),
                         WP_OK);
    }
    wp_cluster_rig_settle(&rig);
    restart(4);
    assert_int_equal(wp_cluster_rig_stats(&rig).leased, 4);
    for (int i = 0; i < 4; i++) {
        renew(&held[i], 3600 * S);
    }
    for (int i = 0; i < 4; i++) {
        struct wp_lease_change change;

        memset(&change, 0, sizeof change);
        memcpy(change.token, held[i].grant.token, sizeof change.token);
        assert_int_equal(wp_pools_release(rig.pools, &change), WP_OK);
        wp_cluster_rig_settle(&rig);
        assert_int_equal(wp_cluster_rig_stats(&rig).leased, 3 - i);
        assert_null(
            wp_recorder_object(rig.api, KIND, "ns", held[i].grant.sandbox));
    }
    wp_cluster_rig_fini(&rig);
}

/* A store that keeps leases knows better. */
static void
notes_are_not_asked_where_the_store_knows(void **state)
{
    struct wp_claim held;

    (void)state;
    wp_cluster_rig_start(&rig, 1);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "job-1", "team"), WP_OK);
    wp_cluster_rig_settle(&rig);
    {
        char *texts[16];
        uint32_t n = save(WP_KIND_SANDBOX, texts);

        wp_cluster_rig_fini(&rig);
        wp_cluster_rig_init(&rig, 1, NULL);
        for (uint32_t i = 0; i < n; i++) {
            (void)wp_recorder_put(rig.api, KIND, texts[i]);
            free(texts[i]);
        }
        wp_recorder_notify(rig.api);
        wp_cluster_rig_lead(&rig);
    }
    assert_int_equal(wp_cluster_rig_stats(&rig).leased, 0);
    wp_cluster_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_is_written_on_its_sandbox_behind),
        cmocka_unit_test(a_note_follows_renewals_that_count),
        cmocka_unit_test(a_lease_of_a_claim_object_is_its_controllers_to_write),
        cmocka_unit_test(a_claim_object_without_the_lease_has_taken_it),
        cmocka_unit_test(a_conflict_is_read_again),
        cmocka_unit_test(a_lease_that_lost_the_race_tells_its_holder),
        cmocka_unit_test(a_lease_that_nobody_knows_is_left_until_its_deadline),
        cmocka_unit_test(leases_are_rebuilt_from_their_notes),
        cmocka_unit_test(tokens_are_good_after_a_restart),
        cmocka_unit_test(notes_are_not_asked_where_the_store_knows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
