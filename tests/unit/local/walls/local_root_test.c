/* tests/unit/local/walls/local_root_test.c - the root of a sandbox, made from
 * images that try to get out of theirs. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/walls/rootfs.h"
#include "pool/base/compiler.h"
#include "tests/support/base/descriptors.h"

/* DIR/image is what somebody made; DIR/outside must stay as it is; DIR/root is
 * what we make. */
struct place {
    char dir[64];
    char image[80];
    char outside[80];
    char root_dir[80];
    struct wp_root root;
    struct wp_err err;
};

static int end_errno; /* What ends each folder's entries; 0: their end. */

struct dirent *__real_readdir(DIR *folder);
struct dirent *__wrap_readdir(DIR *folder);

struct dirent *
__wrap_readdir(DIR *folder)
{
    struct dirent *entry = __real_readdir(folder);

    if (entry == NULL && end_errno != 0) {
        errno = end_errno;
    }
    return entry;
}

static void
place_init(struct place *place)
{
    memset(place, 0, sizeof *place);
    (void)snprintf(place->dir, sizeof place->dir, "/tmp/wproot-XXXXXX");
    assert_non_null(mkdtemp(place->dir));
    (void)snprintf(place->image, sizeof place->image, "%s/image", place->dir);
    (void)snprintf(place->outside, sizeof place->outside, "%s/outside",
                   place->dir);
    (void)snprintf(place->root_dir, sizeof place->root_dir, "%s/root",
                   place->dir);
    assert_int_equal(mkdir(place->image, 0755), 0);
    assert_int_equal(mkdir(place->outside, 0755), 0);
}

static void
make_in_image(const struct place *place, const char *path)
{
    char full[256];
    struct wp_err err;

    (void)snprintf(full, sizeof full, "%s/%s", place->image, path);
    assert_int_equal(wp_dir_make(full, 0755, &err), WP_OK);
}

static void
link_in_image(const struct place *place, const char *target, const char *path)
{
    char full[256];

    (void)snprintf(full, sizeof full, "%s/%s", place->image, path);
    assert_int_equal(symlink(target, full), 0);
}

static enum wp_status
make_kind(struct place *place, enum wp_mount_kind kind, const char *mount)
{
    const struct wp_template_mount mounts[] = {
        {.kind = kind, .path = mount, .size_bytes = 4096}};
    const struct wp_template tmpl = {
        .name = "t", .mounts = mounts, .mounts_len = mount != NULL ? 1 : 0};

    return wp_root_make(&place->root, place->root_dir, place->image, &tmpl,
                        &place->err);
}

static enum wp_status
make(struct place *place, const char *mount)
{
    return make_kind(place, WP_MOUNT_EMPTY, mount);
}

static bool
shows(const struct place *place, const char *to)
{
    for (size_t i = 0; i < place->root.binds_len; i++) {
        if (strcmp(place->root.binds[i].to, to) == 0) {
            return true;
        }
    }
    return false;
}

static void
place_fini(struct place *place)
{
    for (size_t i = 0; i < place->root.binds_len; i++) {
        char real[4096];

        assert_non_null(realpath(place->root.binds[i].from, real));
        assert_int_equal(strncmp(real, place->image, strlen(place->image)), 0);
    }
    assert_int_equal(rmdir(place->outside), 0); /* So it was empty. */
    wp_root_fini(&place->root);
    assert_int_equal(wp_dir_remove(place->dir, &place->err), WP_OK);
}

static void
test_opt_that_leads_out(void **state)
{
    struct place place;

    (void)state;
    place_init(&place);
    make_in_image(&place, "inner/tool");
    link_in_image(&place, "/", "opt");
    assert_int_equal(make(&place, NULL), WP_OK);
    /* Inside the image "/" is the image. */
    assert_true(shows(&place, "/opt/inner"));
    assert_false(shows(&place, "/opt/usr"));
    place_fini(&place);

    place_init(&place);
    link_in_image(&place, "../../../../../../../..", "opt");
    assert_int_equal(make(&place, NULL), WP_OK);
    assert_false(shows(&place, "/opt/usr"));
    place_fini(&place);

    place_init(&place);
    link_in_image(&place, "opt", "opt");
    assert_int_equal(make(&place, NULL), WP_OK);
    assert_int_equal(place.root.binds_len, 0);
    place_fini(&place);

    place_init(&place);
    link_in_image(&place, "/proc/self/root", "opt");
    assert_int_equal(make(&place, NULL), WP_OK);
    assert_int_equal(place.root.binds_len, 0);
    place_fini(&place);
}

