/* tests/chaos/check_main.c - chaos_check HISTORY...: judges a run; exits with 0
 * when nothing was breached. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/chaos/checker.h"

static bool
add_file(struct wp_checker *checker, const char *path)
{
    const struct wp_chaos_event *events;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) != 0) {
        (void)fprintf(stderr, "chaos_check: %s: %s\n", path, strerror(errno));
        return false;
    }
    if (st.st_size > 0) {
        events = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (events == MAP_FAILED) {
            (void)fprintf(stderr, "chaos_check: %s: %s\n", path,
                          strerror(errno));
            (void)close(fd);
            return false;
        }
        wp_checker_add(checker, events, (size_t)st.st_size / sizeof *events);
    }
    (void)close(fd); /* The process ends soon: what is mapped stays. */
    return true;
}

static void
print(const struct wp_chaos_report *report)
{
    (void)printf("events %" PRIu64 "\nclaims %" PRIu64 "\ngranted %" PRIu64
                 "\nsandboxes %" PRIu64 "\ncalls %" PRIu64
                 "\nunanswered %" PRIu64 "\nreplays %" PRIu64
                 "\noutstayed %" PRIu64 "\nstale %" PRIu64 "\nleft %" PRIu64
                 "\n",
                 report->events, report->claims, report->claims_granted,
                 report->leases, report->calls, report->unanswered,
                 report->replays, report->expired, report->stale, report->left);
    for (int i = 0; i <= 16; i++) {
        if (report->by_status[i] > 0) {
            (void)printf("status_%d %" PRIu64 "\n", i, report->by_status[i]);
        }
    }
    (void)printf("breaches %" PRIu64 "\n", wp_chaos_breaches(report));
    for (int i = 0; i < WP_BREACH_COUNT; i++) {
        if (report->breaches[i] > 0) {
            (void)printf("BREACH %" PRIu64 " %s\n", report->breaches[i],
                         wp_chaos_breach_name((enum wp_chaos_breach)i));
        }
    }
}

int
main(int argc, char **argv)
{
    struct wp_checker *checker = wp_checker_create(stderr);
    struct wp_chaos_report report;

    if (checker == NULL || argc < 2) {
        (void)fputs("usage: chaos_check HISTORY...\n", stderr);
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        if (!add_file(checker, argv[i])) {
            return 2;
        }
    }
    wp_checker_report(checker, &report);
    wp_checker_destroy(checker);
    print(&report);
    return wp_chaos_breaches(&report) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
