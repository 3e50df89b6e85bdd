/* local/walls/cgroup_find.c, call by call: which groups it looks at, makes,
 * switches on and enters, what it undoes, and what it says. Nothing real is
 * asked; the journals are in golden/. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/walls/cgroup.h"
#include "local/walls/cgroup_files.h"
#include "pool/base/compiler.h"
#include "tests/support/base/journal.h"

enum {
    GROUPS = 6,
    PID = 77
};

/* A group of the machine. */
struct group {
    const char *dir;
    const char *controllers; /* NULL: there is no such file. */
    const char *type;        /* NULL: the same. */
    const char *refused;     /* Controllers that cannot be switched on. */
    int error;               /* Then. */
    int shut;                /* Why no process can enter; 0: each can. */
    char on[64];             /* Switched on, each with a space. */
};

static struct {
    const char *mountinfo; /* NULL: there is no such file. */
    const char *self;
    const char *procs;
    struct group groups[GROUPS];
    const char *unmade;       /* A part of what cannot be made. */
    const char *kept;         /* Of what cannot be removed. */
    bool nowhere;             /* What was given is not there. */
    const char *const *names; /* In a folder. */
    int at;
    struct dirent entry;
} rig;

int __wrap_access(const char *path, int mode);
int __wrap_rmdir(const char *path);
pid_t __wrap_getpid(void);
int __wrap_kill(pid_t pid, int sig);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__real_fopen(const char *path, const char *mode);
DIR *__wrap_opendir(const char *path);
struct dirent *__wrap_readdir(DIR *dir);
int __wrap_closedir(DIR *dir);
int __wrap_dirfd(DIR *dir);
int __wrap_unlinkat(int dir, const char *name, int flags);
bool __wrap_wp_cgroup_get(const char *dir, const char *file, char *out,
                          size_t cap);
bool __wrap_wp_cgroup_put(const char *dir, const char *file, const char *text);
bool __wrap_wp_cgroup_dir_make(const char *dir);

#define LINE(...) (journal(__VA_ARGS__), journal_line())

static bool
has(const char *part, const char *text)
{
    return part != NULL && strstr(text, part) != NULL;
}

static struct group *
find(const char *dir)
{
    for (int i = 0; i < GROUPS; i++) {
        if (rig.groups[i].dir != NULL && strcmp(rig.groups[i].dir, dir) == 0) {
            return &rig.groups[i];
        }
    }
    return NULL;
}

int
__wrap_access(const char *path, int mode)
{
    LINE("access %s %d", path, mode);
    errno = ENOENT;
    return rig.nowhere ? -1 : 0;
}

int
__wrap_rmdir(const char *path)
{
    bool kept = has(rig.kept, path);

    LINE("rmdir %s%s", path, kept ? " not" : "");
    errno = EBUSY;
    return kept ? -1 : 0;
}

pid_t
__wrap_getpid(void)
{
    return PID;
}

/* 12 and the largest have ended, 14 is another user's. */
int
__wrap_kill(pid_t pid, int sig)
{
    LINE("kill %d %d", (int)pid, sig);
    errno = pid == 14 ? EPERM : ESRCH;
    return pid == 13 ? 0 : -1;
}

FILE *
__wrap_fopen(const char *path, const char *mode)
{
    static char copy[1024]; /* One file at a time is read. */
    bool mounts = strcmp(path, "mountinfo") == 0;
    const char *text = mounts                       ? rig.mountinfo
                       : strcmp(path, "self") == 0  ? rig.self
                       : has("/cgroup.procs", path) ? rig.procs
                                                    : "";

    if (text != NULL && text[0] == '\0') {
        return __real_fopen(path, mode);
    }
    if (has("/", path)) {
        LINE("read %s", path);
    }
    errno = ENOENT;
    (void)snprintf(copy, sizeof copy, "%s", text != NULL ? text : "");
    return text == NULL ? NULL : fmemopen(copy, strlen(copy), "r");
}

DIR *
__wrap_opendir(const char *path)
{
    bool none = has("/none", path);

    LINE("opendir %s%s", path, none ? " not" : "");
    rig.at = 0;
    return none ? NULL : (DIR *)&rig;
}

struct dirent *
__wrap_readdir(DIR *dir)
{
    const char *name = rig.names[rig.at];

    assert_ptr_equal(dir, &rig);
    if (name == NULL) {
        return NULL;
    }
    rig.at++;
    (void)snprintf(rig.entry.d_name, sizeof rig.entry.d_name, "%s", name);
    return &rig.entry;
}

