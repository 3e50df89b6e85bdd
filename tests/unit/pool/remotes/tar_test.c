/* tests/unit/pool/remotes/tar_test.c - archives that are read, and those that
 * are not. What tar and other programs make of them binding_test.py tries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "pool/base/compiler.h"
#include "pool/remotes/tar.h"

static char archive[1 << 16];
static size_t archive_len;

static void
sum(char *header)
{
    unsigned total = 0;

    memset(header + 148, ' ', 8);
    for (int i = 0; i < 512; i++) {
        total += (uint8_t)header[i];
    }
    (void)snprintf(header + 148, 8, "%06o", total);
}

/* Without an end, as fields of headers have it. */
static void
put(char *to, const char *text, size_t len)
{
    memcpy(to, text, len);
}

/* Adds an entry; returns its header. */
static char *
add(const char *name, char type, const char *content, size_t len)
{
    char *header = archive + archive_len;

    memset(header, 0, 512 + (len + 511) / 512 * 512);
    memcpy(header, name, strlen(name));
    (void)snprintf(header + 100, 8, "%07o", 0640);
    (void)snprintf(header + 124, 12, "%011o", (unsigned)len);
    header[156] = type;
    memcpy(header + 257, "ustar", 6);
    sum(header);
    memcpy(header + 512, content, len);
    archive_len += 512 + (len + 511) / 512 * 512;
    return header;
}

static int
setup(void **state)
{
    (void)state;
    archive_len = 0;
    return 0;
}

static void
expect_file(struct wp_str *rest, const char *path, const char *content)
{
    struct wp_tar_file file;
    const char *why = "";

    assert_int_equal(wp_tar_next(rest, &file, &why), 1);
    assert_string_equal(file.path, path);
    assert_true(wp_str_is(file.content, content));
    assert_int_equal(file.mode, 0640);
}

static void
expect_end(struct wp_str *rest)
{
    struct wp_tar_file file;
    const char *why = "";

    assert_int_equal(wp_tar_next(rest, &file, &why), 0);
    assert_int_equal(rest->len, 0);
}

static void
expect_bad(const char *path, const char *says)
{
    struct wp_str rest = {archive, archive_len};
    struct wp_tar_file file;
    const char *why = "";

    assert_int_equal(wp_tar_next(&rest, &file, &why), -1);
    assert_string_equal(file.path, path);
    assert_non_null(strstr(why, says));
}

static void
test_files(void **state)
{
    static const char long_name[] = "././@LongLink";
    struct wp_str rest;
    char name[300];
    char *header;

    (void)state;
    memset(name, 'n', 299);
    name[299] = '\0';
    add("./", '5', "", 0);
    add("./a", '0', "one", 3);
    add("folder/", '5', "", 0);
    add("old/", '\0', "", 0);
    add("empty", '\0', "", 0);
    add(long_name, 'L', name, sizeof name);
    add("nnn", '0', "two", 3);
    add("pax_global_header", 'g', "52 comment=x\n", 13);
    add("PaxHeaders/x", 'x',
        "20 atime=1700000000\n22 path=of pax/\xc3\xa4\xc3\xb6 x\n", 42);
    add("short", '0', "three", 5);
    header = add("last", '0', "x", 1);
    put(header + 345, "./pre/fix", 9);
    sum(header);
    rest = (struct wp_str){archive, archive_len};
    expect_file(&rest, "a", "one");
    expect_file(&rest, "empty", "");
    expect_file(&rest, name, "two");
    expect_file(&rest, "of pax/\xc3\xa4\xc3\xb6 x", "three");
    expect_file(&rest, "pre/fix/last", "x");
    expect_end(&rest);
    /* The end is marked, and what is behind it is nothing. */
    memset(archive + archive_len, 0, 1024);
    archive_len += 1024;
    add("behind", '2', "", 0);
    rest = (struct wp_str){archive, archive_len};
    for (int i = 0; i < 5; i++) {
        struct wp_tar_file file;
        const char *why = "";

        assert_int_equal(wp_tar_next(&rest, &file, &why), 1);
    }
    expect_end(&rest);
}

/* Goal: the longest path is taken whole; one that is longer is refused. */
static void
test_longest_path(void **state)
{
    char name[WP_TAR_PATH_MAX + 2];

    (void)state;
    memset(name, 'n', sizeof name);
    for (size_t len = WP_TAR_PATH_MAX; len <= WP_TAR_PATH_MAX + 1; len++) {
        struct wp_str rest;

        archive_len = 0;
        name[len] = '\0';
        add("././@LongLink", 'L', name, len + 1);
        add("nnn", '0', "two", 3);
        rest = (struct wp_str){archive, archive_len};
        if (len == WP_TAR_PATH_MAX) {
            expect_file(&rest, name, "two");
            expect_end(&rest);
        } else {
            expect_bad("", "a path of at most 512 bytes without NUL");
        }
        name[len] = 'n';
    }
}

