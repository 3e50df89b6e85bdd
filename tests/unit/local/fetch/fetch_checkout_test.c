/* local/fetch/checkout.c, call by call: what git is asked for, what is done in
 * the cache's folder and in which order, and what comes of it. git, the writer
 * of images and whatever is to fail are the test's own. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/fetch/checkout.h"
#include "local/fetch/git.h"
#include "local/fetch/tree_write.h"
#include "local/walls/rootfs.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/temp_dir.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define URL "https://host/repo"

enum {
    ANSWERS_MAX = 4,
    LISTING_MAX = 64 << 10, /* Of what is kept of git's words. */
};

struct answer {
    const char *word; /* What git is told to do. */
    const char *text;
    size_t len;
    const char *error; /* NULL: it does it. */
};

static struct {
    char dir[512];
    bool on;
    bool quiet;        /* Nothing of what goes well is noted. */
    int calls;         /* So far. */
    int fail_at;       /* That one; 0: none. */
    const char *image; /* Made by another while the lock is waited for. */
    const char *tree_error;
    const char *stuck; /* What cannot be removed. */
    struct answer answers[ANSWERS_MAX];
    uint64_t bytes_max;
    int config_fd;
} rig;
static struct golden seen;

static void note(const char *fmt, ...) WP_PRINTF(1, 2);

static void
note(const char *fmt, ...)
{
    char text[2048];
    const char *at = text;
    const char *here;
    va_list ap;

    if (!rig.on || rig.quiet) {
        return;
    }
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    while ((here = strstr(at, rig.dir)) != NULL) {
        golden_add(&seen, "%.*sHERE", (int)(here - at), at);
        at = here + strlen(rig.dir);
    }
    golden_add(&seen, "%s\n", at);
}

/* Counts a call; true: it is to fail. */
static bool
fails(const char *what)
{
    if (!rig.on || ++rig.calls != rig.fail_at) {
        return false;
    }
    golden_add(&seen, "%s fails: ", what);
    errno = EIO;
    return true;
}

static const char *
flags_text(int flags)
{
    static char text[64];

    (void)snprintf(text, sizeof text, "%s%s%s%s%s",
                   (flags & O_ACCMODE) == O_RDONLY   ? "r"
                   : (flags & O_ACCMODE) == O_WRONLY ? "w"
                                                     : "rw",
                   (flags & O_CREAT) != 0 ? " create" : "",
                   (flags & O_TRUNC) != 0 ? " truncate" : "",
                   (flags & O_NOFOLLOW) != 0 ? " nofollow" : "",
                   (flags & O_CLOEXEC) != 0 ? " cloexec" : "");
    return text;
}

/* --- What lies below --- */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_flock(int fd, int how);
int __wrap_flock(int fd, int how);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_fchmod(int fd, mode_t mode);
int __wrap_fchmod(int fd, mode_t mode);
int __wrap_futimens(int fd, const struct timespec times[2]);
int __wrap_utimensat(int fd, const char *path, const struct timespec times[2],
                     int flags);
char *__real_getcwd(char *out, size_t cap);
char *__wrap_getcwd(char *out, size_t cap);
FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
int __real_ferror(FILE *file);
int __wrap_ferror(FILE *file);
DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
enum wp_status __real_wp_dir_remove(const char *dir, struct wp_err *err);
enum wp_status __wrap_wp_dir_remove(const char *dir, struct wp_err *err);
bool __wrap_wp_git_run(struct wp_git *git, const char *const args[]);
bool __wrap_wp_tree_write(const char *dir, int fd, uint64_t max,
                          char why[WP_TREE_WHY_MAX]);

int
__wrap_open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list ap;
    int fd;

    if ((flags & O_CREAT) != 0) {
        va_start(ap, flags);
        mode = va_arg(ap, mode_t);
        va_end(ap);
    }
    fd = fails(path) ? -1 : __real_open(path, flags, mode);
    note("open %s, %s, %03o%s", path, flags_text(flags), (unsigned)mode,
         fd < 0 ? ": no" : "");
    return fd;
}

