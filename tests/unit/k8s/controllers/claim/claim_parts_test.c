/* The pure parts of SandboxClaims: what they may ask for, what is made of it,
 * when they end, and what is counted. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "k8s/controllers/claim/cold.h"
#include "k8s/controllers/claim/expiry.h"
#include "k8s/controllers/claim/metadata.h"
#include "k8s/controllers/claim/metrics.h"
#include "k8s/controllers/claim/reconcile.h"
#include "k8s/controllers/claim/states.h"
#include "k8s/controllers/claim/status.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"

static json_t *
parse(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);

    assert_non_null(json);
    return json;
}

static struct wp_object *
object(enum wp_kind kind, const char *text)
{
    json_t *json = parse(text);
    struct wp_err err;
    struct wp_object *made = wp_object_create(kind, json, &err);

    assert_non_null(made);
    json_decref(json);
    return made;
}

/* --- Whose sandboxes it may have --- */

static void
a_pool_is_its_own_or_one_of_its_template(void **state)
{
    static const struct {
        const char *wants; /* warmPoolRef.name */
        const char *pool;
        const char *templ;
        const char *annotations;
        bool may;
    } cases[] = {
        {"p", "p", "t", "", true},
        {"p", "q", "t", "", false},
        {"shadow-pool-t", "q", "t", "", true},
        {"shadow-pool-t", "q", "u", "", false},
        {"shadow-pool-t", "q", "t", "\"" WP_ANNOTATION_TENANT "\":\"x\"",
         false},
        {"shadow-pool-t", "q", "u", "\"" WP_ANNOTATION_TENANT "\":\"x\"",
         false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_object *claim;
        struct wp_object *pool;
        char text[512];

        (void)snprintf(text, sizeof text,
                       "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\","
                       "\"uid\":\"1\",\"resourceVersion\":\"1\"},\"spec\":"
                       "{\"warmPoolRef\":{\"name\":\"%s\"}}}",
                       cases[i].wants);
        claim = object(WP_KIND_SANDBOX_CLAIM, text);
        (void)snprintf(text, sizeof text,
                       "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\","
                       "\"uid\":\"2\",\"resourceVersion\":\"1\","
                       "\"annotations\":{%s}},\"spec\":{"
                       "\"sandboxTemplateRef\":{\"name\":\"%s\"}}}",
                       cases[i].pool, cases[i].annotations, cases[i].templ);
        pool = object(WP_KIND_SANDBOX_WARM_POOL, text);
        assert_int_equal(wp_claim_may_have_pool(claim, pool), cases[i].may);
        wp_object_unref(pool);
        wp_object_unref(claim);
    }
}

/* --- additionalPodMetadata --- */

static void
domains_are_read(void **state)
{
    struct wp_label_domains domains;
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_label_domains_parse(&domains, WP_STR(""), &err), WP_OK);
    assert_int_equal(domains.len, 1);
    assert_string_equal(domains.text, "sandbox.users.io");
    wp_label_domains_fini(&domains);
    assert_int_equal(
        wp_label_domains_parse(&domains,
                               WP_STR(" Example.COM ,,\r\nb.org\n , \t"), &err),
        WP_OK);
    assert_int_equal(domains.len, 2);
    assert_string_equal(domains.text, "example.com");
    assert_string_equal(domains.text + strlen("example.com") + 1, "b.org");
    wp_label_domains_fini(&domains);
    assert_int_equal(
        wp_label_domains_parse(&domains, WP_STR("ok.io\nnot ok"), &err),
        WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "not ok"));
    assert_null(domains.text);
    assert_int_equal(wp_label_domains_read(&domains, "/nonexistent/x", &err),
                     WP_OK);
    wp_label_domains_fini(&domains);
    assert_int_equal(wp_label_domains_read(&domains, "/", &err),
                     WP_FAILED_PRECONDITION);
    wp_label_domains_fini(&domains);
}

/* Each of them, and what is below it. */
static void
each_domain_is_allowed(void **state)
{
    static const struct {
        const char *domain;
        bool allowed;
    } rows[] = {{"a.io", true},     {"b.org", true},
                {"c.net", true},    {"x.c.net", true},
                {"d.net", false},   {"xb.org", false},
                {"org", false},     {"sandbox.users.io", false},
                {"b.org.x", false}, {"x.b.org", true}};
    struct wp_label_domains domains;
    struct wp_err err;

    (void)state;
    assert_int_equal(
        wp_label_domains_parse(&domains, WP_STR("a.io,b.org,c.net"), &err),
        WP_OK);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        char key[64];
        json_t *json;

        (void)snprintf(key, sizeof key, "%s/x", rows[i].domain);
        json = json_pack("{s:{s:s}}", "labels", key, "y");
        assert_int_equal(wp_claim_metadata_check(&domains, json, &err) == WP_OK,
                         rows[i].allowed);
        json_decref(json);
    }
    wp_label_domains_fini(&domains);
}

