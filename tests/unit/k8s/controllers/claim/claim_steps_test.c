/* What seldom happens to SandboxClaims: each call and each step, as
 * claim_steps.txt has it. What leaves the room is told by fakes before it. */
#include <unistd.h>

#include "tests/support/base/heard.h"
#include "tests/unit/k8s/controllers/claim/claim_told.h"

static struct heard heard;

static void
traced(void)
{
    told = 0;
    wp_claim_rig_init(&rig);
    rig.parts.config.claim_events = false;
    rig.parts.config.tracer = (void *)tracer;
    wp_claim_rig_start(&rig, 1);
    put_claim("\"name\":\"a\",\"annotations\":{\"" WP_ANNOTATION_TRACE
              "\":\"{\\\"traceparent\\\":\\\"00-"
              "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\\\"}\"}");
    wp_claim_rig_claim(&rig, "b", NULL);
    pass(3 * S, 6);
    merge(WP_KIND_SANDBOX, "b",
          READY("True", "DependenciesReady", "2026-01-01T00:00:05Z"));
    merge(WP_KIND_SANDBOX, "b",
          READY("False", "DependenciesNotReady", "2026-01-01T00:00:06Z"));
    tell_end();
}

/* A status waits for the annotations that are on their way. */
static void
annotations_first(void)
{
    begin_silent(1);
    wp_claim_rig_claim(&rig, "a", NULL);
    put("b", "");
    put("c", "");
    go_on();
    tell_calls("two wait");
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "b",
                            SPEC(BAD));
    go_on();
    tell_calls("one of them has changed");
    step();
    tell_calls("the annotation is there");
    wp_claim_rig_settle(&rig);
    tell_ready("b");
    /* Once is enough. */
    merge(WP_KIND_SANDBOX_CLAIM, "b", SPEC("\"additionalPodMetadata\":null"));
    assert_int_equal(wp_claim_rig_make_ready(&rig, 1), 1);
    tell_end();
}

static void
annotations_after_ready(void)
{
    told = 0;
    wp_claim_rig_init(&rig);
    rig.parts.config.claim_events = false;
    rig.parts.config.observability_annotations = false;
    wp_claim_rig_start(&rig, 2);
    put("a", "");
    go_on();
    step();
    step();
    tell_calls("it is Ready");
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX, "ns", wp_claim_rig_sandbox(&rig, "a"),
        READY("False", "DependenciesNotReady", "2026-01-01T00:00:09Z"));
    go_on();
    tell_calls("no more, which has to wait");
    step();
    tell_calls("the annotations are there");
    wp_claim_rig_settle(&rig);
    tell_ready("a");
    tell_end();
}

/* The answer to what was written for the last one of that name. */
static void
another_of_its_name(void)
{
    begin_silent(1);
    wp_claim_rig_claim(&rig, "a", NULL);
    put("b", "");
    go_on();
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "b");
    put("b", "");
    go_on();
    tell_calls("both were written to");
    step();
    tell_calls("the first is answered");
    assert_int_equal(wp_claim_rig_make_ready(&rig, 1), 1);
    tell_end();
}

static void
whole_seconds(void)
{
    told = 0;
    wp_claim_rig_init(&rig);
    wp_clock_manual_init(&rig.clock, 1000 * S, INT64_C(1767225600) * S);
    rig.parts.config.claim_events = false;
    wp_claim_rig_start(&rig, 1);
    wp_claim_rig_claim(&rig, "a", NULL);
    tell_end();
}

/* It was seen some time before it could be looked at. */
static void
seen_before(void)
{
    begin_silent(1);
    put("a", "");
    wp_recorder_notify(rig.api);
    wp_claim_rig_advance(&rig, 400 * MS);
    put("b", "");
    wp_recorder_notify(rig.api);
    wp_claim_rig_advance(&rig, 400 * MS);
    pass(3 * S, 10);
    tell_end();
}

/* Its metadata is to change, and its template is not there. */
static void
bound_without_template(void)
{
    begin_silent(2);
    wp_claim_rig_claim(&rig, "a", NULL);
    wp_claim_rig_claim(&rig, "b", NULL);
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t");
    merge(WP_KIND_SANDBOX_CLAIM, "a", SPEC(RED));
    tell_calls("no template");
    tell_ready("a");
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p");
    merge(WP_KIND_SANDBOX_CLAIM, "b", SPEC(RED));
    tell_calls("no pool");
    tell_ready("b");
    merge(WP_KIND_SANDBOX_CLAIM, "b",
          SPEC("\"additionalPodMetadata\":null,\"x\":1"));
    tell_calls("nothing is to change");
    tell_ready("b");
    tell_end();
}

