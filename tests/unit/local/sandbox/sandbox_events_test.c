/* local/sandbox/sandbox_events.c: what is made of each word of a sandbox's init
 * and of each end of its processes. The journals are in golden/. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "local/control.h"
#include "tests/unit/local/sandbox/sandbox_rig.h"

static const enum wp_sandbox_state states[] = {
    WP_SANDBOX_STARTING, WP_SANDBOX_READY, WP_SANDBOX_DYING};

static int
set_up(void **state)
{
    (void)state;
    rig.seen.len = 0;
    rig_reset(WP_SANDBOX_READY);
    return 0;
}

static void
hear(void)
{
    wp_sandbox_on_control(RIG_CONTROL, EV_READ, &rig.sandbox);
    rig_dump();
}

static void
say_with(const char *text, int fds)
{
    rig_piece((struct rig_piece){
        .bytes = text, .len = strlen(text), .pid = 41, .fds = fds});
    hear();
}

static void
say(const char *text)
{
    say_with(text, 0);
}

/* --- Words --- */

static void
a_hello_names_the_inner_process(void **state)
{
    static const struct {
        const char *what;
        struct rig_piece piece;
        int inner_fd;
        int pidfd;
        int poll;
        bool kill_due;
        enum wp_status record;
    } rows[] = {
        {"it lives", {.pid = 41}, -1, FD_INNER, 0, false, WP_OK},
        {"behind descriptors",
         {.pid = 41, .fds = 1, .fds_first = true},
         -1,
         FD_INNER,
         0,
         false,
         WP_OK},
        {"the first number", {.pid = 1}, -1, FD_INNER, 0, false, WP_OK},
        {"no credentials", {.pid = 0}, -1, FD_INNER, 0, false, WP_OK},
        {"of nobody", {.pid = -1}, -1, FD_INNER, 0, false, WP_OK},
        {"once more", {.pid = 41}, FD_INNER, FD_DOOR, 0, false, WP_OK},
        {"no descriptor", {.pid = 41}, -1, -1, 0, false, WP_OK},
        {"it has gone", {.pid = 41}, -1, FD_INNER, 1, false, WP_OK},
        {"it cannot be asked", {.pid = 41}, -1, FD_INNER, -1, false, WP_OK},
        {"to be killed", {.pid = 41}, -1, FD_INNER, 0, true, WP_OK},
        {"not recorded", {.pid = 41}, -1, FD_INNER, 0, false, WP_UNAVAILABLE},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct rig_piece piece = rows[i].piece;

        rig_note("--- %s", rows[i].what);
        rig_reset(WP_SANDBOX_STARTING);
        rig.sandbox.inner_fd = rig_fd(rows[i].inner_fd);
        rig.pidfd_answer = rig_fd(rows[i].pidfd);
        rig.poll_answer = rows[i].poll;
        rig.sandbox.kill_due = rows[i].kill_due;
        rig.record_answer = rows[i].record;
        piece.bytes = "H";
        piece.len = 1;
        rig_piece(piece);
        hear();
    }
    rig_compare("events/hello");
}

static void
words_that_wait_explain_an_early_end(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        rig_reset(WP_SANDBOX_STARTING);
        rig.sandbox.inner_fd = -1;
        rig.poll_answer = 1;
        rig_piece((struct rig_piece){.bytes = "H", .len = 1, .pid = 41});
        if (i == 0) {
            rig_piece((struct rig_piece){.bytes = "Fno program", .len = 11});
        } else {
            /* It comes while one is being read already. */
            rig.sandbox.reading = true;
        }
        hear();
    }
    rig_note("--- among what is read at its end");
    rig_reset(WP_SANDBOX_STARTING);
    rig.info.si_pid = 40;
    rig.sandbox.inner_fd = -1;
    rig.sandbox.stderr_fd = -1;
    rig.poll_answer = 1;
    rig_piece((struct rig_piece){.bytes = "H", .len = 1, .pid = 41});
    rig_piece((struct rig_piece){.bytes = "Fno program", .len = 11});
    wp_sandbox_on_outer_exit(RIG_OUTER, EV_READ, &rig.sandbox);
    rig_dump();
    rig_compare("events/early_end");
}

static void
the_first_answer_begins_a_look_from_outside(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(states); i++) {
        for (int j = 0; j < 4; j++) {
            rig_note("--- state %d, %d", (int)states[i], j);
            rig_reset(states[i]);
            rig.sandbox.opened = (j & 1) != 0;
            rig.sandbox.lost = (j & 2) != 0;
            say("O");
        }
    }
    rig_compare("events/open");
}

