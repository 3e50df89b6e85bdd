/* Paths below the workspace: by openat2 and by hand, with the same answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/compiler.h"
#include "runtime/files/workspace.h"

struct fixture {
    char base[64];
    char root[96];
    struct wp_workspace workspace;
};

static void
file_make(const char *dir, const char *name)
{
    char path[256];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    fd = open(path, O_CREAT | O_WRONLY, 0644);
    assert_true(fd >= 0);
    close(fd);
}

static void
link_make(const struct fixture *f, const char *target, const char *name)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", f->root, name);
    assert_int_equal(symlink(target, path), 0);
}

static void
dir_make(const struct fixture *f, const char *name)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", f->root, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static int
setup(void **state)
{
    static struct fixture f;
    struct wp_err err;

    snprintf(f.base, sizeof(f.base), "/tmp/wp-workspace-XXXXXX");
    assert_non_null(mkdtemp(f.base));
    snprintf(f.root, sizeof(f.root), "%s/root", f.base);
    assert_int_equal(mkdir(f.root, 0755), 0);
    file_make(f.base, "secret");
    file_make(f.root, "file");
    dir_make(&f, "a");
    dir_make(&f, "a/b");
    file_make(f.root, "a/b/deep");
    link_make(&f, "a/b", "short");
    link_make(&f, "../file", "a/up");
    link_make(&f, "a/./././././././././././././.", "far");
    link_make(&f, "b", "a/near");
    link_make(&f, "../secret", "out");
    link_make(&f, "../../secret", "a/out");
    link_make(&f, "/etc", "etc");
    link_make(&f, "loop", "loop");
    link_make(&f, "..", "parent");
    link_make(&f, "nowhere", "dangling");
    assert_int_equal(wp_workspace_init(&f.workspace, f.root, &err), WP_OK);
    *state = &f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;
    char command[128];

    wp_workspace_fini(&f->workspace);
    snprintf(command, sizeof(command), "rm -r %s", f->base);
    return system(command);
}

static const struct {
    const char *path;
    int flags;
    int os_errno; /* 0: opens. */
} cases[] = {
    {"file", O_RDONLY, 0},
    {"./file", O_RDONLY, 0},
    {"a/../file", O_RDONLY, 0},
    {"a/b/../../file", O_RDONLY, 0},
    {"a//b///deep", O_RDONLY, 0},
    {"short/deep", O_RDONLY, 0},
    {"short", O_RDONLY | O_DIRECTORY, 0},
    {"far/near/deep", O_RDONLY, 0}, /* A short link after a long one. */
    {"far/near", O_RDONLY | O_DIRECTORY, 0},
    {"a/up", O_RDONLY, 0},
    {".", O_RDONLY | O_DIRECTORY, 0},
    {"a/..", O_RDONLY | O_DIRECTORY, 0},
    {"a/b/", O_RDONLY | O_DIRECTORY, 0},
    {"nothing", O_RDONLY, ENOENT},
    {"dangling", O_RDONLY, ENOENT},
    {"a/nothing/x", O_RDONLY, ENOENT},
    {"file/x", O_RDONLY, ENOTDIR},
    {"file/", O_RDONLY, ENOTDIR},
    {"file", O_RDONLY | O_DIRECTORY, ENOTDIR},
    {"..", O_RDONLY, EXDEV},
    {"../secret", O_RDONLY, EXDEV},
    {"a/../../secret", O_RDONLY, EXDEV},
    {"out", O_RDONLY, EXDEV},
    {"a/out", O_RDONLY, EXDEV},
    {"etc/passwd", O_RDONLY, EXDEV},
    {"etc", O_RDONLY, EXDEV},
    {"parent/secret", O_RDONLY, EXDEV},
    {"parent", O_RDONLY, EXDEV},
    {"/etc/passwd", O_RDONLY, EXDEV},
    {"loop", O_RDONLY, ELOOP},
    {"loop/x", O_RDONLY, ELOOP},
};