/* It waits, and somebody has made it a Sandbox. */
static void
asked_in_vain(void)
{
    begin_silent(1);
    wp_claim_rig_claim(&rig, "a", NULL);
    wp_claim_rig_claim(&rig, "b", NULL);
    tell_numbers();
    put_sandbox("made", "", "SandboxClaim", "b", wp_claim_rig_uid(&rig, "b"));
    wp_claim_rig_settle(&rig);
    tell_end();
}

/* The claim is read before its Sandbox goes. */
static void
retained(void)
{
    static const struct wp_recorder_fault faults[] = {
        {.verb = WP_VERB_GET, .status = WP_UNAVAILABLE},
        {.verb = WP_VERB_GET, .status = WP_OK},
        {.verb = WP_VERB_GET, .status = WP_NOT_FOUND},
        {.verb = WP_VERB_DELETE, .status = WP_ABORTED},
        {.verb = WP_VERB_DELETE, .status = WP_NOT_FOUND},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(faults); i++) {
        struct wp_recorder_fault fault = faults[i];

        (void)fprintf(story, "== fault %zu\n", i);
        begin_silent(1);
        wp_claim_rig_claim(&rig, "a", ENDS("Retain"));
        plan(WP_VERB_DELETE, WP_KIND_SANDBOX, NULL, WP_UNAVAILABLE, 1);
        wp_claim_rig_advance(&rig, 1 * S);
        tell_calls("its time is over");
        fault.kind = WP_KIND_COUNT;
        wp_recorder_plan(rig.api, &fault);
        pass(5 * S, 10);
        tell_end();
    }
}

/* The deletion of a claim meets another's write. */
static void
deleted(void)
{
    static const enum wp_status statuses[] = {
        WP_OK, WP_NOT_FOUND, WP_ABORTED, WP_UNAVAILABLE, WP_PERMISSION_DENIED};

    for (size_t i = 0; i < WP_ARRAY_LEN(statuses); i++) {
        (void)fprintf(story, "== %s\n", wp_status_text(statuses[i]));
        begin(1);
        wp_claim_rig_claim(&rig, "a", ENDS("DeleteForeground"));
        wp_claim_rig_claim(&rig, "b", ENDS("Delete"));
        plan(WP_VERB_DELETE, WP_KIND_SANDBOX_CLAIM, NULL, statuses[i], 2);
        wp_claim_rig_advance(&rig, 1 * S);
        pass(5 * S, 10);
        tell_end();
    }
}

/* It is to live on, as somebody has written while it was being ended. */
static void
ended_and_changed(void)
{
    static const char *const policies[] = {ENDS("Delete"), ENDS("Retain")};

    for (size_t i = 0; i < WP_ARRAY_LEN(policies); i++) {
        begin_silent(1);
        wp_claim_rig_claim(&rig, "a", policies[i]);
        wp_clock_manual_advance(&rig.clock, 1 * S);
        wp_recorder_set_time(rig.api, rig.clock.now_wall_ns);
        wp_work_pause(((struct wp_claim_controller *)rig.controller)->queue,
                      false);
        go_on();
        tell_calls("its time is over");
        (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "a",
                                SPEC("\"lifecycle\":null"));
        step();
        tell_calls("it was not");
        wp_claim_rig_settle(&rig);
        tell_ready("a");
        tell_end();
    }
}

/* What waits and ends gives back what it asked for, however long it was to
 * wait. */
static void
ends_while_it_waits(void)
{
    for (int cold = 0; cold < 2; cold++) {
        told = 0;
        wp_claim_rig_init(&rig);
        rig.parts.config.claim_events = false;
        rig.parts.config.cold_start = cold;
        wp_claim_rig_start(&rig, 1);
        wp_claim_rig_claim(&rig, "a", NULL);
        wp_claim_rig_claim(&rig, "b", ENDS("Retain"));
        tell_numbers();
        wp_claim_rig_advance(&rig, 877 * MS);
        tell_end();
    }
}

/* What it was told to have is another's, and so is that of its name. */
static void
ends_with_nothing(void)
{
    begin_silent(0);
    put_sandbox("a", "", "Job", "j", "ju");
    put_sandbox("x", "", "SandboxClaim", "b", "bu");
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_CLAIM,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\"},\"spec\":{"
        "\"warmPoolRef\":{\"name\":\"p\"}," ENDS(
            "Retain") "},\"status\":{"
                      "\"sandbox\":{\"name\":\"x\"}}}");
    wp_claim_rig_advance(&rig, 2 * S);
    tell_end();
}

