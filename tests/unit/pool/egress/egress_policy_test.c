/* Policies: their text, their verdicts, and that a narrowed one is narrower. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "pool/base/rng.h"
#include "pool/egress/policy.h"

static const char packages[] = "index.test, *.files.test";

static void
read_policy(const char *text, struct wp_egress_policy *out)
{
    struct wp_err err = {.msg = ""};

    if (wp_egress_policy_parse(wp_str_from(text), WP_STR(packages), out,
                               &err) != WP_OK) {
        fail_msg("'%s': %s", text, err.msg);
    }
}

static bool
allows(const struct wp_egress_policy *policy, const char *target, bool secure)
{
    struct wp_host host;
    uint16_t port;
    const char *why;

    assert_true(wp_host_port_parse(wp_str_from(target), 0, &host, &port, &why));
    return wp_egress_allows_host(policy, &host, port, secure);
}

static bool
allows_text(const char *text, const char *target, bool secure)
{
    struct wp_egress_policy policy;

    read_policy(text, &policy);
    return allows(&policy, target, secure);
}

static bool
allows_address(const char *text, const char *address, uint16_t port,
               bool secure)
{
    struct wp_egress_policy policy;
    struct wp_host host;
    const char *why;
    char bracketed[64];

    read_policy(text, &policy);
    (void)snprintf(bracketed, sizeof bracketed,
                   strchr(address, ':') != NULL ? "[%s]" : "%s", address);
    assert_true(wp_host_parse(wp_str_from(bracketed), &host, &why));
    return wp_egress_allows_address(
        &policy, (const struct sockaddr *)&host.address, port, secure);
}

/* Goal: names go by whole labels, and ports by the way of asking. */
static void
test_names(void **state)
{
    (void)state;
    assert_true(allows_text("a.test", "a.test:443", true));
    assert_true(allows_text("a.test", "A.Test.:443", true));
    assert_true(allows_text("a.test", "a.test:80", false));
    assert_false(allows_text("a.test", "a.test:80", true));
    assert_false(allows_text("a.test", "a.test:443", false));
    assert_false(allows_text("a.test", "b.a.test:443", true));
    assert_false(allows_text("a.test", "xa.test:443", true));
    assert_false(allows_text("a.test", "a.test.evil:443", true));
    assert_true(allows_text("*.a.test", "b.a.test:443", true));
    assert_true(allows_text("*.a.test", "c.b.a.test:443", true));
    assert_false(allows_text("*.a.test", "a.test:443", true));
    assert_false(allows_text("*.a.test", "xa.test:443", true));
    assert_false(allows_text("*.a.test", "xa.test.:443", true));
    assert_true(allows_text("a.test:8443", "a.test:8443", true));
    assert_true(allows_text("a.test:8443", "a.test:8443", false));
    assert_false(allows_text("a.test:8443", "a.test:443", true));
    assert_true(allows_text("packages", "index.test:443", true));
    assert_true(allows_text("packages", "a.files.test:443", true));
    assert_false(allows_text("packages", "files.test:443", true));
    assert_true(allows_text("open", "any.test:443", true));
    assert_false(allows_text("open", "any.test:22", true));
    assert_false(allows_text("none", "any.test:443", true));
    assert_true(allows_text("allowlist a.test", "a.test:443", true));
    assert_true(allows_text(" ,a.test,,b.test, ", "b.test:443", true));
}

