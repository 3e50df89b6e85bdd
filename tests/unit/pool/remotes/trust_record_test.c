/* Records of what a repository's instruction files were: read as they were
 * written, and compared by file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pool/remotes/trust_record.h"

static struct wp_err err;

static struct wp_trust_record
record_of(const char *list)
{
    struct wp_trust_record record = {.tenant = "a team", .url = "https://h/r"};

    assert_int_equal(wp_trust_files_parse(wp_str_from(list), &record, &err),
                     WP_OK);
    return record;
}

static void
lists(void **state)
{
    static const char *const bad[] = {
        "",       ",", "a,a",    "/a",   "a//b", "../a",
        "a/../b", ".", "a\nb,c", "a,\t", " , ",
    };
    struct wp_trust_record record =
        record_of("CLAUDE.md, .claude/settings.json");

    (void)state;
    assert_int_equal(record.n, 2);
    assert_string_equal(record.files[1].path, ".claude/settings.json");
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        if (wp_trust_files_parse(wp_str_from(bad[i]), &record, &err) == WP_OK) {
            fail_msg("'%s'", bad[i]);
        }
    }
    assert_int_equal(
        wp_trust_files_parse(WP_STR("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p"), &record,
                             &err),
        WP_OK);
    assert_int_equal(
        wp_trust_files_parse(WP_STR("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"),
                             &record, &err),
        WP_INVALID_ARGUMENT);
}

static void
as_it_was_written(void **state)
{
    struct wp_trust_record record = record_of("a, b c/d, e");
    struct wp_trust_record again;
    char text[WP_TRUST_TEXT_MAX + 1];
    size_t len;

    (void)state;
    record.files[0].state = WP_TRUST_FILE;
    memset(record.files[0].hash, 0xa5, WP_TRUST_HASH_LEN);
    record.files[2].state = WP_TRUST_ASTRAY; /* Is not written. */
    len = wp_trust_record_write(&record, text);
    assert_true(wp_trust_record_read((struct wp_str){text, len}, &again));
    assert_string_equal(again.tenant, "a team");
    assert_string_equal(again.url, "https://h/r");
    assert_int_equal(again.n, 2);
    assert_memory_equal(again.files[0].hash, record.files[0].hash,
                        WP_TRUST_HASH_LEN);
    assert_int_equal(again.files[1].state, WP_TRUST_ABSENT);
    for (size_t cut = 0; cut < len; cut++) {
        /* A part of it is a record only at the end of a line with a file. */
        if (wp_trust_record_read((struct wp_str){text, cut}, &again)) {
            assert_int_equal(text[cut - 1], '\n');
        }
    }
}

static void
what_is_no_record(void **state)
{
    static const char *const bad[] = {
        "warmpool-trust 2\ntenant \nurl u\n",
        "warmpool-trust 1\nurl u\n",
        "warmpool-trust 1\ntenant \nurl u\n-\n",
        "warmpool-trust 1\ntenant \nurl u\n- \n",
        "warmpool-trust 1\ntenant \nurl u\n- a\n- a\n",
        "warmpool-trust 1\ntenant \nurl u\nabcd a\n",
        "warmpool-trust 1\ntenant \nurl u\n- ../a\n",
    };
    struct wp_trust_record record;

    (void)state;
    assert_true(wp_trust_record_read(
        WP_STR("warmpool-trust 1\ntenant \nurl u\n- a\n"), &record));
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        if (wp_trust_record_read(wp_str_from(bad[i]), &record)) {
            fail_msg("%s", bad[i]);
        }
    }
}

static void
differences(void **state)
{
    struct wp_trust_record first = record_of("a,b,c,d");
    struct wp_trust_record now = record_of("a,b,c,d,e");
    char why[WP_TRUST_WHY_MAX];
    bool more;

    (void)state;
    first.files[0].state = first.files[1].state = WP_TRUST_FILE;
    now.files[0] = first.files[0];
    now.files[1] = first.files[1];
    assert_true(wp_trust_record_same(&first, &now, &more, why));
    assert_true(more); /* e */
    assert_true(wp_trust_record_add(&first, &now));
    assert_true(wp_trust_record_same(&first, &now, &more, why));
    assert_false(more);
    now.files[0].hash[31] = 1;
    now.files[1].state = WP_TRUST_ABSENT;
    now.files[2].state = WP_TRUST_FILE;
    now.files[3].state = WP_TRUST_ASTRAY;
    assert_false(wp_trust_record_same(&first, &now, &more, why));
    assert_string_equal(why, "a CHANGED, b DELETED, c NEW, d LINKED");
}

