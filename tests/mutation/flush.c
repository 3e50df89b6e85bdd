/* Counts are written when a process calls exit; some of ours end by _exit, and
 * daemons are killed. Linked into what is built for coverage
 * (-Wl,--wrap=_exit). */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

void __gcov_dump(void);
void __gcov_reset(void);
void __real__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status) __attribute__((noreturn));
extern char *program_invocation_short_name;

void
__wrap__exit(int status)
{
    __gcov_dump();
    __real__exit(status);
}

/* A file of counts is added to, so what was written must not be written
 * again. */
static void *
write_now_and_then(void *nothing)
{
    for (;;) {
        (void)usleep(300000);
        __gcov_dump();
        __gcov_reset();
    }
    return nothing;
}

/* Only what has threads anyway. */
static void __attribute__((constructor)) begin(void)
{
    pthread_t thread;

    if (strcmp(program_invocation_short_name, "warmpoold") == 0) {
        (void)pthread_create(&thread, NULL, write_now_and_then, NULL);
    }
}
