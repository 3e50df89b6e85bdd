/* tests/unit/proto/parcel/parcel_bind_test.c - what a claim brings, put in its
 * place: nothing lands elsewhere, whatever is there before. */
#include <errno.h>
#include <fcntl.h>
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
#include "pool/base/compiler.h"
#include "proto/parcel/bind.h"
#include "proto/parcel/parcel.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/journal.h"
#include "tests/support/base/temp_dir.h"

extern char **environ;

static char dir[256];
static char bound[300];
static char workspace[300];
static uint8_t parcel[1 << 17];
static size_t parcel_len;
static struct wp_bind_command command;
static char why[WP_BIND_WHY_MAX];

/* ------------------------------------------------- a machine that fails */

static const char *failing; /* A function. */
static unsigned fails_in;
static size_t write_max; /* 0: all of it. */

void *__wrap_malloc(size_t size);
void *__real_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);
int __wrap_open(const char *path, int flags, ...);
int __real_open(const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, ...);
int __real_openat(int at, const char *path, int flags, ...);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __real_write(int fd, const void *bytes, size_t len);
int __wrap_fchmod(int fd, mode_t mode);
int __real_fchmod(int fd, mode_t mode);
int __wrap_mkdirat(int at, const char *path, mode_t mode);
int __real_mkdirat(int at, const char *path, mode_t mode);
int __wrap_unlinkat(int at, const char *path, int flags);
int __real_unlinkat(int at, const char *path, int flags);
int __wrap_renameat(int from, const char *old, int to, const char *new);
int __real_renameat(int from, const char *old, int to, const char *new);
int __wrap_close(int fd);
int __real_close(int fd);

static void
fail_at(const char *function, unsigned nth)
{
    failing = function;
    fails_in = nth;
}

static bool
fails(const char *function, int error)
{
    if (failing == NULL || strcmp(failing, function) != 0 || fails_in == 0 ||
        --fails_in != 0) {
        return false;
    }
    errno = error;
    return true;
}

void *
__wrap_malloc(size_t size)
{
    return fails("malloc", ENOMEM) ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails("calloc", ENOMEM) ? NULL : __real_calloc(n, size);
}

int
__wrap_open(const char *path, int flags, ...)
{
    return fails("open", EMFILE) ? -1 : __real_open(path, flags, 0);
}

int
__wrap_openat(int at, const char *path, int flags, ...)
{
    if (fails("openat", EMFILE)) {
        return -1;
    }
    if ((flags & O_CREAT) != 0) {
        va_list args;
        mode_t mode;

        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
        return __real_openat(at, path, flags, mode);
    }
    return __real_openat(at, path, flags);
}

ssize_t
__wrap_write(int fd, const void *bytes, size_t len)
{
    if (fails("write", ENOSPC)) {
        return -1;
    }
    if (fails("nothing written", ENOSPC)) {
        return 0;
    }
    return __real_write(fd, bytes,
                        write_max > 0 && len > write_max ? write_max : len);
}

int
__wrap_fchmod(int fd, mode_t mode)
{
    return fails("fchmod", EROFS) ? -1 : __real_fchmod(fd, mode);
}

int
__wrap_mkdirat(int at, const char *path, mode_t mode)
{
    return fails("mkdirat", EDQUOT) ? -1 : __real_mkdirat(at, path, mode);
}

int
__wrap_unlinkat(int at, const char *path, int flags)
{
    return fails("unlinkat", EBUSY) ? -1 : __real_unlinkat(at, path, flags);
}

int
__wrap_renameat(int from, const char *old, int to, const char *new)
{
    return fails("renameat", EXDEV) ? -1 : __real_renameat(from, old, to, new);
}

/* Tells something else than what came before it. */
int
__wrap_close(int fd)
{
    int rc = __real_close(fd);

    errno = EIO;
    return rc;
}

