#include "k8s/controllers/pool/staleness.h"

#include <stdlib.h>
#include <string.h>

#include "k8s/objects/names.h"
#include "k8s/objects/sandbox_build.h"
#include "k8s/objects/view.h"
#include "pool/base/fnv.h"

enum {
    MEMO_MAX = 256,
    LABEL_MAX = 63, /* Of a label's value. */
};

/* What a full comparison found for a label's value and a template's hash. One
 * that falls into the same place replaces it. */
struct memo {
    uint64_t blueprint;
    bool is_stale;
    char label[LABEL_MAX + 1]; /* "": free. */
};

struct wp_staleness {
    enum wp_tier installed;
    uint64_t compared;
    struct memo memos[MEMO_MAX];
};

struct wp_staleness *
wp_staleness_create(enum wp_tier installed)
{
    struct wp_staleness *staleness = calloc(1, sizeof(*staleness));

    if (staleness != NULL) {
        staleness->installed = installed;
    }
    return staleness;
}

void
wp_staleness_destroy(struct wp_staleness *staleness)
{
    free(staleness);
}

uint64_t
wp_staleness_compared(const struct wp_staleness *staleness)
{
    return staleness->compared;
}

static struct memo *
memo_of(struct wp_staleness *staleness, const char *label, uint64_t blueprint)
{
    uint64_t hash = wp_fnv_str(blueprint, wp_str_from(label));

    return &staleness->memos[(hash >> 32) % MEMO_MAX];
}

static bool
differs(struct wp_staleness *staleness, const struct wp_object *sandbox,
        uint64_t blueprint)
{
    json_t *tree = wp_object_json(sandbox);
    bool differs =
        wp_blueprint_hash(json_object_get(tree, "spec")) != blueprint;

    staleness->compared++;
    json_decref(tree);
    return differs;
}

bool
wp_sandbox_is_stale(struct wp_staleness *staleness,
                    const struct wp_object *sandbox,
                    const struct wp_object *template_)
{
    const struct wp_template_view *view = wp_template_view(template_);
    uint64_t blueprint =
        view->blueprint_hashes[wp_template_tier(view, staleness->installed)];
    const char *ref = wp_object_label(sandbox, WP_LABEL_TEMPLATE_REF_HASH);
    const char *label = wp_object_label(sandbox, WP_LABEL_TEMPLATE_HASH);
    char now[WP_BLUEPRINT_HASH_LEN + 1];
    char now_ref[WP_NAME_HASH_LEN + 1];
    struct memo *memo;

    wp_name_hash(wp_str_from(template_->name), now_ref);
    if (ref == NULL || strcmp(ref, now_ref) != 0) {
        return true;
    }
    if (sandbox->controller.kind[0] == '\0' || label == NULL ||
        label[0] == '\0' || strlen(label) > LABEL_MAX) {
        return differs(staleness, sandbox, blueprint);
    }
    wp_sandbox_template_hash(template_, staleness->installed, now);
    if (strcmp(label, now) == 0) {
        return false;
    }
    memo = memo_of(staleness, label, blueprint);
    if (memo->blueprint != blueprint || strcmp(memo->label, label) != 0) {
        memo->is_stale = differs(staleness, sandbox, blueprint);
        memo->blueprint = blueprint;
        memcpy(memo->label, label, strlen(label) + 1);
    }
    return memo->is_stale;
}
