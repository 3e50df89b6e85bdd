/* What people read of the settings: --help, the reference, --check-config. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/conf/conf.h"
#include "allocator/conf/value.h"
#include "tests/support/base/golden.h"

/* Of a line of text. */
enum {
    COLUMNS_MAX = 78,
};

/* Without the group of settings that only a build for tests has: from its
 * title to `behind`, or to the end. */
static void
cut_test_group(char *text, const char *title, const char *behind)
{
    char *from = strstr(text, title);
    char *to = from != NULL && behind != NULL ? strstr(from, behind) : NULL;

    if (from != NULL) {
        memmove(from, to != NULL ? to : "", to != NULL ? strlen(to) + 1 : 1);
    }
}

static char *
shown(void (*show)(FILE *out))
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    show(out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void
test_help(void **state)
{
    char *help = shown(wp_conf_help);

    (void)state;
    cut_test_group(help, "\n" WP_CONF_TEST_GROUP "\n", "\nSignals:");
    golden_compare(help, WP_TEST_GOLDEN "/help.txt");
    for (const char *line = help; *line != '\0';) {
        size_t len = strcspn(line, "\n");

        /* Choices and defaults stand on one line. */
        assert_true(len <= COLUMNS_MAX || strncmp(line, "  --", 4) == 0);
        line += len + 1;
    }
    free(help);
}

/* As the man page has it: the rest of that page. */
static void
test_reference(void **state)
{
    char *reference = shown(wp_conf_help_settings);
    char *page = golden_read(WP_TEST_MAN_PAGE);
    char *rest = strstr(page, "\n## General\n");
    size_t len = strlen(reference);
    size_t same = 0;

    (void)state;
    assert_non_null(rest);
    rest++;
    while (same < len && rest[same] == reference[same]) {
        same++;
    }
    if (same < len) {
        fail_msg("the page has \"%.60s\", the reference \"%.60s\"", rest + same,
                 reference + same);
    }
    free(page);
    free(reference);
}

/* Settings of each type, from each source. */
static void
test_what_is_in_effect(void **state)
{
    struct wp_conf *conf = wp_conf_create();
    char *const argv[] = {"warmpoold", "--slots-max=7", "--config=/c.yaml",
                          "--reflection=false", NULL};
    char *const env[] = {"WARMPOOL_KEEPALIVE=90s", "WARMPOOL_LOG_LEVEL=error",
                         NULL};
    enum wp_conf_action action;
    struct wp_err err;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    (void)state;
    assert_non_null(conf);
    assert_non_null(out);
    assert_int_equal(wp_conf_read_args(conf, 4, argv, &action, &err), WP_OK);
    assert_int_equal(wp_conf_read_env(conf, env, &err), WP_OK);
    assert_int_equal(
        wp_conf_read_text(conf,
                          WP_STR("runtime_dir: /r\nreplica_name: me\n"
                                 "manifests: [a, 'b, \"c\" \\ d']\n"
                                 "message_max: 1MiB\nhttp_listen: unix:/x\n"
                                 "log_format: json\n"
                                 "redis_url: redis://u:secret@h/3\n"),
                          "/c.yaml", &err),
        WP_OK);
    assert_int_equal(wp_conf_resolve(conf, &err), WP_OK);
    wp_conf_print(conf, out);
    assert_int_equal(fclose(out), 0);
    cut_test_group(text, "\n# " WP_CONF_TEST_GROUP "\n", NULL);
    golden_compare(text, WP_TEST_GOLDEN "/in_effect.txt");
    free(text);
    wp_conf_destroy(conf);
}

/* A URL shows its scheme, and what is between the last '@' and '?'. */
static void
test_masks(void **state)
{
    static const struct {
        const char *url;
        const char *line;
    } rows[] = {
        {"redis://h", "redis_url: \"redis://h\" # c:1\n"},
        {"redis://h?p=s", "redis_url: \"redis://h?***\" # c:1\n"},
        {"redis://a@b@h", "redis_url: \"redis://***@h\" # c:1\n"},
        {"redis:a@h", "redis_url: \"***@h\" # c:1\n"},
        {"s@redis://h", "redis_url: \"***@redis://h\" # c:1\n"},
        {"unix:/s?p=a@b", "redis_url: \"unix:/s?***\" # c:1\n"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_conf *conf = wp_conf_create();
        struct wp_str url = wp_str_from(rows[i].url);
        struct wp_err err;
        char *text = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&text, &len);

        assert_non_null(conf);
        assert_non_null(out);
        assert_int_equal(
            wp_conf_set_text(conf, WP_SET_config, WP_STR("c"),
                             (struct wp_conf_origin){WP_CONF_FLAG, 0}, &err),
            WP_OK);
        assert_int_equal(
            wp_conf_set_text(conf, WP_SET_redis_url, url,
                             (struct wp_conf_origin){WP_CONF_FILE, 1}, &err),
            WP_OK);
        wp_conf_print(conf, out);
        assert_int_equal(fclose(out), 0);
        if (strstr(text, rows[i].line) == NULL) {
            fail_msg("%s: %.80s", rows[i].url, strstr(text, "redis_url"));
        }
        free(text);
        wp_conf_destroy(conf);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_what_is_in_effect),
        cmocka_unit_test(test_masks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
