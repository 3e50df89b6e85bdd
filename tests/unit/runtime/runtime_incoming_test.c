/* A file that is being written: it appears whole, or nothing is left of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files/incoming.h"
#include "tests/support/base/temp_dir.h"

enum {
    NOBODY = 65534,
    PATH_BYTES = 800,
};

struct fixture {
    char root[512];
    struct wp_workspace workspace;
    struct wp_incoming file;
};

static struct fixture *
begin(const char *path)
{
    static struct fixture f;
    struct wp_err err;

    temp_dir_make(f.root, sizeof f.root);
    assert_int_equal(wp_workspace_init(&f.workspace, f.root, &err), WP_OK);
    wp_incoming_init(&f.file);
    (void)snprintf(f.file.path, sizeof f.file.path, "%s", path);
    return &f;
}

/* Discards it, twice: nothing that another has opened since is closed. */
static void
end(struct fixture *f)
{
    int other;

    wp_incoming_discard(&f->file);
    other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(other >= 0);
    wp_incoming_discard(&f->file);
    assert_int_equal(close(other), 0);
    wp_workspace_fini(&f->workspace);
    temp_dir_remove(f->root);
    assert_int_equal(access(f->root, F_OK), -1);
}

static const char *
at(const struct fixture *f, const char *name)
{
    static char path[PATH_BYTES];

    (void)snprintf(path, sizeof path, "%s/%s", f->root, name);
    return path;
}

static unsigned
entries(const struct fixture *f)
{
    DIR *dir = opendir(f->root);
    unsigned n = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        n++;
    }
    (void)closedir(dir);
    return n - 2; /* Itself, and the one above. */
}

static void
expect_text(const struct fixture *f, const char *name, const char *text)
{
    char got[64] = "";
    int fd = open(at(f, name), O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_true(read(fd, got, sizeof got - 1) >= 0);
    (void)close(fd);
    assert_string_equal(got, text);
}

static void
put_file(const struct fixture *f, const char *name, const char *text)
{
    int fd = open(at(f, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
}

static void
appears_when_all_of_it_is_there(void **state)
{
    struct fixture *f = begin("name");

    (void)state;
    put_file(f, "name", "old");
    assert_int_equal(wp_incoming_open(&f->file, &f->workspace), 0);
    assert_int_equal(wp_incoming_write(&f->file, "ne", 2), 0);
    assert_int_equal(wp_incoming_write(&f->file, "", 0), 0);
    assert_int_equal(wp_incoming_write(&f->file, "w", 1), 0);
    assert_int_equal(f->file.written, 3);
    expect_text(f, "name", "old");
    assert_int_equal(wp_incoming_commit(&f->file), 0);
    assert_string_equal(f->file.temp, "");
    assert_int_equal(f->file.fd, -1);
    expect_text(f, "name", "new");
    /* It has its name, and stays. */
    wp_incoming_discard(&f->file);
    expect_text(f, "name", "new");
    assert_int_equal(entries(f), 1);
    end(f);
}

static void
is_gone_when_discarded(void **state)
{
    struct fixture *f = begin("name");

    (void)state;
    put_file(f, "name", "old");
    assert_int_equal(wp_incoming_open(&f->file, &f->workspace), 0);
    assert_int_equal(wp_incoming_write(&f->file, "half", 4), 0);
    assert_int_equal(entries(f), 2);
    wp_incoming_discard(&f->file);
    assert_int_equal(entries(f), 1);
    expect_text(f, "name", "old");
    end(f);
}

static void
a_full_disk_is_told(void **state)
{
    struct fixture *f = begin("name");
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

    (void)state;
    assert_true(full >= 0);
    assert_int_equal(wp_incoming_open(&f->file, &f->workspace), 0);
    assert_true(dup3(full, f->file.fd, O_CLOEXEC) >= 0);
    (void)close(full);
    assert_int_equal(wp_incoming_write(&f->file, "x", 1), ENOSPC);
    assert_int_equal(f->file.written, 0);
    wp_incoming_discard(&f->file);
    assert_int_equal(entries(f), 0);
    end(f);
}

/* A folder took the name meanwhile. */
static void
what_cannot_have_its_name_is_removed(void **state)
{
    struct fixture *f = begin("name");

    (void)state;
    assert_int_equal(wp_incoming_open(&f->file, &f->workspace), 0);
    assert_int_equal(mkdir(at(f, "name"), 0700), 0);
    assert_int_equal(wp_incoming_commit(&f->file), EISDIR);
    assert_int_equal(f->file.fd, -1);
    wp_incoming_discard(&f->file);
    assert_int_equal(entries(f), 1);
    assert_int_equal(rmdir(at(f, "name")), 0);
    end(f);
}

static void
refuses_what_is_no_file(void **state)
{
    struct fixture *f = begin("name");

    (void)state;
    assert_int_equal(mkdir(at(f, "name"), 0700), 0);
    assert_int_equal(wp_incoming_open(&f->file, &f->workspace), EISDIR);
    wp_incoming_discard(&f->file);
    assert_int_equal(entries(f), 1);
    assert_int_equal(rmdir(at(f, "name")), 0);
    (void)snprintf(f->file.path, sizeof f->file.path, "..");
    assert_int_equal(wp_incoming_open(&f->file, &f->workspace), EXDEV);
    assert_int_equal(f->file.dir, -1);
    put_file(f, "plain", "x");
    (void)snprintf(f->file.path, sizeof f->file.path, "plain/name");
    assert_int_equal(wp_incoming_open(&f->file, &f->workspace), ENOTDIR);
    assert_int_equal(f->file.dir, -1);
    end(f);
}

/* Of a folder in which nothing may be made; root may, so it is nobody then. */
static void
leaves_alone_what_it_could_not_make(void **state)
{
    struct fixture *f = begin("folder/name");
    uid_t self = geteuid();
    int status;

    (void)state;
    assert_int_equal(chmod(f->workspace.root, 0755), 0);
    assert_int_equal(mkdir(at(f, "folder"), 0555), 0);
    assert_int_equal(seteuid(self == 0 ? NOBODY : self), 0);
    status = wp_incoming_open(&f->file, &f->workspace);
    assert_int_equal(seteuid(self), 0);
    assert_int_equal(status, EACCES);
    assert_string_equal(f->file.temp, "");
    wp_incoming_discard(&f->file);
    assert_int_equal(rmdir(at(f, "folder")), 0);
    end(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appears_when_all_of_it_is_there),
        cmocka_unit_test(is_gone_when_discarded),
        cmocka_unit_test(a_full_disk_is_told),
        cmocka_unit_test(what_cannot_have_its_name_is_removed),
        cmocka_unit_test(refuses_what_is_no_file),
        cmocka_unit_test(leaves_alone_what_it_could_not_make),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
