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
#include <sys/socket.h>
#include <unistd.h>

#include "local/fetch/cache_sweep.h"
#include "local/fetch/checkout.h"
#include "local/fetch/credential.h"
#include "local/fetch/serve.h"
#include "proto/checkout/fetch_report.h"
#include "proto/sockets/passing.h"
#include "pool/base/str.h"

enum {
    EXIT_USAGE = 2,
};

/* fd: comes along; -1: none. */
static bool
report(char what, const char *text, int fd)
{
    char message[WP_FETCH_REPORT_MAX];
    int n = snprintf(message, sizeof message, "%c%s", what, text);
    size_t len = n < (int)sizeof message ? (size_t)n : sizeof message - 1;

    return wp_passing_send(WP_FETCH_REPORT_FD, message, len, fd,
                           MSG_NOSIGNAL) >= 0;
}

static int
checkout(const char *url, const char *ref, uint64_t bytes)
{
    struct wp_checkout it = {.url = url, .ref = ref, .bytes_max = bytes};
    bool ok;

    it.config_fd = wp_credential_open(WP_FETCH_CREDENTIAL_FD);
    if (it.config_fd < 0) {
        (void)report(WP_FETCH_FAILED, "its password cannot be had", -1);
        return EXIT_FAILURE;
    }
    ok = wp_checkout(&it);
    ok = ok ? report(it.made ? WP_FETCH_MADE : WP_FETCH_KEPT, it.commit, it.fd)
            : report(WP_FETCH_FAILED, it.why, -1);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int
sweep(uint64_t bytes, int64_t seconds)
{
    bool ok = wp_cache_sweep(bytes, seconds);

    (void)report(ok ? WP_FETCH_SWEPT : WP_FETCH_FAILED, "", -1);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

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
        return checkout(argv[2], argv[3], bytes);
    }
    if (argc == 4 && strcmp(argv[1], "sweep") == 0 &&
        wp_str_to_u64(wp_str_from(argv[2]), &bytes) &&
        wp_str_to_u64(wp_str_from(argv[3]), &seconds) && seconds <= INT32_MAX) {
        return sweep(bytes, (int64_t)seconds);
    }
    if (argc == 4 && strcmp(argv[1], "serve") == 0) {
        return wp_fetch_serve(argv[2], argv[3],
                              &(struct wp_fetch_serve){checkout, sweep});
    }
    (void)fputs("Usage: warmpool-fetch checkout URL REF BYTES\n"
                "       warmpool-fetch sweep BYTES SECONDS\n"
                "       warmpool-fetch serve SOCKET CACHE\n",
                stderr);
    return EXIT_USAGE;
}
