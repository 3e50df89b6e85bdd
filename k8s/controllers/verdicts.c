#include "k8s/controllers/verdicts.h"

#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "pool/base/assert.h"

struct listener {
    void (*changed)(void *ctx, const struct wp_object *template_);
    void *ctx;
};

struct wp_verdicts {
    /* Of each template, by uid: {"generation": n, "words": text or none}. */
    json_t *known;
    struct listener listeners[WP_VERDICT_LISTENERS_MAX];
    uint32_t listeners_len;
};

struct wp_verdicts *
wp_verdicts_create(void)
{
    struct wp_verdicts *verdicts = calloc(1, sizeof(*verdicts));

    if (verdicts != NULL) {
        verdicts->known = json_object();
        if (verdicts->known == NULL) {
            free(verdicts);
            verdicts = NULL;
        }
    }
    return verdicts;
}

void
wp_verdicts_destroy(struct wp_verdicts *verdicts)
{
    if (verdicts != NULL) {
        json_decref(verdicts->known);
        free(verdicts);
    }
}

const char *
wp_verdicts_refusal(const struct wp_verdicts *verdicts,
                    const struct wp_object *template_)
{
    return verdicts == NULL
               ? NULL
               : json_string_value(json_object_get(
                     json_object_get(verdicts->known, template_->uid),
                     "words"));
}

bool
wp_verdicts_have(const struct wp_verdicts *verdicts,
                 const struct wp_object *template_)
{
    const json_t *verdict = json_object_get(verdicts->known, template_->uid);

    return verdict != NULL &&
           json_integer_value(json_object_get(verdict, "generation")) ==
               template_->generation;
}

static bool
same_words(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void
tell(const struct wp_verdicts *verdicts, const struct wp_object *template_)
{
    for (uint32_t i = 0; i < verdicts->listeners_len; i++) {
        const struct listener *listener = &verdicts->listeners[i];

        listener->changed(listener->ctx, template_);
    }
}

bool
wp_verdicts_set(struct wp_verdicts *verdicts, const struct wp_object *template_,
                const char *words)
{
    json_t *before = json_incref(json_object_get(
        json_object_get(verdicts->known, template_->uid), "words"));
    json_t *verdict = json_object();
    bool differs;

    wp_json_set(verdict, "generation", json_integer(template_->generation));
    if (words != NULL) {
        wp_json_set(verdict, "words", wp_json_words(words));
    }
    differs = !same_words(json_string_value(before),
                          json_string_value(json_object_get(verdict, "words")));
    json_decref(before);
    wp_json_set(verdicts->known, template_->uid, verdict);
    if (differs) {
        tell(verdicts, template_);
    }
    return differs;
}

void
wp_verdicts_forget(struct wp_verdicts *verdicts,
                   const struct wp_object *template_)
{
    bool had_words = wp_verdicts_refusal(verdicts, template_) != NULL;

    (void)json_object_del(verdicts->known, template_->uid);
    if (had_words) {
        tell(verdicts, template_);
    }
}

void
wp_verdicts_listen(struct wp_verdicts *verdicts,
                   void (*changed)(void *ctx,
                                   const struct wp_object *template_),
                   void *ctx)
{
    WP_ASSERT(verdicts->listeners_len < WP_VERDICT_LISTENERS_MAX);
    verdicts->listeners[verdicts->listeners_len++] =
        (struct listener){changed, ctx};
}
