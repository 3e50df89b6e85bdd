/* allocator/ctl/run.h - from the words of a command line to the command. */
#ifndef WP_ALLOCATOR_CTL_RUN_H
#define WP_ALLOCATOR_CTL_RUN_H

#include <stdio.h>

#include "allocator/ctl/ctl.h"

/* All of warmpoolctl with these commands, which end with a name of NULL;
 * returns the exit code. argv is reordered. */
int wp_ctl_main(const struct wp_ctl_command *commands, int argc, char **argv,
                FILE *out, FILE *errors);

#endif
