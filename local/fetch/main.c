/* warmpool-fetch: what the daemon leaves to a process without rights.
 *
 *   warmpool-fetch checkout URL REF BYTES   a repository's tree image
 *   warmpool-fetch sweep BYTES SECONDS      the cache kept within bounds
 *   warmpool-fetch serve SOCKET CACHE       both, for who asks at a socket
 *
 * The daemon starts the first two behind walls of its own, where the cache is
 * the only thing that they can write. They report on descriptor 3; what the
 * remote asks for comes on descriptor 4 (proto/checkout/fetch_report.h). In a
 * cluster the third runs in a container beside the daemon's. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "local/fetch/run.h"
#include "local/fetch/serve.h"
#include "pool/base/file.h"
#include "pool/base/str.h"

enum {
    EXIT_USAGE = 2,
};

WP_OPENS_STREAMS;

int
main(int argc, char **argv)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    uint64_t bytes;
    uint64_t seconds;

    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigaction(SIGXFSZ, &ignore, NULL);
    if (argc == 5 && strcmp(argv[1], "checkout") == 0 &&
        wp_str_to_u64(wp_str_from(argv[4]), &bytes)) {
        return wp_fetch_checkout(argv[2], argv[3], bytes);
    }
    if (argc == 4 && strcmp(argv[1], "sweep") == 0 &&
        wp_str_to_u64(wp_str_from(argv[2]), &bytes) &&
        wp_str_to_u64(wp_str_from(argv[3]), &seconds) && seconds <= INT32_MAX) {
        return wp_fetch_sweep(bytes, (int64_t)seconds);
    }
    if (argc == 4 && strcmp(argv[1], "serve") == 0) {
        return wp_fetch_serve(argv[2], argv[3]);
    }
    (void)fputs("Usage: warmpool-fetch checkout URL REF BYTES\n"
                "       warmpool-fetch sweep BYTES SECONDS\n"
                "       warmpool-fetch serve SOCKET CACHE\n",
                stderr);
    return EXIT_USAGE;
}