/* --- Without a garbage collector --- */

static void
collected(void)
{
    told = 0;
    wp_claim_rig_init(&rig);
    rig.parts.config.gc = true;
    rig.parts.config.claim_events = false;
    wp_claim_rig_start(&rig, 0);
    put_sandbox("s0", GOING, "SandboxClaim", "a", "au");
    put_sandbox("s1", "", "SandboxClaim", "a", "au");
    put_sandbox("s2", "", "SandboxClaim", "a", "au");
    put_sandbox("s3", "", "SandboxClaim", "a", "au");
    put_sandbox("s4", "", "SandboxClaim", "b", "bu");
    wp_claim_rig_settle(&rig);
    put_claim("\"name\":\"a\",\"uid\":\"au\"");
    tell_calls("one has several");
    wp_recorder_plan(
        rig.api, &(struct wp_recorder_fault){.verb = WP_VERB_DELETE,
                                             .kind = WP_KIND_SANDBOX,
                                             .name = "s1",
                                             .status = WP_RESOURCE_EXHAUSTED,
                                             .retry_after_ns = 3 * S});
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_DELETE,
                                                 .kind = WP_KIND_SANDBOX,
                                                 .name = "s2",
                                                 .status = WP_UNAVAILABLE});
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_DELETE,
                                                 .kind = WP_KIND_SANDBOX,
                                                 .name = "s3",
                                                 .status = WP_ABORTED});
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "a");
    wp_claim_rig_settle(&rig);
    tell_calls("the claim is gone");
    /* One goes by itself, and what comes with its name is another's. */
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX, "ns", "s1");
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX, "ns", "s3");
    put_sandbox("s3", "", "SandboxClaim", "c", "cu");
    wp_claim_rig_settle(&rig);
    pass(5 * S, 20);
    put_sandbox("s1", "", "SandboxClaim", "c", "cu");
    wp_claim_rig_settle(&rig);
    pass(5 * S, 20);
    tell_end();
}

/* One too many is ended again when it is there after all. */
static void
spare(void)
{
    static const enum wp_status statuses[] = {WP_NOT_FOUND, WP_OK,
                                              WP_CANCELLED};

    for (size_t i = 0; i < WP_ARRAY_LEN(statuses); i++) {
        begin_silent(0);
        (void)fprintf(story, "== %s\n", wp_status_text(statuses[i]));
        put_sandbox("s1", "", "SandboxClaim", "a", "au");
        put_sandbox("s2", "\"labels\":{\"" WP_LABEL_CLAIM_UID "\":\"au\"},",
                    "SandboxClaim", "a", "au");
        put_sandbox("s3", "\"labels\":{\"" WP_LABEL_CLAIM_UID "\":\"bu\"},",
                    "SandboxClaim", "a", "au");
        wp_claim_rig_settle(&rig);
        plan(WP_VERB_DELETE, WP_KIND_SANDBOX, NULL, statuses[i], 1);
        heard_begin(&heard);
        put_claim("\"name\":\"a\",\"uid\":\"au\"");
        pass(2 * S, 4);
        merge(WP_KIND_SANDBOX, "s1",
              READY("True", "DependenciesReady", "2026-01-01T00:00:05Z"));
        (void)fprintf(story, "%s", heard_end(&heard));
        tell_end();
    }
}

/* An API server whose SandboxClaims have no serviceFQDN is told it once. */
static void
older_claims(void)
{
    begin_silent(2);
    wp_recorder_set_older_claims(rig.api);
    wp_claim_rig_claim(&rig, "a", NULL);
    merge(WP_KIND_SANDBOX, wp_claim_rig_sandbox(&rig, "a"),
          "{\"status\":{\"serviceFQDN\":\"x\"}}");
    tell_calls("it has a Service");
    merge(WP_KIND_SANDBOX, wp_claim_rig_sandbox(&rig, "a"),
          READY("True", "DependenciesReady", "2026-01-01T00:00:05Z"));
    wp_claim_rig_claim(&rig, "b", NULL);
    merge(WP_KIND_SANDBOX, wp_claim_rig_sandbox(&rig, "b"),
          "{\"status\":{\"serviceFQDN\":\"y\"}}");
    tell_end();
}

/* --- Pools and templates that are missing --- */

static void
put_claim_of(const char *name, const char *pool)
{
    char text[256];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\"},"
                   "\"spec\":{\"warmPoolRef\":{\"name\":\"%s\"}}}",
                   name, pool);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM, text);
}

