/* allocator/ctl/commands.h - warmpoolctl's commands and the table of them. Only
 * the table and main know them all. */
#ifndef WP_ALLOCATOR_CTL_COMMANDS_H
#define WP_ALLOCATOR_CTL_COMMANDS_H

#include "allocator/ctl/ctl.h"

/* Ends with a name of NULL. */
extern const struct wp_ctl_command wp_ctl_commands[];

/* Each returns the exit code. */
int wp_cmd_claim(struct wp_ctl *ctl);
int wp_cmd_release(struct wp_ctl *ctl);
int wp_cmd_renew(struct wp_ctl *ctl);
int wp_cmd_get(struct wp_ctl *ctl);
int wp_cmd_list(struct wp_ctl *ctl);
int wp_cmd_exec(struct wp_ctl *ctl);
int wp_cmd_cp(struct wp_ctl *ctl);
int wp_cmd_pools(struct wp_ctl *ctl);
int wp_cmd_scale(struct wp_ctl *ctl);
int wp_cmd_set(struct wp_ctl *ctl);
int wp_cmd_explain(struct wp_ctl *ctl);
int wp_cmd_reserve(struct wp_ctl *ctl);
int wp_cmd_unreserve(struct wp_ctl *ctl);
int wp_cmd_tenants(struct wp_ctl *ctl);
int wp_cmd_trust(struct wp_ctl *ctl);
int wp_cmd_watch(struct wp_ctl *ctl);
int wp_cmd_create(struct wp_ctl *ctl);
int wp_cmd_delete(struct wp_ctl *ctl);
int wp_cmd_drain(struct wp_ctl *ctl);
int wp_cmd_completion(struct wp_ctl *ctl);
int wp_cmd_advise(struct wp_ctl *ctl);
int wp_cmd_version(struct wp_ctl *ctl);

/* cmd_pools.c: as the output format asks; JSON in many lines or in one. */
void wp_print_pools(const struct wp_ctl *ctl, const struct wp_wire_pools *pools,
                    bool pretty);

/* help.c: the line "Usage: ..."; and of one command usage, what it does,
 * options, examples. */
void wp_help_usage(const struct wp_ctl_command *command, FILE *out);
void wp_help_command(const struct wp_ctl_command *command, FILE *out);

#endif