/* As many as there may be, and one more; each as long as it may be. */
static void
domains_are_counted(void **state)
{
    static char text[(WP_LABEL_DOMAINS_MAX + 1) * 8];

    (void)state;
    for (int n = WP_LABEL_DOMAINS_MAX; n < WP_LABEL_DOMAINS_MAX + 2; n++) {
        struct wp_label_domains domains;
        struct wp_err err;
        enum wp_status status;
        size_t len = 0;

        for (int i = 0; i < n; i++) {
            len += (size_t)snprintf(text + len, sizeof text - len, "%da.io\n",
                                    i % 10);
        }
        status = wp_label_domains_parse(&domains, wp_str_from(text), &err);
        if (n == WP_LABEL_DOMAINS_MAX) {
            assert_int_equal(status, WP_OK);
            assert_int_equal(domains.len, n);
        } else {
            char words[128];

            assert_int_equal(status, WP_INVALID_ARGUMENT);
            (void)snprintf(words, sizeof words,
                           "allowed label domains: '%da.io': expected at most "
                           "%d DNS names",
                           (n - 1) % 10, WP_LABEL_DOMAINS_MAX);
            assert_string_equal(err.msg, words);
        }
        wp_label_domains_fini(&domains);
        assert_null(domains.text);
        assert_int_equal(domains.len, 0);
    }
}

/* A file of the longest text there may be, and one of a byte more. */
static void
domains_are_bounded(void **state)
{
    char path[] = "/tmp/wp-domains-XXXXXX";
    struct wp_label_domains domains;
    struct wp_err err;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "a.io\n", 5), 5);
    for (int i = 5; i < WP_LABEL_DOMAINS_BYTES_MAX; i++) {
        assert_int_equal(write(fd, "\n", 1), 1);
    }
    assert_int_equal(wp_label_domains_read(&domains, path, &err), WP_OK);
    assert_int_equal(domains.len, 1);
    wp_label_domains_fini(&domains);
    assert_int_equal(write(fd, "\n", 1), 1);
    assert_int_equal(wp_label_domains_read(&domains, path, &err),
                     WP_INVALID_ARGUMENT);
    wp_label_domains_fini(&domains);
    (void)close(fd);
    (void)unlink(path);
}

static void
metadata_is_checked(void **state)
{
    static const struct {
        const char *text;
        const char *wrong; /* NULL: nothing. */
    } cases[] = {
        {"{}", NULL},
        {"{\"labels\":{\"sandbox.users.io/a\":\"b\"}}", NULL},
        {"{\"labels\":{\"sub.sandbox.users.io/a\":\"\"}}", NULL},
        {"{\"labels\":{\"sandbox.users.io/a\":\"b c\"}}",
         "expected a value of at most 63 letters"},
        {"{\"labels\":{\"sandbox.users.io/a\":\"-b\"}}",
         "label 'sandbox.users.io/a': expected a value"},
        {"{\"labels\":{\"sandbox.users.io/a\":1}}",
         "label 'sandbox.users.io/a': expected a text"},
        {"{\"labels\":{\"a\":\"b\"}}", "label 'a': expected a domain"},
        {"{\"labels\":{\"app\":\"sandbox-router\"}}",
         "label app=sandbox-router is the router's own"},
        {"{\"labels\":{\"app\":\"other\"}}", "label 'app': expected a domain"},
        {"{\"labels\":{\"sandbox.users.io/a\":\"sandbox-router\"}}", NULL},
        {"{\"labels\":{\"notsandbox.users.io/a\":\"b\"}}",
         "not among those that are allowed"},
        {"{\"labels\":{\"users.io/a\":\"b\"}}",
         "label 'users.io/a': its domain is not among"},
        {"{\"labels\":{\"sandbox.users.io/\":\"b\"}}",
         "label key 'sandbox.users.io/': expected [domain/]name"},
        {"{\"labels\":{\"/a\":\"b\"}}", "label key '/a': expected"},
        {"{\"labels\":{\"sandbox.users.io/a/b\":\"b\"}}", "label key"},
        {"{\"annotations\":{\"a\":\"anything: {at} all\"}}", NULL},
        {"{\"annotations\":{\"example.com/a\":\"b\"}}", NULL},
        {"{\"annotations\":{\"k8s.io/a\":\"b\"}}",
         "annotation 'k8s.io/a': its domain is the system's"},
        {"{\"annotations\":{\"x.k8s.io/a\":\"b\"}}",
         "its domain is the system's"},
        {"{\"annotations\":{\"notk8s.io/a\":\"b\"}}", NULL},
        {"{\"annotations\":{\"kubernetes.io/a\":\"b\"}}",
         "its domain is the system's"},
        {"{\"annotations\":{\"agents.x-k8s.io/a\":\"b\"}}",
         "its domain is the system's"},
        {"{\"annotations\":{\"cluster-autoscaler.kubernetes.io/"
         "safe-to-evict\":\"false\"}}",
         NULL},
        {"{\"annotations\":{\"a\":true}}", "annotation 'a': expected a text"},
        {"{\"labels\":{\"App\":\"Sandbox-Router\"}}", "the router's own"},
        {"{\"annotations\":{\"a b\":\"c\"}}", "annotation key 'a b': expected"},
        {"{\"annotations\":{\"\":\"c\"}}", "annotation key '': expected"},
    };
    struct wp_label_domains domains;
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_label_domains_parse(&domains, WP_STR(""), &err), WP_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *json = parse(cases[i].text);
        bool fine = wp_claim_metadata_check(&domains, json, &err) == WP_OK;

        if (fine != (cases[i].wrong == NULL) ||
            (!fine && strstr(err.msg, cases[i].wrong) == NULL)) {
            fail_msg("%s: %s", cases[i].text, fine ? "fine" : err.msg);
        }
        json_decref(json);
    }
    assert_int_equal(wp_claim_metadata_check(&domains, NULL, &err), WP_OK);
    wp_label_domains_fini(&domains);
}

