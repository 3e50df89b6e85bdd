/* warmpoolctl - the command line of warmpool. */
#include "allocator/ctl/ctl.h"

int
main(int argc, char **argv)
{
    return wp_ctl_main(argc, argv, stdout, stderr);
}