static int
set_up(void **state)
{
    (void)state;
    temp_dir_make_fast(dir, sizeof dir);
    (void)snprintf(bound, sizeof bound, "%s/bound", dir);
    (void)snprintf(workspace, sizeof workspace, "%s/work", dir);
    assert_int_equal(mkdir(bound, 0700), 0);
    assert_int_equal(mkdir(workspace, 0755), 0);
    parcel_len = 0;
    why[0] = '\0';
    failing = NULL;
    write_max = 0;
    journal_drop();
    return 0;
}

static int
tear_down(void **state)
{
    struct wp_err err;

    (void)state;
    wp_bind_command_fini(&command);
    return wp_dir_remove(dir, &err) == WP_OK ? 0 : -1;
}

static void
put(enum wp_parcel_kind kind, uint32_t number, const char *first,
    const char *second)
{
    const struct wp_parcel_entry entry = {
        .kind = kind,
        .number = number,
        .first_len = strlen(first),
        .second_len = strlen(second),
    };

    assert_true(parcel_len + WP_PARCEL_HEAD + entry.first_len +
                    entry.second_len <=
                sizeof parcel);
    wp_parcel_put_head(&entry, parcel + parcel_len);
    parcel_len += WP_PARCEL_HEAD;
    memcpy(parcel + parcel_len, first, entry.first_len);
    parcel_len += entry.first_len;
    memcpy(parcel + parcel_len, second, entry.second_len);
    parcel_len += entry.second_len;
}

static bool
take(void)
{
    /* Whatever is there before. */
    memset(&command, 0xa5, sizeof command);
    return wp_bind_take(bound, workspace, parcel, parcel_len, &command, why);
}

static const char *
at(const char *base, const char *name)
{
    static char path[700];

    (void)snprintf(path, sizeof path, "%s/%s", base, name);
    return path;
}