/* Each byte, as a value of its own and between others. */
static void
metadata_letters(void **state)
{
    struct wp_label_domains domains;
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_label_domains_parse(&domains, WP_STR(""), &err), WP_OK);
    for (int c = 1; c < 128; c++) {
        const char alone[] = {(char)c, '\0'};
        const char between[] = {'a', (char)c, 'b', '\0'};
        bool edge = isalnum(c) != 0;
        const char *const values[] = {alone, between};

        for (int i = 0; i < 2; i++) {
            json_t *json = json_pack("{s:{s:s}}", "labels",
                                     "sandbox.users.io/a", values[i]);
            bool fine = wp_claim_metadata_check(&domains, json, &err) == WP_OK;

            if (fine != (edge || (i == 1 && strchr("-_.", c) != NULL))) {
                fail_msg("byte %d, %s", c, fine ? "fine" : err.msg);
            }
            json_decref(json);
        }
    }
    wp_label_domains_fini(&domains);
}

static void
metadata_never_overrides(void **state)
{
    json_t *metadata = parse("{\"labels\":{\"a\":\"1\"}}");
    json_t *same = parse("{\"labels\":{\"a\":\"1\",\"b\":\"2\"},"
                         "\"annotations\":{\"c\":\"3\"}}");
    json_t *other = parse("{\"annotations\":{\"d\":\"4\",\"c\":\"5\"}}");
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_claim_metadata_merge(metadata, same, &err), WP_OK);
    assert_string_equal(wp_json_text(metadata, "labels", "b", NULL), "2");
    assert_string_equal(wp_json_text(metadata, "annotations", "c", NULL), "3");
    assert_int_equal(wp_claim_metadata_merge(metadata, other, &err),
                     WP_ALREADY_EXISTS);
    assert_non_null(strstr(err.msg, "'c'"));
    assert_string_equal(wp_json_text(metadata, "annotations", "d", NULL), "");
    json_decref(metadata);
    json_decref(same);
    json_decref(other);
}

/* --- The cold Sandbox --- */

#define TEMPLATE(policies, more)                                               \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"t\",\"uid\":\"tu\"},"      \
    "\"spec\":{" policies "\"podTemplate\":{\"metadata\":{\"labels\":{"        \
    "\"l\":\"1\"}},\"spec\":{\"initContainers\":[{\"name\":\"init\"}],"        \
    "\"containers\":[{\"name\":\"main\",\"env\":[{\"name\":\"A\",\"value\":"   \
    "\"1\"}]" more                                                             \
    "},{\"name\":\"side\"}]}},\"volumeClaimTemplates\":[{\"metadata\":{"       \
    "\"name\":\"data\"},\"spec\":{\"v\":1}}]}}"
#define ENV(policy) "\"envVarsInjectionPolicy\":\"" policy "\","
#define VCT(policy) "\"volumeClaimTemplatesPolicy\":\"" policy "\","
#define CLAIM(spec)                                                            \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\",\"uid\":\"cu\","       \
    "\"labels\":{\"agents.x-k8s.io/created-by\":\"go-client\"}},\"spec\":{"    \
    "\"warmPoolRef\":{\"name\":\"p\"}," spec "}}"

