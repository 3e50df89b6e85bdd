/* tests/unit/allocator/ctl/ctl_token_store_test.c - remembered lease tokens: round trip, odd
 * ids, modes, and files that are not what they should be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/ctl/token_store.h"
#include "pool/base/compiler.h"
#include "pool/base/str.h"

static char dir[64];

static int
remove_entry(const char *path, const struct stat *st, int type,
             struct FTW *walk)
{
    (void)st;
    (void)type;
    (void)walk;
    return remove(path);
}

static int
setup(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof dir, "/tmp/wp-tokens-XXXXXX");
    return mkdtemp(dir) == NULL || setenv("XDG_STATE_HOME", dir, 1) != 0;
}

static int
teardown(void **state)
{
    (void)state;
    return nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static struct wp_token_record
record_of(const char *claim_id, uint8_t fill)
{
    struct wp_token_record record = {.deadline_wall_ms = 123456789};

    (void)snprintf(record.claim_id, sizeof record.claim_id, "%s", claim_id);
    (void)snprintf(record.sandbox, sizeof record.sandbox, "agents-1");
    memset(record.token, fill, sizeof record.token);
    return record;
}

/* As long as an id may be. */
static const char long_id[] =
    "0123456789012345678901234567890123456789012345678901234567890123456789"
    "0123456789012345678901234567890123456789012345678901234567";

/* Any id a claim may have comes back, each in a file of its own. */
static void
test_round_trip(void **state)
{
    static const char *const ids[] = {
        "job-7", "a",  "../../etc/passwd", ".",   "..",    "with space",
        "é",     "@x", "UPPER.case_1",     "a/b", long_id,
    };
    struct wp_token_record out;
    struct wp_err err;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(ids); i++) {
        struct wp_token_record in = record_of(ids[i], (uint8_t)i);

        assert_int_equal(wp_token_store_load(ids[i], &out, &err), WP_NOT_FOUND);
        assert_int_equal(wp_token_store_save(&in, &err), WP_OK);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(ids); i++) {
        struct wp_token_record in = record_of(ids[i], (uint8_t)i);

        assert_int_equal(wp_token_store_load(ids[i], &out, &err), WP_OK);
        assert_string_equal(out.claim_id, ids[i]);
        assert_string_equal(out.sandbox, "agents-1");
        assert_memory_equal(out.token, in.token, sizeof in.token);
        assert_int_equal(out.deadline_wall_ms, 123456789);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(ids); i++) {
        wp_token_store_forget(ids[i]);
        wp_token_store_forget(ids[i]);
        assert_int_equal(wp_token_store_load(ids[i], &out, &err), WP_NOT_FOUND);
    }
}

static mode_t
mode_of(const char *name)
{
    char path[200];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 0777;
}

/* Whatever the umask: only the user can read a token. */
static void
test_modes(void **state)
{
    struct wp_token_record record = record_of("m", 1);
    struct wp_err err;
    mode_t before = umask(0);

    (void)state;
    assert_int_equal(wp_token_store_save(&record, &err), WP_OK);
    (void)umask(before);
    assert_int_equal(mode_of("warmpool/claims/m.json"), 0600);
    assert_int_equal(mode_of("warmpool/claims"), 0700);
}

static void
write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* --token-file: hexadecimal digits, or what claim --output json printed. */
static void
test_token_files(void **state)
{
    char path[200];
    char hex[2 * WP_TOKEN_LEN + 1];
    char text[2000];
    uint8_t token[WP_TOKEN_LEN];
    struct wp_token_record out;
    struct wp_err err;

    (void)state;
    memset(token, 0x5a, sizeof token);
    wp_hex_encode(token, sizeof token, hex);
    (void)snprintf(path, sizeof path, "%s/token", dir);
    (void)snprintf(text, sizeof text, "%s\n", hex);
    write_text(path, text);
    assert_int_equal(wp_token_read_file(path, &out, &err), WP_OK);
    assert_memory_equal(out.token, token, sizeof token);
    assert_string_equal(out.sandbox, "");
    (void)snprintf(text, sizeof text,
                   "{\"claim_id\": \"c\", \"sandbox\": \"s\", \"fence\": 1, "
                   "\"token\": \"%s\", \"other\": [1, 2]}\n",
                   hex);
    write_text(path, text);
    assert_int_equal(wp_token_read_file(path, &out, &err), WP_OK);
    assert_memory_equal(out.token, token, sizeof token);
    assert_string_equal(out.sandbox, "s");
}

static const char long_sandbox[] =
    "{\"token\": \"\", \"sandbox\": \"a name that is too long for any "
    "sandbox, which has at most 63 characters\"}";

/* Each row: what is in the file, or NULL for no file. No message has a token. */
static void
test_bad_token_files(void **state)
{
    static const char *const rows[] = {
        NULL,
        "",
        "abc",
        "zz",
        "{",
        "{}",
        "{\"token\": 5}",
        "{\"token\": \"00\"}",
        long_sandbox,
        "{\"claim_id\": [], \"token\": \"\"}",
    };
    char path[200];
    struct wp_token_record out;
    struct wp_err err;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/bad", dir);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        if (rows[i] != NULL) {
            write_text(path, rows[i]);
        }
        assert_int_equal(wp_token_read_file(path, &out, &err),
                         rows[i] != NULL ? WP_INVALID_ARGUMENT : WP_NOT_FOUND);
        assert_non_null(strstr(err.msg, path));
    }
}