int
__wrap_access(const char *path, int mode)
{
    int rc = __real_access(path, mode);

    note("access %s, %d: %d", path, mode, rc);
    return rc;
}

int
__wrap_unlink(const char *path)
{
    bool stuck = rig.stuck != NULL && strcmp(path, rig.stuck) == 0;
    int rc = fails("unlink") || stuck ? -1 : __real_unlink(path);

    if (stuck) {
        errno = EIO;
    }
    note("unlink %s%s", path, rc != 0 ? ": no" : "");
    return rc;
}

int
__wrap_rename(const char *from, const char *to)
{
    note("rename %s to %s", from, to);
    return fails("rename") ? -1 : __real_rename(from, to);
}

static void
write_file(const char *path, const char *text)
{
    int fd = __real_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(close(fd), 0);
}

int
__wrap_flock(int fd, int how)
{
    note("flock %s", how == LOCK_EX ? "alone" : "otherwise");
    if (fails("flock")) {
        return -1;
    }
    if (rig.image != NULL) {
        write_file(rig.image, "of another");
    }
    return __real_flock(fd, how);
}

int
__wrap_fsync(int fd)
{
    note("fsync");
    return fails("fsync") ? -1 : __real_fsync(fd);
}

int
__wrap_fchmod(int fd, mode_t mode)
{
    note("fchmod %03o", (unsigned)mode);
    return fails("fchmod") ? -1 : __real_fchmod(fd, mode);
}

int
__wrap_futimens(int fd, const struct timespec times[2])
{
    note("futimens %s", fd >= 0 && times == NULL ? "now" : "?");
    return 0;
}

int
__wrap_utimensat(int fd, const char *path, const struct timespec times[2],
                 int flags)
{
    note("utimensat %s %s %d", path,
         fd == AT_FDCWD && times == NULL ? "now" : "?", flags);
    return 0;
}

char *
__wrap_getcwd(char *out, size_t cap)
{
    note("getcwd");
    return fails("getcwd") ? NULL : __real_getcwd(out, cap);
}

FILE *
__wrap_fopen(const char *path, const char *mode)
{
    note("fopen %s %s", path, mode);
    return fails("fopen") ? NULL : __real_fopen(path, mode);
}

int
__wrap_fclose(FILE *file)
{
    int rc = __real_fclose(file);

    return fails("fclose") ? -1 : rc;
}

int
__wrap_ferror(FILE *file)
{
    return fails("fprintf") ? 1 : __real_ferror(file);
}

DIR *
__wrap_opendir(const char *path)
{
    note("opendir %s", path);
    return fails("opendir") ? NULL : __real_opendir(path);
}

enum wp_status
__wrap_wp_dir_remove(const char *dir, struct wp_err *err)
{
    bool on = rig.on;
    enum wp_status status = WP_UNAVAILABLE;

    note("remove %s", dir);
    if (!fails(dir) && (rig.stuck == NULL || strcmp(dir, rig.stuck) != 0)) {
        rig.on = false;
        status = __real_wp_dir_remove(dir, err);
        rig.on = on;
    }
    return status;
}

/* What the real one would have left on the disk. */
static void
do_as_git(const struct wp_git *git, const char *const args[])
{
    char path[128];

    if (strcmp(args[0], "init") == 0) {
        const char *dir = args[3];

        for (size_t i = 3; args[i] != NULL; i++) {
            dir = args[i];
        }
        (void)mkdir(dir, 0700);
        (void)snprintf(path, sizeof path, "%s/.git", dir);
        (void)mkdir(path, 0700);
    }
    if (strcmp(args[0], "fetch") == 0) {
        (void)snprintf(path, sizeof path, "%s/.git/FETCH_HEAD", git->dir);
        write_file(path, "x");
    }
}