int
__wrap_closedir(DIR *dir)
{
    assert_ptr_equal(dir, &rig);
    LINE("closedir");
    return 0;
}

int
__wrap_dirfd(DIR *dir)
{
    assert_ptr_equal(dir, &rig);
    return 40;
}

int
__wrap_unlinkat(int dir, const char *name, int flags)
{
    LINE("unlinkat %d %s%s", dir, name,
         flags == AT_REMOVEDIR ? "" : " as a file");
    return 0;
}

bool
__wrap_wp_cgroup_get(const char *dir, const char *file, char *out, size_t cap)
{
    const struct group *group = find(dir);
    const char *text = group == NULL ? NULL
                       : strcmp(file, "cgroup.controllers") == 0
                           ? group->controllers
                       : strcmp(file, "cgroup.type") == 0 ? group->type
                       : strcmp(file, "cgroup.subtree_control") == 0 ? group->on
                                                                     : "?";

    LINE("get %s %s: %s", dir, file, text != NULL ? text : "none");
    if (text == NULL) {
        errno = ENOENT;
        return false;
    }
    (void)snprintf(out, cap, "%s%s", text, text == group->type ? "\n" : "");
    return true;
}

/* Switches on or off; all at once, or nothing. */
static bool
switch_all(struct group *group, const char *text)
{
    char word[16];
    int n;

    for (const char *at = text; sscanf(at, "%15s%n", word, &n) == 1; at += n) {
        if (word[0] == '+' &&
            has(word + 1, group->refused != NULL ? group->refused : "")) {
            errno = group->error;
            return false;
        }
    }
    for (const char *at = text; sscanf(at, "%15s%n", word, &n) == 1; at += n) {
        char name[16];
        char *found;

        (void)snprintf(name, sizeof name, "%.14s ", word + 1);
        found = strstr(group->on, name);
        if (word[0] == '+' && found == NULL) {
            (void)snprintf(group->on + strlen(group->on),
                           sizeof group->on - strlen(group->on), "%s", name);
        } else if (word[0] == '-' && found != NULL) {
            memmove(found, found + strlen(name),
                    strlen(found + strlen(name)) + 1);
        }
    }
    return true;
}

bool
__wrap_wp_cgroup_put(const char *dir, const char *file, const char *text)
{
    struct group *group = find(dir);
    bool ok = group != NULL;

    errno = ENOENT;
    if (ok && strcmp(file, "cgroup.subtree_control") == 0) {
        ok = switch_all(group, text);
    } else if (ok && (group->shut != 0 || strcmp(text, "4") == 0)) {
        errno = group->shut != 0 ? group->shut : ESRCH;
        ok = false;
    }
    LINE("put %s %s: %s%s", dir, file, text, ok ? "" : " not");
    return ok;
}

bool
__wrap_wp_cgroup_dir_make(const char *dir)
{
    bool ok = !has(rig.unmade, dir);

    LINE("make %s%s", dir, ok ? "" : " not");
    errno = EROFS;
    return ok;
}

/* --- --- */

static void
show(const struct wp_cgroups *groups)
{
    LINE("= kind %d, controllers %x%s, enabled %x, '%s'", (int)groups->kind,
         groups->controllers, groups->moved ? ", moved" : "", groups->enabled,
         groups->reason);
    for (uint32_t t = 0; t < groups->trees_len; t++) {
        LINE("= %x in %s", groups->trees[t].controllers, groups->trees[t].dir);
    }
}

static void
open_and_close(const char *what, const char *given, const char *group)
{
    static struct wp_cgroups groups;

    LINE("--- %s", what);
    memset(&groups, 'x', sizeof groups);
    wp_cgroups_open(&groups, "mountinfo", "self", given, group);
    show(&groups);
    wp_cgroups_close(&groups);
    show(&groups);
}

#define V2 "30 1 0:26 / /cg rw - cgroup2 cgroup2 rw\n"

/* A group of version 2 with one of ours in it, which has all; this process is
 * in it. */
