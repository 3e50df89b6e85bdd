/* What is read of each kind, what is refused and with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "k8s/objects/object.h"
#include "k8s/objects/trace.h"
#include "k8s/objects/view.h"

#define META "\"metadata\":{\"namespace\":\"ns\",\"name\":\"x\",\"uid\":\"u\"}"

static struct wp_object *
try_make(enum wp_kind kind, const char *text, struct wp_err *err)
{
    json_error_t error;
    json_t *json = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    struct wp_object *object;

    if (json == NULL) {
        fail_msg("%s: %s", text, error.text);
    }
    object = wp_object_create(kind, json, err);
    json_decref(json);
    return object;
}

static struct wp_object *
make(enum wp_kind kind, const char *text)
{
    struct wp_err err;
    struct wp_object *object = try_make(kind, text, &err);

    if (object == NULL) {
        fail_msg("%s", err.msg);
    }
    return object;
}

static void
metadata(void **state)
{
    struct wp_object *object = make(
        WP_KIND_SANDBOX,
        "{\"apiVersion\":\"agents.x-k8s.io/v1beta1\",\"kind\":\"Sandbox\","
        "\"metadata\":{\"namespace\":\"ns\",\"name\":\"x\",\"uid\":\"u-1\","
        "\"resourceVersion\":\"12\",\"generation\":4,"
        "\"creationTimestamp\":\"1970-01-01T00:00:01Z\","
        "\"deletionTimestamp\":\"1970-01-01T00:00:00Z\","
        "\"labels\":{\"a\":\"1\",\"b\":\"\"},\"annotations\":{\"c\":\"3\"},"
        "\"managedFields\":[{\"manager\":\"m\"}],"
        "\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Pod\","
        "\"name\":\"p\",\"uid\":\"u-0\"},"
        "{\"apiVersion\":\"extensions.agents.x-k8s.io/v1alpha1\","
        "\"kind\":\"SandboxWarmPool\",\"name\":\"pool\",\"uid\":\"u-2\","
        "\"controller\":true}]},\"spec\":{\"later\":[1]}}");
    json_t *json;

    (void)state;
    assert_string_equal(object->ns, "ns");
    assert_string_equal(object->name, "x");
    assert_string_equal(object->uid, "u-1");
    assert_string_equal(object->resource_version, "12");
    assert_int_equal(object->generation, 4);
    assert_int_equal(object->created_wall_ms, 1000);
    assert_true(object->deleting);
    assert_string_equal(object->controller.name, "pool");
    assert_true(
        wp_object_controlled_by_kind(object, WP_KIND_SANDBOX_WARM_POOL));
    assert_false(wp_object_controlled_by_kind(object, WP_KIND_SANDBOX_CLAIM));
    assert_true(wp_object_controlled_by(object, "u-2"));
    assert_false(wp_object_controlled_by(object, "u-0"));
    assert_string_equal(wp_object_label(object, "a"), "1");
    assert_string_equal(wp_object_label(object, "b"), "");
    assert_null(wp_object_label(object, "c"));
    assert_string_equal(wp_object_annotation(object, "c"), "3");
    /* The whole is there again, without what is dropped. */
    json = wp_object_json(object);
    assert_null(wp_json_at(json, "metadata", "managedFields", NULL));
    assert_non_null(wp_json_at(json, "metadata", "labels", "a", NULL));
    assert_non_null(wp_json_at(json, "spec", "later", NULL));
    json_decref(json);
    wp_object_unref(object);
}

/* managedFields are left out of the copy, not of what was given. */
static void
given_stays(void **state)
{
    json_t *json = json_loads("{\"metadata\":{\"name\":\"x\",\"uid\":\"u\","
                              "\"managedFields\":[]}}",
                              0, NULL);
    json_t *copy = json_deep_copy(json);
    struct wp_object *object = wp_object_create(WP_KIND_SERVICE, json, NULL);

    (void)state;
    assert_non_null(object);
    assert_true(json_equal(json, copy));
    assert_true(wp_str_is(object->text,
                          "{\"metadata\":{\"name\":\"x\",\"uid\":\"u\"}}"));
    assert_null(object->view);
    wp_object_unref(object);
    json_decref(json);
    json_decref(copy);
}

