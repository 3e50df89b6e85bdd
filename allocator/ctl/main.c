/* warmpoolctl - the command line of warmpool. */
#include "allocator/ctl/commands.h"
#include "allocator/ctl/run.h"
#include "pool/base/file.h"

WP_OPENS_STREAMS;

int
main(int argc, char **argv)
{
    return wp_ctl_main(wp_ctl_commands, argc, argv, stdout, stderr);
}
