/* local/sandbox/sandbox_egress.c - a claim narrows what its sandbox may reach.
 *
 * It is written down first, so that no later daemon tells the proxy of more;
 * then the proxy is told, and has to say that it knows: a claim is answered
 * when nothing wider is in force. It ends with the sandbox. */
#include <stdio.h>
#include <string.h>

#include "local/sandbox/sandbox_impl.h"
#include "pool/egress/policy.h"

enum wp_status
wp_local_narrows(void *self, struct wp_str policy, struct wp_str by,
                 struct wp_err *err)
{
    const struct wp_local *local = self;
    struct wp_egress_policy out;

    return wp_egress_policy_parse_narrowed(
        policy, by, wp_str_from(local->config.egress_packages), &out, err);
}

enum wp_status
wp_sandbox_narrow(struct wp_sandbox *sandbox, const char *by,
                  struct wp_err *err)
{
    struct wp_local *local = sandbox->local;
    char before[WP_EGRESS_TEXT_MAX + 1];
    /* Not always that of the pool as it is now. */
    enum wp_status status = wp_local_narrows(
        local, wp_str_from(sandbox->egress), wp_str_from(by), err);

    if (status != WP_OK) {
        return wp_err_wrap(err, "egress");
    }
    if (sandbox->egress[0] == '\0') {
        return WP_OK;
    }
    if (strcmp(sandbox->narrowed, by) != 0) {
        memcpy(before, sandbox->narrowed, sizeof before);
        (void)snprintf(sandbox->narrowed, sizeof sandbox->narrowed, "%s", by);
        status = wp_sandbox_record_claimed(sandbox, err);
        if (status != WP_OK) {
            /* A repeat has to be written down, too. */
            memcpy(sandbox->narrowed, before, sizeof before);
            return wp_err_wrap(err, "egress");
        }
    }
    /* Without a member nobody was told of it yet. */
    return sandbox->egress_member == NULL ||
                   wp_egress_proxy_narrow(local->egress, sandbox->egress_member,
                                          by)
               ? WP_OK
               : WP_PENDING;
}
