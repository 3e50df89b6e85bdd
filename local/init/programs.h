/* local/init/programs.h - what warmpool-init runs beside the template's
 * command: init containers before it, and a probe that asks it.
 *
 * They come through a descriptor, since their environment is nobody's business
 * and every user can read a command line; local/control.h says how. */
#ifndef WP_LOCAL_INIT_PROGRAMS_H
#define WP_LOCAL_INIT_PROGRAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "local/control.h"

enum {
    WP_PROGRAMS_BYTES_MAX = 64 << 20,
};

struct wp_program {
    const char *name;
    const char *dir; /* "": where warmpool-init is. */
    char **argv;     /* Ends with NULL. */
    char **env;      /* The same; NULL: warmpool-init's own. */
    uint32_t timeout_s;
};

struct wp_programs {
    struct wp_program inits[WP_CONTROL_INITS_MAX];
    size_t inits_len;
    struct wp_program probe; /* argv NULL: none. */
};

/* Reads them; what they point to lasts as long as the process. False: they make
 * no sense, or memory lacks. */
bool wp_programs_read(int fd, struct wp_programs *out);

#endif
