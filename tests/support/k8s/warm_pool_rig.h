/* tests/support/k8s/warm_pool_rig.h - the pool controller between a recorder's
 * small server and a core, on a clock that moves when told.
 *
 * Pool "default/p" of template "t", in the API server and in the core. In texts
 * ' stands for ". */
#ifndef WP_TESTS_SUPPORT_K8S_WARM_POOL_RIG_H
#define WP_TESTS_SUPPORT_K8S_WARM_POOL_RIG_H

#include "k8s/objects/names.h"
#include "k8s/controllers/pool/controller_impl.h"
#include "k8s/objects/sandbox_refs.h"
#include "tests/support/k8s/api_recorder.h"
#include "tests/support/pool/pool_rig.h"

/* How long one that is not Ready is waited for. */
#define WARM_POOL_GRACE_NS (300 * WP_NS_PER_S)

struct warm_pool_rig {
    struct wp_rig core;
    struct wp_api *api;
    struct wp_parts parts;
    struct wp_pool_controller *controller;
    char hash[WP_NAME_HASH_LEN + 1]; /* Of the pool's name. */
};

/* The server has nothing yet; the core has room, but nothing in it. Not active.
 * gc: what nobody owns any more is deleted. */
void warm_pool_rig_init(struct warm_pool_rig *rig, bool gc);
void warm_pool_rig_fini(struct warm_pool_rig *rig);
void warm_pool_rig_activate(struct warm_pool_rig *rig);
/* Whatever is due now, and what follows from it. */
void warm_pool_rig_settle(struct warm_pool_rig *rig);
void warm_pool_rig_advance(struct warm_pool_rig *rig, int64_t ns);

/* A text of JSON; valid until the next call. */
const char *warm_pool_rig_text(const char *format, ...) WP_PRINTF(1, 2);

/* Each is made or changed. */
void warm_pool_rig_put_template(struct warm_pool_rig *rig, const char *image);
void warm_pool_rig_put_pool(struct warm_pool_rig *rig, int replicas,
                            const char *strategy);

/* --- Sandboxes --- */

#define WARM_POOL_OWNED                                                        \
    "{'apiVersion': 'extensions.agents.x-k8s.io/v1beta1', "                    \
    "'kind': 'SandboxWarmPool', 'name': 'p', 'uid': 'pool-uid', "              \
    "'controller': true}"
#define WARM_POOL_CLAIMED                                                      \
    "{'apiVersion': 'extensions.agents.x-k8s.io/v1beta1', "                    \
    "'kind': 'SandboxClaim', 'name': 'x', 'uid': 'x', 'controller': true}"

struct warm_pool_sandbox {
    const char *name;
    const char *owners;  /* NULL: WARM_POOL_OWNED. */
    bool without_owners; /* There is no list of them, not even an empty one. */
    const char *image;   /* NULL: "a". */
    const char *launch;  /* NULL: "warm". */
    bool is_ready;
    bool unschedulable;
};

void warm_pool_rig_put_sandbox(struct warm_pool_rig *rig,
                               const struct warm_pool_sandbox *sandbox);
/* Makes it known to the core as well, as ready. */
struct wp_sandbox_ref *warm_pool_rig_know(struct warm_pool_rig *rig,
                                          const char *name,
                                          enum wp_sandbox_phase phase);
/* Both, as one that nobody has claimed. */
void warm_pool_rig_put_known(struct warm_pool_rig *rig,
                             const struct warm_pool_sandbox *sandbox);
/* What the server has; NULL. */
const json_t *warm_pool_rig_sandbox(struct warm_pool_rig *rig,
                                    const char *name);

/* --- What the controller did --- */

/* A number of the pool's status. */
json_int_t warm_pool_rig_status(struct warm_pool_rig *rig, const char *key);
uint32_t warm_pool_rig_status_writes(struct warm_pool_rig *rig);
uint32_t warm_pool_rig_sandbox_writes(struct warm_pool_rig *rig);

#endif
