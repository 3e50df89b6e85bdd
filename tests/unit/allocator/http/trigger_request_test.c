/* tests/unit/allocator/http/trigger_request_test.c - bodies of triggers: what
 * each type says and is called, what is refused and how; and signatures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "allocator/http/trigger_request.h"
#include "allocator/http/trigger_signature.h"

static struct wp_trigger trigger;

static int
read_body(const char *body, char why[WP_TRIGGER_WHY_MAX])
{
    why[0] = '\0';
    return wp_trigger_read(wp_str_from(body), &trigger, why);
}

static void
is_taken(const char *body, const char *stem, const char *const (*marks)[2],
         uint32_t n_marks)
{
    char why[WP_TRIGGER_WHY_MAX];

    assert_int_equal(read_body(body, why), 0);
    assert_string_equal(trigger.stem, stem);
    assert_int_equal(trigger.n_marks, n_marks);
    for (uint32_t i = 0; i < n_marks; i++) {
        assert_string_equal(trigger.marks[i].key, marks[i][0]);
        assert_string_equal(trigger.marks[i].value, marks[i][1]);
    }
}

static void
test_each_type(void **state)
{
    static const char *const cron[][2] = {{"trigger-type", "cron"},
                                          {"trigger-skill", "rca:ci"},
                                          {"trigger-schedule", "0 2 * * *"}};
    static const char *const by_hand[][2] = {{"trigger-type", "cron"},
                                             {"trigger-skill", "tidy"},
                                             {"trigger-schedule", "manual"}};
    static const char *const edges[][2] = {{"trigger-type", "cron"},
                                           {"trigger-skill", "AZaz09@[`{/:"},
                                           {"trigger-schedule", "manual"}};
    static const char *const webhook[][2] = {{"trigger-type", "webhook"},
                                             {"trigger-event", "pull_request"},
                                             {"trigger-repo", "org/name"},
                                             {"trigger-branch", "main"},
                                             {"trigger-pr", "7"}};
    static const char *const alert[][2] = {{"trigger-type", "alert"},
                                           {"trigger-alert", "PodCrash Loop"},
                                           {"trigger-cluster", "unknown"},
                                           {"trigger-severity", "warning"}};

    (void)state;
    is_taken("{\"type\":\"cron\",\"skill\":\"rca:ci\",\"schedule\":"
             "\"0 2 * * *\",\"namespace\":\"team1\",\"ttl_hours\":720}",
             "cron-rca-ci", cron, 3);
    assert_string_equal(trigger.ns, "team1");
    assert_true(trigger.ttl_ns == WP_TTL_MAX_NS);
    assert_false(trigger.is_webhook);
    is_taken("{\"type\":\"cron\",\"skill\":\"tidy\",\"schedule\":\"\","
             "\"pr_number\":-1,\"later\":[]}",
             "cron-tidy", by_hand, 3);
    assert_string_equal(trigger.ns, "");
    assert_true(trigger.ttl_ns == 2 * 3600 * WP_NS_PER_S);
    is_taken("{\"type\":\"webhook\",\"event\":\"pull_request\",\"repo\":"
             "\"org/name\",\"pr_number\":7}",
             "gh-org-name", webhook, 5);
    assert_true(trigger.is_webhook);
    is_taken("{\"type\":\"webhook\",\"event\":\"pull_request\",\"repo\":"
             "\"org/name\",\"pr_number\":0,\"branch\":null}",
             "gh-org-name", webhook, 4);
    is_taken("{\"type\":\"cron\",\"skill\":\"AZaz09@[`{/:\"}",
             "cron-azaz09------", edges, 3);
    is_taken("{\"type\":\"alert\",\"alert\":\"PodCrash Loop\"}",
             "alert-podcrash-loop", alert, 4);
}

static void
test_long_names_are_cut(void **state)
{
    char body[512] = "{\"type\":\"cron\",\"skill\":\"";
    char why[WP_TRIGGER_WHY_MAX];
    size_t len = strlen(body);

    (void)state;
    memset(body + len, 's', 255);
    memcpy(body + len + 255, "\"}", 3);
    assert_int_equal(read_body(body, why), 0);
    assert_int_equal(strlen(trigger.stem), WP_TRIGGER_STEM_MAX);
    memcpy(body + len + 255, "s\"}", 4);
    assert_int_equal(read_body(body, why), 422);
    assert_non_null(strstr(why, "skill: expected"));
}

static void
test_what_is_refused(void **state)
{
    static const struct {
        const char *body;
        int status;
        const char *field;
    } bad[] = {
        {"", 422, "the body"},
        {"[]", 422, "the body"},
        {"{\"type\":\"cron\",\"type\":\"cron\",\"skill\":\"s\"}", 422,
         "the body"},
        {"{}", 422, "type"},
        {"{\"type\":1}", 422, "type"},
        {"{\"type\":\"timer\",\"skill\":\"s\"}", 400, "type"},
        {"{\"type\":\"cron\"}", 422, "skill"},
        {"{\"type\":\"cron\",\"skill\":\"\"}", 422, "skill"},
        {"{\"type\":\"cron\",\"skill\":[\"s\"]}", 422, "skill"},
        {"{\"type\":\"cron\",\"skill\":\"a\\nb\"}", 422, "skill"},
        {"{\"type\":\"cron\",\"skill\":\"s\",\"schedule\":0}", 422, "schedule"},
        {"{\"type\":\"webhook\",\"event\":\"push\"}", 422, "repo"},
        {"{\"type\":\"webhook\",\"repo\":\"r\"}", 422, "event"},
        {"{\"type\":\"webhook\",\"repo\":\"r\",\"event\":\"push\","
         "\"pr_number\":-1}",
         422, "pr_number"},
        {"{\"type\":\"webhook\",\"repo\":\"r\",\"event\":\"push\","
         "\"pr_number\":1.5}",
         422, "pr_number"},
        {"{\"type\":\"alert\",\"skill\":\"s\"}", 422, "alert"},
        {"{\"type\":\"cron\",\"skill\":\"s\",\"namespace\":\"../x\"}", 422,
         "namespace"},
        {"{\"type\":\"cron\",\"skill\":\"s\",\"ttl_hours\":0}", 422,
         "ttl_hours"},
        {"{\"type\":\"cron\",\"skill\":\"s\",\"ttl_hours\":721}", 422,
         "ttl_hours"},
        {"{\"type\":\"cron\",\"skill\":\"s\",\"ttl_hours\":\"2\"}", 422,
         "ttl_hours"},
    };
    char why[WP_TRIGGER_WHY_MAX];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        assert_int_equal(read_body(bad[i].body, why), bad[i].status);
        assert_int_equal(strncmp(why, bad[i].field, strlen(bad[i].field)), 0);
    }
}

/* The example of RFC 4231, test case 2. */
static void
test_signatures(void **state)
{
    static const char right[] =
        "sha256="
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    const struct wp_str body = WP_STR("what do ya want for nothing?");
    char wrong[sizeof right];

    (void)state;
    assert_true(wp_trigger_is_signed(WP_STR("Jefe"), body, wp_str_from(right)));
    assert_false(
        wp_trigger_is_signed(WP_STR("jefe"), body, wp_str_from(right)));
    assert_false(wp_trigger_is_signed(WP_STR("Jefe"),
                                      WP_STR("what do ya want for nothing"),
                                      wp_str_from(right)));
    for (size_t i = 0; i < sizeof right - 1; i++) {
        memcpy(wrong, right, sizeof right);
        wrong[i] = wrong[i] == '0' ? '1' : '0';
        assert_false(
            wp_trigger_is_signed(WP_STR("Jefe"), body, wp_str_from(wrong)));
        memcpy(wrong, right, sizeof right);
        wrong[i] = '\0';
        assert_false(
            wp_trigger_is_signed(WP_STR("Jefe"), body, wp_str_from(wrong)));
    }
    assert_false(wp_trigger_is_signed(WP_STR("Jefe"), body, wp_str_from(NULL)));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_type),
        cmocka_unit_test(test_long_names_are_cut),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_signatures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
