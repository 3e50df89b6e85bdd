/* tests/fuzz/k8s/controllers/fuzz_k8s_sandbox.c - any Sandbox beside any Pod and any Service:
 * what is made of them is whole, and once they are what they should be there is
 * nothing more to write.
 *
 * Three JSON texts, one a line. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "k8s/controllers/sandbox/child.h"
#include "k8s/controllers/sandbox/expiry.h"
#include "k8s/controllers/sandbox/pod.h"
#include "k8s/controllers/sandbox/service.h"
#include "k8s/controllers/sandbox/status.h"
#include "k8s/controllers/sandbox/volume.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define KEY "0123456789abcdef0123456789abcdef"
#define HASH "0a1b2c3d"

struct inputs {
    json_t *json[3];
    struct wp_object *object[3];
};

static const enum wp_kind kinds[3] = {WP_KIND_SANDBOX, WP_KIND_POD,
                                      WP_KIND_SERVICE};

static void
read_inputs(struct inputs *in, const char *data, size_t size)
{
    for (size_t i = 0; i < 3; i++) {
        const char *end = size > 0 ? memchr(data, '\n', size) : NULL;
        size_t len = end != NULL ? (size_t)(end - data) : size;
        struct wp_err err;

        in->json[i] = len > 0 ? json_loadb(data, len, 0, NULL) : NULL;
        in->object[i] = in->json[i] != NULL
                            ? wp_object_create(kinds[i], in->json[i], &err)
                            : NULL;
        len += end != NULL ? 1 : 0;
        data += len;
        size -= len;
    }
}

static void
free_inputs(struct inputs *in)
{
    for (size_t i = 0; i < 3; i++) {
        wp_object_unref(in->object[i]);
        json_decref(in->json[i]);
    }
}

/* RFC 7386, as far as patches of metadata and spec go: maps of texts. */
static void
merge(json_t *into, json_t *patch)
{
    const char *part;
    const char *key;
    json_t *map;
    json_t *value;

    json_object_foreach(patch, part, map)
    {
        json_t *has = json_object_get(into, part);

        if (!json_is_object(map)) {
            continue;
        }
        if (!json_is_object(has)) {
            has = json_object();
            wp_json_set(into, part, has);
        }
        json_object_foreach(map, key, value)
        {
            if (json_is_null(value)) {
                (void)json_object_del(has, key);
            } else {
                wp_json_set(has, key, json_incref(value));
            }
        }
    }
}

/* After its patch a Pod's metadata is right. */
static void
follow(const struct inputs *in)
{
    json_t *patch = json_pack("{s:{}}", "metadata");
    json_t *again = json_pack("{s:{}}", "metadata");
    json_t *pod = json_deep_copy(in->json[1]);
    struct wp_err err;
    struct wp_object *now;

    if (wp_sandbox_pod_metadata(in->object[0], in->json[0], HASH, in->object[1],
                                patch)) {
        merge(json_object_get(pod, "metadata"),
              json_object_get(patch, "metadata"));
        now = wp_object_create(WP_KIND_POD, pod, &err);
        if (now != NULL) {
            WP_ASSERT(!wp_sandbox_pod_metadata(in->object[0], in->json[0], HASH,
                                               now, again));
        }
        wp_object_unref(now);
    }
    json_decref(pod);
    json_decref(again);
    json_decref(patch);
}

static void
build(const struct inputs *in)
{
    const struct wp_object *sandbox = in->object[0];
    size_t volumes = wp_sandbox_volume_count(in->json[0]);
    char name[WP_VOLUME_CLAIM_NAME_MAX + 1];

    json_t *pod = wp_sandbox_pod_build(sandbox, in->json[0], HASH);

    wp_sandbox_pod_add_token(pod, sandbox, (const uint8_t *)KEY);
    json_decref(pod);
    json_decref(wp_sandbox_service_build(sandbox, in->json[0], HASH));
    for (size_t i = 0; i < volumes && i < 8; i++) {
        if (wp_sandbox_volume_name(sandbox, in->json[0], i, name)) {
            json_decref(
                wp_sandbox_volume_build(sandbox, in->json[0], i, name, HASH));
        }
    }
}

/* A status that was brought up to date stays as it is. */
static void
tell(const struct inputs *in, uint32_t pods)
{
    json_t *status = json_deep_copy(json_object_get(in->json[0], "status"));
    json_t *before;
    const struct wp_sandbox_facts facts = {
        .sandbox = in->object[0],
        .hash = HASH,
        .pod = in->object[1],
        .pods = pods,
        .service = in->object[2] != NULL ? WP_SERVICE_THERE : WP_SERVICE_NONE,
        .error = pods > 1 ? "several" : "",
        .cluster_domain = "cluster.local",
    };

    if (!json_is_object(status)) {
        json_decref(status);
        status = json_object();
    }
    wp_sandbox_status_apply(status, &facts, WP_NS_PER_S);
    before = json_deep_copy(status);
    wp_sandbox_status_apply(status, &facts, 2 * WP_NS_PER_S);
    WP_ASSERT(wp_sandbox_status_urgency(before, status) == WP_STATUS_SAME);
    WP_ASSERT(wp_sandbox_status_patch(before, status) == NULL);
    wp_sandbox_status_expire(status, 1, WP_NS_PER_S);
    (void)wp_sandbox_status_urgency(before, status);
    json_decref(wp_sandbox_status_patch(before, status));
    wp_sandbox_status_strip(status);
    json_decref(before);
    json_decref(status);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct inputs in;

    read_inputs(&in, (const char *)data, size);
    if (in.object[0] != NULL) {
        build(&in);
        tell(&in, 1);
        tell(&in, 2);
        (void)wp_sandbox_expires_in_ns(in.object[0], WP_NS_PER_S);
    }
    if (in.object[0] != NULL && in.object[1] != NULL) {
        char why[128];

        follow(&in);
        wp_child_refusal(in.object[1], in.object[0], why, sizeof why);
        json_decref(wp_child_adoption(in.json[1], in.object[0], HASH));
    }
    if (in.object[0] != NULL && in.object[2] != NULL) {
        json_t *patch = json_pack("{s:{}}", "metadata");

        (void)wp_sandbox_service_drift(in.json[0], HASH, in.json[2], true,
                                       patch);
        json_decref(patch);
    }
    free_inputs(&in);
    return 0;
}
