#include "k8s/watch/store.h"

#include <stdlib.h>
#include <string.h>

#include "k8s/watch/ordered.h"
#include "pool/base/assert.h"
#include "pool/base/fnv.h"

enum {
    LISTENERS_MAX = 12,
    /* Uids remembered after they went: more than writes can be under way. Older
     * ones are forgotten; a late answer about one of those would put a gone
     * object back until the next list. */
    GONE_MAX = 4096,
};

struct listener {
    wp_store_listener *call;
    void *ctx;
};

struct wp_store {
    enum wp_kind kind;
    const char *index_label; /* Static or outliving; NULL: none. */
    struct wp_ordered by_name;
    struct wp_ordered by_uid;
    struct wp_ordered by_owner; /* Those that somebody controls. */
    struct wp_ordered by_label; /* Those that have it. */
    struct listener listeners[LISTENERS_MAX];
    uint32_t listeners_len;
    uint64_t object_bytes;
    uint32_t round; /* Of lists; what a list had carries its number. */
    bool replacing;
    bool replacing_all;
    uint64_t replacing_from; /* The list's version; 0: unknown. */
    bool overruled;          /* By the list, as versions cannot be. */
    bool telling;
    /* Hashes of uids, the newest before gone_next; a false hit only makes a
     * learned version wait for the watch. */
    uint64_t gone[GONE_MAX];
    uint32_t gone_len;
    uint32_t gone_next;
};

struct wp_store *
wp_store_create(enum wp_kind kind, const char *index_label)
{
    struct wp_store *store = calloc(1, sizeof *store);

    if (store != NULL) {
        store->kind = kind;
        store->index_label = index_label;
    }
    return store;
}

void
wp_store_destroy(struct wp_store *store)
{
    struct wp_ordered_at at = {0, 0};
    const struct wp_object *object;

    if (store == NULL) {
        return;
    }
    while ((object = wp_ordered_get(&store->by_name, at, NULL)) != NULL) {
        wp_object_unref(object);
        at = wp_ordered_next(&store->by_name, at);
    }
    wp_ordered_fini(&store->by_name);
    wp_ordered_fini(&store->by_uid);
    wp_ordered_fini(&store->by_owner);
    wp_ordered_fini(&store->by_label);
    free(store);
}

void
wp_store_listen(struct wp_store *store, wp_store_listener *listener, void *ctx)
{
    WP_ASSERT(store->listeners_len < LISTENERS_MAX &&
              store->by_name.count == 0);
    store->listeners[store->listeners_len] = (struct listener){listener, ctx};
    store->listeners_len++;
}

/* --- Reading --- */

const struct wp_object *
wp_store_find(const struct wp_store *store, const char *ns, const char *name)
{
    const struct wp_object *object = wp_ordered_get(
        &store->by_name, wp_ordered_seek(&store->by_name, "", ns, name), NULL);

    return object != NULL && strcmp(object->name, name) == 0 &&
                   strcmp(object->ns, ns) == 0
               ? object
               : NULL;
}

const struct wp_object *
wp_store_find_uid(const struct wp_store *store, const char *uid)
{
    const struct wp_object *object = wp_ordered_get(
        &store->by_uid, wp_ordered_seek(&store->by_uid, uid, "", ""), NULL);

    return object != NULL && strcmp(object->uid, uid) == 0 ? object : NULL;
}

/* Those of one key; ns NULL: of all namespaces. */
static void
walk_key(const struct wp_ordered *set, const char *key, const char *ns,
         wp_store_each *each, void *ctx)
{
    struct wp_ordered_at at =
        wp_ordered_seek(set, key, ns != NULL ? ns : "", "");
    const struct wp_object *object;
    const char *its_key;

    while ((object = wp_ordered_get(set, at, &its_key)) != NULL &&
           strcmp(its_key, key) == 0 &&
           (ns == NULL || strcmp(object->ns, ns) == 0) && each(ctx, object)) {
        at = wp_ordered_next(set, at);
    }
}

void
wp_store_owned_by(const struct wp_store *store, const char *owner_uid,
                  wp_store_each *each, void *ctx)
{
    walk_key(&store->by_owner, owner_uid, NULL, each, ctx);
}

