/* What a proven name is without principals. Peers of real sockets are tested
 * with the servers that have them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allocator/access/identity.h"
#include "pool/base/str.h"

static const char *
tenant_of(struct wp_identity *who, const char *name)
{
    memset(who, 0, sizeof *who);
    (void)snprintf(who->name, sizeof who->name, "%s", name);
    wp_identity_own_tenant(who);
    assert_false(who->admin);
    return who->tenant;
}

static void
test_proven_name_is_the_tenant(void **state)
{
    static const char longest[] =
        "spiffe://cluster.example/ns/default/sa/agent-of-the-first-team1";
    char longer[128];
    struct wp_identity who;
    struct wp_identity other;

    (void)state;
    assert_string_equal(tenant_of(&who, "uid:1000"), "uid:1000");
    assert_int_equal(strlen(longest), WP_TENANT_MAX);
    assert_string_equal(tenant_of(&who, longest), longest);
    /* Names that differ behind the longest tenant do not share one. */
    (void)snprintf(longer, sizeof longer, "%s1", longest);
    assert_int_equal(tenant_of(&who, longer)[0], '~');
    longer[WP_TENANT_MAX] = '2';
    assert_string_not_equal(tenant_of(&other, longer), who.tenant);
    /* Nobody becomes one of the daemon's own by a certificate's name. */
    assert_int_equal(tenant_of(&who, WP_TENANT_OWN_PREFIX "sandboxclaims")[0],
                     '~');
    assert_int_equal(tenant_of(&who, "\xff\xfe")[0], '~');
    assert_true(wp_str_is_utf8(wp_str_from(who.tenant)));
}

static void
test_principals_are_found_by_the_whole_name(void **state)
{
    static const struct wp_principal principals[] = {
        {"uid:10", "ten", false},
        {"uid:100", "hundred", true},
    };
    const struct wp_access access = {.principals = principals,
                                     .n_principals = 2};
    struct wp_identity who = {.name = "uid:100"};

    (void)state;
    assert_null(wp_access_find(&access, "uid:1"));
    assert_ptr_equal(wp_access_find(&access, "uid:100"), &principals[1]);
    wp_identity_take(&who, &principals[1]);
    assert_string_equal(who.tenant, "hundred");
    assert_true(who.admin);
}

/* What a daemon without any capability makes of the peer of fd. */
static enum wp_peer_right
right_without_capabilities(int fd)
{
    struct __user_cap_header_struct header = {.version =
                                                  _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}};
    const struct wp_access access = {NULL};
    struct wp_identity who;
    uid_t uid;

    if (syscall(SYS_capset, &header, none) != 0) {
        _exit(100);
    }
    return wp_access_unix_peer(&access, fd, &who, &uid);
}

/* systemd cuts the daemon's capabilities down, and root's clients have them all:
 * of such a process the kernel shows the daemon little. */
static void
test_root_is_known_to_a_daemon_with_less(void **state)
{
    int ends[2];
    int status = 0;
    pid_t daemon;

    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    daemon = fork();
    assert_true(daemon >= 0);
    if (daemon == 0) {
        _exit((int)right_without_capabilities(ends[0]));
    }
    assert_int_equal(waitpid(daemon, &status, 0), daemon);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), WP_PEER_KNOWN);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/* What a certificate with these names lets its holder do, in words. */
static void
assert_names_make(const struct wp_access *access, const char *const *names,
                  const char *expected)
{
    struct wp_identity who;
    struct wp_name_search search = {access, &who, false};
    char text[512];
    size_t asked = 0;
    bool more = true;
    bool may;

    memset(&who, 0, sizeof who);
    while (more && names[asked] != NULL) {
        more = wp_access_match_name(&search, wp_str_from(names[asked]));
        asked++;
    }
    may = wp_access_end_names(&search);
    (void)snprintf(text, sizeof text, "%zu %s %s '%s'%s", asked,
                   may ? "may" : "no", who.name, who.tenant,
                   who.admin ? " admin" : "");
    assert_string_equal(text, expected);
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The longest that is a name, and one more. */
#define CHARS_127                                                              \
    "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk"          \
    "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl"
#define CHARS_128 CHARS_127 "m"

/* Which of a certificate's names is its holder's, and what that may do. */
static void
test_names_of_a_certificate(void **state)
{
    static const struct wp_principal principals[] = {
        {"anonymous", "nobody", false},
        {"agent", "agents", false},
        {"boss", "", true},
    };
    const struct wp_access open_to_all = {NULL};
    const struct wp_access named = {.principals = principals,
                                    .n_principals = 3};

    (void)state;
    /* Without principals the first name that is one is its own tenant. */
    assert_names_make(&open_to_all, NAMES(NULL),
                      "0 may certificate 'certificate'");
    assert_names_make(&open_to_all, NAMES("agent", "boss"),
                      "2 may agent 'agent'");
    assert_names_make(&open_to_all, NAMES("", "a\tb", CHARS_128, "boss"),
                      "4 may boss 'boss'");
    assert_names_make(&open_to_all, NAMES(CHARS_127),
                      "1 may " CHARS_127
                      " '~40f6489f62f1ffd2dc9836f84611823c'");
    /* With some, only one that has an entry may call: the first such. */
    assert_names_make(&named, NAMES(NULL), "0 no certificate ''");
    assert_names_make(&named, NAMES("other", "more"), "2 no other ''");
    assert_names_make(&named, NAMES("agent", "boss"), "1 may agent 'agents'");
    assert_names_make(&named, NAMES("other", "boss", "agent"),
                      "2 may boss '' admin");
    assert_names_make(&named, NAMES("agent2", "", "agen"), "3 no agent2 ''");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proven_name_is_the_tenant),
        cmocka_unit_test(test_principals_are_found_by_the_whole_name),
        cmocka_unit_test(test_names_of_a_certificate),
        cmocka_unit_test(test_root_is_known_to_a_daemon_with_less),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