/* Goal: an address must be public or named, in every spelling. */
static void
test_addresses(void **state)
{
    static const char *const spelled[] = {
        "127.0.0.1:80",
        "127.1:80",
        "2130706433:80",
        "0x7f.1:80",
        "[::1]:80",
        "[::ffff:7f00:1]:80",
        "10.0.0.1:80",
        "169.254.169.254:80",
        "0251.0376.0251.0376:80",
        "[fd00:ec2::254]:80",
        "[64:ff9b::a9fe:a9fe]:80",
        "0.0.0.0:80",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(spelled); i++) {
        assert_false(allows_text("open", spelled[i], false));
        assert_false(
            allows_text("a.test *.b.test packages", spelled[i], false));
    }
    assert_true(allows_text("open", "1.1.1.1:80", false));
    assert_false(allows_text("a.test", "1.1.1.1:80", false));
    assert_true(allows_text("127.0.0.0/8", "127.1:80", false));
    assert_false(allows_text("127.0.0.0/8", "127.1:8080", false));
    assert_true(allows_text("127.0.0.0/8:8080", "127.1:8080", false));
    assert_true(allows_text("[fd00::/8]:8080", "[fd00::1]:8080", false));
    assert_true(allows_text("::1", "[::1]:443", true));
    assert_true(allows_address("a.test", "1.1.1.1", 443, true));
    assert_false(allows_address("a.test", "10.0.0.1", 443, true));
    assert_false(allows_address("open", "169.254.169.254", 80, false));
    assert_true(allows_address("a.test 10.0.0.0/8", "10.0.0.1", 443, true));
    assert_false(allows_address("a.test 10.0.0.0/8", "10.0.0.1", 8443, true));
    assert_false(allows_address("none", "1.1.1.1", 443, true));
    assert_false(allows_address("open", "64:ff9b::101:101", 443, true));
}

/* Goal: what is no policy is refused, naming the word. */
static void
test_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "allowlist",
        "none a.test",
        "*",
        "*.",
        ".a.test",
        "a.*.test",
        "*a.test",
        "a.test:0",
        "a.test:x",
        "a.test:65536",
        "10.0.0.0/33",
        "10.0.0.1/8",
        "fd00::/129",
        "[fd00::/8]8080",
        "[fd00::/8]:0",
        "http://a.test",
        "key:",
        "key:A/b",
        "key:a:80",
        "a.test\nb.test",
        "10.0.0.0/8:99999",
        "*.10.0.0.1",
    };
    struct wp_egress_policy policy;
    char text[WP_EGRESS_TEXT_MAX + 2];
    struct wp_err err;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        struct wp_str known = {NULL, 0};

        if (wp_egress_policy_parse(wp_str_from(bad[i]), WP_STR(packages),
                                   &policy, &err) == WP_OK &&
            wp_egress_policy_parse(wp_str_from(bad[i]), known, &policy, &err) ==
                WP_OK) {
            fail_msg("'%s' was taken", bad[i]);
        }
    }
    assert_int_equal(wp_egress_policy_parse(WP_STR("a.test http://b.test"),
                                            WP_STR(""), &policy, &err),
                     WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "http://b.test"));
    memset(text, 'a', sizeof text);
    assert_int_equal(wp_egress_policy_parse((struct wp_str){text, sizeof text},
                                            WP_STR(""), &policy, &err),
                     WP_INVALID_ARGUMENT);
    assert_int_equal(wp_egress_preset_parse(WP_STR("packages"), &policy, &err),
                     WP_OK); /* A name like others, there. */
    assert_int_equal(wp_egress_preset_parse(WP_STR("key:a"), &policy, &err),
                     WP_INVALID_ARGUMENT);
}

/* Goal: a text is refused with the word that is wrong and what may be there. */
static void
test_error_texts(void **state)
{
    static const char any[] = "expected a name, *.NAME, an address or a "
                              "network, perhaps with :PORT, or packages, or "
                              "key:NAME";
    static const struct {
        const char *text;
        const char *says;
        bool and_more; /* What follows is `any`. */
    } rows[] = {
        {"", "none, open or a list of rules was expected", false},
        {"allowlist , ", "none, open or a list of rules was expected", false},
        {"none a.test", "no rule was expected behind 'none'", false},
        {"a.test *.", "'*.': ", true},
        {"*.*.a", "'*.*.a': ", true},
        {"open a.test:65536", "'a.test:65536': ", true},
        {"10.0.0.0/8:65536", "'10.0.0.0/8:65536': ", true},
        {"10.0.0.0/8:0", "'10.0.0.0/8:0': ", true},
        {"10.0.0.0/8:", "'10.0.0.0/8:': ", true},
        {"10.0.0.0/8:000001", "'10.0.0.0/8:000001': ", true},
        {"[fd00::/8]x80", "'[fd00::/8]x80': ", true},
        {"[fd00::/8]:", "'[fd00::/8]:': ", true},
        {"[]", "'[]': ", true},
        {"[", "'[': ", true},
        {"key:", "'key:': ", true},
        {"*.[::1]", "'*.[::1]': ", true},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_egress_policy policy;
        struct wp_err err = {.msg = ""};
        char says[sizeof err.msg];

        assert_int_equal(wp_egress_policy_parse(wp_str_from(rows[i].text),
                                                (struct wp_str){NULL, 0},
                                                &policy, &err),
                         WP_INVALID_ARGUMENT);
        (void)snprintf(says, sizeof says, "%s%s", rows[i].says,
                       rows[i].and_more ? any : "");
        assert_string_equal(err.msg, says);
    }
}

