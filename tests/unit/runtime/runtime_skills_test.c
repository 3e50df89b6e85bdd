/* Skills: what the head of one says, which are listed, and which are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/compiler.h"
#include "runtime/mcp/skills.h"
#include "tests/support/base/temp_dir.h"

static char dir[512];

static const char *
at(const char *name)
{
    static char path[800];

    assert_in_range(snprintf(path, sizeof path, "%s/%s", dir, name), 0,
                    sizeof path - 1);
    return path;
}

static void
skill_put(const char *name, const char *text, size_t len)
{
    char path[300];
    FILE *file;

    assert_int_equal(mkdir(at(name), 0755), 0);
    (void)snprintf(path, sizeof path, "%s/SKILL.md", name);
    file = fopen(at(path), "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void
skill_remove(const char *name)
{
    temp_dir_remove(at(name));
}

static void
a_head_says(void **state)
{
    static const struct {
        const char *text;
        const char *name;
        const char *description;
    } cases[] = {
        {"", "", ""},
        {"name: a\ndescription: b\n", "", ""},
        {"---\nname: a\ndescription: b\n---\n", "a", "b"},
        {"---\nname: a\ndescription: b", "a", "b"},
        {"---\n---\nname: a\n---\n", "", ""},
        {"---\nname: a\n---\nname: b\n---\n", "a", ""},
        {"text\n \t---\t\r\n\r\n\t name \t:\t \"a b\" \t\r\n---", "a b", ""},
        {"---\nname: 'a\"\nname: b\n", "b", ""},
        {"---\nname: '\"'\"a'b\"'\"'\n", "a'b", ""},
        {"---\nname: \" a \"\n", " a ", ""},
        {"---\nname: a: b:\n", "a: b:", ""},
        {"---\nname:\ndescription:\n", "", ""},
        {"---\nname: ''\n", "", ""},
        {"---\nname\nnames: x\nname_: y\nNAME: z\n: q\n", "", ""},
        {"---\n----\nname: a\n--\n", "a", ""},
        {"--\n---x\nname: a\n", "", ""},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        /* Exactly so large: nothing beside it is looked at. */
        size_t len = strlen(cases[i].text);
        char *text = malloc(len + 1);
        struct wp_skill_head head;

        assert_non_null(text);
        memcpy(text, cases[i].text, len);
        text[len] = '"';
        wp_skill_head_parse((struct wp_str){text, len}, &head);
        assert_int_equal(head.name.len, strlen(cases[i].name));
        assert_memory_equal(head.name.ptr, cases[i].name, head.name.len);
        assert_int_equal(head.description.len, strlen(cases[i].description));
        assert_memory_equal(head.description.ptr, cases[i].description,
                            head.description.len);
        free(text);
    }
    {
        struct wp_skill_head head;

        wp_skill_head_parse(WP_STR("---\nname: a\0\n\0name: b\n"), &head);
        assert_int_equal(head.name.len, 2);
        assert_memory_equal(head.name.ptr, "a", 2);
    }
}

/* Sorted by their folders. What is no folder, or has no file, is left out. */
static void
are_listed(void **state)
{
    static char late[WP_SKILL_HEAD_MAX + 64];
    static const char head[] = "---\nname: late\n";
    char *text;
    FILE *file;

    (void)state;
    text = wp_skills_list(at("nothing"));
    assert_string_equal(text, "");
    free(text);
    text = wp_skills_list(dir);
    assert_string_equal(text, "");
    free(text);

    skill_put("c", "---\nname: see\ndescription: C's\n---\nText", 39);
    skill_put("B", "", 0);
    skill_put(".a", "---\ndescription: hidden", 23);
    assert_int_equal(mkdir(at("empty"), 0755), 0);
    assert_int_equal(symlink("c", at("link")), 0);
    file = fopen(at("file"), "we");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    /* The line ends with the last byte that is looked at, and one later. */
    for (size_t more = 0; more < 2; more++) {
        size_t begin = WP_SKILL_HEAD_MAX - (sizeof head - 1) + more;

        memset(late, '\n', sizeof late);
        memcpy(late + begin, head, sizeof head - 2);
        skill_put(more == 0 ? "in" : "out", late, begin + sizeof head - 2);
    }
    text = wp_skills_list(dir);
    assert_string_equal(text, "- .a: hidden\n"
                              "- B: \n"
                              "- see: C's\n"
                              "- late: \n"
                              "- late: ");
    free(text);
    assert_int_equal(rmdir(at("empty")), 0);
    skill_remove("c");
    skill_remove("B");
    skill_remove(".a");
    skill_remove("in");
    skill_remove("out");
    temp_dir_empty(dir);
}

