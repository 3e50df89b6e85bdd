#include "local/init/init_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    WORDS_BYTES = 64,
    RUNSC_FAILED = 128, /* Its status when it could not run the program. */
};

/* Keeps the last bytes of what the program prints, as one printable line. */
static void
keep_tail(struct wp_init *init, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = bytes[i];

        if (init->tail_len == sizeof init->tail) {
            memmove(init->tail, init->tail + sizeof init->tail / 2,
                    sizeof init->tail / 2);
            init->tail_len = sizeof init->tail / 2;
        }
        if (c < ' ' || c > '~') {
            c = ' ';
        }
        if (c != ' ' ||
            (init->tail_len > 0 && init->tail[init->tail_len - 1] != ' ')) {
            init->tail[init->tail_len++] = c;
        }
    }
}

void
wp_init_drain_output(struct wp_init *init, int rounds)
{
    char bytes[4096];

    while (rounds-- > 0) {
        ssize_t n = read(init->output_fd, bytes, sizeof bytes);

        if (n <= 0) {
            if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
                (void)epoll_ctl(init->epoll_fd, EPOLL_CTL_DEL, init->output_fd,
                                NULL);
            }
            return;
        }
        /* Only the end can matter. */
        if ((size_t)n > WP_INIT_TAIL_BYTES) {
            keep_tail(init, bytes + n - WP_INIT_TAIL_BYTES, WP_INIT_TAIL_BYTES);
        } else {
            keep_tail(init, bytes, (size_t)n);
        }
    }
}

/* Where the last words begin. runsc tells what failed after a long row of what
 * it was doing, and a reason is short. */
static size_t
last_words(const struct wp_init *init, int status)
{
    size_t at;

    if (!init->options.confines_itself || !WIFEXITED(status) ||
        WEXITSTATUS(status) != RUNSC_FAILED || init->tail_len <= WORDS_BYTES) {
        return 0;
    }
    at = init->tail_len - WORDS_BYTES;
    while (at < init->tail_len && init->tail[at - 1] != ' ') {
        at++;
    }
    return at < init->tail_len ? at : init->tail_len - WORDS_BYTES;
}

void
wp_init_print_end(struct wp_init *init, int status, char text[WP_CONTROL_MAX])
{
    size_t n = strlen(text);

    if (WIFSIGNALED(status)) {
        n += (size_t)snprintf(text + n, WP_CONTROL_MAX - n, "killed by SIG%s",
                              sigabbrev_np(WTERMSIG(status)) != NULL
                                  ? sigabbrev_np(WTERMSIG(status))
                                  : "?");
    } else {
        n += (size_t)snprintf(text + n, WP_CONTROL_MAX - n,
                              "exited with status %d", WEXITSTATUS(status));
    }
    if (init->tail_len > 0 && init->tail[init->tail_len - 1] == ' ') {
        init->tail_len--;
    }
    if (init->tail_len > 0) {
        size_t at = last_words(init, status);

        (void)snprintf(text + n, WP_CONTROL_MAX - n, ": %.*s",
                       (int)(init->tail_len - at), init->tail + at);
    }
}