void
wp_store_labelled(const struct wp_store *store, const char *ns,
                  const char *value, wp_store_each *each, void *ctx)
{
    walk_key(&store->by_label, value, ns, each, ctx);
}

void
wp_store_walk(const struct wp_store *store, wp_store_each *each, void *ctx)
{
    walk_key(&store->by_name, "", NULL, each, ctx);
}

uint32_t
wp_store_count(const struct wp_store *store)
{
    return store->by_name.count;
}

uint64_t
wp_store_bytes(const struct wp_store *store)
{
    return sizeof *store + store->object_bytes +
           wp_ordered_bytes(&store->by_name) +
           wp_ordered_bytes(&store->by_uid) +
           wp_ordered_bytes(&store->by_owner) +
           wp_ordered_bytes(&store->by_label);
}

/* --- What is gone --- */

static uint64_t
uid_hash(const char *uid)
{
    return wp_fnv_str(WP_FNV_BASIS, wp_str_from(uid));
}

static void
remember_gone(struct wp_store *store, const char *uid)
{
    store->gone[store->gone_next] = uid_hash(uid);
    store->gone_next = (store->gone_next + 1) % GONE_MAX;
    if (store->gone_len < GONE_MAX) {
        store->gone_len++;
    }
}

static uint64_t *
find_gone(struct wp_store *store, const char *uid)
{
    uint64_t hash = uid_hash(uid);

    for (uint32_t i = 0; i < store->gone_len; i++) {
        if (store->gone[i] == hash) {
            return &store->gone[i];
        }
    }
    return NULL;
}

/* --- Changing --- */

static void
tell(struct wp_store *store, const struct wp_object *before,
     const struct wp_object *after)
{
    WP_ASSERT(!store->telling);
    store->telling = true;
    for (uint32_t i = 0; i < store->listeners_len; i++) {
        store->listeners[i].call(store->listeners[i].ctx, before, after);
    }
    store->telling = false;
}

static const char *
label_of(const struct wp_store *store, const struct wp_object *object)
{
    return store->index_label != NULL
               ? wp_object_label(object, store->index_label)
               : NULL;
}

static void
index_object(struct wp_store *store, const struct wp_object *object)
{
    const char *label = label_of(store, object);

    wp_ordered_insert(&store->by_name, "", object);
    wp_ordered_insert(&store->by_uid, object->uid, object);
    if (object->controller.uid[0] != '\0') {
        wp_ordered_insert(&store->by_owner, object->controller.uid, object);
    }
    if (label != NULL) {
        wp_ordered_insert(&store->by_label, label, object);
    }
    store->object_bytes += object->bytes;
}

static void
forget_object(struct wp_store *store, const struct wp_object *object)
{
    const char *label = label_of(store, object);

    wp_ordered_remove(&store->by_name, "", object);
    wp_ordered_remove(&store->by_uid, object->uid, object);
    if (object->controller.uid[0] != '\0') {
        wp_ordered_remove(&store->by_owner, object->controller.uid, object);
    }
    if (label != NULL) {
        wp_ordered_remove(&store->by_label, label, object);
    }
    store->object_bytes -= object->bytes;
}

/* Takes the store's reference. */
static void
take_out(struct wp_store *store, const struct wp_object *known)
{
    forget_object(store, known);
    remember_gone(store, known->uid);
    tell(store, known, NULL);
    wp_object_unref(known);
}

/* Takes the reference. known is the one of its name, or NULL. */
static void
put_in(struct wp_store *store, const struct wp_object *known,
       struct wp_object *object)
{
    WP_ASSERT(object->kind == store->kind && !store->telling);
    /* Another object of the same name: the old one went unheard. */
    if (known != NULL && strcmp(known->uid, object->uid) != 0) {
        take_out(store, known);
        known = NULL;
    }
    if (known != NULL) {
        forget_object(store, known);
    } else {
        uint64_t *gone = find_gone(store, object->uid);

        if (gone != NULL) {
            *gone = 0; /* It is there, whatever was heard. */
        }
    }
    index_object(store, object);
    tell(store, known, object);
    wp_object_unref(known);
}