static void
so_many_are_listed(void **state)
{
    char *text;
    char *end;
    char name[16];

    (void)state;
    for (int i = 0; i < WP_SKILLS_MAX + 2; i++) {
        (void)snprintf(name, sizeof name, "s%03d", i);
        skill_put(name, "", 0);
    }
    text = wp_skills_list(dir);
    end = text;
    for (int i = 0; i < WP_SKILLS_MAX; i++) {
        char line[32];

        (void)snprintf(line, sizeof line, "- s%03d: %s", i,
                       i + 1 < WP_SKILLS_MAX ? "\n" : "");
        assert_memory_equal(end, line, strlen(line));
        end += strlen(line);
    }
    assert_string_equal(end, "");
    free(text);
    for (int i = 0; i < WP_SKILLS_MAX + 2; i++) {
        (void)snprintf(name, sizeof name, "s%03d", i);
        skill_remove(name);
    }
}

static void
one_is_read_whole(void **state)
{
    static const char *const invalid[] = {"..", "a..b", "/",   "a/b",
                                          "/a", "\\",   "a\\b"};
    static char large[WP_SKILL_FILE_MAX + 1];
    static char name[5000];
    char expected[1400];
    struct wp_err err;
    json_t *got = NULL;

    (void)state;
    memset(large, 'x', sizeof large);
    skill_put("a.b", "---\nname: x\n---\nAll of it.\n", 27);
    skill_put("large", large, WP_SKILL_FILE_MAX);
    skill_put("larger", large, WP_SKILL_FILE_MAX + 1);
    assert_int_equal(wp_skills_read(dir, "a.b", &got, &err), WP_OK);
    assert_string_equal(json_string_value(got),
                        "---\nname: x\n---\nAll of it.\n");
    json_decref(got);
    assert_int_equal(wp_skills_read(at("a.b"), "", &got, &err), WP_OK);
    json_decref(got);
    assert_int_equal(wp_skills_read(dir, "large", &got, &err), WP_OK);
    assert_int_equal(json_string_length(got), WP_SKILL_FILE_MAX);
    json_decref(got);
    assert_int_equal(wp_skills_read(dir, "larger", &got, &err),
                     WP_FAILED_PRECONDITION);
    assert_non_null(strstr(err.msg, "failed to read skill larger: read "));
    assert_int_equal(wp_skills_read("/no/such", "x", &got, &err), WP_NOT_FOUND);
    assert_string_equal(err.msg,
                        "failed to read skill x: open /no/such/x/SKILL.md: no "
                        "such file or directory");
    for (size_t i = 0; i < WP_ARRAY_LEN(invalid); i++) {
        assert_int_equal(wp_skills_read(dir, invalid[i], &got, &err),
                         WP_INVALID_ARGUMENT);
        (void)snprintf(expected, sizeof expected, "invalid skill name: %s",
                       invalid[i]);
        assert_string_equal(err.msg, expected);
    }
    memset(name, 'n', sizeof name - 1);
    assert_int_equal(wp_skills_read(dir, name, &got, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "invalid skill name: too long");
    skill_remove("a.b");
    skill_remove("large");
    skill_remove("larger");
}

static int
set_up(void **state)
{
    (void)state;
    temp_dir_make(dir, sizeof dir);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    temp_dir_remove(dir);
    return access(dir, F_OK) == 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_says),
        cmocka_unit_test_setup_teardown(are_listed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(so_many_are_listed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_is_read_whole, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
