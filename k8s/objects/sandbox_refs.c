#include "k8s/objects/sandbox_refs.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/lease_annotation.h"

struct wp_sandbox_refs {
    struct wp_sandbox_ref **by_slot; /* Owned, as what they point to. */
    void *by_name;                   /* A tree. */
    uint32_t max;
    uint32_t count;
};

struct wp_sandbox_refs *
wp_sandbox_refs_create(uint32_t max)
{
    struct wp_sandbox_refs *refs = calloc(1, sizeof *refs);

    if (refs == NULL) {
        return NULL;
    }
    refs->max = max;
    refs->by_slot = calloc((size_t)max + 1, sizeof(void *));
    if (refs->by_slot == NULL) {
        free(refs);
        return NULL;
    }
    return refs;
}

static void
free_entry(void *freed)
{
    struct wp_sandbox_ref *entry = freed;

    free(entry->lease);
    free(entry);
}

void
wp_sandbox_refs_destroy(struct wp_sandbox_refs *refs)
{
    if (refs == NULL) {
        return;
    }
    tdestroy(refs->by_name, free_entry);
    free(refs->by_slot);
    free(refs);
}

struct wp_sandbox_ref *
wp_sandbox_refs_find(struct wp_sandbox_refs *refs, const char *ns,
                     const char *name)
{
    const struct wp_name_key key = {ns, name};
    struct wp_sandbox_ref **found =
        tfind(&key, &refs->by_name, wp_name_key_compare);

    return found != NULL ? *found : NULL;
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
    entry->key = (struct wp_name_key){entry->ns, entry->name};
    if (tsearch(entry, &refs->by_name, wp_name_key_compare) == NULL) {
        free(entry);
        return NULL;
    }
    refs->by_slot[entry->ref.index] = entry;
    refs->count++;
    return entry;
}

void
wp_sandbox_refs_remove(struct wp_sandbox_refs *refs,
                       struct wp_sandbox_ref *entry)
{
    (void)tdelete(entry, &refs->by_name, wp_name_key_compare);
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

/* As a UUID has it in a text: in five groups, in lower case. */
static bool
read_uuid(const char *text, uint8_t out[WP_UID_LEN])
{
    char hex[2 * WP_UID_LEN + 1] = "";
    int end = 0;

    return sscanf(text,
                  "%8[0-9a-f]-%4[0-9a-f]-%4[0-9a-f]-%4[0-9a-f]-%12[0-9a-f]%n",
                  hex, hex + 8, hex + 12, hex + 16, hex + 20, &end) == 5 &&
           end == 36 && text[end] == '\0' &&
           wp_hex_decode(wp_str_from(hex), out, WP_UID_LEN);
}

bool
wp_sandbox_core_uid(const struct wp_object *sandbox, uint8_t out[WP_UID_LEN])
{
    const char *text = wp_object_annotation(sandbox, WP_ANNOTATION_UID);

    return (text != NULL && text[strspn(text, "0123456789abcdef")] == '\0' &&
            wp_hex_decode(wp_str_from(text), out, WP_UID_LEN)) ||
           read_uuid(sandbox->uid, out);
}
