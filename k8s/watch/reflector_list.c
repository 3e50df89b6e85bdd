/* k8s/watch/reflector_list.c - taking a whole list, and asking for the version.
 * */
#include "k8s/objects/json.h"
#include "k8s/watch/reflector_impl.h"
#include "pool/base/log.h"

/* --- Lists --- */

/* Once for each time that it did. */
static void
tell_if_back(struct wp_reflector *self)
{
    if ((self->went_back || wp_store_overruled(self->config.store)) &&
        !self->heard) {
        self->heard = true;
        if (self->config.on_went_back != NULL) {
            self->config.on_went_back(self->config.ctx);
        }
    }
}

/* A page was taken in; the rest is left for the next. */
static bool
take_page(struct wp_reflector *self, const json_t *list)
{
    const json_t *items = json_object_get(list, "items");
    const char *version =
        wp_json_text(list, "metadata", "resourceVersion", NULL);
    bool first = self->cont[0] == '\0';
    size_t i;
    json_t *item;

    bool back = first && wp_reflector_is_before(version, self->version);

    self->heard |= self->went_back;
    self->went_back |= back;
    if ((!json_is_array(items) && !json_is_null(items)) || version[0] == '\0' ||
        !wp_str_copy(wp_str_from(version), self->version,
                     sizeof self->version) ||
        !wp_str_copy(
            wp_str_from(wp_json_text(list, "metadata", "continue", NULL)),
            self->cont, sizeof self->cont)) {
        return false;
    }
    if (first && self->went_back) {
        wp_log_warn("the API server went back in time",
                    wp_kv_str("kind", wp_reflector_plural(self)),
                    wp_kv_str("version", version));
        wp_store_replace_all(self->config.store);
    } else if (first) {
        wp_store_replace_from(self->config.store, self->version);
    }
    json_array_foreach(items, i, item)
    {
        struct wp_object *object = wp_reflector_read(self, item);

        if (object != NULL) {
            wp_store_put(self->config.store, object);
        }
    }
    tell_if_back(self);
    return true;
}

static void
list_whole(struct wp_reflector *self)
{
    self->doubts = 0;
    self->went_back = false;
    self->heard = false;
    self->unsure = false;
    self->page_limit = self->page_limit < self->config.page_limit / 2
                           ? self->page_limit * 2
                           : self->config.page_limit;
    wp_store_replace_end(self->config.store, self->version);
    /* Whether all is well again only the watch can tell, so failures stay. */
    self->state = WP_REFLECTOR_WATCH_SOON;
    wp_reflector_set_timer(self, 0);
    self->config.on_synced(self->config.ctx);
    wp_reflector_doubt(self, false);
}

static void
list_failed(struct wp_reflector *self, const struct wp_api_result *result)
{
    const char *message = result->message != NULL ? result->message : "";

    wp_reflector_note_failure(self, result->code);
    self->stats.gone += result->code == 410;
    /* It began well and could not be used: too long, or cut. Fewer may do, and
     * need no long pause. */
    if (result->code == 200 && self->page_limit > 1) {
        self->page_limit = self->page_limit > 4 ? self->page_limit / 4 : 1;
        self->failures = 1;
    }
    wp_log_warn("a list failed", wp_kv_str("kind", wp_reflector_plural(self)),
                wp_kv_int("code", result->code), wp_kv_str("error", message));
    wp_reflector_go_on(self, WP_REFLECTOR_LIST_SOON, result->retry_after_ns);
    if ((result->code == 403 || result->code == 404) &&
        self->config.on_refused != NULL) {
        self->config.on_refused(self->config.ctx, result->code, message);
    }
}

static void
on_list(void *ctx, const struct wp_api_result *result)
{
    struct wp_reflector *self = ctx;
    struct wp_api_result broken = *result;

    if (self->stopped) {
        wp_reflector_free(self);
    } else if (result->status == WP_CANCELLED) {
        self->state = WP_REFLECTOR_ENDED;
    } else if (result->status != WP_OK) {
        list_failed(self, result);
    } else if (!take_page(self, result->object)) {
        self->stats.broken++;
        broken.message = "the list lacks items or metadata.resourceVersion";
        list_failed(self, &broken);
    } else if (self->cont[0] != '\0') {
        wp_reflector_list(self);
    } else {
        list_whole(self);
    }
}

void
wp_reflector_list(struct wp_reflector *self)
{
    struct wp_api_target target = wp_reflector_target(self);
    struct wp_api_query query = {
        .label_selector = self->config.label_selector,
        .cont = self->cont[0] != '\0' ? self->cont : NULL,
        .limit = self->page_limit,
    };

    self->state = WP_REFLECTOR_LISTING;
    if (query.cont == NULL) {
        self->stats.lists++;
        wp_store_replace_begin(self->config.store);
    }
    wp_api_list(self->config.api, &target, &query, on_list, self);
}

/* --- Probes --- */

static void
probe_answered(struct wp_reflector *self, const struct wp_api_result *result)
{
    const char *version =
        wp_json_text(result->object, "metadata", "resourceVersion", NULL);

    if (self->went_back || result->code == 403 || result->code == 404 ||
        (result->status == WP_OK &&
         wp_reflector_is_before(version, self->version))) {
        wp_reflector_list(self);
    } else if (result->status == WP_OK) {
        self->unsure = false;
        wp_reflector_watch(self);
    } else {
        wp_reflector_note_failure(self, result->code);
        wp_reflector_go_on(self, WP_REFLECTOR_WATCH_SOON,
                           result->retry_after_ns);
    }
}

static void
on_probe(void *ctx, const struct wp_api_result *result)
{
    struct wp_reflector *self = ctx;

    if (self->stopped) {
        wp_reflector_free(self);
    } else if (result->status == WP_CANCELLED) {
        self->state = WP_REFLECTOR_ENDED;
    } else {
        probe_answered(self, result);
    }
}

void
wp_reflector_probe(struct wp_reflector *self)
{
    struct wp_api_target target = wp_reflector_target(self);
    struct wp_api_query query = {.label_selector = self->config.label_selector,
                                 .limit = 1};

    self->state = WP_REFLECTOR_PROBING;
    self->stats.probes++;
    wp_api_list(self->config.api, &target, &query, on_probe, self);
}