bool
__wrap_wp_git_run(struct wp_git *git, const char *const args[])
{
    const struct answer *answer = NULL;
    char words[1400] = "";
    size_t len = 0;

    for (size_t i = 0; args[i] != NULL; i++) {
        len += (size_t)snprintf(words + len, sizeof words - len, " %s",
                                args[i][0] != '\0' ? args[i] : "''");
    }
    note("git in %s by %s, config %d, %" PRIu64 " bytes:%s", git->dir,
         git->protocol, git->config_fd, git->file_max, words);
    if (fails(args[0])) {
        (void)snprintf(git->error, sizeof git->error, "no %s", args[0]);
        return false;
    }
    for (size_t i = 0; i < ANSWERS_MAX; i++) {
        if (rig.answers[i].word != NULL &&
            strcmp(args[0], rig.answers[i].word) == 0) {
            answer = &rig.answers[i];
        }
    }
    /* Half of it, then the other half. */
    for (int i = 0; i < 2 && answer != NULL && git->output != NULL; i++) {
        size_t half = answer->len / 2;

        if (!git->output(git->ctx, answer->text + (i == 0 ? 0 : half),
                         i == 0 ? half : answer->len - half)) {
            (void)snprintf(git->error, sizeof git->error, "that is enough");
            return false;
        }
    }
    if (answer != NULL && answer->error != NULL) {
        (void)snprintf(git->error, sizeof git->error, "%s", answer->error);
        return false;
    }
    do_as_git(git, args);
    return true;
}

bool
__wrap_wp_tree_write(const char *dir, int fd, uint64_t max,
                     char why[WP_TREE_WHY_MAX])
{
    char config[1024] = "";
    char path[128];
    int file;

    (void)snprintf(path, sizeof path, "%s/.git/config", dir);
    file = __real_open(path, O_RDONLY);
    assert_true(file >= 0);
    assert_true(read(file, config, sizeof config - 1) > 0);
    assert_int_equal(close(file), 0);
    (void)snprintf(path, sizeof path, "%s/.git/FETCH_HEAD", dir);
    note("tree of %s, %" PRIu64 " bytes, %s FETCH_HEAD, with\n%s", dir, max,
         __real_access(path, F_OK) == 0 ? "a" : "no", config);
    if (fails("tree") || rig.tree_error != NULL) {
        (void)snprintf(why, WP_TREE_WHY_MAX, "%s",
                       rig.tree_error != NULL ? rig.tree_error : "no tree");
        return false;
    }
    return write(fd, "an image", 8) == 8;
}

/* --- The test's side --- */

static int
set_up(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof rig);
    memset(&seen, 0, sizeof seen);
    rig.bytes_max = 1000;
    temp_dir_make(rig.dir, sizeof rig.dir);
    assert_int_equal(chdir(rig.dir), 0);
    /* Without links in it, as git is told it. */
    assert_non_null(__real_getcwd(rig.dir, sizeof rig.dir));
    return 0;
}

static int
tear_down(void **state)
{
    struct wp_err err;

    (void)state;
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(__real_wp_dir_remove(rig.dir, &err), WP_OK);
    return 0;
}

static void
answer_bytes(const char *word, const char *text, size_t len)
{
    for (size_t i = 0; i < ANSWERS_MAX; i++) {
        if (rig.answers[i].word == NULL ||
            strcmp(rig.answers[i].word, word) == 0) {
            rig.answers[i] =
                (struct answer){.word = word, .text = text, .len = len};
            return;
        }
    }
    fail();
}

static void
answer(const char *word, const char *text)
{
    answer_bytes(word, text, strlen(text));
}