/* A file is mounted on one of the image, or on an empty one that is made beside
 * it; never through a link. */
static void
test_points_that_are_files(void **state)
{
    char full[256];
    struct place place;
    struct stat st;

    (void)state;
    place_init(&place);
    make_in_image(&place, "etc");
    (void)snprintf(full, sizeof full, "%s/etc/app.ini", place.image);
    assert_int_equal(close(open(full, O_CREAT | O_WRONLY, 0644)), 0);
    assert_int_equal(make_kind(&place, WP_MOUNT_FILE, "/etc/app.ini"), WP_OK);
    place_fini(&place);

    place_init(&place);
    assert_int_equal(make_kind(&place, WP_MOUNT_FILE, "/conf/d/app.ini"),
                     WP_OK);
    (void)snprintf(full, sizeof full, "%s/conf/d/app.ini", place.root_dir);
    assert_int_equal(lstat(full, &st), 0);
    assert_true(S_ISREG(st.st_mode) && st.st_size == 0);
    place_fini(&place);

    place_init(&place);
    make_in_image(&place, "etc/dir");
    link_in_image(&place, "dir", "etc/link");
    link_in_image(&place, place.outside, "out");
    for (size_t i = 0; i < 4; i++) {
        static const char *const bad[] = {"/etc/none", "/etc/dir",
                                          "/etc/link/x", "/out/x"};

        assert_int_equal(make_kind(&place, WP_MOUNT_FILE, bad[i]),
                         WP_INVALID_ARGUMENT);
        assert_non_null(strstr(place.err.msg, bad[i]));
        wp_root_fini(&place.root);
        assert_int_equal(wp_dir_remove(place.root_dir, &place.err), WP_OK);
    }
    /* An optional one that is not there takes no place. */
    assert_int_equal(make_kind(&place, WP_MOUNT_NONE, "/etc/none"), WP_OK);
    place_fini(&place);
}

/* A directory is made where the sandbox sees it, never where a link leads. */
static void
test_points_through_links(void **state)
{
    static const char *const links[] = {"data", "home", "var", "srv"};
    char mount[64];
    struct place place;

    (void)state;
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        place_init(&place);
        link_in_image(&place, place.outside, links[i]);
        (void)snprintf(mount, sizeof mount, "/%s/made", links[i]);
        assert_int_equal(make(&place, mount), WP_INVALID_ARGUMENT);
        assert_non_null(strstr(place.err.msg, "a link of the image"));
        assert_non_null(strstr(place.err.msg, mount));
        place_fini(&place);
    }
    /* Within a directory of the image that is shown as it is. */
    place_init(&place);
    make_in_image(&place, "lib");
    link_in_image(&place, "../../outside", "lib/there");
    assert_int_equal(make(&place, "/lib/there"), WP_INVALID_ARGUMENT);
    assert_non_null(strstr(place.err.msg, "a link of the image"));
    place_fini(&place);
    place_init(&place);
    make_in_image(&place, "lib");
    assert_int_equal(make(&place, "/lib/not/there"), WP_INVALID_ARGUMENT);
    assert_non_null(strstr(place.err.msg, "is not a directory of the image"));
    place_fini(&place);
}