static void
no_names(void)
{
    begin_silent(0);
    put_claim_of("no-pool", "");
    put_claim_of("no-template", "shadow-pool-");
    wp_claim_rig_settle(&rig);
    tell_ready("no-pool");
    tell_ready("no-template");
    pass(60 * S, 2);
    tell_end();
}

/* What was asked for is answered when something else is missing. */
static void
missing_meanwhile(void)
{
    begin_silent(0);
    put_pool("q", "nowhere", "");
    wp_claim_rig_settle(&rig);
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_CLAIM,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\"},\"spec\":{"
        "\"warmPoolRef\":{\"name\":\"q\"},\"env\":[{\"name\":\"B\","
        "\"value\":\"2\"}]}}");
    go_on();
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "q");
    go_on();
    wp_claim_rig_settle(&rig);
    tell_calls("the pool is gone, too");
    tell_ready("a");
    put_claim_of("b", "late");
    go_on();
    put_pool("late", "nowhere", "");
    go_on();
    wp_recorder_answer(
        wp_recorder_open(rig.api, WP_VERB_GET, WP_KIND_SANDBOX_WARM_POOL),
        WP_NOT_FOUND, NULL);
    go_on();
    tell_calls("the pool has come");
    wp_claim_rig_settle(&rig);
    tell_ready("b");
    tell_end();
}

/* --- Answers --- */

static const struct {
    uint32_t target;
    enum wp_verb verb;
    enum wp_kind kind;
    const char *subresource;
} writes[] = {
    {1, WP_VERB_PATCH, WP_KIND_SANDBOX, NULL},
    {0, WP_VERB_POST, WP_KIND_SANDBOX, NULL},
    {1, WP_VERB_PATCH, WP_KIND_SANDBOX_CLAIM, "status"},
    {1, WP_VERB_PATCH, WP_KIND_SANDBOX_CLAIM, ""},
};

/* Answers that make no sense, and such that say when to come again. */
static void
odd_answers(void)
{
    json_t *garbage = json_pack("{s:{}}", "metadata");

    for (size_t w = 0; w < WP_ARRAY_LEN(writes); w++) {
        for (int how = 0; how < 4; how++) {
            begin_silent(writes[w].target);
            (void)fprintf(story, "== write %zu, answer %d\n", w, how);
            wp_recorder_plan(rig.api,
                             &(struct wp_recorder_fault){
                                 .verb = writes[w].verb,
                                 .kind = writes[w].kind,
                                 .subresource = writes[w].subresource,
                                 .status = how < 2    ? WP_OK
                                           : how == 2 ? WP_UNAVAILABLE
                                                      : WP_RESOURCE_EXHAUSTED,
                                 .object = how == 1 ? garbage : NULL,
                                 .effect = how < 2,
                                 .retry_after_ns = how == 3 ? 3 * S : 0});
            heard_begin(&heard);
            wp_claim_rig_claim(&rig, "a", NULL);
            (void)fprintf(story, "%s", heard_end(&heard));
            tell_ready("a");
            pass(10 * S, 20);
            tell_calls("at the end");
            tell_ready("a");
            end();
        }
    }
    json_decref(garbage);
}

/* The same of the write that brings a Sandbox up to date. */
static void
odd_answers_to_a_refresh(void)
{
    json_t *garbage = json_pack("{s:{}}", "metadata");

    for (int how = 0; how < 4; how++) {
        begin_silent(1);
        (void)fprintf(story, "== answer %d\n", how);
        wp_claim_rig_claim(&rig, "a", NULL);
        told = wp_recorder_calls(rig.api);
        wp_recorder_plan(rig.api,
                         &(struct wp_recorder_fault){
                             .verb = WP_VERB_PATCH,
                             .kind = WP_KIND_SANDBOX,
                             .status = how < 2    ? WP_OK
                                       : how == 2 ? WP_NOT_FOUND
                                                  : WP_RESOURCE_EXHAUSTED,
                             .object = how == 1 ? garbage : NULL,
                             .effect = how < 2,
                             .retry_after_ns = how == 3 ? 3 * S : 0});
        heard_begin(&heard);
        merge(WP_KIND_SANDBOX_CLAIM, "a", SPEC(RED));
        (void)fprintf(story, "%s", heard_end(&heard));
        pass(10 * S, 20);
        tell_calls("at the end");
        tell_ready("a");
        end();
    }
    json_decref(garbage);
}