static unsigned allocations; /* Until jansson lacks memory, once. */

static void *
scarce(size_t size)
{
    return allocations > 0 && --allocations == 0 ? NULL : malloc(size);
}

/* An object is whole, or there is none: whichever of jansson's allocations
 * fails. */
static void
no_member_is_lost(void **state)
{
    json_t *json = json_loads("{\"metadata\":{\"name\":\"x\",\"uid\":\"u\","
                              "\"managedFields\":[]},\"spec\":{\"a\":1}}",
                              0, NULL);
    static const char whole[] = "{\"metadata\":{\"name\":\"x\",\"uid\":\"u\"},"
                                "\"spec\":{\"a\":1}}";
    unsigned refused = 0;
    bool lacked = true;

    (void)state;
    json_set_alloc_funcs(scarce, free);
    for (unsigned n = 1; lacked; n++) {
        struct wp_err err = {.msg = ""};
        struct wp_object *object;

        allocations = n;
        object = wp_object_create(WP_KIND_SERVICE, json, &err);
        lacked = allocations == 0;
        if (object == NULL) {
            assert_int_equal(err.status, WP_RESOURCE_EXHAUSTED);
            refused++;
        } else if (!wp_str_is(object->text, whole)) {
            /* When jansson's dump loses a key, what is left is no JSON. */
            assert_null(
                json_loadb(object->text.ptr, object->text.len, 0, NULL));
        }
        wp_object_unref(object);
    }
    json_set_alloc_funcs(malloc, free);
    allocations = 0;
    assert_true(refused > 6);
    json_decref(json);
}

static void
references(void **state)
{
    struct wp_object *object = make(WP_KIND_SERVICE, "{" META "}");

    (void)state;
    assert_ptr_equal(wp_object_ref(object), object);
    wp_object_unref(object);
    assert_string_equal(object->name, "x");
    assert_string_equal(object->controller.kind, "");
    assert_false(wp_object_controlled_by(object, ""));
    wp_object_unref(object);
    wp_object_unref(NULL);
}

static void
sandbox(void **state)
{
    struct wp_object *object = make(
        WP_KIND_SANDBOX,
        "{" META ",\"spec\":{\"shutdownTime\":\"1970-01-01T00:00:05Z\","
        "\"shutdownPolicy\":\"Delete\",\"operatingMode\":\"Suspended\","
        "\"service\":false},\"status\":{\"podIPs\":[\"10.0.0.7\",\"fd00::7\"],"
        "\"nodeName\":\"n\",\"serviceFQDN\":\"x.ns.svc\",\"conditions\":["
        "{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"R\","
        "\"message\":\"M\",\"observedGeneration\":2,"
        "\"lastTransitionTime\":\"1970-01-01T00:00:03Z\"},"
        "{\"type\":\"Ready\",\"status\":\"False\"},"
        "{\"type\":\"PodScheduled\",\"status\":\"False\","
        "\"reason\":\"Unschedulable\"},"
        "{\"type\":\"Finished\",\"status\":\"Maybe\"}]}}");
    const struct wp_sandbox_view *view = wp_sandbox_view(object);

    (void)state;
    assert_int_equal(view->ready.status, WP_CONDITION_TRUE);
    assert_string_equal(view->ready.reason, "R");
    assert_string_equal(view->ready.message, "M");
    assert_string_equal(view->ready.transition, "1970-01-01T00:00:03Z");
    assert_int_equal(view->ready.transition_wall_ms, 3000);
    assert_int_equal(view->ready.observed_generation, 2);
    assert_int_equal(view->finished.status, WP_CONDITION_UNKNOWN);
    assert_int_equal(view->suspended.status, WP_CONDITION_ABSENT);
    assert_string_equal(view->suspended.reason, "");
    assert_true(view->pod_unschedulable);
    assert_string_equal(view->pod_ip, "10.0.0.7");
    assert_string_equal(view->pod_ips[1], "fd00::7");
    assert_null(view->pod_ips[2]);
    assert_string_equal(view->node_name, "n");
    assert_int_equal(view->shutdown_wall_ms, 5000);
    assert_int_equal(view->shutdown_policy, WP_SHUTDOWN_DELETE);
    assert_true(view->wants_suspended);
    assert_int_equal(view->service, 0);
    assert_null(wp_claim_view(object));
    assert_null(wp_pod_view(object));
    wp_object_unref(object);

    object = make(WP_KIND_SANDBOX, "{" META ",\"status\":null}");
    view = wp_sandbox_view(object);
    assert_int_equal(view->service, -1);
    assert_string_equal(view->pod_ip, "");
    assert_null(view->pod_ips[0]);
    assert_false(view->wants_suspended);
    assert_int_equal(view->shutdown_policy, WP_SHUTDOWN_RETAIN);
    wp_object_unref(object);
}

