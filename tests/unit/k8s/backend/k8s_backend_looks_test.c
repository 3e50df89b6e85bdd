/* What the cluster's backend does with one Sandbox: each state that it may be
 * in here, each shape that the object may have, and each answer of the API
 * server, all of it compared with a text. */
#include "tests/unit/k8s/backend/world.h"

#include "k8s/objects/json.h"

#define COMPARE(name) compare(WP_TEST_FOLDER "/" name)

static const struct shape {
    const char *what;
    const char *uid;
    const char *meta; /* NULL: there is no object. */
    const char *status;
} shapes[] = {
    {"nothing", NULL, NULL, NULL},
    {"warming", "01", POOLED, STATUS("", CONDITION("Ready", "False", "R"))},
    {"ready", "01", POOLED, READY},
    {"ready without address", "01", POOLED,
     STATUS("", CONDITION("Ready", "True", "R"))},
    {"on no node", "01", POOLED,
     STATUS("", CONDITION("Ready", "False", "R") "," CONDITION(
                    "PodScheduled", "False", "Unschedulable"))},
    {"finished", "01", POOLED,
     STATUS("'10.0.0.7'", CONDITION("Ready", "True", "R") "," CONDITION(
                              "Finished", "True", "PodFailed"))},
    {"not finished", "01", POOLED,
     STATUS("'fd00::7'", CONDITION("Ready", "True", "R") "," CONDITION(
                             "Finished", "False", "Running"))},
    {"deleting", "01", POOLED ",'deletionTimestamp':'2026-01-01T00:00:00Z'",
     READY},
    {"noted", "01", NOTED(""), READY},
    {"claimed", "01", CLAIMED, READY},
    {"without its label", "01", OWNER("SandboxWarmPool", "p", "p-uid"), READY},
    {"of nobody", "01", "", READY},
    {"another", "02", POOLED, READY},
    {"at no address", "01", POOLED,
     STATUS(
         "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'",
         CONDITION("Ready", "True", "R"))},
    {"at the longest address", "01", POOLED,
     STATUS(
         "'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
         "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'",
         CONDITION("Ready", "True", "R"))},
    {"with much to say", "01", POOLED,
     STATUS("", "{'type':'Ready','status':'False','reason':'R','message':"
                "'1234567890123456789012345678901234567890123456789012345678901"
                "23456789012345'}")},
};
enum {
    AS_NOTHING,
    AS_WARMING,
    AS_READY,
    AS_NO_ADDRESS,
    AS_NO_NODE,
    AS_FINISHED,
    AS_NOT_FINISHED,
    AS_GOING,
    AS_NOTED,
    AS_CLAIMED,
    AS_NO_LABEL,
    AS_NOBODYS,
    AS_ANOTHER,
    AS_BAD_ADDRESS,
    AS_LONG_ADDRESS,
    AS_WORDY,
};

static void
begin_with(int shape)
{
    begin();
    put(WP_KIND_SANDBOX_WARM_POOL, POOL("p-uid"));
    put(WP_KIND_SANDBOX_TEMPLATE, TEMPLATE);
    if (shapes[shape].meta != NULL) {
        put_sandbox("s", shapes[shape].uid, shapes[shape].meta,
                    shapes[shape].status);
    }
}

static void
each_state_meets_each_object(void **state)
{
    char what[128];

    (void)state;
    for (int phase = -1; phase <= WP_SANDBOX_DELETING; phase++) {
        for (int i = 0; i < 2 * (int)WP_ARRAY_LEN(shapes); i++) {
            int shape = i / 2;

            /* Nobody deletes what is not unwanted. */
            if ((phase < 0 && i % 2 == 1) ||
                (phase == WP_SANDBOX_DELETING && i % 2 == 0)) {
                continue;
            }
            begin_with(shape);
            if (phase >= 0) {
                add_entry("s", 1, (enum wp_sandbox_phase)phase)->unwanted =
                    i % 2 == 1;
            }
            (void)snprintf(what, sizeof what, "%s, %s%s",
                           phase < 0 ? "unknown" : phases[phase],
                           shapes[shape].what, i % 2 == 1 ? ", unwanted" : "");
            step(what);
            look("s");
            show("s");
            end();
        }
    }
    COMPARE("looks.txt");
}

