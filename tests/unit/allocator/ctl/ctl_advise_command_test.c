/* warmpoolctl advise: what the daemon or the replay here is given, and how what
 * was found is shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/ctl/advise_local.h"
#include "pool/base/clock.h"
#include "tests/support/ctl/ctl_rig.h"

#define GOLDEN(name) WP_TEST_GOLDEN "/" name ".txt"

static const char *const formats[] = {"table", "json", "name"};

static struct wp_advice_facts facts;
static struct wp_advice_row rows[5];
static uint32_t n_rows;
static struct wp_advice_words words;

/* Numbers that all differ. */
static void
make_report(void)
{
    static const char *const names[] = {"today", "objective", "fixed",
                                        "knew it", "new kind"};

    facts = (struct wp_advice_facts){
        .from_wall_ns = (CTL_NOW_MS - 7200000) * WP_NS_PER_MS,
        .until_wall_ns = CTL_NOW_MS * WP_NS_PER_MS,
        .known_ns = 7100500 * WP_NS_PER_MS,
        .run_up_ns = 600 * WP_NS_PER_S,
        .claims = 1001,
        .dropped = 1002,
        .n_gaps = 1003,
        .n_leads = 1004,
        .lead_mean_s = 4.25,
        .lead_p99_s = 8.5,
        .at_once = 1005,
        .peaks = 1006,
    };
    memset(rows, 0, sizeof rows);
    n_rows = WP_ARRAY_LEN(rows);
    for (uint32_t i = 0; i < n_rows; i++) {
        double part = i;

        rows[i].kind = (enum wp_advice_kind)i;
        (void)strcpy(rows[i].name, names[i]);
        (void)snprintf(rows[i].setting, sizeof rows[i].setting, "replicas=%u",
                       i + 1);
        rows[i].objective = i == 1 ? 0.5 : 0;
        rows[i].size = i == 2 ? 9 : 0;
        rows[i].done = true;
        rows[i].hit_low = 0.5 + part / 16;
        rows[i].hit_high = 0.75 + part / 32;
        rows[i].result = (struct wp_replay_result){
            .claims = 1001,
            .hit_rate = 0.625 + part / 32,
            .wait_p50_s = 0.25 * part,
            .wait_p99_s = 1.5 * part,
            .idle_mean = 2.5 + part,
            .idle_s = 3600 * (10 + part),
            .warming_s = 3600 * (20 + part),
            .created = 2000 + i,
            .unused = 100 + i,
            .stock_max = 50 + i,
        };
    }
    words = (struct wp_advice_words){.n_lines = 2, .recommended = 1};
    (void)strcpy(words.lines[0], "Set objective=50%, and leave the rest.");
    (void)strcpy(words.lines[1],
                 "It is doubtful, since what was recorded is short, and the "
                 "next week may be like no other that was seen before.");
}

/* --- The replay here --- */

static const char *no_advice; /* It cannot be made, for this. */
static const char *no_run;
static bool no_plot;

enum wp_status __wrap_wp_advice_create(const struct wp_advice_config *config,
                                       struct wp_advice **out,
                                       struct wp_err *err);
enum wp_status
__wrap_wp_advice_create(const struct wp_advice_config *config,
                        struct wp_advice **out, struct wp_err *err)
{
    struct wp_history_cursor cursor;
    struct wp_history_event event;

    ctl_note("replay today=%d (objective %d) replicas=%u miss=%d cold=%d "
             "lead=%lld ms at_once=%u seed=%llu objectives",
             config->has_today, (int)config->policy.objective, config->replicas,
             (int)config->miss, config->cold_start,
             (long long)(config->lead_ns / WP_NS_PER_MS), config->at_once,
             (unsigned long long)config->seed);
    for (uint32_t i = 0; i < config->n_objectives; i++) {
        ctl_note(" %g", config->objectives[i]);
    }
    ctl_note("\n  policy of %u keys, %u to %u, down within %lld ms\n",
             config->policy.given, config->policy.min, config->policy.max,
             (long long)(config->policy.down_window_ns / WP_NS_PER_MS));
    wp_history_first(config->history, &cursor);
    for (int i = 0; wp_history_next(&cursor, &event) && i < 10; i++) {
        ctl_note("  %u at %lld ms\n", event.n,
                 (long long)(event.wall_ns / WP_NS_PER_MS));
    }
    if (no_advice != NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "%s", no_advice);
    }
    *out = (struct wp_advice *)&facts;
    return WP_OK;
}

static bool no_history;

struct wp_history *__real_wp_history_create(uint64_t bytes);
struct wp_history *__wrap_wp_history_create(uint64_t bytes);
struct wp_history *
__wrap_wp_history_create(uint64_t bytes)
{
    return no_history ? NULL : __real_wp_history_create(bytes);
}