static void
claim(void **state)
{
    struct wp_object *object = make(
        WP_KIND_SANDBOX_CLAIM,
        "{" META ",\"spec\":{\"warmPoolRef\":{\"name\":\"p\"},"
        "\"lifecycle\":{\"shutdownTime\":\"1970-01-01T00:00:05Z\","
        "\"ttlSecondsAfterFinished\":0,\"shutdownPolicy\":"
        "\"DeleteForeground\"},\"env\":[{\"name\":\"A\",\"value\":\"1\"}],"
        "\"additionalPodMetadata\":{\"annotations\":{\"a\":\"b\"}}},"
        "\"status\":{\"sandbox\":{\"name\":\"s\",\"podIPs\":[\"10.0.0.7\"]},"
        "\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"}]}}");
    const struct wp_claim_view *view = wp_claim_view(object);

    (void)state;
    assert_string_equal(view->pool, "p");
    assert_string_equal(view->sandbox, "s");
    assert_string_equal(view->pod_ips[0], "10.0.0.7");
    assert_int_equal(view->ready.status, WP_CONDITION_FALSE);
    assert_true(view->has_lifecycle);
    assert_int_equal(view->ttl_after_finished_s, 0);
    assert_int_equal(view->shutdown_policy, WP_SHUTDOWN_DELETE_FOREGROUND);
    assert_true(view->has_env);
    assert_false(view->has_volume_claims);
    assert_true(view->has_pod_metadata);
    wp_object_unref(object);

    object = make(WP_KIND_SANDBOX_CLAIM,
                  "{" META ",\"spec\":{\"lifecycle\":{},\"env\":[],"
                  "\"additionalPodMetadata\":{\"labels\":{}}}}");
    view = wp_claim_view(object);
    assert_string_equal(view->pool, "");
    assert_true(view->has_lifecycle);
    assert_int_equal(view->ttl_after_finished_s, -1);
    assert_false(view->has_env);
    assert_false(view->has_pod_metadata);
    wp_object_unref(object);
}

static void
warm_pool(void **state)
{
    struct wp_object *object = make(
        WP_KIND_SANDBOX_WARM_POOL,
        "{" META ",\"spec\":{\"replicas\":0,\"sandboxTemplateRef\":{\"name\":"
        "\"t\"},\"updateStrategy\":{\"type\":\"Recreate\"}},\"status\":{"
        "\"replicas\":3,\"readyReplicas\":2,\"observedGeneration\":5,"
        "\"selector\":\"a=b\"}}");
    const struct wp_warm_pool_view *view = wp_warm_pool_view(object);

    (void)state;
    assert_string_equal(view->template_name, "t");
    assert_int_equal(view->replicas, 0);
    assert_int_equal(view->update_strategy, WP_UPDATE_RECREATE);
    assert_int_equal(view->status_replicas, 3);
    assert_int_equal(view->status_ready_replicas, 2);
    assert_int_equal(view->status_observed_generation, 5);
    assert_string_equal(view->status_selector, "a=b");
    wp_object_unref(object);

    object = make(WP_KIND_SANDBOX_WARM_POOL, "{" META "}");
    view = wp_warm_pool_view(object);
    assert_int_equal(view->replicas, 1);
    assert_int_equal(view->update_strategy, WP_UPDATE_ON_REPLENISH);
    assert_int_equal(view->status_replicas, -1);
    wp_object_unref(object);
}

static uint64_t
pod_metadata_of(const char *metadata)
{
    char text[512];
    struct wp_object *object;
    uint64_t hash;

    (void)snprintf(text, sizeof text,
                   "{%s,\"spec\":{\"podTemplate\":{%s\"spec\":{}}}}", META,
                   metadata);
    object = make(WP_KIND_SANDBOX_TEMPLATE, text);
    hash = wp_template_view(object)->pod_metadata_hash;
    wp_object_unref(object);
    return hash;
}

