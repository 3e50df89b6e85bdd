/* tests/support/local/adopt_rig.h - sandboxes that outlive their daemon.
 *
 * The first daemon is a process of its own: the test program again, which comes
 * to an end as the test says. The next one is the test's process, on the same
 * state directory. */
#ifndef WP_TESTS_SUPPORT_LOCAL_ADOPT_RIG_H
#define WP_TESTS_SUPPORT_LOCAL_ADOPT_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "local/walls/cgroup.h"
#include "tests/support/local/local_rig.h"

/* --- The first daemon --- */

struct adopt_daemon {
    pid_t pid;
    int orders; /* Its standard input. */
    int news;   /* Its standard output. */
};

/* main's, when it has three arguments. Makes sandboxes, waits until some are
 * ready, says so, and goes on until it is killed or reads a byte: then it
 * leaves as for a restart. */
int adopt_daemon_main(char **argv);
/* Starts it on the rig's state directory, to make `count` sandboxes, and waits
 * until it says that `ready` of them are. */
struct adopt_daemon adopt_daemon_start(const struct local_rig *rig,
                                       const char *count, const char *ready);
/* The same in the group "first" of elsewhere; NULL: where the test is. */
struct adopt_daemon adopt_daemon_start_in(const struct wp_cgroups *elsewhere,
                                          const struct local_rig *rig,
                                          const char *count, const char *ready);
/* Waits for its end; the status, as waitpid has it. */
int adopt_daemon_end(struct adopt_daemon *daemon);
/* With SIGKILL. */
void adopt_daemon_kill(struct adopt_daemon *daemon);
/* For cmocka, after each test: ends what one that failed has left. */
int adopt_rig_clean_up(void **state);

/* --- The next one --- */

/* What adopt is to answer, and what it was asked, by index of sandbox. */
extern struct adoption {
    uint64_t unwanted; /* A bit each. */
    uint32_t asked[LOCAL_RIG_SLOTS];
    bool current[LOCAL_RIG_SLOTS]; /* Its template is as it was. */
} adoption;

/* As local_rig_init_runtime; sandboxes outlive it, and are asked for. */
void adopt_rig_init(struct local_rig *rig);
/* See wp_local_events; of a rig as ctx. */
bool adopt_rig_adopt(void *ctx, const struct wp_local_found *found,
                     struct wp_slot_ref *ref);

/* The runtime in sandbox index answers. */
void adopt_rig_expect_answer(struct local_rig *rig, uint32_t index);
/* Has it a control group, in any hierarchy that a daemon of this directory has
 * used? */
bool adopt_rig_has_group(const struct local_rig *rig, uint32_t index);
void adopt_rig_record_path(const struct local_rig *rig, uint32_t index,
                           char out[160]);
/* Gives the line `key` of a record another value. */
void adopt_rig_edit_record(const struct local_rig *rig, uint32_t index,
                           const char *key, const char *value);

#endif
