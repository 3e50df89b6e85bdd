/* Multipart bodies, in pieces of every size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "runtime/files/multipart.h"

/* Writes down what was called: "[name,filename]data;". */
struct notes {
    char text[2 * WP_MULTIPART_NAME_MAX];
};

static void
on_part(void *user, const char *name, const char *filename)
{
    struct notes *notes = user;

    strcat(notes->text, "[");
    strcat(notes->text, name);
    strcat(notes->text, ",");
    strcat(notes->text, filename != NULL ? filename : "-");
    strcat(notes->text, "]");
}

static void
on_data(void *user, const char *data, size_t len)
{
    struct notes *notes = user;

    strncat(notes->text, data, len);
}

static void
on_end(void *user)
{
    struct notes *notes = user;

    strcat(notes->text, ";");
}

static const struct wp_multipart_events events = {on_part, on_data, on_end};

#define TYPE "multipart/form-data; boundary=XX"
#define HEAD "Content-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n"

static const struct {
    const char *body;
    const char *notes;
    bool good;
    bool complete;
} cases[] = {
    {"--XX\r\n" HEAD "\r\nhello\r\n--XX--\r\n", "[file,a]hello;", true, true},
    {"--XX\r\n" HEAD "\r\n\r\n--XX--", "[file,a];", true, true},
    {"preamble\r\n--XX\r\n" HEAD "\r\nx\r\n--XX--epilogue", "[file,a]x;", true,
     true},
    {"--XX \t\r\n" HEAD "\r\nx\r\n--XX--", "[file,a]x;", true, true},
    {"--XX\r\nX-Other: 1\r\n" HEAD "X-More: 2\r\n\r\nx\r\n--XX--", "[file,a]x;",
     true, true},
    /* Of two the first counts, also when it has no name. */
    {"--XX\r\nContent-Disposition: form-data; filename=a\r\n" HEAD
     "\r\nx\r\n--XX--",
     "[,a]x;", true, true},
    {"--XX\r\n" HEAD "Content-Disposition: form-data; name=b\r\n"
     "\r\nx\r\n--XX--",
     "[file,a]x;", true, true},
    {"--XX\r\n\r\nno head\r\n--XX--", "[,-]no head;", true, true},
    {"--XX\r\n" HEAD "\r\n\r\n\r\n--X\r\r\n--XY\r\n-\r\n--XX--",
     "[file,a]\r\n\r\n--X\r\r\n--XY\r\n-;", true, true},
    {"--XX\r\n" HEAD "\r\n1\r\n--XX\r\nContent-Disposition: form-data; "
     "name=b\r\n\r\n2\r\n--XX--",
     "[file,a]1;[b,-]2;", true, true},
    {"--XX\r\ncontent-disposition:form-data;filename=\"q\\\"\\\\;\" ;"
     "name=\"n\"\r\n\r\n\r\n--XX--",
     "[n,q\"\\;];", true, true},
    /* Nothing of the head before counts. */
    {"--XX\r\nX-Longer-Header: 12345\r\nContent-Disposition: f; name=a\r\n\r\n1"
     "\r\n--XX\r\nX: 1\r\n\r\n2\r\n--XX--",
     "[a,-]1;[,-]2;", true, true},
    {"--XX\r\nContent-Disposition: f; name=\"a\\b\\\"\\\\\"; filename=c\\\\d"
     "\r\n\r\n\r\n--XX--",
     "[a\\b\"\\,c\\\\d];", true, true},
    /* Others of as many letters, or that begin so. */
    {"--XX\r\nContent-Disposition: form-data; type=t; namely=y; mane=z; "
     "filenam_=q; filenames=r; name=b\r\n\r\n\r\n--XX--",
     "[b,-];", true, true},
    {"--XX\r\nContent-Disposition: form-data; a; name=b; =c; NAME=d\r\n\r\n\r\n"
     "--XX--",
     "[b,-];", true, true},
    {"--XX\r\nContent-Disposition: name=b\r\n\r\n\r\n--XX--", "[,-];", true,
     true},
    {"--XX\r\nContent-Disposition: f;name=b\tc;filename=\"d\r\n\r\n\r\n--XX--",
     "[b,d];", true, true},
    {"--XX\r\nContent-Disposition: f; \t name=\"\"; "
     "filename=\r\n\r\n\r\n--XX--",
     "[,];", true, true},
    {"--XX\r\n" HEAD "\r\n\n\r-\r\r\n-\r\n--\r\n--X\r\n--XX--",
     "[file,a]\n\r-\r\r\n-\r\n--\r\n--X;", true, true},
    {"\r\n--XX\r\n" HEAD "\r\nx\r\n--XX--", "[file,a]x;", true, true},
    {"x--XX\r\n" HEAD "\r\nx\r\n--XX--", "", true, true},
    {"--XX\r\n" HEAD "\r\nx\r\n--XX-", "[file,a]x;", true, false},
    {"--XX\r\n" HEAD "\r\nx\r\n--XX-\r", "[file,a]x;", false, false},
    {"--XX\r\n" HEAD "\r\nx\r\n--XX\r-", "[file,a]x;", false, false},
    {"--XX\r \n" HEAD "\r\nx\r\n--XX--", "", false, false},
    {"--XX--\r\n--XX\r\n" HEAD "\r\nx\r\n--XX--", "", true, true},
    {"--XX\r\n" HEAD "\r\nhal", "[file,a]hal", true, false},
    {"--XX\r\n" HEAD, "", true, false},
    {"nothing of the kind", "", true, false},
    {"", "", true, false},
    {"--XXjunk\r\n" HEAD "\r\nx\r\n--XX--", "", false, false},
};