/* Labels and annotations count as texts, whatever their names mean elsewhere. */
static void
template_pod_metadata_hash(void **state)
{
    const uint64_t none = pod_metadata_of("");
    const uint64_t two =
        pod_metadata_of("\"metadata\":{\"labels\":{\"a\":\"1\",\"b\":\"2\"}},");

    (void)state;
    assert_true(none == pod_metadata_of("\"metadata\":{\"labels\":{}},"));
    assert_true(two == pod_metadata_of("\"metadata\":{\"labels\":{\"b\":"
                                       "\"2\",\"a\":\"1\"}},"));
    assert_true(none != two);
    assert_true(two != pod_metadata_of("\"metadata\":{\"annotations\":{"
                                       "\"a\":\"1\",\"b\":\"2\"}},"));
    assert_true(none != pod_metadata_of("\"metadata\":{\"labels\":{"
                                        "\"protocol\":\"TCP\"}},"));
    assert_true(none !=
                pod_metadata_of("\"metadata\":{\"labels\":{\"a\":\"\"}},"));
}

static uint64_t
blueprint_of(const char *spec)
{
    char text[1024];
    struct wp_object *object;
    uint64_t hash;

    (void)snprintf(text, sizeof text, "{%s,\"spec\":%s}", META, spec);
    object = make(WP_KIND_SANDBOX_TEMPLATE, text);
    hash = wp_template_view(object)->blueprint_hashes[WP_TIER_T0];
    wp_object_unref(object);
    return hash;
}

/* Only what sandboxes are made from counts; and a sandbox as it was made from a
 * template has the template's value. */
static void
template_hash(void **state)
{
    const uint64_t base =
        blueprint_of("{\"podTemplate\":{\"spec\":{\"nodeName\":\"n\"}}}");
    json_t *made = json_loads(
        "{\"operatingMode\":\"Running\",\"podTemplate\":{\"metadata\":{"
        "\"labels\":{\"x\":\"y\"}},\"spec\":{\"nodeName\":\"n\","
        "\"automountServiceAccountToken\":false,\"dnsPolicy\":\"None\","
        "\"dnsConfig\":{\"nameservers\":[\"8.8.8.8\",\"1.1.1.1\"]}}}}",
        0, NULL);

    (void)state;
    assert_true(base == wp_blueprint_hash(made));
    json_decref(made);
    assert_true(base ==
                blueprint_of("{\"podTemplate\":{\"metadata\":{\"labels\":{"
                             "\"a\":\"b\"}},\"spec\":{\"nodeName\":\"n\"}},"
                             "\"envVarsInjectionPolicy\":\"Allowed\"}"));
    assert_true(base != blueprint_of("{\"podTemplate\":{\"spec\":{\"nodeName\":"
                                     "\"m\"}}}"));
    assert_true(base != blueprint_of("{\"podTemplate\":{\"spec\":{\"nodeName\":"
                                     "\"n\"}},\"service\":true}"));
    assert_true(base != blueprint_of("{\"podTemplate\":{\"spec\":{\"nodeName\":"
                                     "\"n\",\"automountServiceAccountToken\":"
                                     "true}}}"));
    /* Unmanaged: the cluster's DNS, so other pods. */
    assert_true(base != blueprint_of("{\"podTemplate\":{\"spec\":{\"nodeName\":"
                                     "\"n\"}},\"networkPolicyManagement\":"
                                     "\"Unmanaged\"}"));
    assert_true(base !=
                blueprint_of("{\"podTemplate\":{\"spec\":{\"nodeName\":\"n\"}},"
                             "\"volumeClaimTemplates\":[{\"metadata\":{"
                             "\"name\":\"v\"},\"spec\":{}}]}"));
    assert_true(
        blueprint_of("{\"volumeClaimTemplates\":[{\"metadata\":{\"name\":\"v\","
                     "\"labels\":{\"a\":\"b\"}},\"spec\":{}}]}") ==
        blueprint_of("{\"volumeClaimTemplates\":[{\"metadata\":{"
                     "\"name\":\"v\"},\"spec\":{}}]}"));
}

