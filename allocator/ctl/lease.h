/* allocator/ctl/lease.h - from a claim's id to its lease, for the commands that
 * use one. */
#ifndef WP_ALLOCATOR_CTL_LEASE_H
#define WP_ALLOCATOR_CTL_LEASE_H

#include <jansson.h>

#include "allocator/ctl/ctl.h"
#include "allocator/ctl/token_store.h"

/* The token of a claim: --token, --token-file, or the remembered one. err says
 * what to do when there is none (FAILED_PRECONDITION). */
enum wp_status wp_ctl_find_token(const struct wp_ctl *ctl, const char *claim_id,
                                 struct wp_token_record *out,
                                 struct wp_err *err);

/* The sandbox a claim holds, in out->sandbox, and a value for "Authorization:
 * Bearer" in bearer ("" when there is none: a Unix socket's peer may do
 * without). Asks the daemon when it is not remembered. */
enum wp_status wp_ctl_find_sandbox(struct wp_ctl *ctl, const char *claim_id,
                                   struct wp_token_record *out,
                                   char bearer[2 * WP_TOKEN_LEN + 1],
                                   struct wp_err *err);

/* Puts the daemon's account of the claim into err, when that is why its sandbox
 * could not be used: it is not held any more, or its sandbox was lost. */
void wp_ctl_explain(struct wp_ctl *ctl, const char *claim_id,
                    struct wp_err *err);

/* The lease as JSON with stable names; new reference. */
json_t *wp_ctl_lease_json(struct wp_str claim_id, const struct wp_grant *grant,
                          bool replayed);
/* The same of what Get and List tell. */
json_t *wp_ctl_claim_json(const struct wp_claim_info *info);
/* "29m12s" until a wall-clock time, or "ended"; returns out. */
const char *wp_ctl_left(int64_t deadline_wall_ms, char out[32]);
/* Unix milliseconds as RFC 3339; new reference. */
json_t *wp_ctl_time_json(int64_t wall_ms);

#endif
