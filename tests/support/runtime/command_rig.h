/* tests/support/runtime/command_rig.h - commands of a shell in a table and a
 * loop of the test's own, what they say and how they end. */
#ifndef WP_TESTS_SUPPORT_RUNTIME_COMMAND_RIG_H
#define WP_TESTS_SUPPORT_RUNTIME_COMMAND_RIG_H

#include <event2/event.h>
#include <stdbool.h>

#include "runtime/exec/process.h"

enum {
    COMMAND_SAID_MAX = 512,
};

struct command {
    struct wp_process *process;
    struct wp_process_result result;
    char said[2][COMMAND_SAID_MAX]; /* Its begin, of each stream. */
    int calls;                      /* Of done(). */
    int rooms;                      /* Of stdin_room(). */
};

/* Of commands_begin() to commands_end(). */
extern struct event_base *command_base;
extern struct wp_process_table *command_table;

/* Output is kept to the end; or taken as it comes, with news of the input. */
extern const struct wp_process_events command_keeping;
extern const struct wp_process_events command_hearing;

/* Serves the loop until it is so. */
#define SERVE_UNTIL(condition)                                                 \
    while (!(condition)) {                                                     \
        assert_int_equal(event_base_loop(command_base, EVLOOP_ONCE), 0);       \
    }

void commands_begin(struct wp_process_limits limits);
void commands_end(void);

/* Of spec all but argv, the folder and output_max, if that is 0. */
enum wp_status command_try_start(struct command *command, const char *script,
                                 struct wp_process_spec spec,
                                 const struct wp_process_events *events,
                                 struct wp_err *err);
void command_start(struct command *command, const char *script,
                   struct wp_process_spec spec,
                   const struct wp_process_events *events);
/* From its start to its end. */
void command_run(struct command *command, const char *script,
                 struct wp_process_spec spec);
/* It was told once that it has ended, and so. */
void command_check(const struct command *command, int exit_code, int signal,
                   bool timed_out);

#endif