static void
env_by_policy(void **state)
{
    static const struct {
        const char *templ;
        const char *claim;
        const char *reason; /* NULL: it is made. */
        const char *words;
    } cases[] = {
        {TEMPLATE("", ""), CLAIM("\"env\":[{\"name\":\"B\",\"value\":\"2\"}]"),
         WP_REASON_ENV_REJECTED,
         "the template's envVarsInjectionPolicy lets no claim set variables"},
        {TEMPLATE(ENV("Allowed"), ""),
         CLAIM("\"env\":[{\"name\":\"B\",\"value\":\"2\"}]"), NULL, NULL},
        {TEMPLATE(ENV("Allowed"), ""),
         CLAIM("\"env\":[{\"name\":\"A\",\"value\":\"2\"}]"), WP_REASON_ERROR,
         "env: 'A' is the template's"},
        {TEMPLATE(ENV("Overrides"), ""),
         CLAIM("\"env\":[{\"name\":\"A\",\"value\":\"2\"}]"), NULL, NULL},
        {TEMPLATE(ENV("Allowed"), ",\"envFrom\":[{\"x\":1}]"),
         CLAIM("\"env\":[{\"name\":\"B\",\"value\":\"2\"}]"),
         WP_REASON_ENV_REJECTED,
         "env: container 'main' takes variables from elsewhere (envFrom)"},
        {TEMPLATE(ENV("Overrides"), ",\"envFrom\":[{\"x\":1}]"),
         CLAIM("\"env\":[{\"name\":\"B\",\"value\":\"2\"}]"), NULL, NULL},
        {TEMPLATE(ENV("Allowed"), ""),
         CLAIM("\"env\":[{\"name\":\"B\",\"value\":\"2\",\"containerName\":"
               "\"nobody\"}]"),
         WP_REASON_ERROR,
         "env: 'B': expected a name, a value and a container of the template, "
         "not 'nobody'"},
        {TEMPLATE(ENV("Allowed"), ""), CLAIM("\"env\":[{\"value\":\"2\"}]"),
         WP_REASON_ERROR, "env: '': expected a name"},
        {TEMPLATE(ENV("Allowed"), ""), CLAIM("\"env\":[{\"name\":\"B\"}]"),
         WP_REASON_ERROR, "env: 'B': expected a name, a value"},
        {TEMPLATE(ENV("Allowed"), ""),
         CLAIM("\"env\":[{\"name\":\"B\",\"value\":\"2\",\"containerName\":"
               "\"init\"},{\"name\":\"C\",\"value\":\"3\",\"containerName\":"
               "\"side\"}]"),
         NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wp_object *templ =
            object(WP_KIND_SANDBOX_TEMPLATE, cases[i].templ);
        struct wp_object *claim = object(WP_KIND_SANDBOX_CLAIM, cases[i].claim);
        const char *reason = "";
        struct wp_err err;
        json_t *made = wp_cold_sandbox(claim, templ, WP_TIER_T0, &reason, &err);

        assert_int_equal(made == NULL, cases[i].reason != NULL);
        if (made == NULL) {
            assert_string_equal(reason, cases[i].reason);
            assert_non_null(strstr(err.msg, cases[i].words));
        }
        json_decref(made);
        wp_object_unref(templ);
        wp_object_unref(claim);
    }
}

static void
env_goes_where_it_belongs(void **state)
{
    struct wp_object *templ =
        object(WP_KIND_SANDBOX_TEMPLATE, TEMPLATE(ENV("Overrides"), ""));
    struct wp_object *claim =
        object(WP_KIND_SANDBOX_CLAIM,
               CLAIM("\"env\":[{\"name\":\"A\",\"value\":\"2\"},{\"name\":"
                     "\"B\",\"value\":\"3\",\"containerName\":\"side\"},"
                     "{\"name\":\"D\",\"value\":\"\",\"containerName\":"
                     "\"init\"}]"));
    const char *reason;
    struct wp_err err;
    json_t *made = wp_cold_sandbox(claim, templ, WP_TIER_T0, &reason, &err);
    json_t *pod = wp_json_at(made, "spec", "podTemplate", "spec", NULL);
    json_t *main_env = json_object_get(
        json_array_get(json_object_get(pod, "containers"), 0), "env");
    json_t *side_env = json_object_get(
        json_array_get(json_object_get(pod, "containers"), 1), "env");
    json_t *init_env = json_object_get(
        json_array_get(json_object_get(pod, "initContainers"), 0), "env");

    (void)state;
    assert_int_equal(json_array_size(main_env), 1);
    assert_string_equal(
        wp_json_text(json_array_get(main_env, 0), "value", NULL), "2");
    assert_string_equal(wp_json_text(json_array_get(side_env, 0), "name", NULL),
                        "B");
    assert_string_equal(wp_json_text(json_array_get(init_env, 0), "name", NULL),
                        "D");
    assert_string_equal(wp_json_text(made, "metadata", "name", NULL), "c");
    assert_string_equal(wp_json_text(made, "metadata", "labels",
                                     "agents.x-k8s.io/launch-type", NULL),
                        "cold");
    assert_string_equal(wp_json_text(made, "metadata", "labels",
                                     "agents.x-k8s.io/created-by", NULL),
                        "go-client");
    assert_string_equal(wp_json_text(made, "spec", "podTemplate", "metadata",
                                     "labels", "l", NULL),
                        "1");
    /* The default network policy is in force: public name servers. */
    assert_string_equal(wp_json_text(pod, "dnsPolicy", NULL), "None");
    json_decref(made);
    wp_object_unref(templ);
    wp_object_unref(claim);
}

static void
volumes_by_policy(void **state)
{
    static const char more[] =
        "\"volumeClaimTemplates\":[{\"metadata\":{\"name\":\"x\"}}]";
    static const char same[] =
        "\"volumeClaimTemplates\":[{\"metadata\":{\"name\":\"data\"},\"spec\":"
        "{\"v\":2}},{\"metadata\":{\"name\":\"x\"}}]";
    static const char twice[] =
        "\"volumeClaimTemplates\":[{\"metadata\":{\"name\":\"x\"}},"
        "{\"metadata\":{\"name\":\"x\"}}]";
    static const char nameless[] = "\"volumeClaimTemplates\":[{\"spec\":{}}]";
    static const struct {
        const char *policy;
        const char *claim;
        size_t volumes; /* 0: refused. */
        const char *words;
    } cases[] = {
        {"", more, 0, "volumeClaimTemplatesPolicy lets no claim bring any"},
        {VCT("Disallowed"), more, 0,
         "volumeClaimTemplatesPolicy lets no claim bring any"},
        {VCT("Allowed"), more, 2, NULL},
        {VCT("Allowed"), same, 0, "'data' is the template's"},
        {VCT("Overrides"), same, 2, NULL},
        {VCT("Overrides"), twice, 0, "the claim has 'x' twice"},
        {VCT("Overrides"), nameless, 0, "the claim's number 0 has no name"},
        {VCT("Disallowed"), "\"x\":1", 1, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[2048];
        struct wp_object *templ;
        struct wp_object *claim;
        const char *reason = "";
        struct wp_err err;
        json_t *made;
        json_t *volumes;

        (void)snprintf(text, sizeof text, TEMPLATE("%s", ""), cases[i].policy);
        templ = object(WP_KIND_SANDBOX_TEMPLATE, text);
        (void)snprintf(text, sizeof text, CLAIM("%s"), cases[i].claim);
        claim = object(WP_KIND_SANDBOX_CLAIM, text);
        made = wp_cold_sandbox(claim, templ, WP_TIER_T0, &reason, &err);
        volumes = wp_json_at(made, "spec", "volumeClaimTemplates", NULL);
        assert_int_equal(json_array_size(volumes), cases[i].volumes);
        if (made == NULL) {
            assert_string_equal(reason, WP_REASON_VOLUMES_REJECTED);
            assert_non_null(strstr(err.msg, cases[i].words));
        } else if (cases[i].claim == same) {
            assert_int_equal(
                json_integer_value(
                    wp_json_at(json_array_get(volumes, 0), "spec", "v", NULL)),
                2);
        }
        json_decref(made);
        wp_object_unref(templ);
        wp_object_unref(claim);
    }
}

/* --- When it ends --- */

static void
expiry_is_the_earlier(void **state)
{
    struct wp_claim_view view = {.ttl_after_finished_s = -1};

    (void)state;
    view.shutdown_wall_ms = 5000;
    assert_int_equal(wp_claim_expires_wall_ms(&view), INT64_MAX);
    view.has_lifecycle = true;
    assert_int_equal(wp_claim_expires_wall_ms(&view), 5000);
    view.ttl_after_finished_s = 2;
    assert_int_equal(wp_claim_expires_wall_ms(&view), 5000);
    view.finished.status = WP_CONDITION_FALSE;
    view.finished.transition_wall_ms = 1000;
    assert_int_equal(wp_claim_expires_wall_ms(&view), 5000);
    view.finished.status = WP_CONDITION_TRUE;
    assert_int_equal(wp_claim_expires_wall_ms(&view), 3000);
    view.ttl_after_finished_s = 0;
    assert_int_equal(wp_claim_expires_wall_ms(&view), 1000);
    view.ttl_after_finished_s = INT64_MAX;
    assert_int_equal(wp_claim_expires_wall_ms(&view), 5000);
    view.shutdown_wall_ms = 0;
    view.ttl_after_finished_s = 4;
    assert_int_equal(wp_claim_expires_wall_ms(&view), 5000);
    /* The longest that counts, and what is longer. */
    view.ttl_after_finished_s = INT64_MAX / 2000 - 1;
    assert_int_equal(wp_claim_expires_wall_ms(&view),
                     1000 + (INT64_MAX / 2000 - 1) * 1000);
    view.ttl_after_finished_s = INT64_MAX / 2000;
    assert_int_equal(wp_claim_expires_wall_ms(&view), 1000 + INT64_MAX / 2);
    view.finished.transition_wall_ms = INT64_MAX / 2 - 1;
    assert_int_equal(wp_claim_expires_wall_ms(&view), INT64_MAX - 2);
    view.finished.transition_wall_ms = INT64_MAX / 2;
    assert_int_equal(wp_claim_expires_wall_ms(&view), INT64_MAX);
    view.finished.transition_wall_ms = 0;
    assert_int_equal(wp_claim_expires_wall_ms(&view), INT64_MAX);
}

/* --- Status --- */

/* Ready keeps its transition while its status stays; other conditions and
 * fields are left alone. */
static void
status_says_only_what_differs(void **state)
{
    struct wp_object *claim = object(
        WP_KIND_SANDBOX_CLAIM,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\",\"uid\":\"cu\","
        "\"generation\":3},\"status\":{\"sandbox\":{\"name\":\"s\",\"podIPs\":"
        "[\"1.1.1.1\"]},\"conditions\":[{\"type\":\"Other\",\"status\":"
        "\"True\",\"reason\":\"R\"},{\"type\":\"Ready\",\"status\":\"True\","
        "\"reason\":\"A\",\"message\":\"m\",\"observedGeneration\":3,"
        "\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"},{\"type\":"
        "\"Finished\",\"status\":\"True\",\"reason\":\"F\"}]}}");
    struct wp_object *sandbox = object(
        WP_KIND_SANDBOX,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"s\",\"uid\":\"su\"},"
        "\"status\":{\"podIPs\":[\"1.1.1.1\"],\"conditions\":[{\"type\":"
        "\"Ready\",\"status\":\"True\",\"reason\":\"B\",\"message\":\"m\","
        "\"observedGeneration\":9,\"lastTransitionTime\":"
        "\"2026-02-02T00:00:00Z\"}]}}");
    struct wp_claim_outcome outcome = {.sandbox = sandbox};
    json_t *patch = wp_claim_status_patch(claim, &outcome, 0);
    json_t *conditions = wp_json_at(patch, "status", "conditions", NULL);

    (void)state;
    assert_null(wp_json_at(patch, "status", "sandbox", NULL));
    assert_int_equal(json_array_size(conditions), 2);
    assert_string_equal(
        wp_json_text(json_array_get(conditions, 0), "type", NULL), "Other");
    assert_string_equal(
        wp_json_text(json_array_get(conditions, 1), "reason", NULL), "B");
    assert_string_equal(
        wp_json_text(json_array_get(conditions, 1), "lastTransitionTime", NULL),
        "2026-01-01T00:00:00Z");
    assert_int_equal(json_integer_value(json_object_get(
                         json_array_get(conditions, 1), "observedGeneration")),
                     3);
    json_decref(patch);
    /* An error clears nothing that a client may be using... */
    outcome = (struct wp_claim_outcome){.reason = "X", .message = "x"};
    patch = wp_claim_status_patch(claim, &outcome, 0);
    assert_null(wp_json_at(patch, "status", "sandbox", NULL));
    json_decref(patch);
    /* ...but what is gone is gone. */
    outcome.forget_sandbox = true;
    patch = wp_claim_status_patch(claim, &outcome, 0);
    assert_true(
        json_is_null(wp_json_at(patch, "status", "sandbox", "name", NULL)));
    assert_true(
        json_is_null(wp_json_at(patch, "status", "sandbox", "podIPs", NULL)));
    json_decref(patch);
    wp_object_unref(claim);
    wp_object_unref(sandbox);
}

/* A client that has the claim alone finds the sandbox's Service by it. */
static void
status_names_the_service(void **state)
{
    struct wp_object *claim =
        object(WP_KIND_SANDBOX_CLAIM,
               "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\",\"uid\":"
               "\"cu\"},\"status\":{\"sandbox\":{\"name\":\"s\"}}}");
    struct wp_object *told =
        object(WP_KIND_SANDBOX_CLAIM,
               "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\",\"uid\":"
               "\"cu\"},\"status\":{\"sandbox\":{\"name\":\"s\","
               "\"serviceFQDN\":\"s.ns.svc.x\"}}}");
    struct wp_object *sandbox = object(
        WP_KIND_SANDBOX,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"s\",\"uid\":\"su\"},"
        "\"status\":{\"serviceFQDN\":\"s.ns.svc.x\"}}");
    struct wp_claim_outcome outcome = {.sandbox = sandbox};
    json_t *patch = wp_claim_status_patch(claim, &outcome, 0);

    (void)state;
    assert_string_equal(
        wp_json_text(patch, "status", "sandbox", "serviceFQDN", NULL),
        "s.ns.svc.x");
    json_decref(patch);
    patch = wp_claim_status_patch(told, &outcome, 0);
    assert_null(wp_json_at(patch, "status", "sandbox", NULL));
    json_decref(patch);
    /* An API server that drops it is not told again. */
    outcome.no_service_fqdn = true;
    patch = wp_claim_status_patch(claim, &outcome, 0);
    assert_null(wp_json_at(patch, "status", "sandbox", NULL));
    json_decref(patch);
    /* It goes with the sandbox. */
    outcome = (struct wp_claim_outcome){.expired = true};
    patch = wp_claim_status_patch(told, &outcome, 0);
    assert_true(json_is_null(
        wp_json_at(patch, "status", "sandbox", "serviceFQDN", NULL)));
    json_decref(patch);
    wp_object_unref(claim);
    wp_object_unref(told);
    wp_object_unref(sandbox);
}

/* --- Numbers --- */

static void
creations_are(const struct wp_claim_creations *at, const char *expected)
{
    char text[512];

    (void)snprintf(text, sizeof text, "%s %s %s %s %s %d: %d", at->ns,
                   at->templ, at->pool, at->created_by,
                   wp_claim_launch_text(at->launch), at->ready,
                   (int)atomic_load(&at->count));
    assert_string_equal(text, expected);
}

/* One series for each set of labels; a repeat goes to its own. */
static void
each_creation_has_its_labels(void **state)
{
    static const struct wp_claim_creations keys[] = {
        {.ns = "n", .templ = "t", .pool = "p", .created_by = "unknown"},
        {.ns = "o", .templ = "t", .pool = "p", .created_by = "unknown"},
        {.ns = "n", .templ = "u", .pool = "p", .created_by = "unknown"},
        {.ns = "n", .templ = "t", .pool = "q", .created_by = "unknown"},
        {.ns = "n", .templ = "t", .pool = "p", .created_by = "controller"},
        {.ns = "n",
         .templ = "t",
         .pool = "p",
         .created_by = "unknown",
         .launch = WP_LAUNCH_COLD},
        {.ns = "n",
         .templ = "t",
         .pool = "p",
         .created_by = "unknown",
         .ready = true},
    };
    static const char *const series[] = {
        "n t p unknown warm 0: 2",    "o t p unknown warm 0: 2",
        "n u p unknown warm 0: 2",    "n t q unknown warm 0: 2",
        "n t p controller warm 0: 2", "n t p unknown cold 0: 2",
        "n t p unknown warm 1: 2"};
    struct wp_claim_metrics *metrics =
        aligned_alloc(_Alignof(struct wp_claim_metrics), sizeof *metrics);

    (void)state;
    assert_non_null(metrics);
    memset(metrics, 0, sizeof *metrics);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < WP_ARRAY_LEN(keys); i++) {
            struct wp_claim_creations key = keys[i];

            key.created_by = wp_claim_created_by(key.created_by);
            wp_claim_metrics_created(metrics, &key);
        }
    }
    assert_int_equal(atomic_load(&metrics->creations_len),
                     WP_ARRAY_LEN(series));
    for (size_t i = 0; i < WP_ARRAY_LEN(series); i++) {
        creations_are(&metrics->creations[i], series[i]);
    }
    free(metrics);
}

