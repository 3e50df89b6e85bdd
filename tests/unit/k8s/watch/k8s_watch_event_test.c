/* One line of a watch: each type, what an error says, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/watch/watch_event.h"

static struct wp_watch_event event;
static struct wp_err err;

static enum wp_status
reads(const char *line)
{
    memset(&event, 0xa5, sizeof event);
    err.msg[0] = '\0';
    return wp_watch_event_read(&event, wp_str_from(line), &err);
}

static void
types(void **state)
{
    static const struct {
        const char *name;
        enum wp_watch_event_type type;
    } cases[] = {
        {"ADDED", WP_WATCH_ADDED},
        {"MODIFIED", WP_WATCH_MODIFIED},
        {"DELETED", WP_WATCH_DELETED},
        {"BOOKMARK", WP_WATCH_BOOKMARK},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        char line[128];

        (void)snprintf(line, sizeof line,
                       "{\"type\":\"%s\",\"object\":{\"metadata\":{"
                       "\"resourceVersion\":\"7\"}}}",
                       cases[i].name);
        assert_int_equal(reads(line), WP_OK);
        assert_int_equal(event.type, cases[i].type);
        assert_ptr_equal(event.object, json_object_get(event.root, "object"));
        assert_string_equal(event.version, "7");
        assert_int_equal(event.code, 0);
        assert_string_equal(event.message, "");
        wp_watch_event_fini(&event);
        assert_null(event.root);
        assert_null(event.object);
    }
}

#define ERROR(object) "{\"type\":\"ERROR\",\"object\":" object "}"

static void
errors(void **state)
{
    static const struct {
        const char *line;
        int code;
        const char *message;
    } cases[] = {
        {ERROR("{\"code\":410,\"message\":\"too old\"}"), 410, "too old"},
        {ERROR("{}"), 0, ""},
        {ERROR("{\"code\":1}"), 1, ""},
        {ERROR("{\"code\":0}"), 0, ""},
        {ERROR("{\"code\":-1}"), 0, ""},
        {ERROR("{\"code\":999}"), 999, ""},
        {ERROR("{\"code\":1000}"), 0, ""},
        {ERROR("{\"code\":\"410\",\"message\":1}"), 0, ""},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        assert_int_equal(reads(cases[i].line), WP_OK);
        assert_int_equal(event.type, WP_WATCH_ERROR);
        assert_true(json_is_object(event.object));
        assert_string_equal(event.version, "");
        assert_int_equal(event.code, cases[i].code);
        assert_string_equal(event.message, cases[i].message);
        wp_watch_event_fini(&event);
    }
}

#define TYPE(type)                                                             \
    "type is '" type "', expected ADDED, MODIFIED, DELETED, BOOKMARK or ERROR"
#define VERSION                                                                \
    "object.metadata.resourceVersion is missing or longer than 511 bytes"

static void
what_is_none(void **state)
{
    static const struct {
        const char *line;
        const char *says; /* NULL: the reader's own words. */
    } cases[] = {
        {"", NULL},
        {"{", NULL},
        {"[]", TYPE("")},
        {"{}", TYPE("")},
        {"{\"type\":1,\"object\":{}}", TYPE("")},
        {"{\"type\":\"added\",\"object\":{}}", TYPE("added")},
        {"{\"type\":\"aaaaaaaaaabbbbbbbbbbccccccccccdde\"}",
         TYPE("aaaaaaaaaabbbbbbbbbbccccccccccdd")},
        {"{\"type\":\"ADDED\"}", "object is missing or no object"},
        {"{\"type\":\"ADDED\",\"object\":[]}",
         "object is missing or no object"},
        {ERROR("1"), "object is missing or no object"},
        {"{\"type\":\"ADDED\",\"object\":{}}", VERSION},
        {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":"
         "\"\"}}}",
         VERSION},
        {"{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{"
         "\"resourceVersion\":7}}}",
         VERSION},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        assert_int_equal(reads(cases[i].line), WP_INVALID_ARGUMENT);
        assert_null(event.root);
        if (cases[i].says != NULL) {
            assert_string_equal(err.msg, cases[i].says);
        } else {
            assert_string_not_equal(err.msg, "");
        }
    }
}

static void
the_longest_version(void **state)
{
    char line[1024];
    int len = WP_VERSION_MAX - 1;

    (void)state;
    for (int more = 0; more < 2; more++) {
        (void)snprintf(line, sizeof line,
                       "{\"type\":\"ADDED\",\"object\":{\"metadata\":{"
                       "\"resourceVersion\":\"%0*d\"}}}",
                       len + more, 1);
        assert_int_equal(reads(line), more == 0 ? WP_OK : WP_INVALID_ARGUMENT);
        if (more == 0) {
            assert_int_equal(strlen(event.version), len);
            wp_watch_event_fini(&event);
        } else {
            assert_string_equal(err.msg, VERSION);
        }
    }
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(types),
        cmocka_unit_test(errors),
        cmocka_unit_test(what_is_none),
        cmocka_unit_test(the_longest_version),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