void __wrap_wp_advice_destroy(struct wp_advice *advice);
void
__wrap_wp_advice_destroy(struct wp_advice *advice)
{
    ctl_note(advice != NULL ? "advice destroyed\n" : "no advice\n");
}

enum wp_status __wrap_wp_advise_run_all(struct wp_advice *advice,
                                        void (*progress)(void *ctx,
                                                         double share),
                                        void *ctx, struct wp_err *err);
enum wp_status
__wrap_wp_advise_run_all(struct wp_advice *advice,
                         void (*progress)(void *ctx, double share), void *ctx,
                         struct wp_err *err)
{
    assert_ptr_equal(advice, &facts);
    progress(ctx, -0.5);
    progress(ctx, 0.5);
    progress(ctx, 1.5);
    return no_run != NULL ? wp_err_set(err, WP_INTERNAL, "%s", no_run) : WP_OK;
}

const struct wp_advice_facts *
__wrap_wp_advice_facts(const struct wp_advice *advice);
const struct wp_advice_facts *
__wrap_wp_advice_facts(const struct wp_advice *advice)
{
    assert_ptr_equal(advice, &facts);
    return &facts;
}

uint32_t __wrap_wp_advice_n_rows(const struct wp_advice *advice);
uint32_t
__wrap_wp_advice_n_rows(const struct wp_advice *advice)
{
    assert_ptr_equal(advice, &facts);
    return n_rows;
}

const struct wp_advice_row *__wrap_wp_advice_row(const struct wp_advice *advice,
                                                 uint32_t i);
const struct wp_advice_row *
__wrap_wp_advice_row(const struct wp_advice *advice, uint32_t i)
{
    assert_ptr_equal(advice, &facts);
    return &rows[i];
}

void __wrap_wp_advice_conclude(const struct wp_advice_facts *about,
                               const struct wp_advice_row *all, uint32_t n,
                               struct wp_advice_words *out);
void
__wrap_wp_advice_conclude(const struct wp_advice_facts *about,
                          const struct wp_advice_row *all, uint32_t n,
                          struct wp_advice_words *out)
{
    assert_memory_equal(about, &facts, sizeof facts);
    assert_ptr_equal(all, rows);
    assert_int_equal(n, n_rows);
    *out = words;
}

char *__wrap_wp_advice_svg(const char *pool,
                           const struct wp_advice_facts *about,
                           const struct wp_advice_row *all, uint32_t n,
                           size_t *len);
char *
__wrap_wp_advice_svg(const char *pool, const struct wp_advice_facts *about,
                     const struct wp_advice_row *all, uint32_t n, size_t *len)
{
    char *text;

    if (no_plot) {
        no_plot = false;
        return NULL;
    }
    assert_int_equal(about->claims, facts.claims);
    assert_int_equal(all[n - 1].result.created, rows[n - 1].result.created);
    assert_true(asprintf(&text, "plot '%s' of %u rows", pool, n) > 0);
    *len = strlen(text);
    return text;
}

static void
note_plot(const char *path)
{
    char text[500];
    FILE *file = fopen(path, "re");
    size_t n;

    if (file == NULL) {
        ctl_note("(no plot)\n\n");
        return;
    }
    n = fread(text, 1, sizeof text, file);
    assert_int_equal(fclose(file), 0);
    ctl_note("(%.*s)\n\n", (int)n, text);
}

static void
test_a_replay_here(void **state)
{
    char line[300];
    char name[150];

    (void)state;
    make_report();
    no_advice = NULL;
    no_run = NULL;
    ctl_file("c.csv", "1780000000\n1780000001.5,3\n1780000060\n");
    for (size_t i = 0; i < WP_ARRAY_LEN(formats); i++) {
        (void)snprintf(line, sizeof line,
                       "advise --csv c.csv --lead 8s --replicas 40 "
                       "--objective 99.9%% --objective 50%% --plot p.svg -o %s",
                       formats[i]);
        for (int tty = 0; tty < 2; tty++) {
            ctl_rig.tty = tty != 0;
            ctl_run(line);
        }
        ctl_rig.tty = false;
        note_plot("p.svg");
    }
    words.recommended = -1;
    words.n_lines = 0;
    n_rows = 1;
    for (size_t i = 0; i < WP_ARRAY_LEN(formats); i++) {
        (void)snprintf(line, sizeof line, "advise --csv c.csv --lead 1ms -o %s",
                       formats[i]);
        ctl_run(line);
    }
    words.recommended = 0;
    ctl_run("advise --csv c.csv --lead 1ms -o name");
    ctl_run("advise --csv c.csv --lead 1ms -o json");
    /* The title of a plot has so much of the name. */
    for (size_t len = 120; len <= 121; len++) {
        memset(name, 'n', len);
        name[len] = '\0';
        ctl_file(name, "1780000000\n");
        (void)snprintf(line, sizeof line,
                       "advise --csv %s --lead 1s --plot p.svg -o name", name);
        ctl_run(line);
        note_plot("p.svg");
    }
    ctl_compare(GOLDEN("advise_here"));
}

