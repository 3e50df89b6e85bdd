/* k8s/controllers/claim/cache.h - what the claim controller remembers of each
 * SandboxClaim.
 *
 * Nothing in it has to survive: all of it can be found again in the objects and
 * in the core. One entry a name; a new object of that name begins anew. Loop
 * thread only. */
#ifndef WP_K8S_CONTROLLERS_CLAIM_CACHE_H
#define WP_K8S_CONTROLLERS_CLAIM_CACHE_H

#include "k8s/bind/identity.h"
#include "k8s/controllers/claim/ask.h"
#include "k8s/controllers/claim/states.h"
#include "k8s/objects/names.h"
#include "k8s/objects/object.h"
#include "pool/trace/tracer.h"

enum {
    WP_CLAIM_BROUGHT_MAX = 128, /* A uid, an address and a time. */
};

struct wp_claim_reconcile;

struct wp_claim_entry {
    struct wp_name_key key; /* First; it and uid lie behind the entry. */
    const char *uid;
    int64_t seen_mono_ns; /* When this replica first saw it. */
    int64_t seen_wall_ns;
    struct wp_claim_ask *ask; /* NULL: none. Owned. */
    struct wp_trace trace;    /* From then until it is Ready. */
    /* Which waits for the first-observed annotation; NULL. */
    struct wp_claim_reconcile *joins;
    /* Its Sandbox's metadata was brought up to these: of the claim, of the
     * template (wp_claim_reconcile_brings). */
    int64_t refreshed_generation;
    uint64_t refreshed_template;
    /* When its variables reached its Sandbox; "": not, as far as is known. */
    char brought[WP_CLAIM_BROUGHT_MAX];
    struct wp_identity
        identity; /* Of its Sandbox, if the claim asks for one. */
    /* These move by wp_claim_state_move only. */
    enum wp_claim_state observed;    /* A WRITE: first-observed. */
    enum wp_claim_state annotated;   /* A WRITE: what follows Ready. */
    enum wp_claim_state adoption;    /* A WRITE: a warm Sandbox's patch. */
    enum wp_claim_state creation;    /* A WRITE: a cold one's POST. */
    enum wp_claim_state first_ready; /* A FIRST_READY. */
    /* Facts, each of its own. */
    bool again;     /* Look again once its annotations are answered. */
    bool measured;  /* Its way to Ready has been counted. */
    bool in_doubt;  /* It may have adopted a Sandbox: not given up before that
                     * was read. */
    bool announced; /* A Sandbox's name was annotated with its adoption. */
};

struct wp_claim_cache; /* Opaque. */

struct wp_claim_cache *wp_claim_cache_create(void);
/* Asks must be gone. NULL is fine. */
void wp_claim_cache_destroy(struct wp_claim_cache *cache);
struct wp_claim_entry *wp_claim_cache_find(struct wp_claim_cache *cache,
                                           const char *ns, const char *name);
/* The claim's entry; a new one, zeroed, when there was none. One of an earlier
 * object of that name must have been removed. Never NULL. */
struct wp_claim_entry *wp_claim_cache_enter(struct wp_claim_cache *cache,
                                            const struct wp_object *claim);
void wp_claim_cache_remove(struct wp_claim_cache *cache,
                           struct wp_claim_entry *entry);
/* Is a reconcile handing it a Sandbox right now? */
bool wp_claim_entry_is_served(const struct wp_claim_entry *entry);
/* Drops what was asked for it, if anything. */
void wp_claim_entry_drop_ask(struct wp_claim_entry *entry);
/* each may remove nothing. */
void wp_claim_cache_walk(struct wp_claim_cache *cache,
                         void (*each)(void *ctx, struct wp_claim_entry *entry),
                         void *ctx);

#endif
