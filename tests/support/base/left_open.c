/* tests/support/base/left_open.c - linked to every test program: one that passed and
 * leaves a descriptor open fails, and says which; so does one that closed the
 * standard input, output or errors, which are not its own. What was open when it
 * began is not its own either, nor is what a child that it forked leaves. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/base/left_open.h"

enum {
    DESCRIPTORS = 4096, /* None above is looked at. */
    WAITS = 200, /* Of 10 ms: a library's thread may still be closing some. */
};

static bool inherited[DESCRIPTORS]; /* Or kept by a library. */
static bool given[STDERR_FILENO + 1];
static pid_t owner;

static bool
is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static int
left(void)
{
    int n = 0;

    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        n += is_open(fd) && !inherited[fd];
    }
    return n;
}

static void
tell(int fd)
{
    char path[32];
    char target[256];
    ssize_t len;

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    len = readlink(path, target, sizeof target);
    (void)fprintf(stderr, "left open: descriptor %d, %.*s\n", fd,
                  (int)(len > 0 ? len : 0), target);
}

void
wp_test_keeps_open(void)
{
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        inherited[fd] = is_open(fd);
    }
}

static bool
took_standard(void)
{
    bool any = false;

    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        if (given[fd] && !is_open(fd)) {
            (void)fprintf(stderr, "closed: descriptor %d\n", fd);
            any = true;
        }
    }
    return any;
}

static void
check(int status, void *ctx)
{
    (void)ctx;
    if (status != 0 || getpid() != owner) {
        return;
    }
    for (int i = 0; i < WAITS && left() > 0; i++) {
        (void)usleep(10 * 1000);
    }
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        if (is_open(fd) && !inherited[fd]) {
            tell(fd);
        }
    }
    if (left() > 0 || took_standard()) {
        _exit(1);
    }
}

__attribute__((constructor)) static void
begin(void)
{
    owner = getpid();
    for (int fd = 0; fd <= STDERR_FILENO; fd++) {
        given[fd] = is_open(fd);
    }
    wp_test_keeps_open();
    if (on_exit(check, NULL) != 0) {
        abort();
    }
}