static void
begin_v2(void)
{
    memset(&rig, 0, sizeof rig);
    rig.mountinfo = V2;
    rig.self = "0::/own\n";
    rig.groups[0] = (struct group){
        .dir = "/cg/own",
        .controllers = "cpuset cpu io memory pids\n",
        .type = "domain",
    };
    rig.groups[1] = (struct group){
        .dir = "/cg/own/wp",
        .controllers = "cpu memory pids\n",
        .type = "domain",
    };
    rig.groups[2] = (struct group){.dir = "/cg/own/" WP_CGROUP_LEAF};
}

static void
end(const char *path)
{
    journal_compare(path);
}

static void
takes_what_it_has(void **state)
{
    (void)state;
    begin_v2();
    open_and_close("all", "", "wp");
    begin_v2();
    rig.groups[0].type = NULL; /* The root. */
    open_and_close("the root", "", "wp");
    begin_v2();
    (void)snprintf(rig.groups[0].on, sizeof rig.groups[0].on, "pids ");
    (void)snprintf(rig.groups[1].on, sizeof rig.groups[1].on, "pids cpu ");
    open_and_close("some were on", "", "wp");
    begin_v2();
    rig.self = "0::/own/" WP_CGROUP_LEAF "\n";
    open_and_close("begun in the leaf", "", "wp");
    begin_v2();
    rig.self = "0::/own/x" WP_CGROUP_LEAF "\n";
    open_and_close("begun in another", "", "wp");
    begin_v2();
    rig.groups[1].type = NULL;
    rig.kept = "/wp";
    open_and_close("in use at the end", "", "wp");
    begin_v2();
    rig.groups[0].controllers = "memory freezer pids cpu";
    rig.groups[1].controllers = "pids freezer\n";
    open_and_close("named in another order", "", "wp");
    begin_v2();
    rig.groups[0].shut = EBUSY;
    open_and_close("cannot go back", "", "wp");
    end(WP_TEST_GOLDEN "/cgroup_takes.txt");
}

static void
takes_what_it_is_given(void **state)
{
    (void)state;
    begin_v2();
    rig.self = "0::/elsewhere\n";
    rig.procs = "3 4\n5\n";
    open_and_close("given", "/own", "wp");
    begin_v2();
    rig.nowhere = true;
    open_and_close("not there", "/own", "wp");
    begin_v2();
    open_and_close("its list cannot be read", "/own", "wp");
    begin_v2();
    rig.procs = "3 5\n";
    rig.groups[2].shut = EPERM;
    open_and_close("who is in it cannot go", "/own", "wp");
    begin_v2();
    rig.mountinfo = "31 1 0:27 / /cg/memory rw - cgroup cgroup rw,memory\n";
    rig.self = "9:memory:/own\n";
    open_and_close("no version 2", "/own", "wp");
    begin_v2();
    rig.procs = "3\n";
    rig.groups[2].dir = "/cg/own/" WP_CGROUP_LEAF "/" WP_CGROUP_LEAF;
    rig.groups[0].dir = "/cg/own/" WP_CGROUP_LEAF;
    rig.groups[1].dir = "/cg/own/" WP_CGROUP_LEAF "/wp";
    open_and_close("a leaf", "/own/" WP_CGROUP_LEAF, "wp");
    end(WP_TEST_GOLDEN "/cgroup_given.txt");
}