static void
parses_in_pieces_of_any_size(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        size_t len = strlen(cases[i].body);

        for (size_t piece = 1; piece <= len + 1; piece++) {
            struct wp_multipart multipart;
            struct notes notes = {""};
            bool good = true;

            assert_true(wp_multipart_init(&multipart, TYPE, &events, &notes));
            for (size_t at = 0; at < len; at += piece) {
                size_t now = len - at < piece ? len - at : piece;

                good = wp_multipart_feed(&multipart, cases[i].body + at, now);
            }
            assert_int_equal(good, cases[i].good);
            assert_string_equal(notes.text, cases[i].notes);
            assert_int_equal(wp_multipart_complete(&multipart),
                             cases[i].complete);
        }
    }
}

static void
wants_a_boundary(void **state)
{
    static const struct {
        const char *type;
        bool good;
    } types[] = {
        {"multipart/form-data; boundary=abc", true},
        {"Multipart/Form-Data; charset=x; Boundary=\"a b\"", true},
        {"multipart/form-data; boundary=", false},
        {"multipart/form-data", false},
        {"multipart/mixed; boundary=abc", false},
        {"multipart/form-data; boundary="
         "12345678901234567890123456789012345678901234567890"
         "123456789012345678901",
         false},
        {NULL, false},
    };
    struct wp_multipart multipart;
    struct notes notes;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(types); i++) {
        assert_int_equal(
            wp_multipart_init(&multipart, types[i].type, &events, &notes),
            types[i].good);
    }
}

static void
a_boundary_is_as_long_as_it_may_be(void **state)
{
    char type[128];
    char body[256];
    char boundary[WP_MULTIPART_BOUNDARY_MAX + 2] = "";

    (void)state;
    for (size_t len = 1; len <= WP_MULTIPART_BOUNDARY_MAX + 1; len++) {
        struct wp_multipart multipart;
        struct notes notes = {""};

        memset(boundary, 'b', len);
        (void)snprintf(type, sizeof type,
                       "multipart/form-data; boundary=\"%s\"", boundary);
        if (len > WP_MULTIPART_BOUNDARY_MAX) {
            assert_false(wp_multipart_init(&multipart, type, &events, &notes));
            break;
        }
        assert_true(wp_multipart_init(&multipart, type, &events, &notes));
        (void)snprintf(body, sizeof body, "--%s\r\n\r\nx\r\n--%.*s\r\n--%s--",
                       boundary, (int)len - 1, boundary, boundary);
        assert_true(wp_multipart_feed(&multipart, body, strlen(body)));
        assert_true(wp_multipart_complete(&multipart));
        (void)snprintf(type, sizeof type, "[,-]x\r\n--%.*s;", (int)len - 1,
                       boundary);
        assert_string_equal(notes.text, type);
    }
}