static void
template_policies(void **state)
{
    struct wp_object *object =
        make(WP_KIND_SANDBOX_TEMPLATE,
             "{" META ",\"spec\":{\"networkPolicyManagement\":\"Unmanaged\","
             "\"networkPolicy\":{},\"envVarsInjectionPolicy\":\"Overrides\","
             "\"volumeClaimTemplatesPolicy\":\"Allowed\"}}");
    const struct wp_template_view *view = wp_template_view(object);

    (void)state;
    assert_false(view->managed);
    assert_true(view->has_network_policy);
    assert_int_equal(view->env_policy, WP_INJECTION_OVERRIDES);
    assert_int_equal(view->volume_policy, WP_INJECTION_ALLOWED);
    wp_object_unref(object);
    object = make(WP_KIND_SANDBOX_TEMPLATE, "{" META "}");
    view = wp_template_view(object);
    assert_true(view->managed);
    assert_false(view->has_network_policy);
    assert_int_equal(view->env_policy, WP_INJECTION_DISALLOWED);
    wp_object_unref(object);
}

static void
pod(void **state)
{
    struct wp_object *object = make(
        WP_KIND_POD,
        "{" META ",\"spec\":{\"nodeName\":\"n\"},\"status\":{\"phase\":"
        "\"Running\",\"podIP\":\"10.0.0.7\",\"podIPs\":[{\"ip\":\"10.0.0.7\"},"
        "{\"ip\":\"fd00::7\"}],\"conditions\":[{\"type\":\"Ready\",\"status\":"
        "\"True\"},{\"type\":\"PodScheduled\",\"status\":\"True\"}]}}");
    const struct wp_pod_view *view = wp_pod_view(object);

    (void)state;
    assert_int_equal(view->phase, WP_POD_RUNNING);
    assert_int_equal(view->ready.status, WP_CONDITION_TRUE);
    assert_int_equal(view->scheduled.status, WP_CONDITION_TRUE);
    assert_string_equal(view->pod_ip, "10.0.0.7");
    assert_string_equal(view->pod_ips[1], "fd00::7");
    assert_string_equal(view->node_name, "n");
    /* Of pods nothing else is needed. */
    assert_int_equal(object->text.len, 0);
    assert_null(wp_object_json(object));
    wp_object_unref(object);
    object = make(WP_KIND_POD, "{" META "}");
    assert_int_equal(wp_pod_view(object)->phase, WP_POD_PENDING);
    wp_object_unref(object);
}