static void
labels_are_known_ones(void **state)
{
    char label[4];

    (void)state;
    assert_string_equal(wp_claim_created_by(""), "unknown");
    assert_string_equal(wp_claim_created_by("go"), "unknown");
    assert_string_equal(wp_claim_created_by("go-client"), "go-client");
    assert_string_equal(wp_claim_created_by("python-client"), "python-client");
    assert_string_equal(wp_claim_created_by("controller"), "controller");
    assert_string_equal(wp_claim_created_by("controllers"), "unknown");
    wp_claim_metrics_label(label, sizeof label, "abc");
    assert_string_equal(label, "abc");
    wp_claim_metrics_label(label, sizeof label, "abcd");
    assert_string_equal(label, "abc");
    wp_claim_metrics_label(label, sizeof label, "");
    assert_string_equal(label, "__u");
    wp_claim_metrics_label(label, sizeof label, NULL);
    assert_string_equal(label, "__u");
}

static void
series_are_bounded(void **state)
{
    struct wp_claim_metrics *metrics =
        aligned_alloc(_Alignof(struct wp_claim_metrics), sizeof *metrics);
    struct wp_claim_creations key = {.ns = "n",
                                     .pool = "p",
                                     .created_by = wp_claim_created_by(NULL),
                                     .launch = WP_LAUNCH_COLD,
                                     .ready = true};
    uint64_t sum = 0;
    uint64_t count = 0;

    (void)state;
    assert_non_null(metrics);
    memset(metrics, 0, sizeof *metrics);
    assert_string_equal(key.created_by, "unknown");
    for (int i = 0; i < 1000; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "t%d", i);
        wp_claim_metrics_label(key.templ, sizeof key.templ, name);
        wp_claim_metrics_created(metrics, &key);
        wp_claim_metrics_created(metrics, &key);
        wp_claim_metrics_took(metrics, WP_CLAIM_FROM_OBSERVED, name,
                              WP_LAUNCH_COLD, i);
    }
    assert_int_equal(atomic_load(&metrics->creations_len), WP_CLAIM_SERIES_MAX);
    for (uint32_t i = 0; i < WP_CLAIM_SERIES_MAX; i++) {
        sum += atomic_load(&metrics->creations[i].count);
    }
    assert_int_equal(sum, 2000);
    creations_are(&metrics->creations[0], "n t0 p unknown cold 1: 2");
    creations_are(&metrics->creations[WP_CLAIM_SERIES_MAX - 2],
                  "n t254 p unknown cold 1: 2");
    creations_are(&metrics->creations[WP_CLAIM_SERIES_MAX - 1],
                  "other other other unknown cold 1: 1490");
    /* Of this kind one more than there is room for, for what does not fit. */
    assert_int_equal(atomic_load(&metrics->latencies_len),
                     WP_CLAIM_SERIES_MAX - 2 * WP_CLAIM_LATENCIES + 1);
    assert_string_equal(
        metrics->latencies[WP_CLAIM_SERIES_MAX - 2 * WP_CLAIM_LATENCIES].templ,
        "other");
    for (int what = 0; what < WP_CLAIM_LATENCIES; what++) {
        wp_claim_metrics_took(metrics, (enum wp_claim_latency)what, "new",
                              WP_LAUNCH_WARM, -1);
    }
    assert_int_equal(atomic_load(&metrics->latencies_len),
                     WP_CLAIM_SERIES_MAX - 2 * WP_CLAIM_LATENCIES + 1);
    for (uint32_t i = 0; i < atomic_load(&metrics->latencies_len); i++) {
        for (uint32_t b = 0; b <= WP_CLAIM_LATENCY_BUCKETS; b++) {
            count += atomic_load(&metrics->latencies[i].bucket[b]);
        }
    }
    assert_int_equal(count, 1000);
    /* Bounds are "at most". */
    assert_int_equal(atomic_load(&metrics->latencies[100].bucket[0]), 1);
    assert_int_equal(atomic_load(&metrics->latencies[101].bucket[1]), 1);
    free(metrics);
}