static void
expect_file(const char *base, const char *name, const char *content, size_t len,
            mode_t mode)
{
    char got[256];
    struct stat st;
    int fd = open(at(base, name), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    assert_true(fd >= 0);
    assert_int_equal(read(fd, got, sizeof got), len);
    assert_memory_equal(got, content, len);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
    (void)close(fd);
}

static const char *
secret(const char *name)
{
    static char path[700];

    (void)snprintf(path, sizeof path, "%s/secrets/%s", bound, name);
    return path;
}

static void
expect_length(const char *base, const char *name, size_t len)
{
    struct stat st;

    assert_int_equal(stat(at(base, name), &st), 0);
    assert_int_equal(st.st_size, len);
}

static void
expect_refused(const char *says)
{
    assert_false(take());
    assert_string_equal(why, says);
    wp_bind_command_fini(&command);
    parcel_len = 0;
}

static void
make_file(const char *path, const char *content)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(content, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void
test_all(void **state)
{
    static const char env[] = "A=1\0TOKEN=s\0B=two\nlines";
    struct stat st;
    char cwd[400];

    (void)state;
    put(WP_PARCEL_ENV, 0, "A", "1");
    put(WP_PARCEL_SECRET, 1, "TOKEN", "s");
    put(WP_PARCEL_SECRET, 0, "tls.key", "k");
    put(WP_PARCEL_ENV, 0, "B", "two\nlines");
    put(WP_PARCEL_FILE, 0640, "a", "x");
    put(WP_PARCEL_FILE, 0755, "deep/er/run.sh", "#!");
    put(WP_PARCEL_FILE, 0644, "empty", "");
    put(WP_PARCEL_DIR, 0, "deep/wd", "");
    put(WP_PARCEL_WORD, 0, "sh", "");
    put(WP_PARCEL_WORD, 0, "", "");
    put(WP_PARCEL_WORD, 0, "-c", "");
    assert_true(take());
    expect_file(bound, "env", env, sizeof env, 0400);
    expect_file(bound, "secrets/TOKEN", "s", 1, 0400);
    expect_file(bound, "secrets/tls.key", "k", 1, 0400);
    (void)snprintf(cwd, sizeof cwd, "%s/deep/wd", workspace);
    expect_file(bound, "cwd", cwd, strlen(cwd), 0400);
    assert_int_equal(stat(at(bound, "secrets"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    expect_file(workspace, "a", "x", 1, 0640);
    expect_file(workspace, "deep/er/run.sh", "#!", 2, 0755);
    expect_file(workspace, "empty", "", 0, 0644);
    assert_string_equal(command.argv[0], "sh");
    assert_string_equal(command.argv[1], "");
    assert_string_equal(command.argv[2], "-c");
    assert_null(command.argv[3]);
    assert_true(command.dir_fd >= 0);
}

/* Its own variables in place of what this process has, and the rest of that in
 * its order. */
static void
test_environment(void **state)
{
    static const char *const own[] = {"WP_TEST_A=new", "B=", "TOKEN=s",
                                      "WP_TEST_ABC=x"};
    size_t n = WP_ARRAY_LEN(own);

    (void)state;
    assert_int_equal(setenv("WP_TEST_A", "old", 1), 0);
    assert_int_equal(setenv("WP_TEST_AB", "kept", 1), 0);
    assert_int_equal(setenv("WP_TEST_ABC", "old", 1), 0);
    put(WP_PARCEL_ENV, 0, "WP_TEST_A", "new");
    put(WP_PARCEL_ENV, 0, "B", "");
    put(WP_PARCEL_SECRET, 1, "TOKEN", "s");
    put(WP_PARCEL_ENV, 0, "WP_TEST_ABC", "x");
    put(WP_PARCEL_WORD, 0, "true", "");
    assert_true(take());
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(command.env[i], own[i]);
    }
    for (size_t i = 0; environ[i] != NULL; i++) {
        if (strncmp(environ[i], "WP_TEST_A=", 10) != 0 &&
            strncmp(environ[i], "WP_TEST_ABC=", 12) != 0) {
            assert_string_equal(command.env[n++], environ[i]);
        }
    }
    assert_null(command.env[n]);
    assert_true(n > WP_ARRAY_LEN(own));
}

static void
test_nothing_to_start(void **state)
{
    (void)state;
    put(WP_PARCEL_ENV, 0, "A", "1");
    assert_true(take());
    assert_null(command.argv);
    assert_null(command.env);
    assert_null(command.identity);
    assert_int_equal(command.dir_fd, -1);
    assert_true(wp_bind_is_identified(bound, &command, why));
}

/* It is told of by a variable, once it is there; later ones take its place. */
static void
test_identity(void **state)
{
    char message[400];
    int n;

    (void)state;
    put(WP_PARCEL_IDENTITY, 0, "WARMPOOL_IDENTITY_FILE", "");
    assert_true(take());
    assert_false(wp_bind_is_identified(bound, &command, why));
    (void)snprintf(message, sizeof message,
                   "identity 'WARMPOOL_IDENTITY_FILE': %s", strerror(ENOENT));
    assert_string_equal(why, message);
    assert_true(wp_bind_identity(bound, "one", 3));
    assert_true(wp_bind_is_identified(bound, &command, why));
    n = snprintf(message, sizeof message, "WARMPOOL_IDENTITY_FILE=%s/identity",
                 bound);
    expect_file(bound, "env", message, (size_t)n + 1, 0400);
    expect_file(bound, "identity", "one", 3, 0400);
    assert_true(wp_bind_identity(bound, "another", 7));
    expect_file(bound, "identity", "another", 7, 0400);
    assert_int_not_equal(access(at(bound, "identity.new"), F_OK), 0);
    assert_false(wp_bind_identity(at(bound, "none"), "x", 1));
    wp_bind_command_fini(&command);
    put(WP_PARCEL_IDENTITY, 0, "B", "/x"); /* A second one. */
    (void)snprintf(message, sizeof message, "identity 'B': %s",
                   strerror(EEXIST));
    expect_refused(message);
}

/* A link is replaced or refused, never followed. */
static void
test_links(void **state)
{
    char outside[300];
    char message[200];

    (void)state;
    (void)snprintf(outside, sizeof outside, "%s/outside", dir);
    make_file(outside, "kept");
    assert_int_equal(symlink(outside, at(workspace, "link")), 0);
    assert_int_equal(symlink(dir, at(workspace, "up")), 0);
    put(WP_PARCEL_FILE, 0644, "link", "new");
    assert_true(take());
    wp_bind_command_fini(&command);
    parcel_len = 0;
    expect_file(workspace, "link", "new", 3, 0644);
    expect_file(dir, "outside", "kept", 4, 0600);
    put(WP_PARCEL_FILE, 0644, "up/outside", "x");
    (void)snprintf(message, sizeof message, "file 'up/outside': %s",
                   strerror(ENOTDIR));
    expect_refused(message);
    put(WP_PARCEL_DIR, 0, "up", "");
    (void)snprintf(message, sizeof message, "working_dir 'up': %s",
                   strerror(ENOTDIR));
    expect_refused(message);
    expect_file(dir, "outside", "kept", 4, 0600);
}

/* What would hold up who opens it is replaced unopened. */
static void
test_pipes(void **state)
{
    char message[200];

    (void)state;
    assert_int_equal(mkfifo(at(workspace, "pipe"), 0600), 0);
    assert_int_equal(mkfifo(at(workspace, "dir"), 0600), 0);
    assert_int_equal(mkdir(at(workspace, "folder"), 0700), 0);
    put(WP_PARCEL_FILE, 0600, "pipe", "x");
    assert_true(take());
    wp_bind_command_fini(&command);
    parcel_len = 0;
    expect_file(workspace, "pipe", "x", 1, 0600);
    put(WP_PARCEL_FILE, 0600, "dir/x", "x");
    (void)snprintf(message, sizeof message, "file 'dir/x': %s",
                   strerror(ENOTDIR));
    expect_refused(message);
    put(WP_PARCEL_FILE, 0600, "folder", "x");
    (void)snprintf(message, sizeof message, "file 'folder': %s",
                   strerror(EISDIR));
    expect_refused(message);
}

/* The daemon has checked all of it; should it not have, nothing happens. */
static void
test_what_leads_out(void **state)
{
    static const char *const paths[] = {"../x", "a/../../x", "/x",
                                        "..",   "./x",       "a/./x",
                                        "a/",   "a//x",      "a/../b"};
    char message[200];

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        put(WP_PARCEL_FILE, 0644, paths[i], "x");
        (void)snprintf(message, sizeof message, "file '%s': %s", paths[i],
                       strerror(EINVAL));
        expect_refused(message);
    }
    assert_int_not_equal(access(at(dir, "x"), F_OK), 0);
    put(WP_PARCEL_SECRET, 0, "../../x", "x");
    (void)snprintf(message, sizeof message, "secret '../../x': %s",
                   strerror(EINVAL));
    expect_refused(message);
    put(WP_PARCEL_DIR, 0, "/no/such/folder", "");
    (void)snprintf(message, sizeof message, "working_dir '/no/such/folder': %s",
                   strerror(ENOENT));
    expect_refused(message);
}

/* A path that the kernel would read in another way than whoever judges it. */
static void
test_nul_in_a_path(void **state)
{
    static const char *const paths[] = {"..#/x", "a/..#/..#/x", ".#/x", "x#y",
                                        "/tmp#x"};
    static const enum wp_parcel_kind kinds[] = {WP_PARCEL_FILE, WP_PARCEL_DIR,
                                                WP_PARCEL_SECRET};

    (void)state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            put(kinds[k], 0644, paths[i], "x");
            for (size_t j = 0; paths[i][j] != '\0'; j++) {
                if (paths[i][j] == '#') {
                    parcel[WP_PARCEL_HEAD + j] = '\0';
                }
            }
            assert_false(take());
            assert_non_null(strstr(why, strerror(EINVAL)));
            wp_bind_command_fini(&command);
            parcel_len = 0;
        }
    }
    assert_int_not_equal(access(at(dir, "x"), F_OK), 0);
    assert_int_not_equal(access(at(workspace, "x"), F_OK), 0);
}

static void
test_no_parcel(void **state)
{
    (void)state;
    put(WP_PARCEL_ENV, 0, "A", "1");
    parcel_len--;
    expect_refused("what came is no binding");
    put(WP_PARCEL_ENV, 0, "A", "1");
    parcel[0] = 99;
    expect_refused("what came is no binding");
    put(WP_PARCEL_ENV, 0, "A", "1");
    memset(parcel + 8, 0xff, 4);
    expect_refused("what came is no binding");
    assert_int_not_equal(access(at(bound, "env"), F_OK), 0);
}

/* What was said, without where the test's folder is. */
static void
journal_why(void)
{
    const char *text = why;

    for (const char *here; (here = strstr(text, dir)) != NULL;
         text = here + strlen(dir)) {
        journal("%.*s~", (int)(here - text), text);
    }
    journal("%s", text);
}

static void
put_everything(void)
{
    parcel_len = 0;
    put(WP_PARCEL_ENV, 0, "A", "1");
    put(WP_PARCEL_SECRET, 1, "TOKEN", "s");
    put(WP_PARCEL_SECRET, 0, "key", "k");
    put(WP_PARCEL_FILE, 0640, "there", "new");
    put(WP_PARCEL_FILE, 0755, "deep/er/run.sh", "#!");
    put(WP_PARCEL_IDENTITY, 0, "ID", "/x");
    put(WP_PARCEL_DIR, 0, "work/dir", "");
    put(WP_PARCEL_WORD, 0, "sh", "");
}

/* Each call fails in its turn: it is said of what, nothing is left open, and
 * what may be asked again is as it was. */
static void
test_a_machine_that_fails(void **state)
{
    static const char *const calls[] = {
        "open",    "openat",   "write",  "nothing written", "fchmod",
        "mkdirat", "unlinkat", "malloc", "calloc",
    };
    struct wp_err err;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        bool taken = false;

        for (unsigned nth = 1; !taken; nth++) {
            size_t before = descriptors_count();

            make_file(at(workspace, "there"), "old");
            put_everything();
            fail_at(calls[i], nth);
            why[0] = '\0';
            taken = take();
            fail_at(NULL, 0);
            journal("%s %u: ", calls[i], nth);
            journal_why();
            journal("%s%s", command.argv != NULL ? " words" : "",
                    command.env != NULL ? " variables" : "");
            journal_line();
            wp_bind_command_fini(&command);
            assert_null(command.text);
            assert_int_equal(descriptors_count(), before);
            assert_int_equal(wp_dir_remove(bound, &err), WP_OK);
            assert_int_equal(wp_dir_remove(workspace, &err), WP_OK);
            assert_int_equal(mkdir(bound, 0700), 0);
            assert_int_equal(mkdir(workspace, 0755), 0);
        }
    }
    journal_compare(WP_TEST_GOLDEN "/bind_failures.txt");
}