static void
answers_to_probes_count_when_asked_for(void **state)
{
    static const char *const words[] = {"Y", "N"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(words); i++) {
        for (size_t k = 0; k < WP_ARRAY_LEN(states); k++) {
            for (int j = 0; j < 4; j++) {
                rig_note("--- %s, state %d, %d", words[i], (int)states[k], j);
                rig_reset(states[k]);
                rig.oom_kills = 9;
                rig.sandbox.failures = 1;
                rig.sandbox.asked = (j & 1) != 0;
                rig.sandbox.lost = (j & 2) != 0;
                say(words[i]);
            }
        }
    }
    rig_compare("events/probes");
}

static void
so_many_silences_in_a_row_are_an_end(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        rig.sandbox.asked = true;
        say("N");
    }
    rig_reset(WP_SANDBOX_READY);
    rig.local.config.probe_failures = 1;
    rig.sandbox.asked = true;
    wp_sandbox_silent(&rig.sandbox, "it has a long silence, of which one can "
                                    "say nothing that would not be too long");
    rig_dump();
    rig_compare("events/silence");
}

static void
an_end_is_told_in_inits_words(void **state)
{
    static char longest[WP_CONTROL_MAX + 2];

    (void)state;
    say("Xit exited with status 3");
    rig_reset(WP_SANDBOX_READY);
    rig.oom_kills = 1;
    say("Xit was killed");
    /* One that init was asked about since. */
    rig_reset(WP_SANDBOX_READY);
    rig.oom_kills = 5;
    rig.sandbox.oom_kills = 5;
    say("Xit was killed");
    rig_reset(WP_SANDBOX_STARTING);
    rig.oom_kills = 1;
    say("Fno such program");
    rig_reset(WP_SANDBOX_READY);
    say("X");
    memset(longest, 'x', sizeof longest - 1);
    longest[0] = 'X';
    rig_reset(WP_SANDBOX_READY);
    say(longest);
    rig_reset(WP_SANDBOX_READY);
    rig.oom_kills = 1;
    say(longest);
    rig_compare("events/ends");
}

static void
bindings_are_answered(void **state)
{
    (void)state;
    say("D");
    say("Uno room in it");
    rig_reset(WP_SANDBOX_READY);
    say("D and more");
    say("?");
    rig_compare("events/bindings");
}

/* Those that nobody expects are closed. */
static void
descriptors_go_to_whom_they_are_for(void **state)
{
    static const char *const words[] = {"Z12", "E", "D", "H", "O", "?"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(words); i++) {
        for (int fds = 0; fds <= 2; fds++) {
            rig_note("--- %s with %d", words[i], fds);
            rig_reset(WP_SANDBOX_READY);
            (void)snprintf(rig.sandbox.egress, sizeof rig.sandbox.egress, "%s",
                           "policy");
            (void)snprintf(rig.sandbox.narrowed, sizeof rig.sandbox.narrowed,
                           "%s", "by");
            say_with(words[i], fds);
        }
    }
    rig_compare("events/descriptors");
}

static void
an_egress_socket_is_taken_once_where_there_is_a_policy(void **state)
{
    (void)state;
    for (int i = 0; i < 9; i++) {
        rig_note("--- %d", i);
        rig_reset(i == 0   ? WP_SANDBOX_STARTING
                  : i == 1 ? WP_SANDBOX_DYING
                  : i == 2 ? WP_SANDBOX_REMOVING
                           : WP_SANDBOX_READY);
        if (i != 3) {
            (void)snprintf(rig.sandbox.egress, sizeof rig.sandbox.egress, "%s",
                           "policy");
        }
        rig.sandbox.lost = i == 4;
        if (i == 5) {
            rig.sandbox.egress_member = (struct wp_egress_member *)&rig.groups;
        }
        rig.listens = i == 6 ? 0 : i == 7 ? -1 : 1;
        rig.member_lacks = i == 8;
        say_with("E", 1);
    }
    rig_compare("events/egress");
}

static void
the_channels_end_is_the_sandboxs_after_its_hello(void **state)
{
    static const struct {
        struct rig_piece piece;
        int inner_fd;
        uint64_t oom_kills;
    } rows[] = {
        {{.bytes = ""}, FD_INNER, 0},
        {{.bytes = "", .fds = 1}, FD_INNER, 2},
        {{.bytes = ""}, -1, 0},
        {{.error = ECONNRESET}, FD_INNER, 0},
        {{.error = EAGAIN}, FD_INNER, 0},
        {{.error = EINTR}, FD_INNER, 0},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        rig_note("--- %zu", i);
        rig_reset(WP_SANDBOX_READY);
        rig.sandbox.inner_fd = rig_fd(rows[i].inner_fd);
        rig.oom_kills = rows[i].oom_kills;
        rig_piece(rows[i].piece);
        hear();
    }
    rig_compare("events/channel_end");
}

/* --- Ends of processes --- */

static void
pieces(size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++) {
        rig_piece((struct rig_piece){.bytes = text, .len = strlen(text)});
    }
}