static void
test_a_replay_that_fails(void **state)
{
    static char many[70000];

    (void)state;
    make_report();
    ctl_file("c.csv", "1780000000\n");
    ctl_run("advise");
    ctl_run("advise --csv c.csv");
    ctl_run("advise --csv missing --lead 1s");
    ctl_run("advise --csv . --lead 1s");
    no_history = true;
    ctl_run("advise --csv c.csv --lead 1s");
    ctl_run("advise --csv missing --lead 1s");
    no_history = false;
    ctl_file("bad.csv", "1780000000\nx\n");
    ctl_run("advise --csv bad.csv --lead 1s");
    ctl_stdin("1780000007\n1780000008,2");
    ctl_run("advise --csv - --lead 1s -o name");
    /* More than is read at once. */
    memset(many, '#', sizeof many - 1);
    (void)strcpy(many + sizeof many - 13, "\n1780000009\n");
    ctl_file("many.csv", many);
    ctl_run("advise --csv many.csv --lead 1s -o name");
    for (size_t i = 0; i + 11 < sizeof many; i += 11) {
        (void)strcpy(many + i, "1780000009\n");
    }
    ctl_file("many.csv", many);
    ctl_run("advise --csv many.csv --lead 1s -o name");
    no_advice = "fewer than ten claims";
    ctl_run("advise --csv c.csv --lead 1s");
    no_advice = NULL;
    no_run = "it broke";
    ctl_rig.tty = true;
    ctl_run("advise --csv c.csv --lead 1s");
    ctl_rig.tty = false;
    no_run = NULL;
    no_plot = true;
    ctl_run("advise --csv c.csv --lead 1s --plot p.svg");
    note_plot("p.svg");
    ctl_run("advise --csv c.csv --lead 1s --plot missing/p.svg");
    assert_int_equal(symlink("/dev/full", "full"), 0);
    ctl_run("advise --csv c.csv --lead 1s --plot full -o name");
    ctl_run("advise --csv c.csv --lead 1s --objective x");
    ctl_run("advise --csv c.csv --lead 1s --objective 50% --objective "
            "'wait p99 2s'");
    ctl_run("advise --csv c.csv --lead 1s --objective 101%");
    ctl_compare(GOLDEN("advise_fails"));
}

/* --- The daemon's --- */

static void
reply_report(bool with_report)
{
    struct wp_wire_advise_response message = {.progress = 0.25};

    ctl_answer(WP_OK, NULL, 0);
    CTL_MESSAGE(advise_response, &message);
    if (with_report) {
        message = (struct wp_wire_advise_response){.progress = 1,
                                                   .has_report = true,
                                                   .facts = facts,
                                                   .rows = rows,
                                                   .n_rows = n_rows,
                                                   .words = words};
        CTL_MESSAGE(advise_response, &message);
    }
}

static void
test_what_the_daemon_advises(void **state)
{
    char line[300];

    (void)state;
    make_report();
    ctl_file("c.csv", "1780000000\n1780000001.5,3\n1780000060\n");
    for (size_t i = 0; i < WP_ARRAY_LEN(formats); i++) {
        (void)snprintf(line, sizeof line,
                       "advise n/agents --objective 75%% --lead 1500ms "
                       "--timeout 1s --plot p.svg -o %s",
                       formats[i]);
        reply_report(true);
        ctl_rig.tty = i != 1;
        ctl_run(line);
    }
    ctl_rig.tty = false;
    note_plot("p.svg");
    reply_report(true);
    ctl_run("advise agents --csv c.csv -o name");
    reply_report(false);
    ctl_run("advise agents");
    ctl_answer(WP_FAILED_PRECONDITION, "nothing was recorded", WP_NS_PER_S);
    ctl_rig.tty = true;
    ctl_run("advise agents");
    ctl_rig.tty = false;
    ctl_run("advise A");
    ctl_run("advise agents --csv missing");
    /* Claims that a request has no room for. */
    ctl_file("c.csv", "1780000000\n1784294967.295\n");
    reply_report(true);
    ctl_run("advise agents --csv c.csv -o name");
    ctl_file("c.csv", "1780000000\n1784294967.296\n");
    ctl_run("advise agents --csv c.csv -o name");
    ctl_file("c.csv", "1780000000,16384\n");
    reply_report(true);
    ctl_run("advise agents --csv c.csv -o name");
    ctl_file("c.csv", "1780000000,16385\n");
    ctl_run("advise agents --csv c.csv -o name");
    ctl_compare(GOLDEN("advise_daemon"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CTL_TEST(test_a_replay_here),
        CTL_TEST(test_a_replay_that_fails),
        CTL_TEST(test_what_the_daemon_advises),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