static void
test_refused(void **state)
{
    static const char types[] = {'1', '2', '3', '4', '6', 'S', 'D', 'V', 'z'};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(types); i++) {
        archive_len = 0;
        add("it", types[i], "", 0);
        expect_bad("it", "without links and devices");
    }
}

/* What GNU tar packs of a file with holes says so in a pax header only: its
 * bytes are a list of pieces, and its name is of no use. */
static void
test_sparse(void **state)
{
    static const char *const pax[] = {"22 GNU.sparse.major=1\n",
                                      "24 GNU.sparse.name=a/sp\n",
                                      "9 path=a\n22 GNU.sparse.map=0,1\n"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(pax); i++) {
        archive_len = 0;
        add("x", 'x', pax[i], strlen(pax[i]));
        add("GNUSparseFile.0/sp", '0', "1\n0\n5\n", 6);
        expect_bad("", "without holes");
    }
}

/* A reader that believes the one finds other files than one that believes the
 * other. */
static void
test_two_sizes(void **state)
{
    static const char *const pax[] = {"9 size=0\n", "11 size=4x\n",
                                      "29 size=18446744073709551616\n",
                                      "9 size=5\n"};
    struct wp_str rest;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(pax); i++) {
        archive_len = 0;
        add("x", 'x', pax[i], strlen(pax[i]));
        add("it", '0', "1234", 4);
        expect_bad("it", "one size");
    }
    archive_len = 0;
    add("x", 'x', "9 size=4\n9 path=a\n8 path=\n", 26);
    add("it", '0', "1234", 4);
    add("next", '0', "12", 2);
    rest = (struct wp_str){archive, archive_len};
    expect_file(&rest, "it", "1234");
    expect_file(&rest, "next", "12");
    expect_end(&rest);
}

static void
test_damaged(void **state)
{
    struct wp_str rest = {"", 0};
    char *header;

    (void)state;
    expect_end(&rest);
    memset(archive, 'x', 512);
    archive_len = 512;
    expect_bad("", "a tar archive");
    archive_len = 2;
    put(archive, "\x1f\x8b", 2);
    expect_bad("", "not compressed");
    /* Cut off anywhere, but in what fills the last block. */
    archive_len = 0;
    add("it", '0', "1234", 4);
    for (size_t cut = 1; cut < 516; cut++) {
        archive_len = cut;
        expect_bad("", "not cut off");
    }
    rest = (struct wp_str){archive, 516};
    expect_file(&rest, "it", "1234");
    expect_end(&rest);
    /* Sizes that are none, or more than there is. */
    for (int i = 0; i < 3; i++) {
        static const char *const sizes[] = {"77777777777", "0000000000x",
                                            "\x80\0\0\0\0\0\0\0\0\0\4"};

        archive_len = 0;
        header = add("it", '0', "1234", 4);
        put(header + 124, sizes[i], 11);
        sum(header);
        expect_bad("", "a tar archive");
    }
    archive_len = 0;
    header = add("it", '0', "1234", 4);
    header[0] ^= 1;
    expect_bad("", "a tar archive");
}

static void
test_bad_names(void **state)
{
    static const char *const pax[] = {"x",
                                      "9 path=ab\n",
                                      "99 path=a\n",
                                      "0 path=a\n",
                                      "1 ",
                                      "3 \n",
                                      "18446744073709551616 path=a\n",
                                      "11 path=ab\n",
                                      "12 path=ab\n"};
    char name[WP_TAR_PATH_MAX + 2];
    struct wp_str rest;

    (void)state;
    for (size_t i = 0; i + 1 < WP_ARRAY_LEN(pax); i++) {
        archive_len = 0;
        add("x", 'x', pax[i], strlen(pax[i]));
        add("it", '0', "", 0);
        if (strcmp(pax[i], "3 \n") != 0 &&
            strcmp(pax[i], "11 path=ab\n") != 0) {
            expect_bad("", "pax header");
        }
    }
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    archive_len = 0;
    add("x", 'L', name, sizeof name);
    add("it", '0', "", 0);
    expect_bad("", "at most 512 bytes");
    name[WP_TAR_PATH_MAX] = '\0';
    archive_len = 0;
    add("x", 'L', name, sizeof name);
    add("it", '0', "", 0);
    rest = (struct wp_str){archive, archive_len};
    expect_file(&rest, name, "");
    archive_len = 0;
    add("x", 'x', "11 path=a\0\n", 11);
    add("it", '0', "", 0);
    expect_bad("", "without NUL");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_files, setup),
        cmocka_unit_test_setup(test_longest_path, setup),
        cmocka_unit_test_setup(test_refused, setup),
        cmocka_unit_test_setup(test_sparse, setup),
        cmocka_unit_test_setup(test_two_sizes, setup),
        cmocka_unit_test_setup(test_damaged, setup),
        cmocka_unit_test_setup(test_bad_names, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