/* --- States that are more than a phase --- */

static const struct wp_lease_note job = {.claim_id = "job",
                                         .tenant = "team",
                                         .pool = "p",
                                         .fence = 7,
                                         .deadline_wall_ms = WALL_MS + 60000,
                                         .until_wall_ms = WALL_MS + 90000,
                                         .granted_wall_ms = WALL_MS - 5,
                                         .fingerprint = 0xabc,
                                         .served = 2};
static const struct wp_lease_note claims = {.claim_id = "c-uid",
                                            .tenant = WP_TENANT_SANDBOX_CLAIMS};
static const struct wp_lease_note other_claims = {
    .claim_id = "d-uid", .tenant = WP_TENANT_SANDBOX_CLAIMS};
static const struct wp_lease_note teams = {.claim_id = "c-uid",
                                           .tenant = "team"};

/* flags: of the entry, its phase and what else is set. */
static const struct variant {
    const char *what;
    int shape;
    struct wp_sandbox_ref flags;
    const struct wp_lease_note *lease;
    bool binding;
    bool identity;
    int64_t later_ns;
    int64_t identity_ns;
} variants[] = {
    {.what = "posted", .shape = AS_NOTHING, .flags = {.posted = true}},
    {.what = "posted and unwanted",
     .shape = AS_NOTHING,
     .flags = {.posted = true, .unwanted = true}},
    {.what = "posted, and there it is",
     .shape = AS_WARMING,
     .flags = {.posted = true}},
    {.what = "lost before it was made",
     .shape = AS_NOTHING,
     .flags = {.lost = true}},
    {.what = "lost and outdated",
     .shape = AS_NOTHING,
     .flags = {.lost = true, .outdated = true}},
    {.what = "outdated", .shape = AS_NOTHING, .flags = {.outdated = true}},
    {.what = "outdated and unwanted",
     .shape = AS_NOTHING,
     .flags = {.outdated = true, .unwanted = true}},
    {.what = "outdated and posted",
     .shape = AS_NOTHING,
     .flags = {.outdated = true, .posted = true}},
    {.what = "its time is nearly over",
     .shape = AS_NOTHING,
     .flags = {.lost = false},
     .later_ns = 50 * S - 1},
    {.what = "its time is over",
     .shape = AS_NOTHING,
     .flags = {.lost = false},
     .later_ns = 50 * S},
    {.what = "its time is over, it was lost",
     .shape = AS_NOTHING,
     .flags = {.lost = true},
     .later_ns = 50 * S},
    {.what = "not made, bound, unwanted",
     .shape = AS_NOTHING,
     .flags = {.unwanted = true},
     .binding = true,
     .identity = true},
    {.what = "gone, bound",
     .shape = AS_NOTHING,
     .flags = {.phase = WP_SANDBOX_ADOPTED},
     .binding = true,
     .identity = true},
    {.what = "gone, lost",
     .shape = AS_NOTHING,
     .flags = {.phase = WP_SANDBOX_ADOPTED, .lost = true},
     .binding = true},
    {.what = "nearly too late",
     .shape = AS_WARMING,
     .flags = {.phase = WP_SANDBOX_WARMING},
     .later_ns = 50 * S - 1},
    {.what = "too late",
     .shape = AS_WARMING,
     .flags = {.phase = WP_SANDBOX_WARMING},
     .later_ns = 50 * S},
    {.what = "too late, and why at length",
     .shape = AS_WORDY,
     .flags = {.phase = WP_SANDBOX_WARMING},
     .later_ns = 50 * S},
    {.what = "too late on no node",
     .shape = AS_NO_NODE,
     .flags = {.phase = WP_SANDBOX_WARMING},
     .later_ns = 50 * S},
    {.what = "held on no node",
     .shape = AS_NO_NODE,
     .flags = {.phase = WP_SANDBOX_WARMING, .held = true},
     .later_ns = 60 * S},
    {.what = "held no more",
     .shape = AS_WARMING,
     .flags = {.phase = WP_SANDBOX_WARMING, .held = true},
     .later_ns = 60 * S},
    {.what = "held and ready",
     .shape = AS_READY,
     .flags = {.phase = WP_SANDBOX_WARMING, .held = true}},
    {.what = "lost, warming",
     .shape = AS_WARMING,
     .flags = {.phase = WP_SANDBOX_WARMING, .lost = true},
     .later_ns = 50 * S},
    {.what = "lost, ready",
     .shape = AS_READY,
     .flags = {.phase = WP_SANDBOX_WARMING, .lost = true}},
    {.what = "lost, not ready",
     .shape = AS_WARMING,
     .flags = {.phase = WP_SANDBOX_READY, .lost = true}},
    {.what = "lost, leased",
     .shape = AS_READY,
     .flags = {.phase = WP_SANDBOX_READY, .lost = true},
     .lease = &job},
    {.what = "spoilt",
     .shape = AS_CLAIMED,
     .flags = {.phase = WP_SANDBOX_ADOPTED, .adopted = true, .spoilt = true}},
    {.what = "spoilt and going",
     .shape = AS_GOING,
     .flags = {.phase = WP_SANDBOX_READY, .spoilt = true}},
    {.what = "spoilt and finished",
     .shape = AS_FINISHED,
     .flags = {.phase = WP_SANDBOX_READY, .spoilt = true}},
    {.what = "bound there",
     .shape = AS_CLAIMED,
     .flags = {.phase = WP_SANDBOX_ADOPTED,
               .adopted = true,
               .bound_ip = "10.0.0.7"}},
    {.what = "bound elsewhere",
     .shape = AS_CLAIMED,
     .flags = {.phase = WP_SANDBOX_ADOPTED,
               .adopted = true,
               .bound_ip = "10.0.0.8"},
     .binding = true},
    {.what = "bound, its address unknown",
     .shape = AS_NO_ADDRESS,
     .flags = {.phase = WP_SANDBOX_READY, .bound_ip = "10.0.0.7"}},
    {.what = "to be bound",
     .shape = AS_CLAIMED,
     .flags = {.phase = WP_SANDBOX_ADOPTED, .adopted = true},
     .binding = true},
    {.what = "to be bound, not adopted",
     .shape = AS_READY,
     .flags = {.phase = WP_SANDBOX_READY},
     .binding = true},
    {.what = "to be bound, lost",
     .shape = AS_CLAIMED,
     .flags = {.phase = WP_SANDBOX_ADOPTED, .adopted = true, .lost = true},
     .binding = true},
    {.what = "adopted",
     .shape = AS_CLAIMED,
     .flags = {.phase = WP_SANDBOX_ADOPTED, .adopted = true},
     .identity_ns = 12345},
    {.what = "adopted, noted",
     .shape = AS_NOTED,
     .flags = {.phase = WP_SANDBOX_ADOPTED, .adopted = true},
     .identity_ns = 12345},
    {.what = "adopted, warming",
     .shape = AS_WARMING,
     .flags = {.phase = WP_SANDBOX_ADOPTED}},
    {.what = "leased",
     .shape = AS_READY,
     .flags = {.phase = WP_SANDBOX_READY},
     .lease = &job},
    {.what = "leased, to be bound",
     .shape = AS_READY,
     .flags = {.phase = WP_SANDBOX_READY},
     .lease = &job,
     .binding = true},
    {.what = "leased, noted",
     .shape = AS_NOTED,
     .flags = {.phase = WP_SANDBOX_READY},
     .lease = &job},
    {.what = "leased, of nobody",
     .shape = AS_NOBODYS,
     .flags = {.phase = WP_SANDBOX_READY},
     .lease = &job},
    {.what = "leased by a claim",
     .shape = AS_READY,
     .flags = {.phase = WP_SANDBOX_READY},
     .lease = &claims},
    {.what = "leased by its claim",
     .shape = AS_CLAIMED,
     .flags = {.phase = WP_SANDBOX_READY},
     .lease = &claims},
    {.what = "leased by another claim",
     .shape = AS_CLAIMED,
     .flags = {.phase = WP_SANDBOX_READY},
     .lease = &other_claims},
    {.what = "leased by no claim",
     .shape = AS_CLAIMED,
     .flags = {.phase = WP_SANDBOX_READY},
     .lease = &teams},
    {.what = "taken",
     .shape = AS_CLAIMED,
     .flags = {.phase = WP_SANDBOX_READY, .taken = true}},
    {.what = "taken, unwanted",
     .shape = AS_CLAIMED,
     .flags = {.phase = WP_SANDBOX_READY, .taken = true, .unwanted = true}},
    {.what = "taken, unwanted, in its pool again",
     .shape = AS_READY,
     .flags = {.phase = WP_SANDBOX_READY, .taken = true, .unwanted = true}},
    {.what = "adopted, unwanted",
     .shape = AS_CLAIMED,
     .flags = {.phase = WP_SANDBOX_ADOPTED, .adopted = true, .unwanted = true}},
    {.what = "noted, unwanted",
     .shape = AS_NOTED,
     .flags = {.phase = WP_SANDBOX_ADOPTED, .adopted = true, .unwanted = true},
     .lease = &job},
    {.what = "of nobody, unwanted",
     .shape = AS_NOBODYS,
     .flags = {.phase = WP_SANDBOX_ADOPTED, .adopted = true, .unwanted = true},
     .binding = true,
     .identity = true},
    {.what = "going, lost",
     .shape = AS_GOING,
     .flags = {.phase = WP_SANDBOX_READY, .lost = true}},
    {.what = "going, bound",
     .shape = AS_GOING,
     .flags = {.phase = WP_SANDBOX_READY},
     .binding = true},
};

