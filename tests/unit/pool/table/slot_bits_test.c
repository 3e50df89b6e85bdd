/* The tables of events, and each event on every word of bits there may be. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "pool/table/slot_bits.h"

#define ALL_WORK ((1U << WP_WORK_BIT_COUNT) - 1)
#define ALL_CONTROL ((1U << WP_CONTROL_BIT_COUNT) - 1)

/* One of the two words. */
struct word {
    const struct wp_bits_event *events;
    size_t n_events;
    uint32_t all;
    bool (*change)(struct wp_slot *slot, size_t event);
    void (*set)(struct wp_slot *slot, uint32_t bits);
    uint32_t (*get)(const struct wp_slot *slot);
};

static bool
change_work(struct wp_slot *slot, size_t event)
{
    return wp_slot_work_change(slot, (enum wp_work_event)event);
}

static void
set_work(struct wp_slot *slot, uint32_t bits)
{
    atomic_store(&slot->work, bits);
}

static uint32_t
get_work(const struct wp_slot *slot)
{
    return atomic_load(&slot->work);
}

static bool
change_control(struct wp_slot *slot, size_t event)
{
    return wp_slot_control_change(slot, (enum wp_control_event)event);
}

static void
set_control(struct wp_slot *slot, uint32_t bits)
{
    slot->control_bits = bits;
}

static uint32_t
get_control(const struct wp_slot *slot)
{
    return slot->control_bits;
}

static const struct word words[] = {
    {wp_work_events, WP_WORK_EVENT_COUNT, ALL_WORK, change_work, set_work,
     get_work},
    {wp_control_events, WP_CONTROL_EVENT_COUNT, ALL_CONTROL, change_control,
     set_control, get_control},
};

static bool
is_allowed(const struct wp_bits_event *event, uint32_t bits)
{
    return (bits & event->needs) == event->needs && (bits & event->bars) == 0;
}

/* An event does one thing with a bit, and is possible at all; every bit is set
 * by one event and cleared by another. */
static void
test_the_tables_make_sense(void **state)
{
    (void)state;
    for (size_t w = 0; w < 2; w++) {
        uint32_t set = 0;
        uint32_t cleared = 0;

        for (size_t i = 0; i < words[w].n_events; i++) {
            const struct wp_bits_event *event = &words[w].events[i];

            assert_int_equal(event->sets & event->clears, 0);
            assert_int_equal(event->needs & event->bars, 0);
            assert_int_equal(event->needs & event->sets, 0);
            assert_int_not_equal((event->sets | event->clears) & words[w].all,
                                 0);
            assert_int_equal(
                (event->sets | event->needs | event->bars) & ~words[w].all, 0);
            set |= event->sets;
            cleared |= event->clears;
        }
        assert_int_equal(set, words[w].all);
        assert_int_equal(cleared & words[w].all, words[w].all);
    }
}

static void
test_an_event_changes_what_its_row_says(void **state)
{
    struct wp_slot slot;

    (void)state;
    for (size_t w = 0; w < 2; w++) {
        for (size_t i = 0; i < words[w].n_events; i++) {
            const struct wp_bits_event *event = &words[w].events[i];

            for (uint32_t bits = 0; bits <= words[w].all; bits++) {
                uint32_t after = (bits | event->sets) & ~event->clears;

                if (!is_allowed(event, bits)) {
                    continue;
                }
                words[w].set(&slot, bits);
                assert_int_equal(words[w].change(&slot, i), after != bits);
                assert_int_equal(words[w].get(&slot), after);
            }
        }
    }
}

/* How a process ends in which the event befalls a slot with these bits. */
static int
signal_of(const struct word *word, size_t event, uint32_t bits)
{
    struct wp_slot slot;
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL) {
            _exit(1);
        }
        word->set(&slot, bits);
        (void)word->change(&slot, event);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void
test_what_an_event_excludes_aborts(void **state)
{
    uint32_t excluded = 0;

    (void)state;
    for (size_t w = 0; w < 2; w++) {
        for (size_t i = 0; i < words[w].n_events; i++) {
            const struct wp_bits_event *event = &words[w].events[i];

            for (uint32_t bit = 1; bit <= words[w].all; bit <<= 1) {
                if ((event->needs & bit) != 0) {
                    assert_int_equal(
                        signal_of(&words[w], i, event->needs & ~bit), SIGABRT);
                    excluded++;
                }
                if ((event->bars & bit) != 0) {
                    assert_int_equal(
                        signal_of(&words[w], i, event->needs | bit), SIGABRT);
                    excluded++;
                }
            }
            assert_int_equal(signal_of(&words[w], i, event->needs), 0);
        }
    }
    assert_true(excluded > 0);
}

/* A slot's next life begins with nothing of its last, but for its place in the
 * list of the marked. */
static void
test_a_new_life_keeps_the_mark_only(void **state)
{
    struct wp_slot slot;

    (void)state;
    set_work(&slot, ALL_WORK & ~(uint32_t)WP_WORK_REQUESTED);
    set_control(&slot, ALL_CONTROL);
    assert_true(wp_slot_work_change(&slot, WP_WORK_ON_NEW_LIFE));
    assert_true(wp_slot_control_change(&slot, WP_CONTROL_ON_NEW_LIFE));
    assert_int_equal(get_work(&slot), WP_WORK_LISTED);
    assert_int_equal(get_control(&slot), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_tables_make_sense),
        cmocka_unit_test(test_an_event_changes_what_its_row_says),
        cmocka_unit_test(test_what_an_event_excludes_aborts),
        cmocka_unit_test(test_a_new_life_keeps_the_mark_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