static void
check_all(struct fixture *f)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        int fd =
            wp_workspace_open(&f->workspace, cases[i].path, cases[i].flags, 0);

        if (cases[i].os_errno == 0) {
            assert_true(fd >= 0);
            assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
            close(fd);
        } else if (fd != -cases[i].os_errno) {
            fail_msg("%s: %d", cases[i].path, fd);
        }
    }
}

static void
opens_by_the_kernel(void **state)
{
    struct fixture *f = *state;

    if (f->workspace.by_hand) {
        print_message("SKIP: no openat2 here\n");
        skip();
    }
    check_all(f);
}

static void
opens_by_hand(void **state)
{
    struct fixture *f = *state;
    bool was = f->workspace.by_hand;

    f->workspace.by_hand = true;
    check_all(f);
    f->workspace.by_hand = was;
}

/* No descriptor is left open by either way, success or not. */
static void
leaks_no_descriptor(void **state)
{
    struct fixture *f = *state;
    int before = open("/dev/null", O_RDONLY);
    int after;

    opens_by_hand(state);
    check_all(f);
    after = open("/dev/null", O_RDONLY);
    assert_int_equal(after, before + 1);
    close(after);
    close(before);
}

static void
reads_paths_of_requests(void **state)
{
    struct fixture *f = *state;
    char out[WP_WORKSPACE_PATH_MAX];
    char text[WP_WORKSPACE_PATH_MAX + 16];

    assert_int_equal(wp_workspace_path(&f->workspace, "a%2Fb%20c", out), 0);
    assert_string_equal(out, "a/b c");
    assert_int_equal(wp_workspace_path(&f->workspace, "", out), 0);
    assert_string_equal(out, ".");
    assert_int_equal(wp_workspace_path(&f->workspace, "%2F", out), 0);
    assert_string_equal(out, ".");
    assert_int_equal(wp_workspace_path(&f->workspace, "/etc", out), EXDEV);
    assert_int_equal(wp_workspace_path(&f->workspace, "%", out), EINVAL);
    assert_int_equal(wp_workspace_path(&f->workspace, "%4", out), EINVAL);
    assert_int_equal(wp_workspace_path(&f->workspace, "%4g", out), EINVAL);
    assert_int_equal(wp_workspace_path(&f->workspace, "a%00", out), EINVAL);
    snprintf(text, sizeof(text), "%s/a/b", f->workspace.root);
    assert_int_equal(wp_workspace_path_plain(&f->workspace, text, out), 0);
    assert_string_equal(out, "a/b");
    snprintf(text, sizeof(text), "%s", f->workspace.root);
    assert_int_equal(wp_workspace_path_plain(&f->workspace, text, out), 0);
    assert_string_equal(out, ".");
    snprintf(text, sizeof(text), "%s-else/x", f->workspace.root);
    assert_int_equal(wp_workspace_path_plain(&f->workspace, text, out), EXDEV);
}

static void
refuses_long_paths(void **state)
{
    struct fixture *f = *state;
    static char text[2 * WP_WORKSPACE_PATH_MAX];
    char out[WP_WORKSPACE_PATH_MAX];

    memset(text, 'a', sizeof(text) - 1);
    assert_int_equal(wp_workspace_path(&f->workspace, text, out), ENAMETOOLONG);
    assert_int_equal(wp_workspace_path_plain(&f->workspace, text, out),
                     ENAMETOOLONG);
    text[WP_WORKSPACE_PATH_MAX] = '\0';
    assert_int_equal(wp_workspace_path(&f->workspace, text, out), ENAMETOOLONG);
    assert_int_equal(wp_workspace_path_plain(&f->workspace, text, out),
                     ENAMETOOLONG);
    text[WP_WORKSPACE_PATH_MAX - 1] = '\0';
    assert_int_equal(wp_workspace_path(&f->workspace, text, out), 0);
    assert_string_equal(out, text);
    assert_int_equal(wp_workspace_path_plain(&f->workspace, text, out), 0);
    assert_string_equal(out, text);
    /* What %XX stands for is counted. */
    memcpy(text + WP_WORKSPACE_PATH_MAX - 2, "%61", 4);
    assert_int_equal(wp_workspace_path(&f->workspace, text, out), 0);
    assert_int_equal(strlen(out), WP_WORKSPACE_PATH_MAX - 1);
    assert_int_equal(strspn(out, "a"), WP_WORKSPACE_PATH_MAX - 1);
}

