#include "k8s/cluster/claim_make.h"

#include <stdio.h>
#include <string.h>

#include "k8s/cluster/cluster_impl.h"
#include "k8s/convert/convert.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/trace/context.h"

enum {
    LABEL_MAX = 63, /* Bytes of a label's value. */
};

static bool
is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9');
}

/* May a label have this value? */
static bool
is_label(const char *value)
{
    size_t len = strlen(value);

    if (len == 0 || len > LABEL_MAX || !is_alphanumeric(value[0]) ||
        !is_alphanumeric(value[len - 1])) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (!is_alphanumeric(value[i]) && strchr("-_.", value[i]) == NULL) {
            return false;
        }
    }
    return true;
}

static json_t *
metadata_of(const struct wp_claim_make *make)
{
    /* What kagenti looks its claims up by. */
    json_t *labels =
        json_pack("{s:s, s:s}", "app.kubernetes.io/part-of", "kagenti",
                  "app.kubernetes.io/component", "sandbox-trigger");
    json_t *annotations = json_object();

    for (uint32_t i = 0; i < make->n_marks; i++) {
        const struct wp_claim_mark *mark = &make->marks[i];

        wp_json_set_text(is_label(mark->value) ? labels : annotations,
                         mark->key, mark->value);
    }
    if (make->traceparent[0] != '\0') {
        char carrier[WP_TRACEPARENT_LEN + 32];

        (void)snprintf(carrier, sizeof carrier, "{\"traceparent\":\"%s\"}",
                       make->traceparent);
        wp_json_set_text(annotations, WP_ANNOTATION_TRACE, carrier);
    }
    return json_pack("{s:s, s:s, s:o, s:o}", "name", make->name, "namespace",
                     make->ns, "labels", labels, "annotations", annotations);
}

/* Any pool of the template is meant by the one that need not exist. */
static json_t *
body_of(const struct wp_claim_make *make)
{
    const struct wp_kind_info *info = wp_kind_info(WP_KIND_SANDBOX_CLAIM);
    const struct wp_clock *clock = make->cluster->parts.clock;
    char pool[sizeof WP_SHADOW_POOL_PREFIX + WP_TEMPLATE_NAME_MAX];
    char until[40];
    json_t *body;

    (void)snprintf(pool, sizeof pool, WP_SHADOW_POOL_PREFIX "%s",
                   make->template_name);
    (void)wp_time_format_utc(wp_clock_wall_ns(clock) + make->ttl_ns, 0, until);
    body = json_pack("{s:s, s:s, s:o, s:{s:{s:s}, s:{s:s, s:s}}}", "apiVersion",
                     info->api_version, "kind", info->kind, "metadata",
                     metadata_of(make), "spec", "warmPoolRef", "name", pool,
                     "lifecycle", "shutdownPolicy", "Delete", "shutdownTime",
                     until);
    WP_ASSERT(body != NULL);
    return body;
}

static void
finish(struct wp_claim_make *make, enum wp_status status, const char *reason,
       int64_t retry_after_ns)
{
    make->status = status;
    make->retry_after_ns = retry_after_ns;
    (void)snprintf(make->reason, sizeof make->reason, "%s", reason);
    make->done(make);
}

static void
posted(void *ctx, const struct wp_api_result *result)
{
    finish(ctx, result->status,
           result->message != NULL ? result->message
                                   : wp_status_text(result->status),
           result->retry_after_ns > 0 ? result->retry_after_ns : 0);
}

/* The cluster's thread. */
static void
begin(void *arg, uint64_t a, uint64_t b)
{
    struct wp_claim_make *make = arg;
    const struct wp_parts *parts = &make->cluster->parts;
    const struct wp_store *templates = parts->stores[WP_KIND_SANDBOX_TEMPLATE];
    const struct wp_api_target target = {
        .kind = WP_KIND_SANDBOX_CLAIM,
        .ns = make->ns,
        .priority = WP_HTTP_CLAIM,
    };

    (void)a;
    (void)b;
    if (!wp_cluster_synced(make->cluster)) {
        finish(make, WP_UNAVAILABLE, "the cluster is not known yet",
               WP_NS_PER_S);
    } else if (templates != NULL &&
               wp_store_find(templates, make->ns, make->template_name) ==
                   NULL) {
        finish(make, WP_NOT_FOUND, "there is no such SandboxTemplate", 0);
    } else {
        wp_api_post(parts->api, &target, body_of(make), posted, make);
    }
}

bool
wp_cluster_make_claim(struct wp_cluster *cluster, struct wp_claim_make *make)
{
    make->cluster = cluster;
    return wp_loop_post(cluster->loop, begin, make, 0, 0);
}