static void
test_identity_failures(void **state)
{
    static const char *const calls[] = {"open",   "openat",   "write",
                                        "fchmod", "renameat", "none"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        size_t before = descriptors_count();

        fail_at(calls[i], 1);
        assert_int_equal(wp_bind_identity(bound, "x", 1), i == 5);
        assert_int_equal(descriptors_count(), before);
    }
    expect_file(bound, "identity", "x", 1, 0400);
}

static void
test_what_is_written_bit_by_bit(void **state)
{
    (void)state;
    write_max = 1;
    put(WP_PARCEL_FILE, 0600, "a", "whole");
    assert_true(take());
    expect_file(workspace, "a", "whole", 5, 0600);
}

/* A name has at most 255 letters. */
static void
test_the_longest_names(void **state)
{
    char name[257];
    struct wp_err err;

    (void)state;
    for (size_t len = 254; len <= 256; len++) {
        memset(name, 'n', len);
        name[len] = '\0';
        put(WP_PARCEL_SECRET, 0, name, "v");
        put(WP_PARCEL_FILE, 0600, name, "w");
        if (len == 256) {
            assert_false(take());
        } else {
            assert_true(take());
            assert_int_equal(access(secret(name), F_OK), 0);
            assert_int_equal(access(at(workspace, name), F_OK), 0);
            assert_int_equal(wp_dir_remove(at(bound, "secrets"), &err), WP_OK);
        }
        wp_bind_command_fini(&command);
        parcel_len = 0;
    }
    put(WP_PARCEL_FILE, 0600, name, "w");
    assert_false(take());
}