static void
test_plain_image(void **state)
{
    struct place place;
    char path[160];
    char target[64] = "";
    struct stat st;

    (void)state;
    place_init(&place);
    make_in_image(&place, "usr/bin");
    make_in_image(&place, "opt/tool");
    make_in_image(&place, "opt/warmpool");
    link_in_image(&place, "tool", "opt/alias");
    link_in_image(&place, "usr/bin", "bin");
    assert_int_equal(make(&place, "/data/in"), WP_OK);
    assert_int_equal(place.root.binds_len, 2);
    assert_true(shows(&place, "/usr") && shows(&place, "/opt/tool"));
    (void)snprintf(path, sizeof path, "%s/bin", place.root_dir);
    assert_int_equal(readlink(path, target, sizeof target - 1), 7);
    assert_string_equal(target, "usr/bin");
    (void)snprintf(path, sizeof path, "%s/opt/alias", place.root_dir);
    assert_int_equal(lstat(path, &st), 0);
    (void)snprintf(path, sizeof path, "%s/data/in", place.root_dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    place_fini(&place);
    /* Only links in its /opt. */
    place_init(&place);
    make_in_image(&place, "opt");
    link_in_image(&place, "/usr", "opt/alias");
    assert_int_equal(make(&place, "/usr/is/mine"), WP_OK);
    place_fini(&place);
}

static void
test_failures_keep_nothing_open(void **state)
{
    struct place place;
    char to[160];
    size_t before;

    (void)state;
    place_init(&place);
    (void)snprintf(to, sizeof to, "%s/copy", place.dir);
    make_in_image(&place, "lib");
    before = descriptors_count();
    /* A directory can be opened and not be read. */
    assert_int_equal(wp_file_copy(place.image, to, 0644, &place.err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(place.err.msg, "cannot write"));
    assert_int_equal(make(&place, "/lib/not/there"), WP_INVALID_ARGUMENT);
    assert_int_equal(descriptors_count(), before);
    place_fini(&place);
}

/* --- What fails, and how that is said --- */

static void
expect_refused(struct place *place, enum wp_status status, const char *text)
{
    size_t before = descriptors_count();

    assert_int_equal(make(place, NULL), status);
    assert_non_null(strstr(place->err.msg, text));
    assert_int_equal(descriptors_count(), before);
}

static void
write_file(const char *path)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

static void
test_image_that_is_none(void **state)
{
    struct place place;

    (void)state;
    place_init(&place);
    assert_int_equal(rmdir(place.image), 0);
    expect_refused(&place, WP_NOT_FOUND, "image directory");
    assert_non_null(strstr(place.err.msg, place.image));
    assert_non_null(strstr(place.err.msg, "No such file"));
    write_file(place.image);
    expect_refused(&place, WP_NOT_FOUND, "Not a directory");
    assert_int_equal(unlink(place.image), 0);
    place_fini(&place);
}

/* What the sandbox has of its own is not shown, nor is what is no directory,
 * file or link. */
static void
test_entries_left_out(void **state)
{
    static const char *const own[] = {"proc", "dev", "sys",       "tmp",
                                      "run",  "opt", "workspace", "lost+found"};
    struct place place;
    char path[160];

    (void)state;
    place_init(&place);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        make_in_image(&place, own[i]);
    }
    (void)snprintf(path, sizeof path, "%s/fifo", place.image);
    assert_int_equal(mkfifo(path, 0666), 0);
    make_in_image(&place, "shown");
    assert_int_equal(make(&place, NULL), WP_OK);
    assert_int_equal(place.root.binds_len, 1);
    assert_string_equal(place.root.binds[0].to, "/shown");
    place_fini(&place);
}

/* An image may have its program there. */
static void
test_files_at_the_top(void **state)
{
    struct place place;
    char path[160];
    struct stat st;

    (void)state;
    place_init(&place);
    (void)snprintf(path, sizeof path, "%s/program", place.image);
    write_file(path);
    link_in_image(&place, "program", "alias");
    assert_int_equal(make(&place, NULL), WP_OK);
    assert_int_equal(place.root.binds_len, 1);
    assert_string_equal(place.root.binds[0].from, path);
    assert_string_equal(place.root.binds[0].to, "/program");
    /* Mounted over: nothing of it is copied. */
    (void)snprintf(path, sizeof path, "%s/program", place.root_dir);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(st.st_size, 0);
    (void)snprintf(path, sizeof path, "%s/alias", place.root_dir);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    wp_root_fini(&place.root);
    /* A volume cannot lie below it. */
    assert_int_equal(make(&place, "/program/below"), WP_INVALID_ARGUMENT);
    assert_non_null(strstr(place.err.msg, "is not a directory of the image"));
    place_fini(&place);
}

static void
test_too_many_directories(void **state)
{
    struct place place;
    char name[16];

    (void)state;
    place_init(&place);
    for (int i = 0; i < WP_ROOT_BINDS_MAX; i++) {
        (void)snprintf(name, sizeof name, "d%d", i);
        make_in_image(&place, name);
    }
    assert_int_equal(make(&place, NULL), WP_OK);
    assert_int_equal(place.root.binds_len, WP_ROOT_BINDS_MAX);
    wp_root_fini(&place.root);
    make_in_image(&place, "one/too/many");
    expect_refused(&place, WP_INVALID_ARGUMENT,
                   "the image has more than 64 directories and files at its "
                   "top");
    place_fini(&place);
}

/* The state directory, or what lies where ours is to be. */
static void
test_root_in_the_way(void **state)
{
    struct place place;
    char path[160];
    char longer[WP_ROOT_PATH_MAX + 8];

    (void)state;
    place_init(&place);
    make_in_image(&place, "lib");
    write_file(place.root_dir);
    expect_refused(&place, WP_UNAVAILABLE, "cannot make");
    assert_int_equal(unlink(place.root_dir), 0);
    /* A file where the mount points' parent is to be. */
    assert_int_equal(mkdir(place.root_dir, 0755), 0);
    (void)snprintf(path, sizeof path, "%s/data", place.root_dir);
    write_file(path);
    assert_int_equal(make(&place, "/data/in"), WP_INVALID_ARGUMENT);
    assert_non_null(strstr(place.err.msg, "mountPath /data/in"));
    wp_root_fini(&place.root);

    memset(longer, 'x', sizeof longer - 1);
    longer[0] = '/';
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(wp_root_make(&place.root, longer, place.image,
                                  &(struct wp_template){.name = "t"},
                                  &place.err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(place.err.msg, "state path is too long");
    place_fini(&place);
}

/* What an earlier root has left there already is no failure. */
static void
test_made_again(void **state)
{
    struct place place;

    (void)state;
    place_init(&place);
    make_in_image(&place, "usr/bin");
    link_in_image(&place, "usr/bin", "bin");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(make(&place, "/data"), WP_OK);
        assert_int_equal(place.root.binds_len, 1);
        if (i == 0) {
            wp_root_fini(&place.root);
        }
    }
    place_fini(&place);
}

static void
test_files(void **state)
{
    struct place place;
    char from[160];
    char to[400];
    char part[200];
    char longer[WP_ROOT_PATH_MAX + 8];
    struct stat st;

    (void)state;
    place_init(&place);
    (void)snprintf(from, sizeof from, "%s/from", place.dir);
    (void)snprintf(to, sizeof to, "%s/to", place.dir);
    (void)snprintf(part, sizeof part, "%s/to.part", place.dir);
    assert_int_equal(wp_file_copy(from, to, 0644, &place.err), WP_NOT_FOUND);
    assert_non_null(strstr(place.err.msg, "cannot read"));
    write_file(from);
    write_file(part); /* Of a copy that was cut off. */
    assert_int_equal(wp_file_copy(from, to, 0640, &place.err), WP_OK);
    assert_int_equal(stat(to, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_not_equal(stat(part, &st), 0);
    /* A directory is not replaced, and nothing is left beside it. */
    (void)snprintf(to, sizeof to, "%s/image", place.dir);
    (void)snprintf(part, sizeof part, "%s/image.part", place.dir);
    assert_int_equal(wp_file_copy(from, to, 0640, &place.err), WP_UNAVAILABLE);
    assert_non_null(strstr(place.err.msg, "cannot write"));
    assert_int_not_equal(stat(part, &st), 0);
    (void)snprintf(to, sizeof to, "%s/not/there", place.dir);
    assert_int_equal(wp_file_copy(from, to, 0640, &place.err), WP_UNAVAILABLE);

    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(wp_dir_make("", 0755, &place.err), WP_INVALID_ARGUMENT);
    assert_int_equal(wp_dir_make(longer, 0755, &place.err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(place.err.msg, "directory path is empty or too long");
    /* What is not there need not be removed. */
    (void)snprintf(to, sizeof to, "%s/not/there", place.dir);
    assert_int_equal(wp_dir_remove(to, &place.err), WP_OK);
    place_fini(&place);
}

/* A volume may lie where the image has a directory for it. */
static void
test_mount_in_the_image(void **state)
{
    struct place place;

    (void)state;
    place_init(&place);
    make_in_image(&place, "lib/here/inside");
    assert_int_equal(make(&place, "/lib/here"), WP_OK);
    assert_int_equal(place.root.binds_len, 1);
    place_fini(&place);
    place_init(&place);
    make_in_image(&place, "lib/here/inside");
    assert_int_equal(make(&place, "/lib/here/inside"), WP_OK);
    place_fini(&place);
}

/* With ever more descriptors to be had it fails ever later, each time with a
 * word and with all that it had opened closed. */
static void
test_without_descriptors(void **state)
{
    struct place place;
    struct rlimit before;
    struct rlimit few;
    size_t open_before;
    unsigned failures = 0;
    int lowest;

    (void)state;
    place_init(&place);
    make_in_image(&place, "opt/tool");
    make_in_image(&place, "lib/here");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    open_before = descriptors_count();
    lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(lowest >= 0);
    (void)close(lowest);
    for (int more = 0;; more++) {
        enum wp_status status;

        few = (struct rlimit){(rlim_t)(lowest + more), before.rlim_max};
        place.err.msg[0] = '\0';
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        status = make(&place, "/lib/here");
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(descriptors_count(), open_before);
        if (status == WP_OK) {
            assert_true(shows(&place, "/opt/tool"));
            break;
        }
        /* That is why, and not what the image has or lacks. */
        assert_non_null(strstr(place.err.msg, "Too many open files"));
        failures++;
        wp_root_fini(&place.root);
        assert_in_range(more, 0, 16);
    }
    assert_true(failures >= 3);
    place_fini(&place);
}

/* The machine's own root: its programs, and an /etc that names nobody of it. */
static void
test_host(void **state)
{
    const struct wp_template tmpl = {.name = "t"};
    struct place place;
    char path[160];
    char text[512] = "";
    FILE *file;

    (void)state;
    place_init(&place);
    assert_int_equal(
        wp_root_make(&place.root, place.root_dir, NULL, &tmpl, &place.err),
        WP_OK);
    assert_true(shows(&place, "/usr"));
    assert_false(shows(&place, "/home") || shows(&place, "/etc") ||
                 shows(&place, "/var") || shows(&place, "/root"));
    (void)snprintf(path, sizeof path, "%s/var/tmp", place.root_dir);
    assert_int_equal(readlink(path, text, sizeof text - 1), 4);
    assert_string_equal(text, "/tmp");
    (void)snprintf(path, sizeof path, "%s/etc/passwd", place.root_dir);
    file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    assert_int_equal(fclose(file), 0);
    assert_non_null(strstr(text, "sandbox:x:1000:1000:"));
    (void)snprintf(path, sizeof path, "%s/etc/ld.so.cache", place.root_dir);
    assert_int_equal(access(path, R_OK), access("/etc/ld.so.cache", R_OK));
    (void)snprintf(path, sizeof path, "%s/etc/shadow", place.root_dir);
    assert_int_not_equal(access(path, F_OK), 0);
    wp_root_fini(&place.root); /* They do not lie in the image. */
    place_fini(&place);
}

/* An image that cannot be listed to its end is not shown in part. */
static void
test_image_that_cannot_be_listed(void **state)
{
    struct place place;

    (void)state;
    place_init(&place);
    make_in_image(&place, "usr");
    end_errno = EIO;
    assert_int_equal(make(&place, NULL), WP_NOT_FOUND);
    end_errno = 0;
    assert_non_null(strstr(place.err.msg, place.image));
    assert_non_null(strstr(place.err.msg, "Input/output error"));
    place_fini(&place);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_image_that_is_none),
        cmocka_unit_test(test_entries_left_out),
        cmocka_unit_test(test_files_at_the_top),
        cmocka_unit_test(test_too_many_directories),
        cmocka_unit_test(test_root_in_the_way),
        cmocka_unit_test(test_made_again),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_mount_in_the_image),
        cmocka_unit_test(test_without_descriptors),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_opt_that_leads_out),
        cmocka_unit_test(test_points_that_are_files),
        cmocka_unit_test(test_points_through_links),
        cmocka_unit_test(test_plain_image),
        cmocka_unit_test(test_failures_keep_nothing_open),
        cmocka_unit_test(test_image_that_cannot_be_listed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
