#include "tests/support/runtime/command_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/buffer.h>
#include <string.h>

struct event_base *command_base;
struct wp_process_table *command_table;

void
commands_begin(struct wp_process_limits limits)
{
    command_base = event_base_new();
    command_table = wp_process_table_create(command_base, &limits);
    assert_non_null(command_table);
}

void
commands_end(void)
{
    wp_process_table_destroy(command_table);
    event_base_free(command_base);
}

static void
take(char *said, struct evbuffer *data)
{
    size_t at = strlen(said);
    size_t len = evbuffer_get_length(data);

    len = len < COMMAND_SAID_MAX - 1 - at ? len : COMMAND_SAID_MAX - 1 - at;
    (void)evbuffer_copyout(data, said + at, len);
    said[at + len] = '\0';
}

static void
on_output(void *user, enum wp_process_stream stream, struct evbuffer *data)
{
    struct command *command = user;

    assert_int_equal(command->calls, 0);
    take(command->said[stream], data);
    (void)evbuffer_drain(data, evbuffer_get_length(data));
}

static void
on_room(void *user)
{
    struct command *command = user;

    assert_int_equal(wp_process_stdin_queued(command->process), 0);
    command->rooms++;
}

static void
on_done(void *user, const struct wp_process_result *result)
{
    struct command *command = user;

    command->calls++;
    command->result = *result;
    for (int i = 0; i < 2; i++) {
        take(command->said[i], result->output[i]);
    }
}

const struct wp_process_events command_keeping = {.done = on_done};
const struct wp_process_events command_hearing = {
    .output = on_output, .stdin_room = on_room, .done = on_done};

enum wp_status
command_try_start(struct command *command, const char *script,
                  struct wp_process_spec spec,
                  const struct wp_process_events *events, struct wp_err *err)
{
    char sh[] = "sh";
    char flag[] = "-c";
    char text[COMMAND_SAID_MAX];
    char *argv[] = {sh, flag, text, NULL};

    assert_true(strlen(script) < sizeof text);
    (void)strcpy(text, script);
    *command = (struct command){.calls = 0};
    spec.argv = argv;
    spec.cwd_fd = -1;
    spec.output_max =
        spec.output_max > 0 ? spec.output_max : COMMAND_SAID_MAX - 1;
    return wp_process_start(command_table, &spec, events, command,
                            &command->process, err);
}

void
command_start(struct command *command, const char *script,
              struct wp_process_spec spec,
              const struct wp_process_events *events)
{
    struct wp_err err;

    assert_int_equal(command_try_start(command, script, spec, events, &err),
                     WP_OK);
}

void
command_run(struct command *command, const char *script,
            struct wp_process_spec spec)
{
    command_start(command, script, spec, &command_keeping);
    SERVE_UNTIL(command->calls == 1);
}

void
command_check(const struct command *command, int exit_code, int signal,
              bool timed_out)
{
    assert_int_equal(command->calls, 1);
    assert_int_equal(command->result.exit_code, exit_code);
    assert_int_equal(command->result.signal, signal);
    assert_int_equal(command->result.timed_out, timed_out);
    assert_true(command->result.duration_ns >= 0);
    /* No run of this program lasts an hour. */
    assert_true(command->result.duration_ns < INT64_C(3600000000000));
}