/* All of it but one byte, for what ends it. */
static void
bounds_a_parts_head(void **state)
{
    static char head[WP_MULTIPART_HEAD_MAX];

    (void)state;
    for (size_t len = WP_MULTIPART_HEAD_MAX - 1; len <= WP_MULTIPART_HEAD_MAX;
         len++) {
        struct wp_multipart multipart;
        struct notes notes = {""};

        memset(head, 'a', len);
        memcpy(head, HEAD, strlen(HEAD));
        memcpy(head + len - 4, "\r\n\r\n", 4);
        assert_true(wp_multipart_init(&multipart, TYPE, &events, &notes));
        assert_true(wp_multipart_feed(&multipart, "--XX\r\n", 6));
        if (len < WP_MULTIPART_HEAD_MAX) {
            assert_true(wp_multipart_feed(&multipart, head, len));
            assert_true(wp_multipart_feed(&multipart, "x", 1));
            assert_string_equal(notes.text, "[file,a]x");
            continue;
        }
        assert_true(wp_multipart_feed(&multipart, head, len - 1));
        assert_false(wp_multipart_feed(&multipart, head + len - 1, 1));
        assert_string_equal(multipart.error,
                            "a part's head is malformed or too long");
        assert_string_equal(notes.text, "");
        assert_false(wp_multipart_feed(&multipart, "x", 1));
        assert_false(wp_multipart_feed(&multipart, "", 0));
    }
}

static void
says_what_is_wrong(void **state)
{
    struct wp_multipart multipart;
    struct notes notes = {""};

    (void)state;
    assert_true(wp_multipart_init(&multipart, TYPE, &events, &notes));
    assert_null(multipart.error);
    assert_false(wp_multipart_feed(&multipart, "--XX\r\na\0", 8));
    assert_string_equal(multipart.error,
                        "a part's head is malformed or too long");
    assert_true(wp_multipart_init(&multipart, TYPE, &events, &notes));
    assert_false(wp_multipart_feed(&multipart, "--XX\n\n", 6));
    assert_string_equal(multipart.error,
                        "a boundary is not followed by a line break");
    assert_string_equal(notes.text, "");
}

/* A name that is cut off could be that of another part. */
static void
a_name_that_is_too_long_is_none(void **state)
{
    (void)state;
    for (size_t len = WP_MULTIPART_NAME_MAX - 1; len <= WP_MULTIPART_NAME_MAX;
         len++) {
        bool fits = len < WP_MULTIPART_NAME_MAX;
        char name[WP_MULTIPART_NAME_MAX + 1] = "";
        char body[2 * WP_MULTIPART_NAME_MAX];
        char want[2 * WP_MULTIPART_NAME_MAX];
        struct wp_multipart multipart;
        struct notes notes = {""};

        memset(name, 'n', len);
        (void)snprintf(body, sizeof body,
                       "--XX\r\nContent-Disposition: form-data; name=\"%s\"; "
                       "filename=a\r\n\r\nx\r\n--XX--",
                       name);
        (void)snprintf(want, sizeof want, "[%s,a]x;", fits ? name : "");
        assert_true(wp_multipart_init(&multipart, TYPE, &events, &notes));
        assert_true(wp_multipart_feed(&multipart, body, strlen(body)));
        assert_string_equal(notes.text, want);
        /* The same of a file's name. */
        notes.text[0] = '\0';
        (void)snprintf(body, sizeof body,
                       "--XX\r\nContent-Disposition: form-data; name=n; "
                       "filename=\"%s\"\r\n\r\nx\r\n--XX--",
                       name);
        (void)snprintf(want, sizeof want, "[n,%s]x;", fits ? name : "-");
        assert_true(wp_multipart_init(&multipart, TYPE, &events, &notes));
        assert_true(wp_multipart_feed(&multipart, body, strlen(body)));
        assert_string_equal(notes.text, want);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_in_pieces_of_any_size),
        cmocka_unit_test(a_name_that_is_too_long_is_none),
        cmocka_unit_test(wants_a_boundary),
        cmocka_unit_test(a_boundary_is_as_long_as_it_may_be),
        cmocka_unit_test(bounds_a_parts_head),
        cmocka_unit_test(says_what_is_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
