/* local/init/options.h - what warmpool-init is started with. */
#ifndef WP_LOCAL_INIT_OPTIONS_H
#define WP_LOCAL_INIT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WP_INIT_WRITABLE_MAX = 40,
};

/* Texts are those of argv. */
struct wp_init_options {
    int listen_fd;
    int control_fd;
    int rejoin_fd;   /* -1: no other daemon will come. */
    int programs_fd; /* -1: there are none but the command. */
    uint16_t port;
    uint16_t egress_port; /* 0: nothing outside is reached. */
    const char *probe_path;
    uint32_t conns_max;
    uint32_t procs_max;
    bool confines_itself;  /* The program is one that makes its own walls. */
    const char *bound_dir; /* Where what a claim brings goes; NULL: nowhere. */
    const char *workspace;
    const char *writable[WP_INIT_WRITABLE_MAX];
    size_t writable_len;
    /* The same for init containers, in addition. */
    const char *prepared[WP_INIT_WRITABLE_MAX];
    size_t prepared_len;
};

/* Returns the command behind the options; ends the process with 2, after it has
 * said why, when they are not the daemon's. */
char **wp_init_options_parse(struct wp_init_options *options, int argc,
                             char **argv);

#endif