/* Refused whole, naming the field and what was expected there. */
static void
refused(void **state)
{
#define MORE(text) "{" META "," text "}"
    static const struct {
        enum wp_kind kind;
        const char *text;
        const char *words;
    } rows[] = {
        {WP_KIND_POD, "[]", "Pod: expected an object"},
        {WP_KIND_POD, "{}", "Pod: metadata.name: expected a name"},
        {WP_KIND_POD, "{\"metadata\":[]}", "Pod: metadata: expected an object"},
        {WP_KIND_POD, "{\"metadata\":{\"name\":7}}",
         "Pod: metadata.name: expected a name"},
        {WP_KIND_POD, "{\"metadata\":{\"name\":\"x\",\"namespace\":\"ns\"}}",
         "Pod ns/x: metadata.uid: expected a uid"},
        {WP_KIND_POD, "{\"metadata\":{\"name\":\"x\",\"uid\":\"u\\u0000v\"}}",
         "Pod x: metadata.uid: expected a text"},
        {WP_KIND_SERVICE,
         "{\"metadata\":{\"name\":\"x\",\"uid\":\"u\",\"labels\":{\"a\":1}}}",
         "Service x: metadata.labels: expected texts as values"},
        {WP_KIND_SERVICE,
         "{\"metadata\":{\"name\":\"x\",\"uid\":\"u\","
         "\"ownerReferences\":[{\"controller\":true}]}}",
         "Service x: metadata.ownerReferences: expected apiVersion, kind, name "
         "and uid"},
        {WP_KIND_SERVICE,
         "{\"metadata\":{\"name\":\"x\",\"uid\":\"u\",\"generation\":-1}}",
         "Service x: metadata.generation: expected a whole number from 0 to "
         "9223372036854775807"},
        {WP_KIND_SANDBOX_CLAIM, MORE("\"spec\":{\"warmPoolRef\":\"p\"}"),
         "SandboxClaim ns/x: spec.warmPoolRef: expected an object"},
        {WP_KIND_SANDBOX_CLAIM, MORE("\"spec\":{\"warmPoolRef\":{\"name\":1}}"),
         "SandboxClaim ns/x: spec.warmPoolRef.name: expected a text"},
        {WP_KIND_SANDBOX_CLAIM,
         MORE("\"spec\":{\"lifecycle\":{\"ttlSecondsAfterFinished\":-1}}"),
         "SandboxClaim ns/x: spec.lifecycle.ttlSecondsAfterFinished: expected "
         "a whole number from 0 to 2147483647"},
        {WP_KIND_SANDBOX_CLAIM, MORE("\"spec\":{\"env\":{}}"),
         "SandboxClaim ns/x: spec.env: expected an array"},
        {WP_KIND_SANDBOX,
         MORE("\"spec\":{\"shutdownPolicy\":\"DeleteForeground\"}"),
         "Sandbox ns/x: spec.shutdownPolicy: expected Retain or Delete"},
        {WP_KIND_SANDBOX, MORE("\"spec\":{\"shutdownTime\":\"soon\"}"),
         "Sandbox ns/x: spec.shutdownTime: expected a time like "
         "2026-01-31T23:59:59Z"},
        {WP_KIND_SANDBOX, MORE("\"spec\":{\"service\":\"yes\"}"),
         "Sandbox ns/x: spec.service: expected true or false"},
        {WP_KIND_SANDBOX, MORE("\"status\":{\"conditions\":[{},7]}"),
         "Sandbox ns/x: status.conditions[1]: expected an object"},
        {WP_KIND_SANDBOX,
         MORE("\"status\":{\"conditions\":[{\"type\":\"Ready\","
              "\"reason\":7}]}"),
         "Sandbox ns/x: status.conditions[0].reason: expected a text"},
        {WP_KIND_SANDBOX, MORE("\"status\":{\"podIPs\":[\"a\",2]}"),
         "Sandbox ns/x: status.podIPs[1]: expected a text"},
        {WP_KIND_POD, MORE("\"status\":{\"podIPs\":[{\"ip\":2}]}"),
         "Pod ns/x: status.podIPs[0].ip: expected a text"},
        {WP_KIND_SANDBOX_WARM_POOL, MORE("\"spec\":{\"replicas\":1.5}"),
         "SandboxWarmPool ns/x: spec.replicas: expected a whole number from 0 "
         "to 2147483647"},
        {WP_KIND_SANDBOX_TEMPLATE, MORE("\"spec\":{\"podTemplate\":7}"),
         "SandboxTemplate ns/x: spec.podTemplate: expected an object"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_err err = {.status = WP_OK, .msg = ""};

        assert_null(try_make(rows[i].kind, rows[i].text, &err));
        assert_int_equal(err.status, WP_INVALID_ARGUMENT);
        assert_string_equal(err.msg, rows[i].words);
    }
}

/* However long the names are, the field is said. */
static void
refused_with_long_names(void **state)
{
    char text[1024];
    char name[254];
    struct wp_err err;

    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"%s\",\"name\":\"%s\","
                   "\"uid\":\"u\"},\"spec\":{\"lifecycle\":{"
                   "\"ttlSecondsAfterFinished\":true}}}",
                   name, name);
    assert_null(try_make(WP_KIND_SANDBOX_CLAIM, text, &err));
    assert_non_null(strstr(err.msg, "ttlSecondsAfterFinished: expected a"));
}