/* A server that says "at once" says nothing. */
static void
at_once(void)
{
    for (int cold = 0; cold < 2; cold++) {
        begin_silent(cold ? 0 : 1);
        put("a", "");
        go_on();
        wp_recorder_answer_full(
            wp_recorder_open(rig.api, cold ? WP_VERB_POST : WP_VERB_PATCH,
                             WP_KIND_SANDBOX),
            &(struct wp_api_result){
                .status = WP_UNAVAILABLE, .code = 503, .retry_after_ns = 0});
        go_on();
        wp_claim_rig_settle(&rig);
        tell_calls("not at once");
        pass(5 * S, 10);
        tell_end();
    }
}

/* The template has a label that the claim wants otherwise. */
static void
contradicted(void)
{
    begin_silent(2);
    wp_claim_rig_claim(&rig, "bound", NULL);
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t",
        "{\"spec\":{\"podTemplate\":{\"metadata\":{\"labels\":{"
        "\"sandbox.users.io/team\":\"blue\"}}}}}");
    wp_claim_rig_settle(&rig);
    tell_calls("other labels");
    put_sandbox("named", "", "SandboxWarmPool", "p", "ou");
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_CLAIM,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"half\","
        "\"annotations\":{\"" WP_ANNOTATION_SANDBOX_NAME
        "\":\"named\"}},\"spec\":{\"warmPoolRef\":{\"name\":\"p\"}," RED "}}");
    wp_claim_rig_settle(&rig);
    tell_ready("half");
    wp_claim_rig_claim(&rig, "new", RED);
    tell_ready("new");
    merge(WP_KIND_SANDBOX_CLAIM, "bound", SPEC(RED));
    tell_ready("bound");
    pass(2 * S, 4);
    tell_end();
}

/* It is put right while it is told what is wrong: nothing of that stays. */
static void
put_right(void)
{
    for (int how = 0; how < 2; how++) {
        begin_silent(1);
        (void)fprintf(story, "== %d\n", how);
        (void)wp_recorder_merge(
            rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t",
            "{\"spec\":{\"podTemplate\":{\"metadata\":{\"labels\":{"
            "\"sandbox.users.io/team\":\"blue\"}}}}}");
        wp_claim_rig_settle(&rig);
        if (how == 0) {
            put("a", RED);
        } else {
            put_claim_of("a", "none");
        }
        go_on();
        if (how == 1) {
            step();
        }
        (void)wp_recorder_merge(
            rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "a",
            SPEC("\"additionalPodMetadata\":null,\"warmPoolRef\":{\"name\":"
                 "\"p\"}"));
        step();
        tell_calls("its status met the change");
        wp_claim_rig_settle(&rig);
        tell_ready("a");
        tell_end();
    }
}

/* What the core has granted, and may be the claim's, is given up or not. */
static void
refused_while_granted(void)
{
    static const struct {
        enum wp_status status;
        bool effect;
        bool unread; /* The Sandbox cannot be read. */
    } rows[] = {
        {WP_UNAVAILABLE, false, false},
        {WP_UNAVAILABLE, true, false},
        {WP_UNKNOWN_OUTCOME, false, true},
        {WP_UNKNOWN_OUTCOME, true, true},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        begin_silent(1);
        (void)fprintf(story, "== %zu\n", i);
        wp_recorder_plan(rig.api,
                         &(struct wp_recorder_fault){.verb = WP_VERB_PATCH,
                                                     .kind = WP_KIND_SANDBOX,
                                                     .status = rows[i].status,
                                                     .effect = rows[i].effect});
        if (rows[i].unread) {
            plan(WP_VERB_GET, WP_KIND_SANDBOX, NULL, WP_UNAVAILABLE, 1);
        }
        put("a", "");
        wp_recorder_notify(rig.api);
        wp_recorder_hold(rig.api, true);
        wp_claim_rig_settle(&rig);
        tell_calls("granted");
        (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "a",
                                SPEC(BAD));
        wp_recorder_hold(rig.api, false);
        wp_claim_rig_settle(&rig);
        tell_calls("refused");
        tell_ready("a");
        tell_numbers();
        merge(WP_KIND_SANDBOX_CLAIM, "a",
              SPEC("\"additionalPodMetadata\":null"));
        pass(5 * S, 10);
        rig.faults_may_stay = true;
        tell_end();
    }
}

