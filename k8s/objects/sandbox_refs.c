#include "k8s/objects/sandbox_refs.h"

#include <stdlib.h>
#include <string.h>

#include "k8s/objects/lease_annotation.h"
#include "pool/base/assert.h"
#include "pool/base/fnv.h"

struct wp_sandbox_refs {
    struct wp_sandbox_ref **by_slot; /* Owned, as what they point to. */
    struct wp_sandbox_ref **by_name; /* Buckets. */
    uint32_t max;
    uint32_t mask;
    uint32_t count;
};

struct wp_sandbox_refs *
wp_sandbox_refs_create(uint32_t max)
{
    struct wp_sandbox_refs *refs = calloc(1, sizeof *refs);
    uint32_t buckets = 64;

    while (buckets < max && buckets < UINT32_C(1) << 24) {
        buckets *= 2;
    }
    if (refs == NULL) {
        return NULL;
    }
    refs->max = max;
    refs->mask = buckets - 1;
    refs->by_slot = calloc((size_t)max + 1, sizeof(void *));
    refs->by_name = calloc(buckets, sizeof(void *));
    if (refs->by_slot == NULL || refs->by_name == NULL) {
        wp_sandbox_refs_destroy(refs);
        return NULL;
    }
    return refs;
}

static void
free_entry(struct wp_sandbox_ref *entry)
{
    free(entry->lease);
    free(entry);
}

void
wp_sandbox_refs_destroy(struct wp_sandbox_refs *refs)
{
    if (refs == NULL) {
        return;
    }
    for (uint32_t i = 0; refs->by_slot != NULL && i < refs->max; i++) {
        if (refs->by_slot[i] != NULL) {
            free_entry(refs->by_slot[i]);
        }
    }
    free(refs->by_slot);
    free(refs->by_name);
    free(refs);
}

/* The names were made by who may make sandboxes. */
static struct wp_sandbox_ref **
bucket_of(struct wp_sandbox_refs *refs, const char *ns, const char *name)
{
    uint64_t hash = wp_fnv_name(wp_str_from(ns), wp_str_from(name));

    return &refs->by_name[hash & refs->mask];
}

struct wp_sandbox_ref *
wp_sandbox_refs_find(struct wp_sandbox_refs *refs, const char *ns,
                     const char *name)
{
    struct wp_sandbox_ref *entry = *bucket_of(refs, ns, name);

    while (entry != NULL &&
           (strcmp(entry->name, name) != 0 || strcmp(entry->ns, ns) != 0)) {
        entry = entry->next;
    }
    return entry;
}

struct wp_sandbox_ref *
wp_sandbox_refs_find_ref(struct wp_sandbox_refs *refs, struct wp_slot_ref ref)
{
    struct wp_sandbox_ref *entry =
        ref.index < refs->max ? refs->by_slot[ref.index] : NULL;

    return entry != NULL && wp_slot_ref_eq(entry->ref, ref) ? entry : NULL;
}

struct wp_sandbox_ref *
wp_sandbox_refs_add(struct wp_sandbox_refs *refs,
                    const struct wp_sandbox_ref *given)
{
    struct wp_sandbox_ref **bucket = bucket_of(refs, given->ns, given->name);
    struct wp_sandbox_ref *entry;

    if (given->ref.index >= refs->max ||
        refs->by_slot[given->ref.index] != NULL ||
        wp_sandbox_refs_find(refs, given->ns, given->name) != NULL) {
        return NULL;
    }
    entry = malloc(sizeof *entry);
    if (entry == NULL) {
        return NULL;
    }
    *entry = *given;
    entry->next = *bucket;
    *bucket = entry;
    refs->by_slot[entry->ref.index] = entry;
    refs->count++;
    return entry;
}

void
wp_sandbox_refs_remove(struct wp_sandbox_refs *refs,
                       struct wp_sandbox_ref *entry)
{
    struct wp_sandbox_ref **at = bucket_of(refs, entry->ns, entry->name);

    while (*at != entry) {
        WP_ASSERT(*at != NULL);
        at = &(*at)->next;
    }
    *at = entry->next;
    refs->by_slot[entry->ref.index] = NULL;
    refs->count--;
    free_entry(entry);
}

uint32_t
wp_sandbox_refs_count(const struct wp_sandbox_refs *refs)
{
    return refs->count;
}

void
wp_sandbox_refs_walk(struct wp_sandbox_refs *refs,
                     void (*each)(void *ctx, struct wp_sandbox_ref *entry),
                     void *ctx)
{
    for (uint32_t i = 0; i < refs->max; i++) {
        if (refs->by_slot[i] != NULL) {
            each(ctx, refs->by_slot[i]);
        }
    }
}

/* --- How the core knows an object --- */

static int
hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 32 lower-case digits; with a dash before each of those in dashes. */
static bool
read_uid(const char *text, const char *dashes, uint8_t out[WP_UID_LEN])
{
    for (int i = 0; i < 2 * WP_UID_LEN; i++) {
        int value;

        if (i > 0 && strchr(dashes, 'a' + i) != NULL && *text++ != '-') {
            return false;
        }
        value = hex_value(*text);
        if (value < 0) {
            return false;
        }
        text++;
        out[i / 2] = (uint8_t)(i % 2 == 0 ? value << 4 : out[i / 2] | value);
    }
    return *text == '\0';
}

bool
wp_sandbox_core_uid(const struct wp_object *sandbox, uint8_t out[WP_UID_LEN])
{
    /* A UUID has dashes before its digits 8, 12, 16 and 20. */
    static const char uuid_dashes[] = {'a' + 8, 'a' + 12, 'a' + 16, 'a' + 20,
                                       '\0'};
    const char *text = wp_object_annotation(sandbox, WP_ANNOTATION_UID);

    return (text != NULL && read_uid(text, "", out)) ||
           read_uid(sandbox->uid, uuid_dashes, out);
}