/* Goal: what was read is what was written: kinds, ports, networks and names. */
static void
test_rules(void **state)
{
    static const struct {
        const char *word;
        enum wp_egress_rule_kind kind;
        uint16_t port;
        const char *name;
        unsigned bits;
    } rows[] = {
        {"A.test", WP_EGRESS_NAME, 0, "a.test", 0},
        {"a.test:1", WP_EGRESS_NAME, 1, "a.test", 0},
        {"*.a", WP_EGRESS_BELOW, 0, "a", 0},
        {"*.a.test.:65535", WP_EGRESS_BELOW, 65535, "a.test", 0},
        {"10.0.0.0/8", WP_EGRESS_NETWORK, 0, "", 104},
        {"10.0.0.1:65535", WP_EGRESS_NETWORK, 65535, "", 128},
        {"10.0.0.0/8:1", WP_EGRESS_NETWORK, 1, "", 104},
        {"fd00::/8", WP_EGRESS_NETWORK, 0, "", 8},
        {"[fd00::1]", WP_EGRESS_NETWORK, 0, "", 128},
        {"[fd00::/8]:1", WP_EGRESS_NETWORK, 1, "", 8},
        {"[10.0.0.0/8]:65535", WP_EGRESS_NETWORK, 65535, "", 104},
        {"key:a", WP_EGRESS_KEY, 0, "a", 0},
        {"packages", WP_EGRESS_PACKAGES, 0, "", 0},
        {"packages:80", WP_EGRESS_NAME, 80, "packages", 0},
    };
    static struct wp_egress_policy all;
    char text[WP_EGRESS_TEXT_MAX + 1] = "";
    struct wp_err err;
    size_t len = 0;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        /* Twice: a rule that is there is not added. */
        len += (size_t)snprintf(text + len, sizeof text - len, "%s,%s ",
                                rows[i].word, rows[i].word);
    }
    assert_int_equal(wp_egress_policy_parse(wp_str_from(text),
                                            (struct wp_str){NULL, 0}, &all,
                                            &err),
                     WP_OK);
    assert_int_equal(all.mode, WP_EGRESS_ALLOWLIST);
    assert_int_equal(all.rules_len, WP_ARRAY_LEN(rows));
    len = 0;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        const struct wp_egress_rule *rule = &all.rules[i];

        assert_int_equal(rule->kind, rows[i].kind);
        assert_int_equal(rule->port, rows[i].port);
        assert_int_equal(rule->network.bits, rows[i].bits);
        assert_true(wp_str_is(wp_egress_rule_name(&all, rule), rows[i].name));
        len += strlen(rows[i].name);
    }
    assert_int_equal(all.names_len, len);
}

/* Goal: texts are taken up to their longest. */
static void
test_longest(void **state)
{
    static const struct wp_str no_preset = {NULL, 0};
    static struct wp_egress_policy policy;
    char text[WP_EGRESS_PRESET_MAX + 1];
    char word[72] = "key:";
    struct wp_err err;

    (void)state;
    memset(text, ' ', sizeof text);
    text[0] = 'a';
    assert_int_equal(
        wp_egress_policy_parse((struct wp_str){text, WP_EGRESS_TEXT_MAX},
                               (struct wp_str){text, WP_EGRESS_PRESET_MAX},
                               &policy, &err),
        WP_OK);
    assert_int_equal(
        wp_egress_policy_parse((struct wp_str){text, WP_EGRESS_TEXT_MAX + 1},
                               no_preset, &policy, &err),
        WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "at most 1023 characters were expected");
    assert_int_equal(
        wp_egress_policy_parse(WP_STR("a"),
                               (struct wp_str){text, WP_EGRESS_PRESET_MAX + 1},
                               &policy, &err),
        WP_INVALID_ARGUMENT);
    /* The name of a key. */
    memset(word + 4, 'k', 64);
    assert_int_equal(wp_egress_policy_parse((struct wp_str){word, 4 + 63},
                                            no_preset, &policy, &err),
                     WP_OK);
    assert_int_equal(wp_egress_policy_parse((struct wp_str){word, 4 + 64},
                                            no_preset, &policy, &err),
                     WP_INVALID_ARGUMENT);
}

