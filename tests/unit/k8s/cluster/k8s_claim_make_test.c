/* The SandboxClaim that somebody outside of the cluster asks for: all of the
 * object that is sent, what is a label and what an annotation, and what is
 * answered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "k8s/cluster/claim_make.h"
#include "k8s/cluster/cluster_impl.h"
#include "pool/base/str.h"
#include "tests/support/pool/manual_clock.h"

static struct wp_cluster cluster;
static struct wp_clock_manual clock_;
static char loop;
static char templates;
static char api;
static bool full;
static bool there;
static char journal[4096];

/* What the loop was given. */
static void (*posted)(void *ctx, uint64_t a, uint64_t b);
static void *posted_ctx;
/* What the API was given. */
static wp_api_done *answer;
static void *answer_ctx;

static void
note(const char *fmt, ...)
{
    size_t len = strlen(journal);
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(journal + len, sizeof journal - len, fmt, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < sizeof journal - len);
}

bool __wrap_wp_loop_post(struct wp_loop *to,
                         void (*run)(void *ctx, uint64_t a, uint64_t b),
                         void *ctx, uint64_t a, uint64_t b);
bool
__wrap_wp_loop_post(struct wp_loop *to,
                    void (*run)(void *ctx, uint64_t a, uint64_t b), void *ctx,
                    uint64_t a, uint64_t b)
{
    assert_ptr_equal(to, &loop);
    posted = run;
    posted_ctx = ctx;
    note("post %u %u\n", (unsigned)a, (unsigned)b);
    return !full;
}

const struct wp_object *__wrap_wp_store_find(const struct wp_store *store,
                                             const char *ns, const char *name);
const struct wp_object *
__wrap_wp_store_find(const struct wp_store *store, const char *ns,
                     const char *name)
{
    assert_ptr_equal(store, &templates);
    note("find %s/%s\n", ns, name);
    return there ? (const void *)&templates : NULL;
}

void __wrap_wp_api_post(struct wp_api *to, const struct wp_api_target *target,
                        json_t *body, wp_api_done *done, void *ctx);
void
__wrap_wp_api_post(struct wp_api *to, const struct wp_api_target *target,
                   json_t *body, wp_api_done *done, void *ctx)
{
    char *text = json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS);

    assert_ptr_equal(to, &api);
    assert_non_null(text);
    note("POST kind %s ns %s name %s sub %s priority %d\n%s\n",
         wp_kind_info(target->kind)->kind, target->ns,
         target->name != NULL ? target->name : "-",
         target->subresource != NULL ? target->subresource : "-",
         (int)target->priority, text);
    free(text);
    json_decref(body);
    answer = done;
    answer_ctx = ctx;
}

static void
told(struct wp_claim_make *make)
{
    note("%s %s %lld\n", wp_status_text(make->status), make->reason,
         (long long)make->retry_after_ns);
}

static struct wp_claim_make
begin(void)
{
    wp_clock_manual_init(&clock_, 5, 1700000000 * WP_NS_PER_S);
    memset(&cluster, 0, sizeof cluster);
    cluster.loop = (void *)&loop;
    cluster.parts.clock = &clock_.clock;
    cluster.parts.api = (void *)&api;
    cluster.parts.stores[WP_KIND_SANDBOX_TEMPLATE] = (void *)&templates;
    atomic_store_explicit(&cluster.synced, true, memory_order_release);
    full = false;
    there = true;
    answer = NULL;
    journal[0] = '\0';
    return (struct wp_claim_make){.ns = "team",
                                  .name = "c1",
                                  .template_name = "python",
                                  .ttl_ns = 90 * WP_NS_PER_S,
                                  .traceparent = "",
                                  .done = told};
}

static const char *
asked(struct wp_claim_make *make)
{
    assert_true(wp_cluster_make_claim(&cluster, make));
    assert_ptr_equal(posted_ctx, make);
    posted(posted_ctx, 0, 0);
    return journal;
}

#define HEAD                                                                   \
    "post 0 0\nfind team/python\n"                                             \
    "POST kind SandboxClaim ns team name - sub - priority 0\n"                 \
    "{\"apiVersion\":\"extensions.agents.x-k8s.io/v1beta1\","                  \
    "\"kind\":\"SandboxClaim\",\"metadata\":{"
#define LABELS                                                                 \
    "\"labels\":{\"app.kubernetes.io/component\":\"sandbox-trigger\","         \
    "\"app.kubernetes.io/part-of\":\"kagenti\""
#define TAIL                                                                   \
    "\"name\":\"c1\",\"namespace\":\"team\"},\"spec\":{\"lifecycle\":{"        \
    "\"shutdownPolicy\":\"Delete\",\"shutdownTime\":\"2023-11-14T22:14:50Z\"}" \
    ",\"warmPoolRef\":{\"name\":\"shadow-pool-python\"}}}\n"

static void
a_claim_names_any_pool_of_its_template_and_its_end(void **state)
{
    struct wp_claim_make make = begin();

    (void)state;
    assert_string_equal(asked(&make),
                        HEAD "\"annotations\":{}," LABELS "}," TAIL);
    assert_ptr_equal(answer_ctx, &make);
}

static void
marks_and_the_trace_of_who_asks_are_on_it(void **state)
{
    static const struct wp_claim_mark marks[] = {
        {"example.com/a", "v-1"},
        {"example.com/b", "two words"},
        {"example.com/c", "x"},
    };
    struct wp_claim_make make = begin();

    (void)state;
    make.marks = marks;
    make.n_marks = 2; /* Not the third. */
    make.traceparent =
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    assert_string_equal(
        asked(&make), HEAD
        "\"annotations\":{\"example.com/b\":\"two words\","
        "\"opentelemetry.io/trace-context\":\"{\\\"traceparent\\\":\\\"00-"
        "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\\\"}\"}," LABELS
        ",\"example.com/a\":\"v-1\"}," TAIL);
}

