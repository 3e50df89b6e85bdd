#include "local/fetch/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "local/fetch/cache_sweep.h"
#include "local/fetch/checkout.h"
#include "local/fetch/credential.h"
#include "proto/checkout/fetch_report.h"
#include "proto/sockets/passing.h"

bool
wp_fetch_report(int fd, char what, const char *text, int passed)
{
    char message[WP_FETCH_REPORT_MAX];
    int n = snprintf(message, sizeof message, "%c%s", what, text);
    size_t len = n < (int)sizeof message ? (size_t)n : sizeof message - 1;

    return wp_passing_send(fd, message, len, passed,
                           MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

int
wp_fetch_checkout(const char *url, const char *ref, uint64_t bytes_max)
{
    struct wp_checkout it = {.url = url, .ref = ref, .bytes_max = bytes_max};
    bool ok;

    it.config_fd = wp_credential_open(WP_FETCH_CREDENTIAL_FD);
    if (it.config_fd < 0) {
        (void)wp_fetch_report(WP_FETCH_REPORT_FD, WP_FETCH_FAILED,
                              "its password cannot be had", -1);
        return EXIT_FAILURE;
    }
    ok = wp_checkout(&it);
    ok = ok ? wp_fetch_report(WP_FETCH_REPORT_FD,
                              it.made ? WP_FETCH_MADE : WP_FETCH_KEPT,
                              it.commit, it.fd)
            : wp_fetch_report(WP_FETCH_REPORT_FD, WP_FETCH_FAILED, it.why, -1);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

int
wp_fetch_sweep(uint64_t bytes_max, int64_t age_s)
{
    bool ok = wp_cache_sweep(bytes_max, age_s);

    (void)wp_fetch_report(WP_FETCH_REPORT_FD,
                          ok ? WP_FETCH_SWEPT : WP_FETCH_FAILED, "", -1);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