/* What a controller or a group refuses. */
static void
says_what_was_refused(void **state)
{
    (void)state;
    begin_v2();
    rig.groups[0].refused = "cpu";
    rig.groups[0].error = EINVAL;
    open_and_close("one controller", "", "wp");
    begin_v2();
    rig.groups[0].refused = "memory pids cpu";
    rig.groups[0].error = EBUSY;
    open_and_close("busy", "", "wp");
    begin_v2();
    rig.groups[0].refused = "memory pids cpu";
    rig.groups[0].error = EACCES;
    open_and_close("all", "", "wp");
    begin_v2();
    rig.groups[0].type = "domain threaded";
    open_and_close("its own is not plain", "", "wp");
    begin_v2();
    rig.groups[1].type = "domain invalid";
    open_and_close("ours is not plain", "", "wp");
    begin_v2();
    rig.groups[1].refused = "memory pids cpu";
    rig.groups[1].error = EPERM;
    open_and_close("ours refuses all", "", "wp");
    begin_v2();
    (void)snprintf(rig.groups[0].on, sizeof rig.groups[0].on,
                   "memory pids cpu ");
    rig.groups[1].refused = "memory pids cpu";
    rig.groups[1].error = EBUSY;
    open_and_close("ours is busy", "", "wp");
    begin_v2();
    rig.unmade = "/wp";
    open_and_close("ours cannot be made", "", "wp");
    begin_v2();
    rig.unmade = WP_CGROUP_LEAF;
    open_and_close("no leaf", "", "wp");
    begin_v2();
    rig.groups[2].shut = EOPNOTSUPP;
    open_and_close("not into the leaf", "", "wp");
    begin_v2();
    rig.groups[0].controllers = "cpuset io xmemory pidsx\n";
    open_and_close("none of its controllers", "", "wp");
    begin_v2();
    rig.groups[0].controllers = NULL;
    open_and_close("no list of controllers", "", "wp");
    begin_v2();
    rig.groups[0].controllers = NULL;
    rig.mountinfo = "31 1 0:27 / /cg/memory rw - cgroup cgroup rw,memory\n" V2;
    rig.self = "9:memory:/own\n0::/own\n";
    open_and_close("none, but version 1 has", "", "wp");
    begin_v2();
    rig.unmade = "/own/wp";
    rig.mountinfo = "31 1 0:27 / /v1 rw - cgroup cgroup rw,memory\n" V2;
    rig.self = "9:memory:/other\n0::/own\n";
    open_and_close("not made, but version 1's is", "", "wp");
    end(WP_TEST_GOLDEN "/cgroup_refused.txt");
}