static bool
is_there(const char *name)
{
    char path[400];

    (void)snprintf(path, sizeof path, "%s/warmpool/claims/%s.json", dir, name);
    return access(path, F_OK) == 0;
}

/* An id is its file's name where it can be: up to 100 bytes, and nothing that
 * is hidden or that a hash might be. */
static void
test_names_of_files(void **state)
{
    static const struct {
        int len;
        const char *begin;
        bool plain;
    } rows[] = {{100, "z", true},  {101, "z", false}, {1, "y", true},
                {8, ".", false},   {8, "@", false},   {8, "a@.-_Z9", true},
                {8, "a b", false}, {8, "a/b", false}, {8, "a~b", false}};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_token_record record = record_of("", 1);
        struct wp_err err;

        memset(record.claim_id, 'x', (size_t)rows[i].len);
        memcpy(record.claim_id, rows[i].begin, strlen(rows[i].begin));
        assert_int_equal(wp_token_store_save(&record, &err), WP_OK);
        assert_int_equal(is_there(record.claim_id), rows[i].plain);
        wp_token_store_forget(record.claim_id);
        assert_false(is_there(record.claim_id));
    }
}

/* What lies under another claim's name is not taken for its token. */
static void
test_file_of_another_claim(void **state)
{
    struct wp_token_record record = record_of("one", 1);
    struct wp_token_record out;
    struct wp_err err;
    char from[200];
    char to[200];

    (void)state;
    assert_int_equal(wp_token_store_save(&record, &err), WP_OK);
    (void)snprintf(from, sizeof from, "%s/warmpool/claims/one.json", dir);
    (void)snprintf(to, sizeof to, "%s/warmpool/claims/two.json", dir);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(wp_token_store_load("two", &out, &err), WP_NOT_FOUND);
    assert_non_null(strstr(err.msg, "/two.json is of another claim"));
    assert_int_equal(unlink(to), 0);
}

/* XDG_STATE_HOME as a path, else HOME as one, else nowhere. */
static void
test_where_tokens_are(void **state)
{
    struct wp_token_record record = record_of("h", 1);
    struct wp_token_record out;
    struct wp_err err;
    char path[200];
    char deep[4100];

    (void)state;
    assert_int_equal(setenv("HOME", dir, 1), 0);
    assert_int_equal(setenv("XDG_STATE_HOME", "relative", 1), 0);
    assert_int_equal(wp_token_store_save(&record, &err), WP_OK);
    (void)snprintf(path, sizeof path, "%s/.local/state/warmpool/claims/h.json",
                   dir);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
    assert_int_equal(wp_token_store_load("h", &out, &err), WP_OK);
    assert_int_equal(setenv("HOME", "relative", 1), 0);
    assert_int_equal(wp_token_store_load("h", &out, &err),
                     WP_FAILED_PRECONDITION);
    assert_string_equal(err.msg, "neither XDG_STATE_HOME nor HOME is set: "
                                 "nowhere to remember lease tokens");
    assert_int_equal(unsetenv("HOME"), 0);
    assert_int_equal(wp_token_store_load("h", &out, &err),
                     WP_FAILED_PRECONDITION);
    /* The longest directory, and one byte more. */
    for (int len = 3999; len <= 4000; len++) {
        size_t base = (size_t)len - strlen("/warmpool/claims");

        memset(deep, '/', base);
        deep[base] = '\0';
        assert_int_equal(setenv("XDG_STATE_HOME", deep, 1), 0);
        assert_int_equal(wp_token_store_load("h", &out, &err),
                         len == 3999 ? WP_NOT_FOUND : WP_FAILED_PRECONDITION);
    }
    assert_string_equal(err.msg, "the path of the state directory is too long");
    assert_int_equal(setenv("XDG_STATE_HOME", dir, 1), 0);
}

/* A state directory that cannot be made is said, not ignored. */
static void
test_unwritable(void **state)
{
    struct wp_token_record record = record_of("u", 1);
    char path[sizeof dir + 16];
    char expected[sizeof path + 64];
    struct wp_err err;
    FILE *file;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/plain", dir);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    (void)snprintf(path, sizeof path, "%s/plain/x", dir);
    (void)snprintf(expected, sizeof expected, "cannot make %s: Not a directory",
                   path);
    assert_int_equal(setenv("XDG_STATE_HOME", path, 1), 0);
    assert_int_equal(wp_token_store_save(&record, &err),
                     WP_FAILED_PRECONDITION);
    assert_string_equal(err.msg, expected);
    assert_int_equal(setenv("XDG_STATE_HOME", dir, 1), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_token_files),
        cmocka_unit_test(test_bad_token_files),
        cmocka_unit_test(test_names_of_files),
        cmocka_unit_test(test_file_of_another_claim),
        cmocka_unit_test(test_where_tokens_are),
        cmocka_unit_test(test_unwritable),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
