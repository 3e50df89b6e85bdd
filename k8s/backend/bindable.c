#include "k8s/backend/bindable.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/names.h"
#include "k8s/objects/view.h"
#include "pool/base/assert.h"
#include "pool/limits.h"

struct one {
    struct wp_name_key key; /* First. Its texts lie behind the struct. */
    char texts[];
};

struct wp_bindable {
    pthread_mutex_t lock; /* guards: tree and what is in it */
    void *tree;
};

static bool
binds(const struct wp_object *object)
{
    return object != NULL && wp_template_view(object)->binds;
}

/* Lock held. */
static void
forget(struct wp_bindable *self, const struct wp_object *object)
{
    const struct wp_name_key key = {object->ns, object->name};
    struct one **found = tfind(&key, &self->tree, wp_name_key_compare);
    struct one *one = found != NULL ? *found : NULL;

    if (one != NULL) {
        (void)tdelete(&key, &self->tree, wp_name_key_compare);
        free(one);
    }
}

/* Lock held; there is none of that name. */
static void
keep(struct wp_bindable *self, const struct wp_object *object)
{
    size_t ns_size = strlen(object->ns) + 1;
    size_t name_size = strlen(object->name) + 1;
    struct one *one = malloc(sizeof *one + ns_size + name_size);

    WP_ASSERT(one != NULL);
    memcpy(one->texts, object->ns, ns_size);
    memcpy(one->texts + ns_size, object->name, name_size);
    one->key = (struct wp_name_key){one->texts, one->texts + ns_size};
    WP_ASSERT(tsearch(one, &self->tree, wp_name_key_compare) != NULL);
}

static void
on_change(void *ctx, const struct wp_object *before,
          const struct wp_object *after)
{
    struct wp_bindable *self = ctx;

    if (binds(before) == binds(after)) {
        return;
    }
    (void)pthread_mutex_lock(&self->lock);
    if (binds(after)) {
        keep(self, after);
    } else {
        forget(self, before);
    }
    (void)pthread_mutex_unlock(&self->lock);
}

struct wp_bindable *
wp_bindable_create(struct wp_store *templates)
{
    struct wp_bindable *self = calloc(1, sizeof *self);

    if (self != NULL) {
        (void)pthread_mutex_init(&self->lock, NULL);
        if (templates != NULL) {
            wp_store_listen(templates, on_change, self);
        }
    }
    return self;
}

void
wp_bindable_destroy(struct wp_bindable *self)
{
    if (self != NULL) {
        tdestroy(self->tree, free);
        (void)pthread_mutex_destroy(&self->lock);
        free(self);
    }
}

bool
wp_bindable_has(struct wp_bindable *self, struct wp_str ns, struct wp_str name)
{
    char ns_text[WP_NAMESPACE_MAX + 1];
    char name_text[WP_TEMPLATE_NAME_MAX + 1];
    const struct wp_name_key key = {ns_text, name_text};
    bool found;

    if (!wp_str_copy(ns, ns_text, sizeof ns_text) ||
        !wp_str_copy(name, name_text, sizeof name_text)) {
        return false;
    }
    (void)pthread_mutex_lock(&self->lock);
    found = tfind(&key, &self->tree, wp_name_key_compare) != NULL;
    (void)pthread_mutex_unlock(&self->lock);
    return found;
}