static void
what_else_is_known_of_it_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(variants); i++) {
        const struct variant *row = &variants[i];
        struct wp_sandbox_ref *entry;

        begin_with(row->shape);
        entry = add_entry("s", 1, row->flags.phase);
        entry->posted = row->flags.posted;
        entry->outdated = row->flags.outdated;
        entry->held = row->flags.held;
        entry->lost = row->flags.lost;
        entry->adopted = row->flags.adopted;
        entry->spoilt = row->flags.spoilt;
        entry->taken = row->flags.taken;
        entry->unwanted = row->flags.unwanted;
        memcpy(entry->bound_ip, row->flags.bound_ip, sizeof entry->bound_ip);
        if (row->lease != NULL) {
            entry->lease = malloc(sizeof *entry->lease);
            assert_non_null(entry->lease);
            *entry->lease = *row->lease;
        }
        entry->binding = row->binding ? (void *)&parts_[1] : NULL;
        entry->identity = row->identity ? (void *)&parts_[2] : NULL;
        identity_ns = row->identity_ns;
        clock_.now_mono_ns += row->later_ns;
        step(row->what);
        look("s");
        show("s");
        end();
    }
    COMPARE("looks_more.txt");
}

/* The core has told of no lease, and is asked which claim has it. */
static void
the_core_knows_whose_it_is(void **state)
{
    static const struct {
        const char *what;
        enum wp_status get;
        struct wp_slot_ref ref;
    } rows[] = {
        {"its claim", WP_OK, {5, 3}},
        {"a claim of another slot", WP_OK, {6, 3}},
        {"a claim of an earlier one", WP_OK, {5, 2}},
        {"no claim", WP_NOT_FOUND, {5, 3}},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        begin_with(AS_CLAIMED);
        (void)add_entry("s", 1, WP_SANDBOX_READY);
        core.get = rows[i].get;
        core.info.ref = rows[i].ref;
        step(rows[i].what);
        look("s");
        show("s");
        /* It was said, and is not said again. */
        step("once more");
        look("s");
        show("s");
        end();
    }
    COMPARE("looks_whose.txt");
}

