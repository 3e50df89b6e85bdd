/* tests/unit/allocator/daemon/access_test.c - who may do what, as the settings
 * say it, and which files it is read from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "allocator/conf/paths.h"
#include "allocator/daemon/access.h"
#include "allocator/daemon/files.h"
#include "tests/unit/allocator/daemon/journal.h"

int __wrap_access(const char *path, int mode);
bool __wrap_wp_conf_listens_unproven(const struct wp_conf *of);
enum wp_status __wrap_wp_daemon_make_secret(const char *path, bool *made,
                                            struct wp_err *err);
enum wp_status __wrap_wp_daemon_read_token(const char *what, const char *path,
                                           char *out, size_t cap,
                                           struct wp_err *err);
enum wp_status __wrap_wp_paths_check_dir(const char *dir, struct wp_err *err);

static struct wp_conf *conf;

int
__wrap_access(const char *path, int mode)
{
    bool there = journal_said("there", false) != 0;

    assert_int_equal(mode, F_OK);
    journal("is there %s? %d", path, there);
    return there ? 0 : -1;
}

bool
__wrap_wp_conf_listens_unproven(const struct wp_conf *of)
{
    assert_ptr_equal(of, conf);
    return journal_said("unproven", true) != 0;
}

enum wp_status
__wrap_wp_daemon_make_secret(const char *path, bool *made, struct wp_err *err)
{
    *made = true;
    journal("make %s", path);
    return journal_status("make", err);
}

enum wp_status
__wrap_wp_daemon_read_token(const char *what, const char *path, char *out,
                            size_t cap, struct wp_err *err)
{
    journal("read %s from '%s' into %zu bytes", what, path, cap);
    (void)snprintf(out, cap, "%s of %s", what, path);
    return journal_status(what, err);
}

enum wp_status
__wrap_wp_paths_check_dir(const char *dir, struct wp_err *err)
{
    journal("check %s", dir);
    return journal_status("check", err);
}

static void
set(const char *yaml)
{
    struct wp_err err = {.msg = ""};

    if (wp_conf_read_text(conf, wp_str_from(yaml), "test", &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
}

static int
begin(void **state)
{
    (void)journal_begin(state);
    conf = wp_conf_create();
    if (conf == NULL) {
        return -1;
    }
    set("http_token_file: /http\ntrigger_secret_file: /trigger\n"
        "access_token_file: /run/w/access\n");
    return 0;
}

static int
end(void **state)
{
    (void)state;
    wp_conf_destroy(conf);
    return 0;
}

static void
read_all(void)
{
    struct wp_daemon_access access = {.n_uids = 0};
    struct wp_err err = {.msg = ""};
    enum wp_status status = wp_daemon_access_read(&access, conf, &err);
    const struct wp_daemon_access nothing = {.n_uids = 0};

    journal("- %s: %s", wp_status_name(status), err.msg);
    for (size_t i = 0; i < access.n_principals; i++) {
        journal("  '%s' is admin: %d, of '%s'", access.principals[i].name,
                access.principals[i].admin, access.principals[i].tenant);
    }
    for (size_t i = 0; i < access.n_uids; i++) {
        journal("  user %u", access.uids[i]);
    }
    journal("  names others: %d; '%s', '%s', '%s'",
            wp_daemon_access_names_others(&access), access.admin_token,
            access.access_token, access.trigger_secret);
    wp_daemon_access_forget(&access);
    assert_memory_equal(&access, &nothing, sizeof access);
    wp_daemon_access_forget(&access);
}

static void
test_lists_are_read_whole(void **state)
{
    (void)state;
    read_all();
    set("identities: ['CN=a=t', 'b=*admin', 'c=*admins', '=', 'd=']\n");
    read_all();
    set("identities: ['xuid:1=t', 'ui=t', 'gid=t']\n");
    read_all();
    set("identities: ['a=t', 'uid:1=t']\n");
    read_all();
    set("identities: ['gid:1=t', 'b=t']\n");
    read_all();
    set("identities: []\nallowed_uids: [0, 4294967295, 7]\n");
    read_all();
    journal_is("access_lists");
}

static void
test_tokens_that_cannot_be_read_are_refused(void **state)
{
    (void)state;
    journal_say("http_token_file", WP_INVALID_ARGUMENT);
    read_all();
    journal_say("trigger_secret_file", WP_INVALID_ARGUMENT);
    read_all();
    /* Settings that were not checked. */
    set("identities: ['a=t', 'nobody']\nallowed_uids: [1, x, 2]\n");
    read_all();
    set("identities: []\n");
    read_all();
    journal_is("access_refused");
}

static void
test_no_memory_is_said(void **state)
{
    (void)state;
    set("identities: ['a=t', 'b=t']\nallowed_uids: [1]\n");
    for (uint32_t n = 1; n <= 5; n++) {
        journal_no_memory(n);
        read_all();
    }
    journal_no_memory(0);
    journal_is("access_memory");
}

static void
read_token(void)
{
    struct wp_daemon_access access = {.n_uids = 0};
    struct wp_err err = {.msg = ""};
    enum wp_status status = wp_daemon_access_token(&access, conf, &err);

    journal("- %s: %s, '%s'", wp_status_name(status), err.msg,
            access.access_token);
}

static void
test_access_token_is_made_where_it_is_safe(void **state)
{
    (void)state;
    journal_say("unproven", false);
    read_token();
    read_token();
    journal_say("there", true);
    read_token();
    journal_say("check", WP_PERMISSION_DENIED);
    read_token();
    journal_say("make", WP_UNAVAILABLE);
    read_token();
    journal_say("access_token_file", WP_INVALID_ARGUMENT);
    read_token();
    set("access_token_file: /top\n");
    read_token();
    set("backend: kubernetes\n");
    read_token();
    journal_is("access_token");
}

static void
test_path_of_the_token_may_be_the_longest(void **state)
{
    char longest[64 + WP_CONF_TEXT_MAX] = "access_token_file: /";
    size_t n = strlen(longest);

    (void)state;
    memset(longest + n, 'd', WP_CONF_TEXT_MAX - 3);
    (void)snprintf(longest + n + WP_CONF_TEXT_MAX - 3, 8, "/f\n");
    set(longest);
    assert_int_equal(strlen(conf->access_token_file), WP_CONF_TEXT_MAX);
    read_token();
    memcpy(longest + n + WP_CONF_TEXT_MAX - 3, "d/\n", 4);
    set(longest); /* A directory: it is checked itself. */
    read_token();
    longest[n + WP_CONF_TEXT_MAX - 3] = '\0';
    journal_without(longest + n - 1); /* All but the file's name. */
    journal_is("access_longest");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lists_are_read_whole, begin, end),
        cmocka_unit_test_setup_teardown(
            test_tokens_that_cannot_be_read_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_no_memory_is_said, begin, end),
        cmocka_unit_test_setup_teardown(
            test_access_token_is_made_where_it_is_safe, begin, end),
        cmocka_unit_test_setup_teardown(
            test_path_of_the_token_may_be_the_longest, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
