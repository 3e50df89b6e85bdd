/* tests/unit/allocator/access/unix_peer_test.c - what each peer of a Unix
 * socket may do, by the lists that the daemon has. The peer is made up, and so
 * is the daemon's own user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/access/identity.h"

enum {
    OWN = 77, /* The daemon's user. */
    GROUPS = 256,
};

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
uid_t __wrap_geteuid(void);

static struct {
    struct ucred cred;
    gid_t groups[GROUPS];
    size_t n_groups;
    bool no_cred;
} peer;

int
__wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    size_t bytes = peer.n_groups * sizeof peer.groups[0];

    assert_int_equal(fd, 5);
    assert_int_equal(level, SOL_SOCKET);
    if (name == SO_PEERCRED) {
        assert_int_equal(*len, sizeof peer.cred);
        memcpy(value, &peer.cred, sizeof peer.cred);
        return peer.no_cred ? -1 : 0;
    }
    assert_int_equal(name, SO_PEERGROUPS);
    if (*len < bytes) { /* As the kernel does: nothing is told. */
        errno = ERANGE;
        return -1;
    }
    memcpy(value, peer.groups, bytes);
    *len = (socklen_t)bytes;
    return 0;
}

int __real_stat(const char *path, struct stat *out);
int __wrap_stat(const char *path, struct stat *out);
static bool own_is_unknown; /* The namespace that this process is in. */

int
__wrap_stat(const char *path, struct stat *out)
{
    return own_is_unknown && strstr(path, "/self/") != NULL
               ? -1
               : __real_stat(path, out);
}

uid_t
__wrap_geteuid(void)
{
    return OWN;
}

static const uint32_t uids[] = {10, 11};
static const uint32_t gids[] = {20, 21};
static const struct wp_principal principals[] = {
    {"uid:10", "ten", false},   {"gid:21", "group", true},
    {"uid:30", "thirty", true}, {"gid:31", "thirty-one", false},
    {"uid:77", "own", false},
};

/* Nobody is named, nobody is listed; and so on. */
static const struct wp_access open_to_all;
static const struct wp_access listed = {.allow_uids = uids,
                                        .n_allow_uids = 2,
                                        .allow_gids = gids,
                                        .n_allow_gids = 2};
static const struct wp_access users_listed = {.allow_uids = uids,
                                              .n_allow_uids = 2};
static const struct wp_access groups_listed = {.allow_gids = gids,
                                               .n_allow_gids = 2};
static const struct wp_access named = {.principals = principals,
                                       .n_principals = 5};
static const struct wp_access both = {.allow_uids = uids,
                                      .n_allow_uids = 2,
                                      .allow_gids = gids,
                                      .n_allow_gids = 2,
                                      .principals = principals,
                                      .n_principals = 5};