/* Of a name that is refused 60 letters are shown. */
static void
test_names_are_shown_in_part(void **state)
{
    (void)state;
    for (size_t len = 58; len <= 62; len++) {
        char name[63];
        char says[160];

        memset(name, 'n', len);
        name[0] = 'a';
        name[len - 1] = '/';
        name[len] = '\0';
        put(WP_PARCEL_SECRET, 0, name, "v");
        (void)snprintf(says, sizeof says, "secret '%.60s': Invalid argument",
                       name);
        expect_refused(says);
    }
}

/* A place of the machine, spelled with so many letters. */
static void
spell_root(char *out, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        out[i] = i % 2 == 0 ? '/' : '.';
    }
    out[len] = '\0';
}

static void
test_the_longest_working_dir(void **state)
{
    char path[1100];

    (void)state;
    for (size_t len = 1022; len <= 1025; len++) {
        bool ok;

        spell_root(path, len);
        put(WP_PARCEL_DIR, 0, path, "");
        ok = take();
        assert_int_equal(ok, len < 1024);
        assert_int_equal(command.dir_fd >= 0, ok);
        if (!ok) {
            assert_non_null(strstr(why, strerror(ENAMETOOLONG)));
        } else {
            expect_length(bound, "cwd", len);
        }
        wp_bind_command_fini(&command);
        parcel_len = 0;
    }
    put(WP_PARCEL_DIR, 0, "", "");
    expect_refused("working_dir '': Invalid argument");
}