/* A link's target and what follows the link are one path, of that length at
 * most. */
static void
refuses_long_paths_through_links(void **state)
{
    enum {
        TARGET = 2000
    };
    struct fixture *f = *state;
    struct wp_workspace by_hand = f->workspace;
    static char target[TARGET + 1];
    static char path[2 * WP_WORKSPACE_PATH_MAX];

    by_hand.by_hand = true;
    for (size_t i = 0; i < TARGET; i++) {
        target[i] = i % 2 == 0 ? '.' : '/';
    }
    link_make(f, target, "lengthy");
    /* Each near the end, some before. */
    for (size_t len = TARGET + 1; len < WP_WORKSPACE_PATH_MAX + 3;
         len += len < WP_WORKSPACE_PATH_MAX - 110 ? 97 : 1) {
        size_t rest = len - TARGET;
        char *at = path + sprintf(path, "lengthy/");

        memset(at, 'x', rest);
        at[rest] = '\0';
        /* Names of one component are no longer than 255. */
        for (size_t i = 200; i < rest; i += 200) {
            at[i] = '/';
        }
        assert_int_equal(wp_workspace_open(&by_hand, path, O_RDONLY, 0),
                         len + 1 < WP_WORKSPACE_PATH_MAX ? -ENOENT
                                                         : -ENAMETOOLONG);
    }
}

/* Without links: by hand and by the kernel as long. */
static void
opens_paths_as_long_as_they_may_be(void **state)
{
    struct fixture *f = *state;
    struct wp_workspace by_hand = f->workspace;
    const struct wp_workspace *ways[] = {&f->workspace, &by_hand};
    static char path[WP_WORKSPACE_PATH_MAX + 1];

    by_hand.by_hand = true;
    for (size_t i = 0; i < WP_ARRAY_LEN(ways); i++) {
        int fd;

        memset(path, '/', sizeof path - 1);
        path[0] = '.';
        memcpy(path + WP_WORKSPACE_PATH_MAX - 5, "file", 5);
        fd = wp_workspace_open(ways[i], path, O_RDONLY, 0);
        assert_true(fd >= 0);
        assert_int_equal(close(fd), 0);
        path[WP_WORKSPACE_PATH_MAX - 5] = '/';
        memcpy(path + WP_WORKSPACE_PATH_MAX - 4, "file", 5);
        assert_int_equal(wp_workspace_open(ways[i], path, O_RDONLY, 0),
                         -ENAMETOOLONG);
    }
}