static void
too_much(void **state)
{
    json_t *json = json_loads("{" META "}", 0, NULL);
    json_t *deep = json_array();
    struct wp_err err;
    char *big = malloc(WP_OBJECT_BYTES_MAX);

    (void)state;
    assert_non_null(big);
    memset(big, 'x', WP_OBJECT_BYTES_MAX);
    json_object_set_new(json, "big", json_stringn(big, WP_OBJECT_BYTES_MAX));
    free(big);
    assert_null(wp_object_create(WP_KIND_SERVICE, json, &err));
    assert_string_equal(err.msg,
                        "Service ns/x: the whole: expected at most 2 MiB");
    for (int i = 0; i < WP_OBJECT_DEPTH_MAX; i++) {
        json_t *outer = json_array();

        json_array_append_new(outer, deep);
        deep = outer;
    }
    json_object_set_new(json, "big", deep);
    assert_null(wp_object_create(WP_KIND_SERVICE, json, &err));
    assert_string_equal(err.msg,
                        "Service ns/x: the whole: expected at most 256 levels");
    json_decref(json);
}

static void
versions(void **state)
{
    struct wp_object a = {.resource_version = "9"};
    struct wp_object b = {.resource_version = "10"};
    struct wp_object odd = {.resource_version = "abc"};

    (void)state;
    assert_true(wp_object_is_older(&a, &b));
    assert_false(wp_object_is_older(&b, &a));
    assert_false(wp_object_is_older(&a, &a));
    assert_false(wp_object_is_older(&odd, &b));
    assert_false(wp_object_is_older(&b, &odd));
}

#define PARENT "00-0102030405060708090a0b0c0d0e0f10-1112131415161718-01"

/* The object with this carrier, and so many spaces in it. */
static bool
has_trace(const char *carrier, size_t spaces, struct wp_trace_context *out)
{
    char value[8192];
    struct wp_object *object;
    json_t *json;
    struct wp_err err;
    bool found;

    (void)snprintf(value, sizeof value, "%s%*s", carrier, (int)spaces, "");
    json = json_pack("{s:{s:s, s:s, s:s, s:{s:s}}}", "metadata", "namespace",
                     "ns", "name", "x", "uid", "u", "annotations",
                     "opentelemetry.io/trace-context", value);
    assert_non_null(json);
    object = wp_object_create(WP_KIND_SANDBOX_CLAIM, json, &err);
    assert_non_null(object);
    json_decref(json);
    memset(out, 'x', sizeof *out);
    found = wp_object_trace(object, out);
    wp_object_unref(object);
    return found;
}

static void
trace(void **state)
{
    static const char carrier[] = "{\"a\":1,\"traceparent\":\"" PARENT "\"}";
    static const char *const none[] = {
        "",
        "{}",
        "nonsense",
        "{\"traceparent\":7}",
        "{\"traceparent\":\"\"}",
        "{\"traceparent\":\"" PARENT "\",\"traceparent\":\"" PARENT "\"}",
    };
    static const struct wp_trace_context zero;
    const size_t most = 4096 - (sizeof carrier - 1);
    struct wp_object *object = make(WP_KIND_SANDBOX_CLAIM, "{" META "}");
    struct wp_trace_context out;

    (void)state;
    for (size_t spaces = 0; spaces <= most; spaces += most) {
        assert_true(has_trace(carrier, spaces, &out));
        assert_true(out.sampled);
        for (uint8_t i = 0; i < 16; i++) {
            assert_int_equal(out.trace_id[i], i + 1);
        }
        for (uint8_t i = 0; i < 8; i++) {
            assert_int_equal(out.span_id[i], 17 + i);
        }
    }
    assert_false(has_trace(carrier, most + 1, &out));
    for (size_t i = 0; i < WP_ARRAY_LEN(none); i++) {
        assert_false(has_trace(none[i], 0, &out));
        assert_memory_equal(&out, &zero, sizeof zero);
    }
    memset(&out, 'x', sizeof out);
    assert_false(wp_object_trace(object, &out));
    assert_memory_equal(&out, &zero, sizeof zero);
    wp_object_unref(object);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metadata),
        cmocka_unit_test(given_stays),
        cmocka_unit_test(no_member_is_lost),
        cmocka_unit_test(references),
        cmocka_unit_test(sandbox),
        cmocka_unit_test(claim),
        cmocka_unit_test(warm_pool),
        cmocka_unit_test(template_hash),
        cmocka_unit_test(template_pod_metadata_hash),
        cmocka_unit_test(template_policies),
        cmocka_unit_test(pod),
        cmocka_unit_test(refused),
        cmocka_unit_test(refused_with_long_names),
        cmocka_unit_test(too_much),
        cmocka_unit_test(versions),
        cmocka_unit_test(trace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
