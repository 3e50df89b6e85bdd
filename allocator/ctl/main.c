/* warmpoolctl - the command line of warmpool. */
#include "allocator/ctl/commands.h"
#include "allocator/ctl/run.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A descriptor of ours must not become a standard stream that somebody closed:
 * it would be read as input, or written to. Input is then at its end; what is
 * written fails, so that no output is lost unseen.
 *
 * Before the constructors of libraries, which open descriptors, and so before
 * sanitizers: system calls only. */
__attribute__((no_sanitize("address", "undefined", "thread"))) static void
open_missing_streams(void)
{
    long fd;

    do {
        fd = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY | O_NOCTTY);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO) {
        (void)syscall(SYS_close, fd);
    }
}

__attribute__((section(".preinit_array"),
               used)) static void (*const before_libraries)(void) =
    open_missing_streams;

int
main(int argc, char **argv)
{
    return wp_ctl_main(wp_ctl_commands, argc, argv, stdout, stderr);
}
