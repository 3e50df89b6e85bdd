/* Which kinds are watched, and what their watches say. */
#include "k8s/cluster/cluster_impl.h"

#include "k8s/objects/names.h"
#include "pool/base/log.h"
#include "pool/base/rng.h"

/* A kind that is refused for so long, from the start, will stay so. */
#define REFUSED_NS (20 * WP_NS_PER_S)
#define LOG_AGAIN_NS (60 * WP_NS_PER_S)

enum {
    POOLS = WP_CONTROLLER_POOL | WP_CONTROLLER_CLAIM,
    TEMPLATES = POOLS | WP_CONTROLLER_TEMPLATE,
    SANDBOXES = POOLS | WP_CONTROLLER_SANDBOX,
};

/* Who needs a kind, by which label it can be asked for, and which of its
 * objects are watched. */
static const struct watched {
    enum wp_kind kind;
    uint32_t controllers;
    const char *index_label;
    const char *selector;
} watched[] = {
    {WP_KIND_SANDBOX, SANDBOXES, WP_LABEL_WARM_POOL, "!" WP_LABEL_ALIAS},
    {WP_KIND_ALIAS, WP_CONTROLLER_CLAIM, NULL, WP_LABEL_ALIAS},
    {WP_KIND_SANDBOX_CLAIM, WP_CONTROLLER_CLAIM, NULL, NULL},
    {WP_KIND_SANDBOX_TEMPLATE, TEMPLATES, NULL, NULL},
    {WP_KIND_SANDBOX_WARM_POOL, POOLS, NULL, NULL},
    {WP_KIND_POD, WP_CONTROLLER_SANDBOX, WP_LABEL_NAME_HASH,
     WP_LABEL_NAME_HASH},
    {WP_KIND_SERVICE, WP_CONTROLLER_SANDBOX, WP_LABEL_NAME_HASH,
     WP_LABEL_NAME_HASH},
    {WP_KIND_VOLUME_CLAIM, WP_CONTROLLER_SANDBOX, WP_LABEL_NAME_HASH,
     WP_LABEL_NAME_HASH},
    {WP_KIND_NETWORK_POLICY, WP_CONTROLLER_TEMPLATE, NULL, NULL},
};

static bool
is_needed(const struct wp_cluster *cluster, const struct watched *row)
{
    const struct wp_cluster_config *config = &cluster->parts.config;

    /* Only clients of v1alpha1 look for aliases. */
    return (row->controllers & config->controllers) != 0 &&
           (row->kind != WP_KIND_ALIAS || config->webhook != NULL);
}

enum wp_status
wp_cluster_make_stores(struct wp_cluster *cluster, struct wp_err *err)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(watched); i++) {
        const struct watched *row = &watched[i];

        /* The backend listens to sandboxes, whether any are watched or not. */
        if (!is_needed(cluster, row) && row->kind != WP_KIND_SANDBOX) {
            continue;
        }
        cluster->parts.stores[row->kind] =
            wp_store_create(row->kind, row->index_label);
        if (cluster->parts.stores[row->kind] == NULL) {
            return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        }
    }
    return WP_OK;
}

static void
on_synced(void *ctx)
{
    struct wp_cluster_watch *watch = ctx;
    struct wp_cluster *cluster = watch->cluster;

    watch->refused_ns = 0;
    watch->renewed = true;
    if (watch->synced) {
        wp_cluster_try_activate(
            cluster); /* It may have waited for this list. */
        return;
    }
    watch->synced = true;
    for (size_t i = 0; i < WP_KIND_COUNT; i++) {
        if (cluster->watches[i].reflector != NULL &&
            !cluster->watches[i].synced) {
            return;
        }
    }
    atomic_store_explicit(&cluster->synced, true, memory_order_release);
    wp_log_info("every watch has its whole list");
    if (cluster->pool_sync != NULL) {
        wp_pool_sync_start(cluster->pool_sync);
    }
    wp_cluster_try_activate(cluster);
}

/* Its storage was restored. What is known of one kind may be of today and of
 * another one of then, which no controller should act on: this replica begins
 * to lead anew, with the core told of all there is, once every kind was listed.
 */
static void
on_went_back(void *ctx)
{
    struct wp_cluster_watch *watch = ctx;
    struct wp_cluster *cluster = watch->cluster;

    wp_log_warn("all is listed anew: the API server's storage was restored",
                wp_kv_str("kind", wp_kind_info(watch->kind)->plural));
    for (size_t i = 0; i < WP_KIND_COUNT; i++) {
        struct wp_cluster_watch *each = &cluster->watches[i];

        each->renewed = each->reflector == NULL;
        if (each->reflector != NULL && each != watch) {
            wp_reflector_went_back(each->reflector);
        }
    }
    wp_cluster_deactivate(cluster);
}

