/* tests/unit/local/sandbox/sandbox_rig.h - one sandbox, and a journal of all that
 * a file about it does: each call to another file, to the system or to the loop
 * is one line, and nothing real happens. Descriptors are numbers; time stands
 * still. */
#ifndef WP_TESTS_UNIT_LOCAL_SANDBOX_SANDBOX_RIG_H
#define WP_TESTS_UNIT_LOCAL_SANDBOX_SANDBOX_RIG_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "local/sandbox/sandbox_impl.h"
#include "tests/support/base/golden.h"

enum {
    FD_FIRST = 1000,
    FD_CONTROL = FD_FIRST,
    FD_INNER,
    FD_OUTER,
    FD_STDERR,
    FD_BRIDGE,
    FD_DOOR,
    FD_PASSED,
    FD_PASSED_TOO,
    FD_END,
    RIG_PIECES = 12,
};

/* That one is 0, as where the daemon began without a standard input; 0: none
 * is. The journals are the same. */
extern int rig_zero;

static inline int
rig_fd(int fd)
{
    return fd == rig_zero ? 0 : fd;
}

#define RIG_CONTROL rig_fd(FD_CONTROL)
#define RIG_INNER rig_fd(FD_INNER)
#define RIG_OUTER rig_fd(FD_OUTER)
#define RIG_STDERR rig_fd(FD_STDERR)
#define RIG_BRIDGE rig_fd(FD_BRIDGE)
#define RIG_DOOR rig_fd(FD_DOOR)
#define RIG_PASSED rig_fd(FD_PASSED)
#define RIG_PASSED_TOO rig_fd(FD_PASSED_TOO)

/* What is read next, from whichever descriptor. */
struct rig_piece {
    const char *bytes;
    size_t len;
    int error; /* Nothing comes; not with len. */
    int pid;   /* Of the sender's credentials; 0: they do not come. */
    int fds;   /* That come along. */
    bool fds_first;
};

struct rig {
    struct golden seen;
    struct wp_local local;
    struct wp_local_template lt;
    struct wp_template tmpl;
    struct wp_cgroups groups;
    struct wp_sandbox sandbox;
    int64_t now_ns;
    int64_t wall_ns;
    struct rig_piece pieces[RIG_PIECES];
    size_t pieces_len;
    size_t pieces_at;
    /* Answers. */
    ssize_t send_answer; /* INT_MAX: all is sent. */
    int socket_answer;
    int connect_answer;
    int pidfd_answer;
    int poll_answer;
    int waitid_answer;
    siginfo_t info;
    int listens; /* -1: it cannot be asked. */
    uint64_t oom_kills;
    bool can_freeze;
    bool freezes;
    bool member_lacks;
    bool post_full;
    bool gone; /* It is not found any more. */
    enum wp_status record_answer;
    enum wp_status sign_answer;
    int64_t sign_until_ms;
    const char *token;
};

extern struct rig rig;

/* A sandbox in that state, with its init's descriptors open and no journal. */
void rig_reset(enum wp_sandbox_state state);
void rig_note(const char *fmt, ...) WP_PRINTF(1, 2);
/* What it is like now. */
void rig_dump(void);
/* Adds what is read next. */
void rig_piece(struct rig_piece piece);
/* The whole journal. */
void rig_compare(const char *name);

/* The tests with each of the descriptors as 0, and with none: what main is to
 * return. */
#define RIG_RUN(tests)                                                         \
    do {                                                                       \
        int rig_failed = cmocka_run_group_tests(tests, NULL, NULL);            \
                                                                               \
        for (rig_zero = FD_FIRST; rig_zero < FD_END; rig_zero++) {             \
            rig_failed += cmocka_run_group_tests(tests, NULL, NULL);           \
        }                                                                      \
        return rig_failed;                                                     \
    } while (0)

#endif
