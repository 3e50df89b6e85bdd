/* allocator/daemon/pools.h - the core, configured by the settings, and what it
 * says to the log. Private to the daemon. */
#ifndef WP_ALLOCATOR_DAEMON_POOLS_H
#define WP_ALLOCATOR_DAEMON_POOLS_H

#include "allocator/daemon/core.h"
#include "local/manifest/manifest.h"

/* Makes core->pools, with the manifest's pools. *key_made: the token key is
 * new, so no earlier token verifies. */
enum wp_status wp_daemon_pools_create(struct wp_daemon_core *core,
                                      const struct wp_manifest *manifest,
                                      struct wp_backend backend,
                                      struct wp_lease_store store,
                                      bool *key_made, struct wp_err *err);
/* The setting tenant_quotas is what holds from here on. Control thread, or
 * before it runs. */
enum wp_status wp_daemon_set_quotas(struct wp_pools *pools,
                                    const struct wp_conf *conf,
                                    struct wp_err *err);
/* What the scalers have learned is in the lease store, as far as it takes it
 * soon. After wp_pools_stop or wp_pools_leave; any thread but control's. */
bool wp_daemon_learned_saved(struct wp_daemon_core *core);

#endif