/* --- Before there is one --- */

static void
make(const char *what)
{
    step(what);
    look("s");
    show("s");
}

static void
what_lacks_is_named(void **state)
{
    (void)state;
    begin();
    (void)add_entry("s", 1, WP_SANDBOX_CREATING);
    make("no pool");
    end();
    begin();
    put(WP_KIND_SANDBOX_WARM_POOL, POOL("p-uid"));
    (void)add_entry("s", 1, WP_SANDBOX_CREATING);
    make("no template");
    end();
    begin_with(AS_NOTHING);
    (void)add_entry("s", 1, WP_SANDBOX_CREATING);
    builds = false;
    make("no spec");
    make("and again");
    end();
    begin_with(AS_NOTHING);
    (void)add_entry("s", 1, WP_SANDBOX_CREATING);
    backend->counting = true;
    make("while all is counted");
    backend->counting = false;
    backend->doubtful = true;
    make("in doubt");
    backend->doubtful = false;
    parts.active = false;
    make("while it does not lead");
    parts.active = true;
    make("now");
    end();
    COMPARE("looks_lacks.txt");
}

static void
claims_that_wait_come_first(void **state)
{
    static const struct {
        uint32_t index;
        uint32_t waiting;
        uint32_t ready;
        uint32_t target;
        enum wp_http_priority priority;
    } rows[] = {
        {UINT32_MAX, 0, 9, 9, WP_HTTP_REFILL}, {0, 0, 0, 0, WP_HTTP_REFILL},
        {0, 0, 0, 3, WP_HTTP_REFILL},          {0, 0, 1, 0, WP_HTTP_SPARE},
        {0, 0, 1, 3, WP_HTTP_SPARE},           {0, 0, 1, 7, WP_HTTP_SPARE},
        {0, 0, 1, 8, WP_HTTP_REFILL},          {0, 0, 2, 8, WP_HTTP_SPARE},
        {0, 1, 8, 8, WP_HTTP_REFILL},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        begin_with(AS_NOTHING);
        (void)add_entry("s", 1, WP_SANDBOX_CREATING);
        core.index = rows[i].index;
        core.stats.waiting = rows[i].waiting;
        core.stats.ready = rows[i].ready;
        core.stats.spec.target = rows[i].target;
        look("s");
        assert_int_equal(wp_recorder_call(parts.api, 0)->priority,
                         rows[i].priority);
        end();
    }
}