static void
test_what_each_peer_may_do(void **state)
{
    static const struct {
        const struct wp_access *access;
        uid_t uid;
        gid_t gid;
        gid_t other_group; /* 0: none. */
        enum wp_peer_right right;
        const char *name;
        const char *tenant;
        bool admin;
    } rows[] = {
        {&open_to_all, 9, 9, 0, WP_PEER_KNOWN, "uid:9", "uid:9", false},
        {&open_to_all, 0, 0, 0, WP_PEER_KNOWN, "uid:0", "", true},
        {&open_to_all, OWN, 9, 0, WP_PEER_KNOWN, "uid:77", "", true},
        {&listed, 9, 9, 0, WP_PEER_REFUSED, "uid:9", "", false},
        {&listed, 10, 9, 0, WP_PEER_KNOWN, "uid:10", "uid:10", false},
        {&listed, 11, 9, 0, WP_PEER_KNOWN, "uid:11", "uid:11", false},
        {&listed, 9, 20, 0, WP_PEER_KNOWN, "uid:9", "uid:9", false},
        {&listed, 9, 9, 21, WP_PEER_KNOWN, "uid:9", "uid:9", false},
        {&listed, 20, 10, 11, WP_PEER_REFUSED, "uid:20", "", false},
        {&listed, 0, 9, 0, WP_PEER_KNOWN, "uid:0", "", true},
        {&listed, OWN, 9, 0, WP_PEER_KNOWN, "uid:77", "", true},
        {&users_listed, 9, 20, 0, WP_PEER_REFUSED, "uid:9", "", false},
        {&users_listed, 11, 9, 0, WP_PEER_KNOWN, "uid:11", "uid:11", false},
        {&groups_listed, 10, 9, 0, WP_PEER_REFUSED, "uid:10", "", false},
        {&groups_listed, 9, 21, 0, WP_PEER_KNOWN, "uid:9", "uid:9", false},
        {&named, 9, 9, 0, WP_PEER_REFUSED, "uid:9", "", false},
        {&named, 10, 9, 0, WP_PEER_KNOWN, "uid:10", "ten", false},
        {&named, 9, 21, 0, WP_PEER_KNOWN, "gid:21", "group", true},
        {&named, 9, 9, 31, WP_PEER_KNOWN, "gid:31", "thirty-one", false},
        {&named, 9, 31, 21, WP_PEER_KNOWN, "gid:31", "thirty-one", false},
        {&named, 30, 31, 21, WP_PEER_KNOWN, "uid:30", "thirty", true},
        {&named, 0, 0, 0, WP_PEER_KNOWN, "uid:0", "", true},
        {&named, OWN, 9, 0, WP_PEER_KNOWN, "uid:77", "own", true},
        {&both, 9, 9, 0, WP_PEER_REFUSED, "uid:9", "", false},
        {&both, 11, 9, 0, WP_PEER_UNNAMED, "uid:11", "", false},
        {&both, 9, 20, 0, WP_PEER_UNNAMED, "uid:9", "", false},
        {&both, 30, 9, 0, WP_PEER_KNOWN, "uid:30", "thirty", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wp_identity who;
        uid_t uid = 1;

        memset(&peer, 0, sizeof peer);
        memset(&who, 'x', sizeof who);
        peer.cred = (struct ucred){.uid = rows[i].uid, .gid = rows[i].gid};
        peer.groups[0] = rows[i].other_group;
        peer.n_groups = rows[i].other_group != 0;
        assert_int_equal(wp_access_unix_peer(rows[i].access, 5, &who, &uid),
                         rows[i].right);
        assert_int_equal(uid, rows[i].uid);
        assert_string_equal(who.name, rows[i].name);
        assert_string_equal(who.tenant, rows[i].tenant);
        assert_int_equal(who.admin, rows[i].admin);
    }
}

/* The primary group, and 255 more. Of a peer that has more the primary one
 * counts alone. */
static void
test_as_many_groups_as_are_looked_at(void **state)
{
    struct wp_identity who;
    uid_t uid;

    (void)state;
    memset(&peer, 0, sizeof peer);
    peer.cred = (struct ucred){.uid = 9, .gid = 9};
    for (size_t i = 0; i < GROUPS; i++) {
        peer.groups[i] = (gid_t)(1000 + i);
    }
    peer.n_groups = GROUPS - 1;
    peer.groups[GROUPS - 2] = 21;
    assert_int_equal(wp_access_unix_peer(&listed, 5, &who, &uid),
                     WP_PEER_KNOWN);
    assert_int_equal(wp_access_unix_peer(&named, 5, &who, &uid), WP_PEER_KNOWN);
    assert_string_equal(who.name, "gid:21");
    peer.n_groups = GROUPS;
    assert_int_equal(wp_access_unix_peer(&listed, 5, &who, &uid),
                     WP_PEER_REFUSED);
    peer.cred.gid = 20;
    assert_int_equal(wp_access_unix_peer(&listed, 5, &who, &uid),
                     WP_PEER_KNOWN);
}

static void
test_who_cannot_be_known_is_refused(void **state)
{
    struct wp_identity who;
    uid_t uid = 0;

    (void)state;
    memset(&peer, 0, sizeof peer);
    memset(&who, 'x', sizeof who);
    peer.no_cred = true;
    assert_int_equal(wp_access_unix_peer(&open_to_all, 5, &who, &uid),
                     WP_PEER_REFUSED);
    assert_int_equal(uid, (uid_t)-1);
    assert_string_equal(who.name, "");
    assert_string_equal(who.tenant, "");
    assert_false(who.admin);
}

/* One of the daemon's own user: this process is in its user namespace, one that
 * has gone may not have been. */
static void
test_who_is_of_the_own_user(void **state)
{
    struct wp_identity who;
    uid_t uid;

    (void)state;
    memset(&peer, 0, sizeof peer);
    peer.cred = (struct ucred){.pid = getpid(), .uid = OWN, .gid = 9};
    assert_int_equal(wp_access_unix_peer(&listed, 5, &who, &uid),
                     WP_PEER_KNOWN);
    assert_true(who.admin);
    own_is_unknown = true; /* So nobody can be told from it. */
    assert_int_equal(wp_access_unix_peer(&listed, 5, &who, &uid),
                     WP_PEER_REFUSED);
    own_is_unknown = false;
    peer.cred.pid = INT32_MAX; /* No process has such a number. */
    assert_int_equal(wp_access_unix_peer(&open_to_all, 5, &who, &uid),
                     WP_PEER_REFUSED);
    assert_int_equal(uid, OWN);
    assert_string_equal(who.name, "uid:77");
    assert_false(who.admin);
    peer.cred.uid = 10; /* Of another user it does not matter. */
    assert_int_equal(wp_access_unix_peer(&open_to_all, 5, &who, &uid),
                     WP_PEER_KNOWN);
    assert_string_equal(who.tenant, "uid:10");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_each_peer_may_do),
        cmocka_unit_test(test_as_many_groups_as_are_looked_at),
        cmocka_unit_test(test_who_cannot_be_known_is_refused),
        cmocka_unit_test(test_who_is_of_the_own_user),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