/* One series for each kind, template and launch; a repeat goes to its own. */
static void
each_series_has_its_labels(void **state)
{
    struct wp_claim_metrics *metrics =
        aligned_alloc(_Alignof(struct wp_claim_metrics), sizeof *metrics);
    uint32_t n = 0;

    (void)state;
    assert_non_null(metrics);
    memset(metrics, 0, sizeof *metrics);
    for (int round = 1; round <= 2; round++) {
        for (int what = 0; what < WP_CLAIM_LATENCIES; what++) {
            for (int launch = WP_LAUNCH_WARM; launch <= WP_LAUNCH_COLD;
                 launch++) {
                wp_claim_metrics_took(metrics, (enum wp_claim_latency)what,
                                      what == 1 ? "one" : "other one",
                                      (enum wp_claim_launch)launch,
                                      10 * what + launch);
            }
        }
        assert_int_equal(atomic_load(&metrics->latencies_len),
                         2 * WP_CLAIM_LATENCIES);
    }
    for (int what = 0; what < WP_CLAIM_LATENCIES; what++) {
        for (int launch = WP_LAUNCH_WARM; launch <= WP_LAUNCH_COLD; launch++) {
            const struct wp_claim_latencies *at = &metrics->latencies[n++];

            assert_int_equal(at->what, what);
            assert_int_equal(at->launch, launch);
            assert_string_equal(at->templ, what == 1 ? "one" : "other one");
            assert_int_equal(atomic_load(&at->sum_ms),
                             2 * (10 * what + launch));
        }
    }
    free(metrics);
}