/* --- Answers --- */

struct answer {
    const char *what;
    enum wp_status status;
    int64_t retry_after_ns;
    const char *object; /* NULL: none. */
    bool leaves;
    bool wordless;
};

#define ANSWERED(meta)                                                         \
    "{'metadata':{'namespace':'ns','name':'s','uid':"                          \
    "'00000000-0000-4000-8000-000000000001','resourceVersion':'99'" meta       \
    "},'spec':{'podTemplate':{'spec':{}}}}"

static const struct answer answers[] = {
    {"ok", WP_OK, -1, ANSWERED("," POOLED), false, false},
    {"ok without one", WP_OK, -1, NULL, false, false},
    {"ok, no Sandbox", WP_OK, -1, "{'metadata':{}}", false, false},
    {"not found", WP_NOT_FOUND, -1, NULL, false, false},
    {"not found, later", WP_NOT_FOUND, 5 * S, NULL, false, false},
    {"exists", WP_ALREADY_EXISTS, -1, NULL, false, false},
    {"changed", WP_ABORTED, -1, NULL, false, false},
    {"invalid", WP_INVALID_ARGUMENT, -1, NULL, false, false},
    {"forbidden", WP_PERMISSION_DENIED, -1, NULL, false, false},
    {"the namespace leaves", WP_PERMISSION_DENIED, -1, NULL, true, false},
    {"precondition", WP_FAILED_PRECONDITION, -1, NULL, false, false},
    {"who are you", WP_UNAUTHENTICATED, -1, NULL, false, false},
    {"crowded", WP_RESOURCE_EXHAUSTED, 5 * S, NULL, false, false},
    {"crowded, at once", WP_RESOURCE_EXHAUSTED, 0, NULL, false, false},
    {"unavailable", WP_UNAVAILABLE, 1, NULL, false, true},
    {"unknown", WP_UNKNOWN_OUTCOME, -1, NULL, false, false},
    {"cancelled", WP_CANCELLED, 5 * S, NULL, false, false},
};

