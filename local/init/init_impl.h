/* local/init/init_impl.h - what the parts of warmpool-init share; private to
 * them. One thread.
 *
 * init.c        process 1: its start, its events, and one program after the
 *               other
 * run.c         starting a program
 * output.c      what it prints, and the words about its end
 * exec_probe.c  probing: a program first, then the port
 * bring.c       what a claim brings
 * idle.c        whether anybody uses the sandbox
 * tell.c        what the daemon is told */
#ifndef WP_LOCAL_INIT_INIT_IMPL_H
#define WP_LOCAL_INIT_INIT_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "local/control.h"
#include "local/init/bridge.h"
#include "local/init/inner_probe.h"
#include "local/init/options.h"
#include "local/init/programs.h"
#include "proto/checkout/unpack.h"
#include "proto/parcel/bind.h"
#include "local/watch.h"
#include "pool/base/compiler.h"

enum {
    WP_INIT_TAIL_BYTES = 160, /* Of a program's output, for its obituary. */
    WP_INIT_FINGERPRINT_MAX = 17,
};

/* When somebody used the sandbox, as far as it is known. */
struct wp_idle {
    int64_t active_us; /* The last time. */
    int64_t looked_us; /* 0: never. */
    uint64_t ticks;    /* Of processor, all processes', at that look. */
};

/* A parcel, from PARCEL or BIND. */
struct wp_taken {
    char fingerprint[WP_INIT_FINGERPRINT_MAX]; /* "": none was taken. */
    bool whole;
    struct wp_bind_command command; /* Until BIND. */
    char why[WP_BIND_WHY_MAX];      /* Not whole: what is missing. */
};

struct wp_init {
    struct wp_init_options options;
    int control_fd; /* -1: no daemon is there. */
    int rejoin_fd;  /* Where the next one connects; -1: none will. */
    int egress_fd;  /* Listens for the egress proxy; -1: there is none. */
    int epoll_fd;
    int signal_fd;
    int output_fd;
    bool outlive; /* The daemon said KEEP. */
    bool opened;  /* OPEN was sent. */
    bool asked;   /* The daemon waits for a probe's outcome. */
    int64_t retry_us;
    int64_t wake_us; /* When wp_init_probe_due is; INT64_MAX: never. */
    struct wp_programs programs;
    size_t inits_done;
    struct wp_program command;
    pid_t child;       /* The init container that runs, or the command. */
    pid_t probe_child; /* The probe's program; 0: it does not run. */
    bool is_bound;
    char untaken[WP_UNPACK_WHY_MAX]; /* The tree that could not be put. */
    struct wp_taken taken;
    struct wp_program brought; /* The command that a claim brings. */
    struct wp_watch control_watch;
    struct wp_watch rejoin_watch;
    struct wp_watch signal_watch;
    struct wp_watch output_watch;
    struct wp_idle idle;
    struct wp_inner_probe probe;
    struct wp_bridge bridge;
    char tail[WP_INIT_TAIL_BYTES];
    size_t tail_len;
};

static inline int64_t
wp_init_now_us(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* --- tell.c --- */

/* Says it to the daemon, if one is there. what: one of local/control.h's. */
void wp_init_tell(const struct wp_init *init, char what, const char *text);
/* The same, with a descriptor; text is short. */
void wp_init_tell_fd(const struct wp_init *init, char what, const char *text,
                     int fd);
/* Tells what failed, with errno's text, and ends the process, and the sandbox
 * with it. */
WP_NORETURN void wp_init_fail(const struct wp_init *init, const char *what);

/* --- run.c --- */

/* In a child, up to exec: only what is safe after fork. What the program prints
 * goes to output. When it cannot be run, an errno goes to report, and the child
 * ends. */
WP_NORETURN void wp_init_run_program(const struct wp_init *init,
                                     const struct wp_program *program,
                                     int output, int report);
/* Waits until a child runs its program. 0, or the errno that came by report,
 * which is closed here. Out of memory, the program goes before its init, who
 * tells of it. */
int wp_init_await_program(pid_t pid, int report);
/* Starts an init container or the command, as init->child, and watches its
 * output. Ends the process when it cannot. */
void wp_init_start_program(struct wp_init *init,
                           const struct wp_program *program);

/* --- output.c --- */

/* Reads what there is, at most rounds times, and keeps the last of it. */
void wp_init_drain_output(struct wp_init *init, int rounds);
/* Appends to text how the program ended, with its last words. */
void wp_init_print_end(struct wp_init *init, int status,
                       char text[WP_CONTROL_MAX]);

/* --- exec_probe.c --- */

bool wp_init_is_probing(const struct wp_init *init);
/* A program first, where the template has one; then the port. None must be
 * running. */
void wp_init_start_probe(struct wp_init *init);
/* init->probe.done: tells the daemon, or has it tried again while nothing has
 * answered yet. */
void wp_init_probe_done(struct wp_inner_probe *probe, bool answered);
/* init->probe_child was reaped. */
void wp_init_exec_probe_ended(struct wp_init *init, int status);
/* init->wake_us has come: the probe that runs is given up, or the next one
 * starts. */
void wp_init_probe_due(struct wp_init *init);

/* --- idle.c --- */

/* Answers LOOK; text: what it says. */
void wp_init_look(struct wp_init *init, const char *text);

/* --- bring.c --- */

/* Takes the parcel of fd, which stays the caller's, unless one was taken
 * before. wp_init_bind tells of how it went. */
void wp_init_take_parcel(struct wp_init *init, const char *fingerprint, int fd);
/* The same; then does what is left, and tells the daemon. Ends the process when
 * it could not take all. */
void wp_init_bind(struct wp_init *init, const char *fingerprint, int fd);
/* Puts the tree image of fd, which stays the caller's, into the workspace,
 * unless a binding is there. text: what the message TREE says. */
void wp_init_take_tree(struct wp_init *init, const char *text, int fd);
/* Takes the sandbox's identity, in place of the one before. */
void wp_init_identify(const struct wp_init *init, const char *token,
                      size_t len);

#endif