/* By hand: so many folders below each other, counted with the root. */
static void
walks_so_deep_by_hand(void **state)
{
    struct fixture *f = *state;
    struct wp_workspace by_hand = f->workspace;
    char path[2 * WP_WORKSPACE_DEPTH_MAX + 2] = "";
    int fd = dup(f->workspace.fd);

    by_hand.by_hand = true;
    assert_true(fd >= 0);
    for (int depth = 1; depth <= WP_WORKSPACE_DEPTH_MAX; depth++) {
        int below;

        assert_int_equal(mkdirat(fd, "d", 0755), 0);
        below = openat(fd, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert_true(below >= 0);
        assert_int_equal(close(fd), 0);
        fd = below;
        (void)strcat(path, depth == 1 ? "d" : "/d");
    }
    assert_int_equal(close(fd), 0);
    fd = wp_workspace_open(&by_hand, path, O_PATH | O_DIRECTORY, 0);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    (void)strcat(path, "/d");
    assert_int_equal(wp_workspace_open(&by_hand, path, O_PATH, 0),
                     -ENAMETOOLONG);
}

/* As many links in one path as the kernel follows, and one more. */
static void
follows_so_many_links(void **state)
{
    struct fixture *f = *state;
    struct wp_workspace by_hand = f->workspace;
    const struct wp_workspace *ways[] = {&f->workspace, &by_hand};
    char target[16] = "file";
    char name[16];

    by_hand.by_hand = true;
    for (int i = 1; i <= WP_WORKSPACE_LINKS_MAX + 1; i++) {
        (void)snprintf(name, sizeof name, "link%d", i);
        link_make(f, target, name);
        (void)strcpy(target, name);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(ways); i++) {
        int fd;

        (void)snprintf(name, sizeof name, "link%d", WP_WORKSPACE_LINKS_MAX);
        fd = wp_workspace_open(ways[i], name, O_RDONLY, 0);
        assert_true(fd >= 0);
        assert_int_equal(close(fd), 0);
        (void)snprintf(name, sizeof name, "link%d", WP_WORKSPACE_LINKS_MAX + 1);
        assert_int_equal(wp_workspace_open(ways[i], name, O_RDONLY, 0), -ELOOP);
    }
}

/* The last link of a path is not followed, those before it are. */
static void
opens_a_link_itself_where_asked_to(void **state)
{
    struct fixture *f = *state;
    mode_t mask = umask(0);
    struct wp_workspace by_hand = f->workspace;
    const struct wp_workspace *ways[] = {&f->workspace, &by_hand};

    by_hand.by_hand = true;
    for (size_t i = 0; i < WP_ARRAY_LEN(ways); i++) {
        struct stat st;
        int fd =
            wp_workspace_open(ways[i], "short/../up", O_PATH | O_NOFOLLOW, 0);

        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        assert_true(S_ISLNK(st.st_mode));
        assert_int_equal(close(fd), 0);
        assert_int_equal(
            wp_workspace_open(ways[i], "a/up", O_RDONLY | O_NOFOLLOW, 0),
            -ELOOP);
        fd = wp_workspace_open(ways[i], "made", O_CREAT | O_EXCL | O_WRONLY,
                               0640);
        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(st.st_mode, S_IFREG | 0640);
        assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
        assert_int_equal(close(fd), 0);
        assert_int_equal(wp_workspace_open(ways[i], "made",
                                           O_CREAT | O_EXCL | O_WRONLY, 0640),
                         -EEXIST);
        assert_int_equal(unlinkat(f->workspace.fd, "made", 0), 0);
    }
    (void)umask(mask);
}

static void
splits_a_path_at_its_last_name(void **state)
{
    static const struct {
        const char *path;
        int os_errno;
    } refused[] = {
        {"", EISDIR},     {".", EISDIR},     {"a/.", EISDIR}, {"a/", EISDIR},
        {"..", EXDEV},    {"a/..", EXDEV},   {"../", EXDEV},  {"/", EISDIR},
        {"out/x", EXDEV}, {"loop/x", ELOOP},
    };
    struct fixture *f = *state;
    char path[260];
    char name[256];
    int fd;

    for (size_t i = 0; i < WP_ARRAY_LEN(refused); i++) {
        assert_int_equal(
            wp_workspace_open_parent(&f->workspace, refused[i].path, name),
            -refused[i].os_errno);
    }
    memset(path, 'n', sizeof path);
    path[255] = '\0';
    fd = wp_workspace_open_parent(&f->workspace, path, name);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_string_equal(name, path);
    path[255] = 'n';
    path[256] = '\0';
    assert_int_equal(wp_workspace_open_parent(&f->workspace, path, name),
                     -ENAMETOOLONG);
}

/* By bytes, and without the folder itself and the one above. */
static void
lists_a_folder(void **state)
{
    static const char *const expected[] = {"..c", ".b", "B", "a", "\xc3\xa9"};
    struct fixture *f = *state;
    struct dirent **names;
    char path[256];
    int n;
    int fd;

    dir_make(f, "listed");
    (void)snprintf(path, sizeof path, "%s/listed", f->root);
    for (size_t i = WP_ARRAY_LEN(expected); i-- > 0;) {
        file_make(path, expected[i]);
    }
    fd = wp_workspace_open(&f->workspace, "listed", O_RDONLY | O_DIRECTORY, 0);
    assert_true(fd >= 0);
    n = wp_workspace_scan(fd, &names);
    assert_int_equal(close(fd), 0);
    assert_int_equal(n, WP_ARRAY_LEN(expected));
    for (int i = 0; i < n; i++) {
        assert_string_equal(names[i]->d_name, expected[i]);
        free(names[i]);
    }
    free(names);
}

static void
a_workspace_is_a_folder(void **state)
{
    struct fixture *f = *state;
    struct wp_workspace workspace;
    char path[256];
    char expected[300];
    struct wp_err err;

    (void)snprintf(path, sizeof path, "%s/nothing", f->root);
    assert_int_equal(wp_workspace_init(&workspace, path, &err), WP_NOT_FOUND);
    (void)snprintf(expected, sizeof expected,
                   "workspace %s: no such file or directory", path);
    assert_string_equal(err.msg, expected);
    (void)snprintf(path, sizeof path, "%s/file", f->root);
    assert_int_equal(wp_workspace_init(&workspace, path, &err),
                     WP_FAILED_PRECONDITION);
    (void)snprintf(expected, sizeof expected, "workspace %s: not a directory",
                   path);
    assert_string_equal(err.msg, expected);
    /* Links on the way there are not kept. */
    (void)snprintf(path, sizeof path, "%s/short/.", f->root);
    assert_int_equal(wp_workspace_init(&workspace, path, &err), WP_OK);
    (void)snprintf(path, sizeof path, "%s/a/b", f->root);
    assert_string_equal(workspace.root, path);
    assert_int_equal(workspace.by_hand, f->workspace.by_hand);
    wp_workspace_fini(&workspace);
    assert_int_equal(workspace.fd, -1);
}

static void
makes_the_folders_of_a_file(void **state)
{
    struct fixture *f = *state;
    char name[256];
    struct stat st;

    for (int by_hand = 0; by_hand < 2; by_hand++) {
        char path[64];
        bool was = f->workspace.by_hand;
        int fd;

        f->workspace.by_hand = was || by_hand == 1;
        snprintf(path, sizeof(path), "new%d/er//still/x", by_hand);
        fd = wp_workspace_open_parent(&f->workspace, path, name);
        assert_true(fd >= 0);
        assert_string_equal(name, "x");
        assert_int_equal(fstat(fd, &st), 0);
        assert_true(S_ISDIR(st.st_mode));
        close(fd);
        assert_int_equal(
            wp_workspace_open_parent(&f->workspace, "../x/y", name), -EXDEV);
        assert_int_equal(
            wp_workspace_open_parent(&f->workspace, "etc/x/y", name), -EXDEV);
        assert_int_equal(
            wp_workspace_open_parent(&f->workspace, "file/x", name), -ENOTDIR);
        assert_int_equal(wp_workspace_open_parent(&f->workspace, "a/", name),
                         -EISDIR);
        assert_int_equal(wp_workspace_open_parent(&f->workspace, ".", name),
                         -EISDIR);
        f->workspace.by_hand = was;
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_by_the_kernel),
        cmocka_unit_test(opens_by_hand),
        cmocka_unit_test(leaks_no_descriptor),
        cmocka_unit_test(reads_paths_of_requests),
        cmocka_unit_test(refuses_long_paths),
        cmocka_unit_test(refuses_long_paths_through_links),
        cmocka_unit_test(opens_paths_as_long_as_they_may_be),
        cmocka_unit_test(walks_so_deep_by_hand),
        cmocka_unit_test(follows_so_many_links),
        cmocka_unit_test(opens_a_link_itself_where_asked_to),
        cmocka_unit_test(splits_a_path_at_its_last_name),
        cmocka_unit_test(lists_a_folder),
        cmocka_unit_test(a_workspace_is_a_folder),
        cmocka_unit_test(makes_the_folders_of_a_file),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