static void
answer(const struct answer *with)
{
    struct wp_recorded *call =
        wp_recorder_open(parts.api, WP_VERB_ANY, WP_KIND_SANDBOX);
    json_t *object = with->object != NULL ? json_of(with->object) : NULL;
    struct wp_api_result result = {.status = with->status,
                                   .kind = WP_KIND_SANDBOX,
                                   .code = 567,
                                   .object = object,
                                   .message = with->wordless ? NULL : "words",
                                   .retry_after_ns = with->retry_after_ns,
                                   .namespace_leaves = with->leaves};

    assert_non_null(call);
    wp_recorder_answer_full(call, &result);
    json_decref(object);
}

/* Is it in the store, and in which version? */
static void
show_stored(void)
{
    const struct wp_object *sandbox =
        wp_store_find(parts.stores[WP_KIND_SANDBOX], "ns", "s");

    golden_add(&golden, "    stored: %s\n",
               sandbox != NULL ? sandbox->resource_version : "-");
}

/* One entry's call, with each answer. */
static void
each_answer(const char *call, int shape, const struct wp_sandbox_ref *flags,
            const struct wp_lease_note *lease, const struct answer *first)
{
    char what[128];

    for (size_t i = 0; i < WP_ARRAY_LEN(answers); i++) {
        begin_with(shape);
        if (flags != NULL) {
            struct wp_sandbox_ref *entry = add_entry("s", 1, flags->phase);

            entry->posted = flags->posted;
            entry->unwanted = flags->unwanted;
            if (lease != NULL) {
                entry->lease = malloc(sizeof *entry->lease);
                assert_non_null(entry->lease);
                *entry->lease = *lease;
            }
        } else {
            clock_.now_wall_ns += 60 * S;
        }
        look("s");
        if (first != NULL) {
            answer(first);
        }
        calls_shown = wp_recorder_calls(parts.api);
        wp_cluster_backend_stats(backend, &stats_shown);
        (void)snprintf(what, sizeof what, "%s, %s", call, answers[i].what);
        step(what);
        answer(&answers[i]);
        show("s");
        show_stored();
        end();
    }
}

static void
each_answer_of_the_server_counts(void **state)
{
    static const struct wp_sandbox_ref creating = {.phase =
                                                       WP_SANDBOX_CREATING};
    static const struct wp_sandbox_ref posted = {.phase = WP_SANDBOX_CREATING,
                                                 .posted = true};
    static const struct wp_sandbox_ref ready = {.phase = WP_SANDBOX_READY};
    static const struct wp_sandbox_ref unwanted = {.phase = WP_SANDBOX_READY,
                                                   .unwanted = true};
    static const struct answer changed = {.what = "changed",
                                          .status = WP_ABORTED};

    (void)state;
    each_answer("POST", AS_NOTHING, &creating, NULL, NULL);
    each_answer("GET", AS_NOTHING, &posted, NULL, NULL);
    each_answer("DELETE", AS_READY, &unwanted, NULL, NULL);
    each_answer("PATCH", AS_READY, &ready, &job, NULL);
    each_answer("GET again", AS_READY, &ready, &job, &changed);
    each_answer("DELETE of an orphan", AS_NOTED, NULL, NULL, NULL);
    COMPARE("answers.txt");
}

