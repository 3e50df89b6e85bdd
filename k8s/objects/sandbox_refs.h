/* k8s/objects/sandbox_refs.h - which slot of the core a Sandbox object is.
 *
 * The core names a sandbox by a slot reference and 16 random bytes; the cluster
 * by namespace and name. The backend adapter keeps both together here for every
 * sandbox that the core knows. The 16 bytes are written into the object as the
 * annotation WP_ANNOTATION_UID when we make it; those that upstream's
 * controller made have none and are known by their metadata.uid instead, whose
 * 128 bits serve as well. Loop thread only. */
#ifndef WP_K8S_OBJECTS_SANDBOX_REFS_H
#define WP_K8S_OBJECTS_SANDBOX_REFS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "k8s/objects/names.h"
#include "k8s/objects/object.h"
#include "pool/backend.h"

#define WP_ANNOTATION_UID "warmpool.dev/uid"

struct wp_lease_note;
struct wp_sandbox_binding;
struct wp_sandbox_identity;

enum wp_sandbox_phase {
    WP_SANDBOX_CREATING, /* The POST is under way or its outcome unknown. */
    WP_SANDBOX_WARMING,  /* The object is there, not Ready. */
    WP_SANDBOX_READY,    /* Reported to the core as ready. */
    WP_SANDBOX_ADOPTED,  /* No longer the pool's: a claim or a lease has it. */
    WP_SANDBOX_DELETING, /* The core has asked for it, or it is going. */
};

struct wp_sandbox_ref {
    struct wp_name_key key; /* First. Private: ns and name. */
    struct wp_slot_ref ref;
    uint8_t uid[WP_UID_LEN];
    enum wp_sandbox_phase phase;
    int64_t ready_by_ns; /* Monotonic; after it, it has failed. */
    char ns[WP_NAMESPACE_MAX + 1];
    char name[WP_SANDBOX_NAME_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1];

    /* The backend's; see k8s/backend/backend_work.c. */
    struct wp_lease_note *lease; /* Owned; what the core told of; or NULL. */
    /* NULL when the entry is removed; see k8s/backend/backend_bind.c. */
    struct wp_sandbox_binding *binding;
    /* The same; see k8s/backend/backend_identity.c. */
    struct wp_sandbox_identity *identity;
    char bound_ip[INET6_ADDRSTRLEN]; /* Of the Pod that took it; "". */
    bool posted;                     /* The outcome of a POST is not known. */
    bool outdated;                   /* Ordered before all was counted anew. */
    bool held;     /* Its time is over, but no node takes it. */
    bool lost;     /* The core was told so. */
    bool adopted;  /* It was seen out of its pool, as ours. */
    bool spoilt;   /* It took a part of a binding only. */
    bool taken;    /* Another controller has it: it is not ours to delete. */
    bool unwanted; /* The core wants it destroyed. */
};

struct wp_sandbox_refs; /* Opaque. */

/* For slots with an index below max. NULL when memory lacks. */
struct wp_sandbox_refs *wp_sandbox_refs_create(uint32_t max);
void wp_sandbox_refs_destroy(struct wp_sandbox_refs *refs); /* NULL is fine. */
/* A copy of given. NULL when max are there, or one of that name or ref is. */
struct wp_sandbox_ref *wp_sandbox_refs_add(struct wp_sandbox_refs *refs,
                                           const struct wp_sandbox_ref *given);
struct wp_sandbox_ref *wp_sandbox_refs_find(struct wp_sandbox_refs *refs,
                                            const char *ns, const char *name);
/* NULL also when the slot's generation is another. */
struct wp_sandbox_ref *wp_sandbox_refs_find_ref(struct wp_sandbox_refs *refs,
                                                struct wp_slot_ref ref);
/* Frees it, with its lease. */
void wp_sandbox_refs_remove(struct wp_sandbox_refs *refs,
                            struct wp_sandbox_ref *entry);
uint32_t wp_sandbox_refs_count(const struct wp_sandbox_refs *refs);
/* All of them, in no order; each must add and remove none. */
void wp_sandbox_refs_walk(struct wp_sandbox_refs *refs,
                          void (*each)(void *ctx, struct wp_sandbox_ref *entry),
                          void *ctx);

/* The 16 bytes by which the core knows the object; false when the annotation is
 * malformed and the uid is no UUID. */
WP_MUST_CHECK bool wp_sandbox_core_uid(const struct wp_object *sandbox,
                                       uint8_t out[WP_UID_LEN]);

#endif