/* Perhaps it was made: until that was read no other one is taken. */
static void
doubt_stays(void)
{
    json_t *said = json_pack("{s:s}", "kind", "Status");

    for (int how = 0; how < 4; how++) {
        begin_silent(1);
        (void)fprintf(story, "== %d\n", how);
        wp_claim_rig_claim(&rig, "a", NULL);
        plan(WP_VERB_POST, WP_KIND_SANDBOX, NULL, WP_UNKNOWN_OUTCOME, 1);
        wp_recorder_plan(rig.api, &(struct wp_recorder_fault){
                                      .verb = WP_VERB_GET,
                                      .kind = WP_KIND_SANDBOX,
                                      .status = how < 2    ? WP_UNAVAILABLE
                                                : how == 2 ? WP_OK
                                                           : WP_NOT_FOUND,
                                      .object = how == 1 ? said : NULL});
        wp_claim_rig_claim(&rig, "b", NULL);
        told = wp_recorder_calls(rig.api);
        pass(2 * S, 2);
        tell_calls("a cold one, perhaps");
        assert_int_equal(wp_claim_rig_make_ready(&rig, 1), 1);
        pass(5 * S, 20);
        tell_end();
    }
    json_decref(said);
}

/* It was not adopted, as was read: what is asked for then is given up again. */
static void
doubt_ends(void)
{
    for (int how = 0; how < 2; how++) {
        told = 0;
        wp_claim_rig_init(&rig);
        rig.parts.config.claim_events = false;
        rig.parts.config.cold_start = false;
        wp_claim_rig_start(&rig, 1);
        (void)fprintf(story, "== %d\n", how);
        put("a", "");
        go_on();
        if (how == 0) {
            wp_recorder_remove(
                rig.api, WP_KIND_SANDBOX, "ns",
                wp_recorder_open(rig.api, WP_VERB_PATCH, WP_KIND_SANDBOX)
                    ->name);
        } else {
            (void)wp_recorder_merge(
                rig.api, WP_KIND_SANDBOX, "ns",
                wp_recorder_open(rig.api, WP_VERB_PATCH, WP_KIND_SANDBOX)->name,
                "{\"metadata\":{\"ownerReferences\":[{\"apiVersion\":"
                "\"extensions.agents.x-k8s.io/v1beta1\",\"kind\":"
                "\"SandboxClaim\",\"name\":\"b\",\"uid\":\"bu\","
                "\"controller\":true}]}}");
        }
        wp_recorder_answer(
            wp_recorder_open(rig.api, WP_VERB_PATCH, WP_KIND_SANDBOX),
            WP_UNKNOWN_OUTCOME, NULL);
        heard_begin(&heard);
        wp_claim_rig_settle(&rig);
        (void)fprintf(story, "%s", heard_end(&heard));
        wp_claim_rig_advance(&rig, 1 * S);
        tell_numbers();
        merge(WP_KIND_SANDBOX_CLAIM, "a", SPEC(BAD));
        tell_ready("a");
        tell_end();
    }
}

/* --- What is brought up to date --- */

static void
up_to_date(void)
{
    begin_silent(2);
    wp_claim_rig_claim(&rig, "a", NULL);
    wp_claim_rig_claim(&rig, "b", NULL);
    (void)fprintf(story, "-- the claim has changed, for nothing\n");
    merge(WP_KIND_SANDBOX_CLAIM, "a", SPEC("\"x\":1"));
    merge(WP_KIND_SANDBOX, wp_claim_rig_sandbox(&rig, "a"),
          READY("False", "DependenciesNotReady", "2026-01-01T00:00:09Z"));
    (void)fprintf(story, "-- once more\n");
    merge(WP_KIND_SANDBOX_CLAIM, "a", SPEC("\"x\":2"));
    merge(WP_KIND_SANDBOX, wp_claim_rig_sandbox(&rig, "a"),
          READY("True", "DependenciesReady", "2026-01-01T00:00:10Z"));
    (void)fprintf(story, "-- the template has\n");
    merge(WP_KIND_SANDBOX_TEMPLATE, "t",
          "{\"spec\":{\"podTemplate\":{\"metadata\":{\"labels\":{"
          "\"tier\":\"two\"}}}}}");
    merge(WP_KIND_SANDBOX, wp_claim_rig_sandbox(&rig, "a"),
          READY("True", "DependenciesReady", "2026-01-01T00:00:10Z"));
    (void)fprintf(story, "-- another one, whose metadata is the same\n");
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_TEMPLATE,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"u\"},\"spec\":{"
        "\"podTemplate\":{\"metadata\":{\"labels\":{\"of\":\"template\","
        "\"tier\":\"two\"},\"annotations\":{\"note\":\"one\"}},\"spec\":{"
        "\"containers\":[{\"name\":\"main\",\"image\":\"i\"}]}}}}");
    merge(WP_KIND_SANDBOX_WARM_POOL, "p",
          SPEC("\"sandboxTemplateRef\":{\"name\":\"u\"}"));
    merge(WP_KIND_SANDBOX, wp_claim_rig_sandbox(&rig, "a"),
          READY("False", "DependenciesNotReady", "2026-01-01T00:00:11Z"));
    tell_end();
}

