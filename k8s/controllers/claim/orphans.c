#include "k8s/controllers/claim/orphans.h"

#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

enum {
    LEASES_AT_ONCE = 32,
    PAGE = 500,
    CONTINUE_MAX = 4096,
};

struct suspect {
    char uid[WP_CLAIM_ID_MAX + 1];
    char sandbox[WP_SANDBOX_NAME_MAX + 1];
    struct wp_slot_ref ref;
};

struct wp_claim_orphans {
    struct wp_parts *parts;
    struct event *retry;
    struct suspect *suspects; /* Owned. */
    uint32_t len;
    uint32_t cap;
    json_t *live; /* {uid: true}, of the claims that were listed. */
    bool listing;
    char cont[CONTINUE_MAX];
};

static struct wp_store *
claims_of(const struct wp_claim_orphans *orphans)
{
    return orphans->parts->stores[WP_KIND_SANDBOX_CLAIM];
}

/* --- Suspects --- */

static void
suspect(struct wp_claim_orphans *orphans, const struct wp_claim_info *info)
{
    struct suspect *one;

    if (orphans->len == orphans->cap) {
        orphans->cap = orphans->cap == 0 ? LEASES_AT_ONCE : orphans->cap * 2;
        orphans->suspects =
            realloc(orphans->suspects, orphans->cap * sizeof *one);
        WP_ASSERT(orphans->suspects != NULL);
    }
    one = &orphans->suspects[orphans->len++];
    one->ref = info->ref;
    memcpy(one->uid, info->claim_id, sizeof one->uid);
    memcpy(one->sandbox, info->sandbox, sizeof one->sandbox);
}

static void
collect(struct wp_claim_orphans *orphans)
{
    struct wp_str tenant = WP_STR(WP_TENANT_SANDBOX_CLAIMS);
    struct wp_claim_filter filter = {.tenant = &tenant};
    struct wp_claim_info *infos = calloc(LEASES_AT_ONCE, sizeof *infos);
    uint64_t cursor = 0;

    WP_ASSERT(infos != NULL);
    orphans->len = 0;
    do {
        uint32_t n = wp_pools_list(orphans->parts->core.pools, &filter, &cursor,
                                   infos, LEASES_AT_ONCE);

        for (uint32_t i = 0; i < n; i++) {
            if (!infos[i].waiting &&
                wp_store_find_uid(claims_of(orphans), infos[i].claim_id) ==
                    NULL) {
                suspect(orphans, &infos[i]);
            }
        }
    } while (cursor != 0);
    free(infos);
}

/* All claims were read, and these are of none. */
static void
end_all(struct wp_claim_orphans *orphans)
{
    for (uint32_t i = 0; i < orphans->len; i++) {
        const struct suspect *one = &orphans->suspects[i];

        if (json_object_get(orphans->live, one->uid) == NULL &&
            wp_store_find_uid(claims_of(orphans), one->uid) == NULL) {
            wp_log_info("claim: the lease of a claim that is gone ends",
                        wp_kv_str("sandbox", one->sandbox));
            wp_pools_end(orphans->parts->core.pools, one->ref);
        }
    }
    (void)json_object_clear(orphans->live);
}

/* --- Asking --- */

static void read_page(struct wp_claim_orphans *orphans);

static void
try_later(struct wp_claim_orphans *orphans, int64_t after_ns)
{
    int64_t wait_ns = after_ns > WP_NS_PER_S ? after_ns : WP_NS_PER_S;
    struct timeval wait = {(time_t)(wait_ns / WP_NS_PER_S), 0};

    WP_ASSERT(evtimer_add(orphans->retry, &wait) == 0);
}

static void
page_read(void *ctx, const struct wp_api_result *result)
{
    struct wp_claim_orphans *orphans = ctx;
    const json_t *item;
    size_t i;

    orphans->listing = false;
    if (result->status == WP_CANCELLED || !orphans->parts->active) {
        return;
    }
    if (result->status != WP_OK || result->object == NULL) {
        try_later(orphans, result->retry_after_ns);
        return;
    }
    json_array_foreach(json_object_get(result->object, "items"), i, item)
    {
        wp_json_set(orphans->live, wp_json_text(item, "metadata", "uid", NULL),
                    json_true());
    }
    if (!wp_str_copy(wp_str_from(wp_json_text(result->object, "metadata",
                                              "continue", NULL)),
                     orphans->cont, sizeof orphans->cont)) {
        try_later(orphans, -1);
    } else if (orphans->cont[0] != '\0') {
        read_page(orphans);
    } else {
        end_all(orphans);
    }
}

static void
read_page(struct wp_claim_orphans *orphans)
{
    struct wp_api_target target = {.kind = WP_KIND_SANDBOX_CLAIM,
                                   .ns = orphans->parts->config.watch_ns,
                                   .priority = WP_HTTP_NORMAL};
    struct wp_api_query query = {
        .limit = PAGE, .cont = orphans->cont[0] != '\0' ? orphans->cont : NULL};

    orphans->listing = true;
    wp_api_list(orphans->parts->api, &target, &query, page_read, orphans);
}

static void
on_retry(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_claim_orphans *orphans = ctx;

    (void)fd;
    (void)what;
    wp_claim_orphans_end(orphans);
}

/* --- Outside --- */

struct wp_claim_orphans *
wp_claim_orphans_create(struct wp_parts *parts)
{
    struct wp_claim_orphans *orphans = calloc(1, sizeof *orphans);

    if (orphans == NULL) {
        return NULL;
    }
    orphans->parts = parts;
    orphans->live = json_object();
    orphans->retry = evtimer_new(parts->base, on_retry, orphans);
    if (orphans->retry == NULL || orphans->live == NULL) {
        if (orphans->retry != NULL) {
            event_free(orphans->retry);
        }
        json_decref(orphans->live);
        free(orphans);
        return NULL;
    }
    return orphans;
}

void
wp_claim_orphans_destroy(struct wp_claim_orphans *orphans)
{
    if (orphans == NULL) {
        return;
    }
    WP_ASSERT(!orphans->listing);
    event_free(orphans->retry);
    json_decref(orphans->live);
    free(orphans->suspects);
    free(orphans);
}

void
wp_claim_orphans_end(struct wp_claim_orphans *orphans)
{
    if (!orphans->parts->active || orphans->listing) {
        return;
    }
    collect(orphans);
    orphans->cont[0] = '\0';
    (void)json_object_clear(orphans->live);
    if (orphans->len > 0) {
        read_page(orphans);
    }
}