static void
the_inner_process_ends(void **state)
{
    (void)state;
    for (int i = 0; i < 7; i++) {
        rig_note("--- %d", i);
        rig_reset(i == 1   ? WP_SANDBOX_DYING
                  : i == 6 ? WP_SANDBOX_STARTING
                           : WP_SANDBOX_READY);
        rig.sandbox.reading = i == 2;
        rig.sandbox.lost = i == 3;
        if (i == 4) {
            rig.sandbox.control_fd = -1;
        }
        /* No more than so many are heeded. */
        pieces(i == 5 ? 10 : 1, i == 5 ? "?" : "Xit ended");
        wp_sandbox_on_inner_exit(RIG_INNER, EV_READ, &rig.sandbox);
        rig_dump();
    }
    rig_compare("events/inner_exit");
}

static void
end_outer(const char *what)
{
    rig_note("--- %s", what);
    wp_sandbox_on_outer_exit(RIG_OUTER, EV_READ, &rig.sandbox);
    rig_dump();
}

static void
bubblewrap_ends(void **state)
{
    (void)state;
    rig_reset(WP_SANDBOX_STARTING);
    rig.waitid_answer = -1;
    end_outer("it cannot be waited for");
    rig.waitid_answer = 0;
    rig.info.si_code = CLD_EXITED;
    rig.info.si_status = 3;
    end_outer("it has not ended");
    rig.info.si_pid = 40;
    end_outer("with a status");
    rig_reset(WP_SANDBOX_STARTING);
    rig.info.si_pid = 40;
    rig.info.si_code = CLD_KILLED;
    rig.info.si_status = 9;
    end_outer("by a signal");
    rig_reset(WP_SANDBOX_READY);
    rig.sandbox.adopted = true;
    end_outer("of another's child");
    rig_reset(WP_SANDBOX_DYING);
    rig.info.si_pid = 40;
    rig.info.si_code = CLD_EXITED;
    end_outer("while dying");
    rig_reset(WP_SANDBOX_STARTING);
    rig.info.si_pid = 40;
    rig.sandbox.stderr_fd = -1;
    pieces(1, "Fno program");
    end_outer("after init's word");
    rig_reset(WP_SANDBOX_STARTING);
    rig.info.si_pid = 40;
    rig.sandbox.adopted = true;
    pieces(2, "bwrap: no, ");
    pieces(1, "never\nand so on");
    rig_piece((struct rig_piece){.bytes = ""});
    pieces(1, "Xinit's");
    end_outer("with words of its own");
    rig_compare("events/outer_exit");
}

static void
what_bubblewrap_says_has_room(void **state)
{
    static char text[WP_LOCAL_STDERR_MAX];

    (void)state;
    memset(text, 'e', sizeof text);
    for (int i = 0; i < 3; i++) {
        rig_piece((struct rig_piece){.bytes = text, .len = 200});
        wp_sandbox_on_stderr(RIG_STDERR, EV_READ, &rig.sandbox);
    }
    rig_dump();
    for (size_t i = 0; i < 2; i++) {
        rig_piece((struct rig_piece){.bytes = text, .len = 511});
        wp_sandbox_on_stderr(RIG_STDERR, EV_READ, &rig.sandbox);
    }
    rig_dump();
    rig_piece((struct rig_piece){.error = EAGAIN});
    rig_piece((struct rig_piece){.error = EINTR});
    rig_piece((struct rig_piece){.error = EIO});
    for (int i = 0; i < 3; i++) {
        wp_sandbox_on_stderr(RIG_STDERR, EV_READ, &rig.sandbox);
        rig_dump();
    }
    /* Full: the loop at its end stops there. */
    rig_reset(WP_SANDBOX_STARTING);
    rig.info.si_pid = 40;
    for (int i = 0; i < 5; i++) {
        rig_piece((struct rig_piece){.bytes = text, .len = 300});
    }
    end_outer("with a long story");
    rig_reset(WP_SANDBOX_STARTING);
    rig_piece((struct rig_piece){.bytes = ""});
    wp_sandbox_on_stderr(RIG_STDERR, EV_READ, &rig.sandbox);
    rig_dump();
    rig_compare("events/stderr");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(a_hello_names_the_inner_process),
        TEST(words_that_wait_explain_an_early_end),
        TEST(the_first_answer_begins_a_look_from_outside),
        TEST(answers_to_probes_count_when_asked_for),
        TEST(so_many_silences_in_a_row_are_an_end),
        TEST(an_end_is_told_in_inits_words),
        TEST(bindings_are_answered),
        TEST(descriptors_go_to_whom_they_are_for),
        TEST(an_egress_socket_is_taken_once_where_there_is_a_policy),
        TEST(the_channels_end_is_the_sandboxs_after_its_hello),
        TEST(the_inner_process_ends),
        TEST(bubblewrap_ends),
        TEST(what_bubblewrap_says_has_room),
    };

    RIG_RUN(tests);
}
