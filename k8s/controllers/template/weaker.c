#include "k8s/controllers/template/weaker.h"

#include <stdlib.h>

#include "k8s/objects/json.h"
#include "k8s/objects/pod_tier.h"
#include "pool/base/log.h"

enum {
    PATHS_MAX = 512, /* Bytes. */
};

struct wp_weaker {
    struct wp_parts *parts;
    json_t *seen; /* By uid: what was looked at. */
};

struct wp_weaker *
wp_weaker_create(struct wp_parts *parts)
{
    struct wp_weaker *weaker = calloc(1, sizeof(*weaker));

    if (weaker != NULL) {
        weaker->parts = parts;
        weaker->seen = json_object();
    }
    if (weaker == NULL || weaker->seen == NULL) {
        wp_weaker_destroy(weaker);
        return NULL;
    }
    return weaker;
}

void
wp_weaker_destroy(struct wp_weaker *weaker)
{
    if (weaker != NULL) {
        json_decref(weaker->seen);
        free(weaker);
    }
}

static void
tell(struct wp_weaker *weaker, const struct wp_object *template_,
     const char *tier, const char *paths)
{
    static const struct wp_event event = {
        .controller = "sandboxtemplate-controller",
        .action = "Checking",
        .reason = "TierWeakened",
        .warning = true,
    };

    wp_events_record(weaker->parts->events, template_, &event,
                     "Weaker than tier %s: %s", tier, paths);
    wp_log_warn("a SandboxTemplate states less than its tier",
                wp_kv_str("namespace", template_->ns),
                wp_kv_str("template", template_->name), wp_kv_str("tier", tier),
                wp_kv_str("fields", paths));
}

void
wp_weaker_look(struct wp_weaker *weaker, const struct wp_object *template_)
{
    enum wp_tier tier = wp_template_tier(wp_template_view(template_),
                                         weaker->parts->config.default_tier);
    json_int_t state = (json_int_t)template_->generation * WP_TIERS + tier;
    const json_t *known = json_object_get(weaker->seen, template_->uid);
    char paths[PATHS_MAX];
    json_t *tree;

    if (known != NULL && json_integer_value(known) == state) {
        return;
    }
    wp_json_set(weaker->seen, template_->uid, json_integer(state));
    tree = wp_object_json(template_);
    if (wp_pod_is_weaker(wp_json_at(tree, "spec", "podTemplate", "spec", NULL),
                         tier, paths, sizeof(paths))) {
        tell(weaker, template_, wp_tier_info(tier)->name, paths);
    }
    json_decref(tree);
}

void
wp_weaker_forget(struct wp_weaker *weaker, const struct wp_object *template_)
{
    (void)json_object_del(weaker->seen, template_->uid);
}
