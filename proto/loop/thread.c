#include "proto/loop/thread.h"

#include <signal.h>

int
wp_thread_start(pthread_t *thread, void *(*run)(void *ctx), void *ctx)
{
    sigset_t all;
    sigset_t before;
    int error;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, NULL, run, ctx);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
