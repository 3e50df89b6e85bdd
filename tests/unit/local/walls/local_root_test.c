/* tests/unit/local/walls/local_root_test.c - the root of a sandbox, made from
 * images that try to get out of theirs. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/walls/rootfs.h"

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
make(struct place *place, const char *mount)
{
    const struct wp_template_mount mounts[] = {{mount, 4096, false}};
    const struct wp_template tmpl = {
        .name = "t", .mounts = mounts, .mounts_len = mount != NULL ? 1 : 0};

    return wp_root_make(&place->root, place->root_dir, place->image, &tmpl,
                        &place->err);
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

static unsigned
count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    (void)closedir(dir);
    return count;
}

static void
test_failures_keep_nothing_open(void **state)
{
    struct place place;
    char to[160];
    unsigned before;

    (void)state;
    place_init(&place);
    (void)snprintf(to, sizeof to, "%s/copy", place.dir);
    make_in_image(&place, "lib");
    before = count_descriptors();
    /* A directory can be opened and not be read. */
    assert_int_equal(wp_file_copy(place.image, to, 0644, &place.err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(place.err.msg, "cannot write"));
    assert_int_equal(make(&place, "/lib/not/there"), WP_INVALID_ARGUMENT);
    assert_int_equal(count_descriptors(), before);
    place_fini(&place);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opt_that_leads_out),
        cmocka_unit_test(test_points_through_links),
        cmocka_unit_test(test_plain_image),
        cmocka_unit_test(test_failures_keep_nothing_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
