/* local/sandbox/sandbox_table.c - a sandbox that is new, its socket, and how it
 * is found by its ref. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "local/sandbox/local_impl.h"
#include "pool/base/assert.h"

struct wp_sandbox *
wp_sandbox_make(struct wp_local *local)
{
    struct wp_sandbox *sandbox = calloc(1, sizeof *sandbox);

    if (sandbox != NULL) {
        sandbox->local = local;
        sandbox->groups = &local->cgroups;
        sandbox->host_user = UINT32_MAX;
        sandbox->outer_fd = sandbox->inner_fd = sandbox->control_fd = -1;
        sandbox->stderr_fd = sandbox->bridge_fd = sandbox->door_fd = -1;
        wp_list_init(&sandbox->node);
        wp_list_init(&sandbox->binds);
    }
    return sandbox;
}

bool
wp_local_endpoint(const struct wp_local *local, struct wp_str name,
                  char out[WP_ENDPOINT_MAX + 1])
{
    int n = snprintf(out, WP_ENDPOINT_MAX + 1, "unix:%s/%.*s/port.sock",
                     local->sandboxes_dir, WP_STR_ARG(name));

    return n > 0 && n <= WP_ENDPOINT_MAX;
}

void
wp_sandbox_index(struct wp_sandbox *sandbox)
{
    struct wp_local *local = sandbox->local;
    uint32_t index = sandbox->ref.index;

    if (index >= local->by_index_len) {
        uint32_t len = index < 64 ? 128 : index * 2;
        struct wp_sandbox **grown =
            realloc(local->by_index, len * sizeof(void *));

        /* A few bytes a slot, bounded by the pool's slots; without them no
         * report could ever be matched. */
        WP_ASSERT(grown != NULL);
        memset(grown + local->by_index_len, 0,
               (len - local->by_index_len) * sizeof(void *));
        local->by_index = grown;
        local->by_index_len = len;
    }
    /* The pool uses a slot again only after its on_destroyed. */
    WP_ASSERT(local->by_index[index] == NULL);
    local->by_index[index] = sandbox;
}

struct wp_sandbox *
wp_sandbox_find(const struct wp_local *local, struct wp_slot_ref ref)
{
    struct wp_sandbox *found =
        ref.index < local->by_index_len ? local->by_index[ref.index] : NULL;

    return found != NULL && wp_slot_ref_eq(found->ref, ref) ? found : NULL;
}