/* Of what the machine says of its mounts and groups. */
static void
reads_where_it_is(void **state)
{
    static const char *const texts[][3] = {
        {"no mounts", NULL, "0::/own\n"},
        {"no groups", V2, NULL},
        {"another mount first",
         "29 1 0:25 / /x rw - ext4 /dev/x rw\nnonsense\n1 2 - cgroup2\n"
         "1 2 3 / /x rw - cgroup2 c\n - cgroup2 c rw\n" V2,
         "0::/own\n"},
        {"the first of two", V2 "30 1 0:26 / /other rw - cgroup2 cgroup2 rw\n",
         "0::/own\n0::/other\n"},
        {"a part", "30 1 0:26 /sl/ice /cg rw - cgroup2 cgroup2 rw\n",
         "0::/sl/ice/own\n"},
        {"a part, and it is in its top",
         "30 1 0:26 /sl/ice /cg/own rw - cgroup2 cgroup2 rw\n", "0::/sl/ice\n"},
        {"a part, and it is not in it",
         "30 1 0:26 /sl/ice /cg/own rw - cgroup2 cgroup2 rw\n",
         "0::/sl/other\n"},
        {"the top", "30 1 0:26 / /cg/own rw - cgroup2 cgroup2 rw\n", "0::/\n"},
        {"a mount without a slash", "30 1 0:26 / cg rw - cgroup2 cgroup2 rw\n",
         "0::/\n"},
        {"lines that are none", V2, "\nx\n0:\n0:x\n1:name=x:/x\n0::/own"},
        {"others", V2, "4:memory:/own\n"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(texts); i++) {
        begin_v2();
        rig.groups[3] = (struct group){.dir = "cg", .controllers = "cpu\n"};
        rig.groups[4] = (struct group){.dir = "cg/wp", .controllers = "cpu\n"};
        rig.mountinfo = texts[i][1];
        rig.self = texts[i][2];
        open_and_close(texts[i][0], "", "wp");
    }
    end(WP_TEST_GOLDEN "/cgroup_where.txt");
}

static void
uses_version_1(void **state)
{
    static const char mounts[] =
        "30 1 0:26 / /cg rw - tmpfs tmpfs rw,memory\n"
        "31 1 0:27 / /cg/memory rw - cgroup cgroup rw,memory\n"
        "32 1 0:28 / /cg/both rw - cgroup cgroup rw,cpuacct,cpu,pids\n"
        "33 1 0:29 / /cg/freezer rw - cgroup cgroup rw,freezer\n";
    static const char self[] = "9:memory:/a\n3:pids,cpuacct,cpu:/b\n"
                               "2:freezer:/\n0::/\n";

    (void)state;
    memset(&rig, 0, sizeof rig);
    rig.mountinfo = mounts;
    rig.self = self;
    open_and_close("three hierarchies", "", "wp");
    rig.kept = "/both";
    open_and_close("one in use at the end", "", "wp");
    rig.kept = NULL;
    rig.unmade = "/memory";
    open_and_close("one cannot be made", "", "wp");
    rig.unmade = "/";
    open_and_close("none can be made", "", "wp");
    rig.unmade = NULL;
    rig.self = "9:memory:/a\n3:cpuacct:/b\n2:pids,cpu:/c\n";
    open_and_close("no freezer", "", "wp");
    rig.mountinfo = "31 1 0:27 / /cg/memory rw - cgroup2 cgroup rw,memory\n"
                    "32 1 0:28 / /cg/cpu rw - cgroup cgroup rw,cpu\n";
    open_and_close("of another version", "", "wp");
    end(WP_TEST_GOLDEN "/cgroup_v1.txt");
}

/* Paths as long as can be; and longer. */
static void
keeps_to_its_room(void **state)
{
    static char mounts[1024];
    static char self[1024];
    static char dir[WP_CGROUP_PATH_MAX];
    char point[256];
    char path[257];
    char group[WP_CGROUP_PATH_MAX];

    (void)state;
    memset(point, 'p', sizeof point);
    memset(path, 'q', sizeof path);
    memset(group, 'g', sizeof group);
    point[0] = path[0] = '/';
    point[255] = path[256] = '\0';
    for (int more = 0; more < 2; more++) {
        path[255 + more] = '\0';
        (void)snprintf(mounts, sizeof mounts,
                       "3 1 0:6 / %s rw - cgroup2 c rw\n", point);
        (void)snprintf(self, sizeof self, "0::%s\n", path);
        (void)snprintf(dir, sizeof dir, "%.255s%.255s", point, path);
        begin_v2();
        rig.mountinfo = mounts;
        rig.self = self;
        rig.groups[0] = (struct group){
            .dir = dir, .controllers = "cpu\n", .type = "domain"};
        open_and_close(more ? "its own, too long" : "its own", "", "");
        open_and_close("given", path, "");
        path[255] = 'q';
    }
    /* "/cg/own/" and the group are as long as can be. */
    for (int more = 0; more < 2; more++) {
        int len = WP_CGROUP_PATH_MAX - 1 - 8 + more;

        group[len] = '\0';
        (void)snprintf(dir, sizeof dir, "/cg/own/%.503s", group);
        begin_v2();
        rig.groups[1].dir = dir;
        open_and_close(more ? "ours, too long" : "ours", "", group);
        rig.mountinfo = "31 1 0:27 / /cg rw - cgroup cgroup rw,memory\n";
        rig.self = "9:memory:/own\n";
        open_and_close("of version 1", "", group);
        group[len] = 'g';
    }
    /* A leaf's path is longer than ours. */
    path[255] = '\0';
    path[254] = '\0';
    (void)snprintf(self, sizeof self, "0::%s\n", path);
    (void)snprintf(dir, sizeof dir, "%.255s%.255s", point, path);
    begin_v2();
    rig.mountinfo = mounts;
    rig.self = self;
    rig.groups[0] =
        (struct group){.dir = dir, .controllers = "cpu\n", .type = "domain"};
    open_and_close("no room for a leaf", "", "g");
    end(WP_TEST_GOLDEN "/cgroup_room.txt");
}

static void
sweeps_the_dead_only(void **state)
{
    static const char *const names[] = {".",
                                        "..",
                                        "try-12",
                                        "try-13",
                                        "try-14",
                                        "try-0",
                                        "try-",
                                        "try-x",
                                        "try-2147483647",
                                        "try-2147483648",
                                        "other-12",
                                        "try",
                                        "12",
                                        "try-12x",
                                        "try-1",
                                        "try-00000012",
                                        NULL};
    struct wp_cgroups groups = {
        .kind = WP_CGROUP_V1,
        .trees_len = 3,
        .trees = {{.dir = "/a/b/ours"},
                  {.dir = "/none/ours"},
                  {.dir = "/c/ours"},
                  {.dir = "/d/ours"}},
    };

    (void)state;
    memset(&rig, 0, sizeof rig);
    rig.names = names;
    wp_cgroups_sweep(&groups, "try-");
    end(WP_TEST_GOLDEN "/cgroup_sweep.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_it_has),
        cmocka_unit_test(takes_what_it_is_given),
        cmocka_unit_test(says_what_was_refused),
        cmocka_unit_test(reads_where_it_is),
        cmocka_unit_test(uses_version_1),
        cmocka_unit_test(keeps_to_its_room),
        cmocka_unit_test(sweeps_the_dead_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