/* As the API server has it: 63 bytes of these, the ends letters or digits. */
static void
what_may_be_a_label_is_one_and_all_else_an_annotation(void **state)
{
    static const char longest[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789x";
    static const struct {
        const char *value;
        bool label;
    } cases[] = {
        {"", false},     {longest, true}, {"a", true},    {"z", true},
        {"A", true},     {"Z", true},     {"0", true},    {"9", true},
        {"`a", false},   {"a`", false},   {"{a", false},  {"a{", false},
        {"@a", false},   {"a@", false},   {"[a", false},  {"a[", false},
        {"/a", false},   {"a/", false},   {":a", false},  {"a:", false},
        {"-a", false},   {"a-", false},   {"_a", false},  {"a_", false},
        {".a", false},   {"a.", false},   {"a-b", true},  {"a_b", true},
        {"a.b", true},   {"a`b", false},  {"a{b", false}, {"a@b", false},
        {"a[b", false},  {"a/b", false},  {"a:b", false}, {"a b", false},
        {"ab c", false}, {"a bc", false}, {"-", false},
    };
    char longer[sizeof longest + 1];

    (void)state;
    assert_int_equal(strlen(longest), 63);
    (void)snprintf(longer, sizeof longer, "%sy", longest);
    for (size_t i = 0; i <= WP_ARRAY_LEN(cases); i++) {
        bool is_last = i == WP_ARRAY_LEN(cases);
        struct wp_claim_mark mark = {"example.com/m",
                                     is_last ? longer : cases[i].value};
        bool label = !is_last && cases[i].label;
        struct wp_claim_make make = begin();
        char want[2048];
        char member[128];

        make.marks = &mark;
        make.n_marks = 1;
        (void)snprintf(member, sizeof member, "\"example.com/m\":\"%s\"",
                       mark.value);
        (void)snprintf(want, sizeof want,
                       HEAD "\"annotations\":{%s}," LABELS "%s%s}," TAIL,
                       label ? "" : member, label ? "," : "",
                       label ? member : "");
        assert_string_equal(asked(&make), want);
    }
}

static void
the_longest_name_of_a_template_is_whole(void **state)
{
    struct wp_claim_make make = begin();
    char name[WP_TEMPLATE_NAME_MAX + 1];
    char want[WP_TEMPLATE_NAME_MAX + 64];

    (void)state;
    memset(name, 't', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    make.template_name = name;
    (void)snprintf(want, sizeof want, "{\"name\":\"shadow-pool-%s\"}", name);
    assert_non_null(strstr(asked(&make), want));
}

static void
what_cannot_be_made_is_answered_without_a_call(void **state)
{
    struct wp_claim_make make = begin();

    (void)state;
    there = false;
    assert_string_equal(asked(&make),
                        "post 0 0\nfind team/python\n"
                        "not found there is no such SandboxTemplate 0\n");
    /* It is not known who there is. */
    make = begin();
    atomic_store_explicit(&cluster.synced, false, memory_order_release);
    assert_string_equal(asked(&make),
                        "post 0 0\nunavailable the cluster is not known yet "
                        "1000000000\n");
    make = begin();
    full = true;
    assert_false(wp_cluster_make_claim(&cluster, &make));
    assert_string_equal(journal, "post 0 0\n");
}

static void
who_sees_no_templates_leaves_it_to_the_others(void **state)
{
    struct wp_claim_make make = begin();

    (void)state;
    there = false;
    cluster.parts.stores[WP_KIND_SANDBOX_TEMPLATE] = NULL;
    assert_memory_equal(asked(&make), "post 0 0\nPOST kind SandboxClaim", 31);
}

static void
the_answer_of_the_server_is_passed_on(void **state)
{
    static const struct {
        struct wp_api_result result;
        const char *told;
    } cases[] = {
        {{.status = WP_OK, .retry_after_ns = -1}, "ok ok 0\n"},
        {{.status = WP_ABORTED, .message = "quota", .retry_after_ns = 1},
         "aborted quota 1\n"},
        {{.status = WP_ABORTED, .message = "", .retry_after_ns = 0},
         "aborted  0\n"},
        {{.status = WP_UNKNOWN_OUTCOME, .retry_after_ns = 7},
         "outcome unknown outcome unknown 7\n"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_claim_make make = begin();

        (void)asked(&make);
        journal[0] = '\0';
        answer(answer_ctx, &cases[i].result);
        assert_string_equal(journal, cases[i].told);
    }
}

/* All that there is room for. */
static void
a_long_reason_is_cut(void **state)
{
    struct wp_claim_make make = begin();
    char words[400];

    (void)state;
    memset(words, 'w', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    (void)asked(&make);
    answer(answer_ctx,
           &(struct wp_api_result){.status = WP_ABORTED, .message = words});
    assert_int_equal(strlen(make.reason), sizeof make.reason - 1);
    assert_memory_equal(make.reason, words, sizeof make.reason - 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_names_any_pool_of_its_template_and_its_end),
        cmocka_unit_test(marks_and_the_trace_of_who_asks_are_on_it),
        cmocka_unit_test(what_may_be_a_label_is_one_and_all_else_an_annotation),
        cmocka_unit_test(the_longest_name_of_a_template_is_whole),
        cmocka_unit_test(what_cannot_be_made_is_answered_without_a_call),
        cmocka_unit_test(who_sees_no_templates_leaves_it_to_the_others),
        cmocka_unit_test(the_answer_of_the_server_is_passed_on),
        cmocka_unit_test(a_long_reason_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