static void
judged(void **state)
{
    struct wp_trust_record first = record_of("a");
    struct wp_trust_record now = record_of("a,b");
    bool more;

    (void)state;
    assert_int_equal(wp_trust_record_judge(&first, &now, &more, &err), WP_OK);
    assert_true(more);
    assert_int_equal(first.n, 2);
    assert_int_equal(wp_trust_record_judge(&first, &now, &more, &err), WP_OK);
    assert_false(more);
    now.files[1].state = WP_TRUST_FILE;
    assert_int_equal(wp_trust_record_judge(&first, &now, &more, &err),
                     WP_FAILED_PRECONDITION);
    assert_string_equal(err.msg, "not as first trusted: b NEW");
    now = record_of("new");
    first.n = WP_TRUST_FILES_MAX;
    assert_int_equal(wp_trust_record_judge(&first, &now, &more, &err),
                     WP_RESOURCE_EXHAUSTED);
}

static void
below_a_folder(void **state)
{
    struct wp_trust_record record =
        record_of(".claude/settings.json, a/b/c, a");

    (void)state;
    wp_trust_record_below(&record, WP_STR(""));
    assert_int_equal(record.n, 3);
    wp_trust_record_below(&record, WP_STR(".claude"));
    assert_int_equal(record.n, 4);
    assert_string_equal(record.files[3].path, "settings.json");
    wp_trust_record_below(&record, WP_STR("a"));
    assert_int_equal(record.n, 5);
    assert_string_equal(record.files[4].path, "b/c");
}

static void
the_text_is_exact(void **state)
{
    struct wp_trust_record record = record_of("a,dir/b,c");
    char text[WP_TRUST_TEXT_MAX + 1];
    size_t len;

    (void)state;
    record.files[0].state = WP_TRUST_FILE;
    memset(record.files[0].hash, 0xa5, WP_TRUST_HASH_LEN);
    record.files[2].state = WP_TRUST_ASTRAY;
    len = wp_trust_record_write(&record, text);
    assert_string_equal(
        text,
        "warmpool-trust 1\ntenant a team\nurl https://h/r\n"
        "a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5 "
        "a\n- dir/b\n");
    assert_int_equal(len, strlen(text));
}

/* Goal: a record that is as large as one can be comes back whole. */
static void
the_largest_comes_back(void **state)
{
    static struct wp_trust_record record;
    static struct wp_trust_record again;
    static char text[WP_TRUST_TEXT_MAX + 1];
    size_t len;

    (void)state;
    memset(&record, 0, sizeof record);
    memset(record.tenant, 't', WP_TENANT_MAX);
    memset(record.url, 'u', WP_REMOTE_URL_MAX);
    record.n = WP_TRUST_FILES_MAX;
    for (uint32_t i = 0; i < record.n; i++) {
        struct wp_trust_file *file = &record.files[i];

        memset(file->path, 'p', WP_TRUST_PATH_MAX);
        file->path[0] = (char)('0' + i / 8);
        file->path[1] = (char)('0' + i % 8);
        file->state = WP_TRUST_FILE;
        memset(file->hash, (int)(255 - i), sizeof file->hash);
    }
    len = wp_trust_record_write(&record, text);
    assert_int_equal(len, strlen(text));
    assert_true(wp_trust_record_read((struct wp_str){text, len}, &again));
    assert_string_equal(again.tenant, record.tenant);
    assert_string_equal(again.url, record.url);
    assert_int_equal(again.n, record.n);
    for (uint32_t i = 0; i < record.n; i++) {
        assert_string_equal(again.files[i].path, record.files[i].path);
        assert_int_equal(again.files[i].state, WP_TRUST_FILE);
        assert_memory_equal(again.files[i].hash, record.files[i].hash,
                            WP_TRUST_HASH_LEN);
    }
    /* One more file is one too many. */
    memcpy(text + len, "- q\n", 5);
    assert_false(wp_trust_record_read((struct wp_str){text, len + 4}, &again));
}

/* Goal: what differs is told as far as it fits, and never beyond. */
static void
long_differences_are_cut(void **state)
{
    static struct wp_trust_record first;
    static struct wp_trust_record now;
    char why[2 * WP_TRUST_WHY_MAX];
    char whole[400] = "";
    bool more;

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct wp_trust_file *file = &first.files[i];
        size_t len = strlen(whole);

        memset(file->path, 'a' + i, 70);
        file->state = WP_TRUST_FILE;
        (void)snprintf(whole + len, sizeof whole - len, "%s%.60s CHANGED",
                       i > 0 ? ", " : "", file->path);
    }
    first.n = 4;
    now = first;
    for (int i = 0; i < 4; i++) {
        now.files[i].hash[0] = 1;
    }
    memset(why, '~', sizeof why);
    assert_false(wp_trust_record_same(&first, &now, &more, why));
    whole[WP_TRUST_WHY_MAX - 1] = '\0';
    assert_string_equal(why, whole);
    for (size_t i = WP_TRUST_WHY_MAX; i < sizeof why; i++) {
        assert_int_equal(why[i], '~');
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(the_text_is_exact),
        cmocka_unit_test(the_largest_comes_back),
        cmocka_unit_test(long_differences_are_cut),
        cmocka_unit_test(as_it_was_written),
        cmocka_unit_test(what_is_no_record),
        cmocka_unit_test(differences),
        cmocka_unit_test(judged),
        cmocka_unit_test(below_a_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