static bool
is_same(const struct wp_object *a, const struct wp_object *b)
{
    return strcmp(a->uid, b->uid) == 0 && a->resource_version[0] != '\0' &&
           strcmp(a->resource_version, b->resource_version) == 0;
}

/* The store's own, to be marked. */
static struct wp_object *
own(const struct wp_object *object)
{
    return (struct wp_object *)(uintptr_t)(const void *)object;
}

/* Does what a list has count for nothing beside what is known? */
static bool
is_outdated(const struct wp_store *store, const struct wp_object *object,
            const struct wp_object *known)
{
    uint64_t version;

    return wp_object_is_older(object, known) &&
           !(store->replacing_from > 0 &&
             wp_str_to_u64(wp_str_from(known->resource_version), &version) &&
             version <= store->replacing_from);
}

void
wp_store_put(struct wp_store *store, struct wp_object *object)
{
    const struct wp_object *known =
        wp_store_find(store, object->ns, object->name);

    if (known != NULL && !store->replacing_all &&
        (is_same(known, object) || is_outdated(store, object, known))) {
        if (strcmp(known->uid, object->uid) == 0) {
            own(known)->seen = store->round;
        }
        wp_object_unref(object);
        return;
    }
    store->overruled |=
        store->replacing && known != NULL && wp_object_is_older(object, known);
    object->seen = store->round;
    put_in(store, known, object);
}

bool
wp_store_overruled(const struct wp_store *store)
{
    return store->overruled;
}

bool
wp_store_knows(const struct wp_store *store, const char *ns, const char *name,
               const char *uid, const char *version)
{
    const struct wp_object *known = wp_store_find(store, ns, name);
    const struct wp_object asked = {.resource_version = version};

    return known != NULL && strcmp(known->uid, uid) == 0 &&
           version[0] != '\0' &&
           (strcmp(known->resource_version, version) == 0 ||
            wp_object_is_older(&asked, known));
}

void
wp_store_learn(struct wp_store *store, struct wp_object *object)
{
    const struct wp_object *known =
        wp_store_find(store, object->ns, object->name);

    if (known != NULL ? !wp_object_is_older(known, object)
                      : find_gone(store, object->uid) != NULL) {
        wp_object_unref(object);
        return;
    }
    object->seen = known != NULL && strcmp(known->uid, object->uid) == 0
                       ? known->seen
                       : store->round - 1;
    put_in(store, known, object);
}

void
wp_store_remove(struct wp_store *store, const struct wp_object *object)
{
    const struct wp_object *known =
        wp_store_find(store, object->ns, object->name);

    (void)wp_object_ref(object); /* It may be the store's own. */
    /* With another uid it stays if it is newer: the removed one made room. */
    if (known != NULL && (strcmp(known->uid, object->uid) == 0 ||
                          wp_object_is_older(known, object))) {
        take_out(store, known);
    }
    if (find_gone(store, object->uid) == NULL) {
        remember_gone(store, object->uid);
    }
    wp_object_unref(object);
}

void
wp_store_replace_begin(struct wp_store *store)
{
    store->round++;
    store->replacing = true;
    store->replacing_all = false;
    store->replacing_from = 0;
    store->overruled = false;
}

void
wp_store_replace_from(struct wp_store *store, const char *version)
{
    WP_ASSERT(store->replacing);
    if (!wp_str_to_u64(wp_str_from(version), &store->replacing_from)) {
        store->replacing_from = 0;
    }
}

void
wp_store_replace_all(struct wp_store *store)
{
    WP_ASSERT(store->replacing);
    store->replacing_all = true;
}

void
wp_store_replace_end(struct wp_store *store, const char *version)
{
    const struct wp_object list = {.resource_version =
                                       version != NULL ? version : ""};
    struct wp_ordered_at at = {0, 0};
    const struct wp_object *object;

    WP_ASSERT(store->replacing);
    while ((object = wp_ordered_get(&store->by_name, at, NULL)) != NULL) {
        if (object->seen == store->round ||
            (!store->replacing_all && wp_object_is_older(&list, object))) {
            at = wp_ordered_next(&store->by_name, at);
            continue;
        }
        take_out(store, object);
        at = wp_ordered_settle(&store->by_name, at);
    }
    store->replacing = false;
    store->replacing_all = false;
    store->replacing_from = 0;
}
