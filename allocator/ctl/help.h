/* allocator/ctl/help.h - warmpoolctl explains itself. */
#ifndef WP_ALLOCATOR_CTL_HELP_H
#define WP_ALLOCATOR_CTL_HELP_H

#include "allocator/ctl/ctl.h"

/* The line "Usage: ...". */
void wp_help_usage(const struct wp_ctl_command *command, FILE *out);
/* One command: usage, what it does, options, examples. */
void wp_help_command(const struct wp_ctl_command *command, FILE *out);

#endif