/* The path of its file is told with all its letters. */
static void
test_the_longest_identity(void **state)
{
    char path[5000];
    size_t len = strlen(bound);

    (void)state;
    for (size_t all = 4085; all <= 4088; all++) {
        bool ok;

        /* "/./././" in front of it. */
        spell_root(path, all - len);
        path[0] = '/';
        memcpy(path + all - len, bound, len + 1);
        if ((all - len) % 2 == 0) {
            path[all - len - 1] = '/';
        }
        put(WP_PARCEL_IDENTITY, 0, "I", "");
        put(WP_PARCEL_WORD, 0, "w", "");
        ok = wp_bind_take(path, workspace, parcel, parcel_len, &command, why);
        assert_int_equal(ok, all + strlen("/identity") < 4096);
        if (ok) {
            char told[5100];

            (void)snprintf(told, sizeof told, "I=%s/identity", path);
            assert_string_equal(command.identity, told);
            assert_string_equal(command.env[0], told);
            assert_string_equal(command.argv[0], "w");
        } else {
            assert_string_equal(why, "identity 'I': File name too long");
        }
        wp_bind_command_fini(&command);
        parcel_len = 0;
    }
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_all),
        TEST(test_environment),
        TEST(test_nothing_to_start),
        TEST(test_identity),
        TEST(test_links),
        TEST(test_pipes),
        TEST(test_what_leads_out),
        TEST(test_nul_in_a_path),
        TEST(test_no_parcel),
        TEST(test_a_machine_that_fails),
        TEST(test_identity_failures),
        TEST(test_what_is_written_bit_by_bit),
        TEST(test_the_longest_names),
        TEST(test_names_are_shown_in_part),
        TEST(test_the_longest_working_dir),
        TEST(test_the_longest_identity),
    };

    /* The modes are the files' own. */
    (void)umask(077);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
