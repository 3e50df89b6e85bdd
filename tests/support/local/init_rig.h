/* tests/support/local/init_rig.h - warmpool-init as a plain process, and the
 * ends of it that a daemon holds. Its program has no walls here
 * (--confines-itself). What fails fails the test. */
#ifndef WP_TESTS_SUPPORT_LOCAL_INIT_RIG_H
#define WP_TESTS_SUPPORT_LOCAL_INIT_RIG_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>

/* A script that lasts as long as the rig. */
#define INIT_RIG_LASTING "exec cat \"$1\""

/* One init, and what the daemon would hold. */
struct init_rig {
    char dir[64];
    char fifo[80]; /* `cat` of it lasts as long as the rig. */
    int fifo_fd;
    int control;
    int peer; /* init's end of control, while it starts. */
    int outer;
    int rejoin;
    int programs; /* -1: none. */
    struct sockaddr_un rejoin_address;
    int inner; /* The program's port; the test answers there. */
    in_port_t port;
    bool bound; /* Claims may bring something, into dir. */
    pid_t pid;
};

void init_rig_init(struct init_rig *rig);
/* Starts it with that program, and the script, when there is one, after -c; http:
 * the path that is probed, or NULL. */
void init_rig_start(struct init_rig *rig, const char *http, const char *program,
                    const char *script);
/* init has ended. */
void init_rig_fini(struct init_rig *rig);

/* The next message, all of it; text: NULL for any. */
void init_rig_expect(int fd, char what, const char *text);
void init_rig_say(int fd, char what);
/* Waits for its end, a minute at most. */
int init_rig_exit_status(const struct init_rig *rig);
/* In the rig's folder; good until the next call. */
const char *init_rig_path(const struct init_rig *rig, const char *name);
/* Reads of the socket, and accepts, wait a minute at most. */
void init_rig_be_patient(int fd);

#endif