/* --- The lives in an entry --- */

static void
states_move_along_their_edges(void **state)
{
    static const enum wp_claim_state wanted[][2] = {
        {WP_WRITE_NONE, WP_WRITE_SENT},
        {WP_WRITE_NONE, WP_WRITE_DONE},
        {WP_WRITE_SENT, WP_WRITE_DONE},
        {WP_WRITE_SENT, WP_WRITE_NONE},
        {WP_WRITE_SENT, WP_WRITE_DOUBT},
        {WP_WRITE_DONE, WP_WRITE_SENT},
        {WP_WRITE_DOUBT, WP_WRITE_SENT},
        {WP_WRITE_DOUBT, WP_WRITE_NONE},
        {WP_FIRST_READY_AFTER, WP_FIRST_READY_AHEAD},
        {WP_FIRST_READY_AHEAD, WP_FIRST_READY_AFTER},
        {WP_FIRST_READY_AHEAD, WP_FIRST_READY_ANEW},
        {WP_FIRST_READY_ANEW, WP_FIRST_READY_AFTER},
        {WP_ASK_NEW, WP_ASK_PENDING},
        {WP_ASK_NEW, WP_ASK_ANSWERED},
        {WP_ASK_PENDING, WP_ASK_ANSWERED},
        {WP_ASK_PENDING, WP_ASK_ORPHANED},
    };
    enum wp_claim_state moved = WP_WRITE_NONE;
    size_t allowed = 0;

    (void)state;
    for (int from = 0; from < WP_CLAIM_STATE_COUNT; from++) {
        for (int to = 0; to < WP_CLAIM_STATE_COUNT; to++) {
            allowed += wp_claim_state_edge_allowed((enum wp_claim_state)from,
                                                   (enum wp_claim_state)to);
        }
    }
    assert_int_equal(allowed, sizeof wanted / sizeof wanted[0]);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        assert_true(wp_claim_state_edge_allowed(wanted[i][0], wanted[i][1]));
    }
    wp_claim_state_move(&moved, WP_WRITE_SENT);
    assert_int_equal(moved, WP_WRITE_SENT);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_is_its_own_or_one_of_its_template),
        cmocka_unit_test(domains_are_read),
        cmocka_unit_test(each_domain_is_allowed),
        cmocka_unit_test(domains_are_counted),
        cmocka_unit_test(domains_are_bounded),
        cmocka_unit_test(metadata_is_checked),
        cmocka_unit_test(metadata_letters),
        cmocka_unit_test(metadata_never_overrides),
        cmocka_unit_test(env_by_policy),
        cmocka_unit_test(env_goes_where_it_belongs),
        cmocka_unit_test(volumes_by_policy),
        cmocka_unit_test(expiry_is_the_earlier),
        cmocka_unit_test(status_says_only_what_differs),
        cmocka_unit_test(status_names_the_service),
        cmocka_unit_test(series_are_bounded),
        cmocka_unit_test(each_creation_has_its_labels),
        cmocka_unit_test(labels_are_known_ones),
        cmocka_unit_test(each_series_has_its_labels),
        cmocka_unit_test(states_move_along_their_edges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