/* What is not made for now is said at once, and then once in ten seconds. */
static void
a_delay_is_said_now_and_then(void **state)
{
    static const struct {
        const char *what;
        enum wp_status status;
        int64_t at_ns;
    } rows[] = {
        {"cancelled", WP_CANCELLED, 0},
        {"first", WP_UNAVAILABLE, 0},
        {"soon after", WP_UNAVAILABLE, 10 * S - 1},
        {"ten seconds after", WP_UNKNOWN_OUTCOME, 10 * S},
        {"soon after that", WP_UNAVAILABLE, 20 * S - 1},
    };

    (void)state;
    begin_with(AS_NOTHING);
    (void)add_entry("s", 1, WP_SANDBOX_CREATING);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        const struct answer with = {rows[i].what, rows[i].status, -1,
                                    NULL,         false,          false};

        clock_.now_mono_ns = MONO_NS + rows[i].at_ns;
        wp_sandbox_refs_find(backend->refs, "ns", "s")->posted = false;
        step(rows[i].what);
        look("s");
        answer(&with);
        show("s");
    }
    end();
    COMPARE("delays.txt");
}

/* --- When it leads again --- */

static void
what_became_of_it_is_told_at_once(void **state)
{
    char what[128];

    (void)state;
    for (int phase = 0; phase <= WP_SANDBOX_DELETING; phase++) {
        for (int shape = 0; shape < (int)WP_ARRAY_LEN(shapes); shape++) {
            struct wp_sandbox_ref *entry;

            begin_with(shape);
            entry = add_entry("s", 1, (enum wp_sandbox_phase)phase);
            entry->unwanted = phase == WP_SANDBOX_DELETING;
            (void)snprintf(what, sizeof what, "%s, %s", phases[phase],
                           shapes[shape].what);
            step(what);
            wp_backend_recheck(backend, entry);
            show("s");
            end();
        }
    }
    COMPARE("rechecks.txt");
}

static void
an_address_fits_or_it_is_none(void **state)
{
    char out[WP_ENDPOINT_MAX + 2];
    char ip[WP_ENDPOINT_MAX + 2];

    (void)state;
    begin();
    assert_true(wp_backend_endpoint(backend, "", out));
    assert_string_equal(out, "");
    assert_true(wp_backend_endpoint(backend, "10.0.0.7", out));
    assert_string_equal(out, "10.0.0.7:8888");
    assert_true(wp_backend_endpoint(backend, "fd00::7", out));
    assert_string_equal(out, "[fd00::7]:8888");
    memset(ip, '1', sizeof ip);
    ip[WP_ENDPOINT_MAX - 5] = '\0';
    out[WP_ENDPOINT_MAX + 1] = '~';
    assert_true(wp_backend_endpoint(backend, ip, out));
    assert_int_equal(strlen(out), WP_ENDPOINT_MAX);
    ip[WP_ENDPOINT_MAX - 5] = '1';
    ip[WP_ENDPOINT_MAX - 4] = '\0';
    assert_false(wp_backend_endpoint(backend, ip, out));
    assert_int_equal(out[WP_ENDPOINT_MAX + 1], '~');
    end();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_state_meets_each_object),
        cmocka_unit_test(what_else_is_known_of_it_counts),
        cmocka_unit_test(the_core_knows_whose_it_is),
        cmocka_unit_test(what_lacks_is_named),
        cmocka_unit_test(claims_that_wait_come_first),
        cmocka_unit_test(each_answer_of_the_server_counts),
        cmocka_unit_test(a_delay_is_said_now_and_then),
        cmocka_unit_test(what_became_of_it_is_told_at_once),
        cmocka_unit_test(an_address_fits_or_it_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
