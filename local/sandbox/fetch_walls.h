/* local/sandbox/fetch_walls.h - the walls around warmpool-fetch, as bubblewrap
 * is told of them. Pure but for a look at the machine's folders; any thread. */
#ifndef WP_LOCAL_SANDBOX_FETCH_WALLS_H
#define WP_LOCAL_SANDBOX_FETCH_WALLS_H

#include <stddef.h>

enum {
    WP_FETCH_ARGS_MAX = 112,
};

/* Arguments, ended by NULL; all 0 at first. */
struct wp_fetch_args {
    const char *word[WP_FETCH_ARGS_MAX];
    size_t n;
    char seccomp_fd[12];
};

/* Appends three words, which outlive args. */
void wp_fetch_args_add(struct wp_fetch_args *args, const char *a, const char *b,
                       const char *c);
/* bubblewrap, and all but the command: program is shown as /warmpool-fetch, and
 * the folder cache as WP_FETCH_CACHE_DIR, where it begins. seccomp_fd: a filter
 * is to be read there; -1: none. */
void wp_fetch_walls(struct wp_fetch_args *args, const char *program,
                    const char *cache, int seccomp_fd);

#endif
