#include "bench/load/signals.h"

#include <signal.h>
#include <time.h>

#include "pool/base/clock.h"

static void
fill(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

void
wp_signals_block(void)
{
    sigset_t set;

    fill(&set);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
}

int
wp_signals_take(int64_t wait_ns)
{
    const struct timespec wait = {wait_ns / WP_NS_PER_S, wait_ns % WP_NS_PER_S};
    sigset_t set;
    int number;

    fill(&set);
    number = sigtimedwait(&set, NULL, &wait);
    return number > 0 ? number : 0;
}

bool
wp_signals_pending(void)
{
    sigset_t set;

    return sigpending(&set) == 0 &&
           (sigismember(&set, SIGINT) == 1 || sigismember(&set, SIGTERM) == 1);
}