/* Goal: more rules than there is room for are refused, not cut. */
static void
test_too_many(void **state)
{
    char text[WP_EGRESS_TEXT_MAX + 1];
    struct wp_egress_policy policy;
    struct wp_err err;
    size_t len = 0;

    (void)state;
    for (int i = 0; i < WP_EGRESS_RULES_MAX; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "n%d ", i);
    }
    assert_int_equal(wp_egress_policy_parse((struct wp_str){text, len},
                                            WP_STR(""), &policy, &err),
                     WP_OK);
    assert_int_equal(policy.rules_len, WP_EGRESS_RULES_MAX);
    len += (size_t)snprintf(text + len, sizeof text - len, "n");
    assert_int_equal(wp_egress_policy_parse((struct wp_str){text, len},
                                            WP_STR(""), &policy, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "at most 128 rules were expected");
    /* Up to the last one they are what may be asked for. */
    len--;
    text[len - 1] = '\0';
    assert_int_equal(wp_egress_policy_parse_narrowed(wp_str_from(text),
                                                     WP_STR("n127"), WP_STR(""),
                                                     &policy, &err),
                     WP_OK);
    assert_int_equal(policy.rules_len, 1);
    assert_int_equal(wp_egress_policy_parse_narrowed(wp_str_from(text),
                                                     WP_STR("n128"), WP_STR(""),
                                                     &policy, &err),
                     WP_FAILED_PRECONDITION);
    /* All that a preset brings is counted, too. */
    len -= 2;
    assert_int_equal(wp_egress_policy_parse(WP_STR("packages other.test"),
                                            (struct wp_str){text, len}, &policy,
                                            &err),
                     WP_OK);
    assert_int_equal(policy.rules_len, WP_EGRESS_RULES_MAX);
    assert_int_equal(wp_egress_policy_parse(WP_STR("packages other.test x"),
                                            (struct wp_str){text, len}, &policy,
                                            &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "at most 128 rules were expected");
}

/* Goal: a key counts only where it is named. */
static void
test_keys(void **state)
{
    struct wp_egress_policy policy;

    (void)state;
    read_policy("key:models a.test", &policy);
    assert_true(wp_egress_allows_key(&policy, WP_STR("models")));
    assert_false(wp_egress_allows_key(&policy, WP_STR("model")));
    assert_false(wp_egress_allows_key(&policy, WP_STR("a.test")));
    read_policy("open", &policy);
    assert_false(wp_egress_allows_key(&policy, WP_STR("models")));
}

static const char *const words[] = {
    "a.test",        "*.a.test",
    "b.a.test",      "*.b.a.test",
    "c.b.a.test",    "a.test:8443",
    "*.a.test:8443", "b.a.test:8443",
    "*.test",        "test",
    "packages",      "index.test",
    "10.0.0.0/8",    "10.1.0.0/16",
    "10.1.2.3",      "10.1.0.0/16:8443",
    "1.0.0.0/8",     "1.1.1.1",
    "0.0.0.0/0",     "::/0",
    "fd00::/8",      "fd00::1",
    "2600::/16",     "key:models",
    "key:other",     "169.254.169.254",
};

static const char *const targets[] = {
    "a.test:443",         "b.a.test:443",     "c.b.a.test:443",
    "d.c.b.a.test:443",   "x.test:443",       "test:443",
    "index.test:443",     "a.files.test:443", "a.test:8443",
    "b.a.test:8443",      "10.1.2.3:443",     "10.9.9.9:443",
    "10.1.2.3:8443",      "1.1.1.1:443",      "1.2.3.4:443",
    "9.9.9.9:443",        "[fd00::1]:443",    "[fd00::2]:443",
    "[2600::1]:443",      "[64:ff9b::1]:443", "169.254.169.254:443",
    "169.254.169.254:80", "a.test:80",
};

static void
random_policy(struct wp_rng *rng, struct wp_egress_policy *out)
{
    char text[WP_EGRESS_TEXT_MAX + 1] = "";
    size_t len = 0;
    uint64_t n = 1 + wp_rng_below(rng, 6);

    if (wp_rng_below(rng, 12) == 0) {
        read_policy("none", out);
        return;
    }
    if (wp_rng_below(rng, 4) == 0) {
        len = (size_t)snprintf(text, sizeof text, "open ");
        n--;
    }
    while (n-- > 0) {
        len += (size_t)snprintf(text + len, sizeof text - len, "%s ",
                                words[wp_rng_below(rng, WP_ARRAY_LEN(words))]);
    }
    read_policy(text, out);
}

static bool
is_name(const char *target)
{
    return strchr("0123456789[", target[0]) == NULL;
}

/* Goal: two policies narrowed by each other allow what both allow and never
 * more; of names exactly that. */
static void
test_narrow(void **state)
{
    struct wp_rng rng;
    int agreed = 0;

    (void)state;
    wp_rng_init(&rng, 3);
    for (int round = 0; round < 3000; round++) {
        static struct wp_egress_policy a;
        static struct wp_egress_policy b;
        static struct wp_egress_policy both;

        random_policy(&rng, &a);
        random_policy(&rng, &b);
        assert_int_equal(wp_egress_policy_narrow(&a, &b, &both, NULL), WP_OK);
        for (size_t i = 0; i < 2 * WP_ARRAY_LEN(targets); i++) {
            const char *target = targets[i / 2];
            bool secure = i % 2 == 0;
            bool each =
                allows(&a, target, secure) && allows(&b, target, secure);
            bool is = allows(&both, target, secure);

            if (is ? !each : each && is_name(target)) {
                fail_msg("round %d: %s: %d, not %d", round, target, is, each);
            }
            agreed += is ? 1 : 0;
            if (!is_name(target)) {
                struct wp_host host;
                uint16_t port;
                const char *why;
                const struct sockaddr *sa =
                    (const struct sockaddr *)&host.address;

                assert_true(wp_host_port_parse(wp_str_from(target), 0, &host,
                                               &port, &why));
                if (wp_egress_allows_address(&both, sa, port, secure)) {
                    assert_true(
                        wp_egress_allows_address(&a, sa, port, secure) &&
                        wp_egress_allows_address(&b, sa, port, secure));
                }
            }
        }
        assert_int_equal(wp_egress_allows_key(&both, WP_STR("models")),
                         wp_egress_allows_key(&a, WP_STR("models")) &&
                             wp_egress_allows_key(&b, WP_STR("models")));
    }
    assert_true(agreed > 1000);
}

static const struct wp_host *
private_host(void)
{
    static struct wp_host host;
    const char *why;

    assert_true(wp_host_parse(WP_STR("10.0.0.1"), &host, &why));
    return &host;
}

/* Goal: what lies behind a policy's last rule is none of its rules. */
static void
test_narrow_to_the_last_rule(void **state)
{
    static struct wp_egress_policy full;
    static struct wp_egress_policy cut;
    static struct wp_egress_policy both;

    (void)state;
    read_policy("a.test b.test 10.0.0.1 key:models", &full);
    read_policy("a.test b.test 10.0.0.1 key:models", &cut);
    cut.rules_len = 1;
    for (int round = 0; round < 2; round++) {
        assert_int_equal(wp_egress_policy_narrow(round == 0 ? &full : &cut,
                                                 round == 0 ? &cut : &full,
                                                 &both, NULL),
                         WP_OK);
        assert_int_equal(both.mode, WP_EGRESS_ALLOWLIST);
        assert_int_equal(both.rules_len, 1);
        assert_true(
            wp_str_is(wp_egress_rule_name(&both, &both.rules[0]), "a.test"));
    }
    for (cut.rules_len = 1; cut.rules_len < 5; cut.rules_len++) {
        const struct wp_host *private = private_host();

        assert_int_equal(allows(&cut, "b.test:443", true), cut.rules_len > 1);
        assert_int_equal(
            wp_egress_allows_address(
                &cut, (const struct sockaddr *)&private->address, 443, true),
            cut.rules_len > 2);
        assert_int_equal(wp_egress_allows_key(&cut, WP_STR("models")),
                         cut.rules_len > 3);
    }
}

/* Goal: what is left of two policies may have more rules than either. */
static void
test_narrow_too_many(void **state)
{
    static struct wp_egress_policy open[2];
    static struct wp_egress_policy both;
    const int each = WP_EGRESS_RULES_MAX / 2;
    struct wp_err err;

    (void)state;
    for (int more = 0; more < 2; more++) {
        for (int k = 0; k < 2; k++) {
            char text[WP_EGRESS_TEXT_MAX + 1];
            size_t len = (size_t)snprintf(text, sizeof text, "open");

            for (int i = 0; i < each + more * k; i++) {
                len += (size_t)snprintf(text + len, sizeof text - len, " %c%d",
                                        "ab"[k], i);
            }
            read_policy(text, &open[k]);
        }
        assert_int_equal(
            wp_egress_policy_narrow(&open[0], &open[1], &both, &err),
            more == 0 ? WP_OK : WP_RESOURCE_EXHAUSTED);
        assert_true(both.rules_len <= WP_EGRESS_RULES_MAX);
    }
    assert_non_null(strstr(err.msg, "more than 128 rules"));
}

/* Goal: in words, less is taken and more is refused by the word that asks for
 * it. */
static void
test_narrowed_by(void **state)
{
    static const struct {
        const char *text;
        const char *by;
        const char *beyond; /* NULL: it is taken. */
    } rows[] = {
        {"a.test *.b.test", "a.test", NULL},
        {"a.test *.b.test", "", NULL},
        {"a.test *.b.test", "none", NULL},
        {"a.test *.b.test", "allowlist x.b.test, *.c.b.test", NULL},
        {"a.test *.b.test", "a.test b.test", "b.test"},
        {"a.test *.b.test", "*.a.test", "*.a.test"},
        {"a.test *.b.test", "a.test:8443", "a.test:8443"},
        {"a.test *.b.test", "open", "open"},
        {"a.test *.b.test", "open a.test", "open"},
        {"a.test *.b.test", "packages", "packages"},
        {"a.test *.b.test", "key:models", "key:models"},
        {"packages key:models", "packages", NULL},
        {"packages key:models", "key:models", NULL},
        {"packages key:models", "index.test x.files.test", NULL},
        {"packages key:models", "*.files.test other.test", "other.test"},
        {"index.test *.files.test", "packages", NULL},
        {"open", "packages", NULL},
        {"open", "open", NULL},
        {"open", "a.test 1.1.1.1", NULL},
        {"open", "a.test 10.0.0.1", "10.0.0.1"},
        {"open", "open 10.0.0.1", "10.0.0.1"},
        {"open", "a.test:8443", "a.test:8443"},
        {"open 10.0.0.0/8 a.test:8443", "open 10.1.0.0/16 a.test:8443", NULL},
        {"open.test open", "open.test open", NULL}, /* A name, there. */
        {"none", "none", NULL},
        {"none", "a.test", "a.test"},
        {"none", "packages", "packages"},
        {"", "none", NULL},
        {"", "open", "open"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_egress_policy out;
        struct wp_err err = {.msg = ""};
        char says[sizeof err.msg];
        enum wp_status status = wp_egress_policy_parse_narrowed(
            wp_str_from(rows[i].text), wp_str_from(rows[i].by),
            WP_STR("index.test *.files.test"), &out, &err);

        if (rows[i].beyond == NULL) {
            if (status != WP_OK) {
                fail_msg("'%s' by '%s': %s", rows[i].text, rows[i].by, err.msg);
            }
            continue;
        }
        (void)snprintf(
            says, sizeof says, "'%s' is not within the pool's policy, '%s'",
            rows[i].beyond, rows[i].text[0] != '\0' ? rows[i].text : "none");
        if (status != WP_FAILED_PRECONDITION || strcmp(err.msg, says) != 0) {
            fail_msg("'%s' by '%s': %d, '%s'", rows[i].text, rows[i].by,
                     (int)status, err.msg);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_error_texts),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_longest),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_narrow_to_the_last_rule),
        cmocka_unit_test(test_narrow_too_many),
        cmocka_unit_test(test_narrowed_by),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