/* Sandboxes that tell of no template, and have no pool's metadata. */
static void
unknown_template(void)
{
    begin_silent(0);
    put_sandbox("s1", "", "SandboxWarmPool", "p", "ou");
    put_sandbox("s2",
                "\"annotations\":{\"" WP_ANNOTATION_TEMPLATE_REF "\":\"\"},",
                "SandboxWarmPool", "p", "ou");
    merge(WP_KIND_SANDBOX, "s1",
          READY("True", "DependenciesReady", "2026-01-01T00:00:05Z"));
    merge(WP_KIND_SANDBOX, "s2",
          READY("True", "DependenciesReady", "2026-01-01T00:00:05Z"));
    put_claim("\"name\":\"a\",\"annotations\":{\"" WP_ANNOTATION_SANDBOX_NAME
              "\":\"s1\"}");
    put_claim("\"name\":\"b\",\"annotations\":{\"" WP_ANNOTATION_SANDBOX_NAME
              "\":\"s2\"}");
    tell_end();
}

/* What a client and a webhook have noted is measured from, where it makes
 * sense. */
static void
measured(void)
{
    begin_silent(3);
    put_claim("\"name\":\"a\",\"annotations\":{"
              "\"agents.x-k8s.io/client-first-requested-at\":"
              "\"2025-12-31T23:59:59Z\","
              "\"agents.x-k8s.io/webhook-first-observed-at\":"
              "\"2025-12-31T23:59:59.900Z\"}");
    put_claim("\"name\":\"b\",\"annotations\":{"
              "\"agents.x-k8s.io/client-first-requested-at\":\"x\","
              "\"agents.x-k8s.io/webhook-first-observed-at\":"
              "\"2026-01-01T01:00:00Z\"}");
    put_claim("\"name\":\"c\",\"annotations\":{"
              "\"" WP_ANNOTATION_FIRST_OBSERVED "\":\"2025-12-31T23:59:57Z\"}");
    end();
}

/* How long it waits is counted from when it was made, if that is long enough
 * ago to know. */
static void
made_before(void)
{
    for (int before = 0; before < 3; before++) {
        told = 0;
        wp_claim_rig_init(&rig);
        wp_clock_manual_init(&rig.clock, 1000 * S,
                             INT64_C(1767225600) * S + 500 * MS + before - 1);
        rig.parts.config.claim_events = false;
        rig.parts.config.cold_start = false;
        wp_claim_rig_start(&rig, 1);
        wp_claim_rig_claim(&rig, "a", NULL);
        put_claim("\"name\":\"b\",\"creationTimestamp\":"
                  "\"2025-12-31T23:59:59Z\"");
        end();
    }
}

static int64_t identity_due_ns;

int64_t
__real_wp_claim_identity_due_ns(const struct wp_claim_reconcile *reconcile);
int64_t
__wrap_wp_claim_identity_due_ns(const struct wp_claim_reconcile *reconcile);
int64_t
__wrap_wp_claim_identity_due_ns(const struct wp_claim_reconcile *reconcile)
{
    return identity_due_ns != 0 ? identity_due_ns
                                : __real_wp_claim_identity_due_ns(reconcile);
}

/* The next identity is for those that are Ready; the earliest end counts. */
static void
identity_due(void)
{
    static const int64_t dues[] = {100 * MS, 60 * S, WP_TIME_NEVER};

    for (size_t i = 0; i < WP_ARRAY_LEN(dues); i++) {
        begin_silent(2);
        identity_due_ns = dues[i];
        wp_claim_rig_claim(&rig, "ready", NULL);
        wp_claim_rig_claim(&rig, "ends", ENDS("Retain"));
        wp_claim_rig_claim(&rig, "bad", BAD);
        put_claim_of("missing", "none");
        wp_claim_rig_settle(&rig);
        identity_due_ns = 0;
        end();
    }
}

/* --- Settings --- */