/* How many sandboxes a pool lacks is told by both kinds. A claim's own is made
 * all the same. */
static void
on_doubt(void *ctx, bool doubtful)
{
    struct wp_cluster_watch *watch = ctx;
    struct wp_cluster *cluster = watch->cluster;

    watch->doubtful = doubtful;
    wp_cluster_backend_doubt(
        cluster->backend,
        cluster->watches[WP_KIND_SANDBOX].doubtful ||
            cluster->watches[WP_KIND_SANDBOX_WARM_POOL].doubtful);
}

bool
wp_cluster_renewed(const struct wp_cluster *cluster)
{
    bool renewed = true;

    for (size_t i = 0; i < WP_KIND_COUNT; i++) {
        renewed = renewed && (cluster->watches[i].reflector == NULL ||
                              cluster->watches[i].renewed);
    }
    return renewed;
}

static void
on_refused(void *ctx, int code, const char *message)
{
    struct wp_cluster_watch *watch = ctx;
    const struct wp_kind_info *info = wp_kind_info(watch->kind);
    int64_t now_ns = wp_clock_mono_ns(watch->cluster->parts.clock);

    watch->refused_code = code;
    if (watch->refused_ns == 0) {
        watch->refused_ns = now_ns;
    } else if (now_ns - watch->logged_ns < LOG_AGAIN_NS) {
        return;
    }
    watch->logged_ns = now_ns;
    wp_log_error(code == 404 ? "the API server does not know this kind"
                             : "the API server does not let us watch this kind",
                 wp_kv_str("kind", info->kind), wp_kv_str("group", info->group),
                 wp_kv_str("version", info->version), wp_kv_int("code", code),
                 wp_kv_str("message", message != NULL ? message : ""));
}

enum wp_status
wp_cluster_start_watches(struct wp_cluster *cluster, struct wp_err *err)
{
    struct wp_parts *parts = &cluster->parts;

    for (size_t i = 0; i < WP_ARRAY_LEN(watched); i++) {
        const struct watched *row = &watched[i];
        struct wp_cluster_watch *watch = &cluster->watches[row->kind];

        if (!is_needed(cluster, row)) {
            continue;
        }
        watch->cluster = cluster;
        watch->kind = row->kind;
        watch->reflector = wp_reflector_start(&(struct wp_reflector_config){
            .base = parts->base,
            .clock = parts->clock,
            .api = parts->api,
            .store = parts->stores[row->kind],
            .kind = row->kind,
            .ns = parts->config.watch_ns,
            .label_selector = row->selector,
            .seed = parts->seed + i,
            .idle_timeout_ns = parts->config.watch_silence_ns,
            .on_synced = on_synced,
            .on_refused = on_refused,
            .on_went_back = on_went_back,
            .on_doubt = on_doubt,
            .ctx = watch,
        });
        if (watch->reflector == NULL) {
            return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        }
    }
    return WP_OK;
}

void
wp_cluster_stop_watches(struct wp_cluster *cluster)
{
    for (size_t i = 0; i < WP_KIND_COUNT; i++) {
        wp_reflector_stop(cluster->watches[i].reflector);
        cluster->watches[i].reflector = NULL;
    }
}

void
wp_cluster_check_watches(struct wp_cluster *cluster)
{
    int64_t now_ns = wp_clock_mono_ns(cluster->parts.clock);

    for (size_t i = 0; i < WP_KIND_COUNT; i++) {
        const struct wp_cluster_watch *watch = &cluster->watches[i];
        const struct wp_kind_info *info = wp_kind_info((enum wp_kind)i);

        if (watch->synced || watch->refused_ns == 0 ||
            now_ns - watch->refused_ns < REFUSED_NS) {
            continue;
        }
        if (watch->refused_code == 404) {
            wp_cluster_give_up(cluster,
                               "the API server does not know %s: install the "
                               "CRD %s.%s, which must serve %s",
                               info->kind, info->plural, info->group,
                               info->version);
        } else {
            wp_cluster_give_up(cluster,
                               "the API server refuses (%d) to list and watch "
                               "%s%s%s%s%s: give this daemon's account the "
                               "roles of its manifests",
                               watch->refused_code, info->plural,
                               info->group[0] != '\0' ? "." : "", info->group,
                               cluster->parts.config.watch_ns != NULL
                                   ? " in the namespace "
                                   : "",
                               cluster->parts.config.watch_ns != NULL
                                   ? cluster->parts.config.watch_ns
                                   : "");
        }
    }
}