static void
list_here(void)
{
    struct dirent **entries;
    int n = scandir(".", &entries, NULL, alphasort);

    assert_true(n >= 0);
    golden_add(&seen, "left:");
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.') {
            golden_add(&seen, " %s", entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
    golden_add(&seen, "\n");
}

/* One checkout, and what it answers. */
static void
check_out_of(const char *url, const char *ref)
{
    struct wp_checkout it = {
        .url = url,
        .ref = ref,
        .bytes_max = rig.bytes_max,
        .config_fd = rig.config_fd,
        .fd = 77,
        .made = true,
    };
    char image[64] = "";
    struct stat st;
    bool ok;

    memset(it.commit, 'x', sizeof it.commit); /* Of an earlier one. */
    if (!rig.quiet) {
        golden_add(&seen, "--- %.100s\n", ref[0] != '\0' ? ref : "HEAD");
    }
    rig.on = true;
    ok = wp_checkout(&it);
    rig.on = false;
    if (!ok) {
        golden_add(&seen, "refused: %s%s\n", it.why, it.fd >= 0 ? ", fd" : "");
        return;
    }
    assert_true(it.fd >= 0);
    assert_int_equal(fstat(it.fd, &st), 0);
    assert_true(read(it.fd, image, sizeof image - 1) > 0);
    assert_int_equal(close(it.fd), 0);
    golden_add(&seen, "%s %s: '%s', %03o\n", it.made ? "made" : "kept",
               it.commit, image, (unsigned)st.st_mode & 0777);
}

static void
check_out(const char *ref)
{
    check_out_of(URL, ref);
}

static void
compare(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/%s.txt", name);
    golden_compare(seen.text, path);
}

/* --- The whole way --- */

static void
what_head_names_is_made_once_and_kept_until_it_moves(void **state)
{
    (void)state;
    rig.config_fd = 7;
    answer("ls-remote", "ref: refs/heads/main\tHEAD\n" A "\tHEAD\n");
    answer("rev-parse", A "\n");
    check_out("");
    check_out("");
    list_here();
    /* Of other refs, and what is no image of that length. */
    write_file(A "-01234567.image", "other");
    write_file(A "-0123456.image", "shorter");
    write_file(A "-012345678.image", "longer");
    answer("ls-remote", "ref: refs/heads/main\tHEAD\n" B "\tHEAD\n");
    answer("rev-parse", B "\n");
    check_out("");
    list_here();
    /* The branch by its name is the same. */
    answer("ls-remote", B "\trefs/heads/main\n");
    check_out("main");
    check_out("refs/heads/main");
    /* It moves once more before it is fetched. */
    answer("ls-remote", A "\trefs/heads/main\n");
    check_out("main");
    compare("checkout_head");
}

static void
each_kind_of_ref_has_its_own_words(void **state)
{
    (void)state;
    answer("rev-parse", A "\n");
    answer("ls-remote", A "\tHEAD\n");
    check_out_of("http://host/repo", "");
    answer("ls-remote", "ref: refs/tags/odd\tHEAD\n" A "\tHEAD\n");
    check_out("");
    list_here();
    answer("ls-remote", "ref: refs/heads/a\"b\tHEAD\n" A "\tHEAD\n");
    check_out("");
    answer("ls-remote", "ref: refs/heads/-x\tHEAD\n" A "\tHEAD\n");
    check_out("");
    answer("ls-remote", B "\trefs/tags/v1\n" A "\trefs/tags/v1^{}\n");
    check_out("v1");
    answer("ls-remote", A "\trefs/tags/v2\n");
    check_out("refs/tags/v2");
    answer("ls-remote", A "\trefs/heads/both\n" B "\trefs/tags/both\n");
    check_out("both");
    answer("ls-remote", A "\trefs/pull/1/head\n");
    check_out("refs/pull/1/head");
    list_here();
    compare("checkout_refs");
}

static void
a_commit_is_not_asked_for_and_must_be_what_comes(void **state)
{
    static const char upper[] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    (void)state;
    answer("rev-parse", A "\n");
    check_out(A);
    check_out(A);
    check_out(B);
    answer("rev-parse", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    check_out(B);
    answer("rev-parse", B);
    check_out(B);
    /* Those are names of branches. */
    answer("ls-remote", "");
    check_out(upper);
    check_out(A "a");
    check_out("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    list_here();
    compare("checkout_commit");
}

/* --- What is refused --- */

static void
what_is_not_there_is_named(void **state)
{
    char name[120];

    (void)state;
    rig.quiet = true;
    answer("ls-remote", "");
    check_out("");
    answer("ls-remote", A "\trefs/heads/other\n" A "\trefs/heads/mainx\n");
    check_out("main");
    check_out("refs/heads/main");
    /* Not below another space. */
    answer("ls-remote", A "\trefs/heads/refs/pull/1\n");
    check_out("refs/pull/1");
    rig.fail_at = rig.calls + 1;
    check_out("");
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    check_out(name);
    compare("checkout_missing");
}

/* The longest names that a ref can have in full; one more is none. */
static void
names_have_a_longest(void **state)
{
    static const struct {
        const char *space;
        size_t len; /* Of the name behind it. */
        bool full;
    } rows[] = {
        {"refs/heads/", WP_REF_NAME_MAX - 11, false},
        {"refs/heads/", WP_REF_NAME_MAX - 10, false},
        {"refs/tags/", WP_REF_NAME_MAX - 10, false},
        {"refs/tags/", WP_REF_NAME_MAX - 9, false},
        {"refs/pull/", WP_REF_NAME_MAX - 10, true},
        {"refs/pull/", WP_REF_NAME_MAX - 9, true},
    };

    (void)state;
    answer("rev-parse", A "\n");
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        char full[400];
        char line[2000];
        size_t from = strlen(rows[i].space);

        (void)snprintf(full, sizeof full, "%s", rows[i].space);
        memset(full + from, 'n', rows[i].len);
        full[from + rows[i].len] = '\0';
        /* And one that is its beginning. */
        (void)snprintf(line, sizeof line, B "\t%s\n" A "\t%s^{}\n" A "\t%.*s\n",
                       full, full, WP_REF_NAME_MAX, full);
        answer("ls-remote", line);
        golden_add(&seen, "%s and %zu: ", rows[i].space, rows[i].len);
        check_out(rows[i].full ? full : full + from);
    }
    compare("checkout_names");
}

static void
a_listing_has_a_largest_size(void **state)
{
    static char listing[LISTING_MAX + 1];
    const char line[] = "\n" A "\trefs/heads/main\n";
    size_t at = sizeof listing - 1 - strlen(line);

    (void)state;
    rig.quiet = true;
    answer("rev-parse", A "\n");
    memset(listing, '\n', sizeof listing);
    memcpy(listing + at, line, strlen(line));
    answer_bytes("ls-remote", listing, LISTING_MAX);
    check_out("main");
    answer_bytes("ls-remote", listing, LISTING_MAX + 1);
    check_out("main");
    compare("checkout_listing");
}

/* So many empty files. */
static void
list_files(size_t n)
{
    static const char line[] = "100644 blob " A " 0\tx";
    static char listing[(WP_TREE_ENTRIES_MAX + 1) * sizeof line];

    assert_true(n * sizeof line <= sizeof listing);
    for (size_t i = 0; i < n; i++) {
        memcpy(listing + i * sizeof line, line, sizeof line);
    }
    answer_bytes("ls-tree", listing, n * sizeof line);
}

static void
list_bytes(const char *text)
{
    static char line[128];

    (void)snprintf(line, sizeof line, "100644 blob " A " %s\tx", text);
    answer_bytes("ls-tree", line, strlen(line) + 1);
}

static void
a_repository_has_a_largest_size(void **state)
{
    static const char *const sizes[] = {"1000", "1001", "12x"};

    (void)state;
    rig.quiet = true;
    answer("ls-remote", A "\trefs/heads/main\n");
    answer("rev-parse", A "\n");
    for (size_t i = 0; i < WP_ARRAY_LEN(sizes); i++) {
        list_bytes(sizes[i]);
        check_out("main");
        (void)__real_unlink(A "-75afb77d.image");
        list_here();
    }
    for (size_t n = WP_TREE_ENTRIES_MAX; n <= WP_TREE_ENTRIES_MAX + 1; n++) {
        list_files(n);
        answer("ls-remote", n == WP_TREE_ENTRIES_MAX ? A "\trefs/heads/most\n"
                                                     : A "\trefs/heads/more\n");
        check_out(n == WP_TREE_ENTRIES_MAX ? "most" : "more");
    }
    rig.bytes_max = UINT64_MAX;
    list_bytes("18446744073709551615");
    check_out("more");
    rig.tree_error = "the tree's own words";
    list_bytes("1");
    check_out("more");
    compare("checkout_sizes");
}

/* --- What an earlier one has left --- */

static void
leave_some(void)
{
    (void)mkdir(WP_CHECKOUT_MIRROR, 0700);
    (void)mkdir(WP_CHECKOUT_SCRATCH, 0700);
    write_file(WP_CHECKOUT_MIRROR "/old", "x");
    write_file(WP_CHECKOUT_SCRATCH "/old", "x");
    write_file(WP_CHECKOUT_UNFINISHED, "x");
    write_file(WP_CHECKOUT_DIRTY, "x");
}

static void
what_was_cut_off_is_made_anew(void **state)
{
    static const char *const stuck[] = {WP_CHECKOUT_MIRROR, WP_CHECKOUT_SCRATCH,
                                        WP_CHECKOUT_UNFINISHED};

    (void)state;
    answer("rev-parse", A "\n");
    leave_some();
    list_here();
    check_out(A);
    list_here();
    answer("rev-parse", B "\n");
    /* A whole mirror is taken as it is. */
    check_out(B);
    assert_int_equal(__real_unlink(B "-dbd490c5.image"), 0);
    for (size_t i = 0; i < WP_ARRAY_LEN(stuck); i++) {
        leave_some();
        rig.stuck = stuck[i];
        check_out(B);
        list_here();
    }
    compare("checkout_cut_off");
}

static void
what_another_has_made_meanwhile_is_taken(void **state)
{
    (void)state;
    rig.image = A "-eb83bc4d.image";
    check_out(A);
    list_here();
    compare("checkout_meanwhile");
}

/* As where nobody has a standard input. */
static void
the_first_descriptor_is_one_like_others(void **state)
{
    int kept = dup(STDIN_FILENO);

    (void)state;
    assert_true(kept > STDERR_FILENO);
    assert_int_equal(close(STDIN_FILENO), 0);
    rig.quiet = true;
    answer("rev-parse", A "\n");
    check_out(A); /* The lock. */
    assert_int_equal(close(STDIN_FILENO), -1);
    check_out(A); /* The image. */
    assert_int_equal(close(STDIN_FILENO), -1);
    assert_int_equal(dup2(kept, STDIN_FILENO), STDIN_FILENO);
    assert_int_equal(close(kept), 0);
    assert_string_equal(seen.text, "made " A ": 'an image', 400\n"
                                   "kept " A ": 'an image', 400\n");
}

/* Each call in turn; at last all go through. */
static void
every_failure_is_told(void **state)
{
    struct wp_err err;

    (void)state;
    rig.quiet = true;
    answer("ls-remote", A "\trefs/heads/main\n");
    answer("rev-parse", A "\n");
    do {
        rig.fail_at++;
        rig.calls = 0;
        /* Of the same branch, before it moved. */
        write_file(B "-75afb77d.image", "old");
        golden_add(&seen, "%d: ", rig.fail_at);
        check_out("main");
        list_here();
        (void)__real_unlink(A "-75afb77d.image");
        (void)__real_unlink(B "-75afb77d.image");
        (void)__real_unlink(WP_CHECKOUT_UNFINISHED);
        (void)__real_unlink(WP_CHECKOUT_DIRTY);
        assert_int_equal(__real_wp_dir_remove(WP_CHECKOUT_MIRROR, &err), WP_OK);
        assert_int_equal(__real_wp_dir_remove(WP_CHECKOUT_SCRATCH, &err),
                         WP_OK);
    } while (rig.calls >= rig.fail_at);
    compare("checkout_failures");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_head_names_is_made_once_and_kept_until_it_moves),
        TEST(each_kind_of_ref_has_its_own_words),
        TEST(a_commit_is_not_asked_for_and_must_be_what_comes),
        TEST(what_is_not_there_is_named),
        TEST(names_have_a_longest),
        TEST(a_listing_has_a_largest_size),
        TEST(a_repository_has_a_largest_size),
        TEST(what_was_cut_off_is_made_anew),
        TEST(what_another_has_made_meanwhile_is_taken),
        TEST(the_first_descriptor_is_one_like_others),
        TEST(every_failure_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