static void
domains(void)
{
    char path[4096];
    const char *dir = getenv("TMPDIR");
    int fd;

    (void)snprintf(path, sizeof path, "%s/wp-domains-XXXXXX",
                   dir != NULL ? dir : "/tmp");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "example.org", 11), 11);
    assert_int_equal(close(fd), 0);
    told = 0;
    wp_claim_rig_init(&rig);
    rig.parts.config.claim_events = false;
    rig.parts.config.allowed_label_domains_file = path;
    wp_claim_rig_start(&rig, 2);
    wp_claim_rig_claim(
        &rig, "a",
        "\"additionalPodMetadata\":{\"labels\":{\"example.org/x\":\"y\"}}");
    wp_claim_rig_claim(&rig, "b", RED);
    tell_ready("a");
    tell_ready("b");
    assert_int_equal(unlink(path), 0);
    end();
}

/* What it was to be brought cannot be any more: it is told no Sandbox. */
static void
not_brought(void)
{
    begin_silent(0);
    put_sandbox("made",
                "\"annotations\":{\"" WP_ANNOTATION_BRINGS "\":\"true\"},",
                "SandboxClaim", "a", "au");
    merge(WP_KIND_SANDBOX, "made",
          READY("True", "DependenciesReady", "2026-01-01T00:00:05Z"));
    put_claim("\"name\":\"a\",\"uid\":\"au\"");
    tell_ready("a");
    tell_end();
}

/* --- Where tests stop the process --- */

static char faults[1024];
static bool stops; /* They are looked at. */

void __wrap_wp_fault(const char *name);
void
__wrap_wp_fault(const char *name)
{
    size_t len = strlen(faults);

    if (stops) {
        int n = snprintf(faults + len, sizeof faults - len, "%s\n", name);

        assert_true(n > 0 && (size_t)n < sizeof faults - len);
    }
}

static void
life_of_two(void)
{
    told = 0;
    wp_claim_rig_init(&rig);
    rig.parts.config.observability_annotations = false;
    wp_claim_rig_start(&rig, 1);
    wp_claim_rig_claim(&rig, "a", NULL);
    (void)strcat(faults, "-- a cold one\n");
    merge(WP_KIND_SANDBOX_TEMPLATE, "t",
          SPEC("\"envVarsInjectionPolicy\":\"Allowed\""));
    wp_claim_rig_claim(&rig, "b", "\"env\":[{\"name\":\"B\",\"value\":\"2\"}]");
    end();
}

static void
the_process_can_be_stopped_at_each_step(void **state)
{
    char *text = NULL;
    size_t len;

    (void)state;
#ifndef WP_TEST_TOOLS
    skip();
#endif
    story = open_memstream(&text, &len);
    assert_non_null(story);
    stops = true;
    life_of_two();
    stops = false;
    assert_int_equal(fclose(story), 0);
    free(text);
    assert_string_equal(faults, "claim.before_claim\n"
                                "claim.after_claim\n"
                                "claim.before_adopt\n"
                                "claim.adopt_sent\n"
                                "claim.after_adopt\n"
                                "claim.after_status\n"
                                "claim.before_annotations\n"
                                "-- a cold one\n"
                                "claim.before_create\n"
                                "claim.after_create\n"
                                "claim.after_status\n");
}

static void
seldom_things_go_as_they_are_told(void **state)
{
    static const struct wp_story_life lives[] = {
        {"traced", traced},
        {"annotations first", annotations_first},
        {"annotations after ready", annotations_after_ready},
        {"another of its name", another_of_its_name},
        {"whole seconds", whole_seconds},
        {"seen before", seen_before},
        {"bound without template", bound_without_template},
        {"asked in vain", asked_in_vain},
        {"retained", retained},
        {"deleted", deleted},
        {"ended and changed", ended_and_changed},
        {"ends while it waits", ends_while_it_waits},
        {"ends with nothing", ends_with_nothing},
        {"collected", collected},
        {"spare", spare},
        {"older claims", older_claims},
        {"no names", no_names},
        {"missing meanwhile", missing_meanwhile},
        {"odd answers", odd_answers},
        {"odd answers to a refresh", odd_answers_to_a_refresh},
        {"at once", at_once},
        {"contradicted", contradicted},
        {"put right", put_right},
        {"refused while granted", refused_while_granted},
        {"doubt stays", doubt_stays},
        {"doubt ends", doubt_ends},
        {"up to date", up_to_date},
        {"unknown template", unknown_template},
        {"measured", measured},
        {"made before", made_before},
        {"identity due", identity_due},
        {"domains", domains},
        {"not brought", not_brought},
    };

    (void)state;
    wp_story_tell(&story, lives, WP_ARRAY_LEN(lives), WP_TEST_STORY);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(seldom_things_go_as_they_are_told),
        cmocka_unit_test(the_process_can_be_stopped_at_each_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
