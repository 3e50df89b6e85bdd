/* warmpoolctl exec and cp: what is asked of the sandbox, what comes of its
 * answers, and what is left when something fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/ctl/token_store.h"
#include "tests/support/base/left_open.h"
#include "tests/support/ctl/ctl_rig.h"

#define GOLDEN(name) WP_TEST_GOLDEN "/" name ".txt"

static void
remember(const char *claim_id, const char *sandbox)
{
    struct wp_token_record record = {.deadline_wall_ms = 0};
    struct wp_err err;

    (void)snprintf(record.claim_id, sizeof record.claim_id, "%s", claim_id);
    (void)snprintf(record.sandbox, sizeof record.sandbox, "%s", sandbox);
    for (size_t i = 0; i < sizeof record.token; i++) {
        record.token[i] = (uint8_t)(0x40 + i);
    }
    assert_int_equal(wp_token_store_save(&record, &err), WP_OK);
}

static void
reply_info(const char *sandbox, bool lost, bool waiting)
{
    struct wp_claim_info info = {.claim_id = "a",
                                 .pool_namespace = "default",
                                 .pool = "agents",
                                 .lost = lost,
                                 .waiting = waiting};

    (void)snprintf(info.sandbox, sizeof info.sandbox, "%s", sandbox);
    (void)snprintf(info.lost_reason, sizeof info.lost_reason,
                   lost ? "it died" : "");
    CTL_REPLY(claim_info, &info);
}

/* The next request to the sandbox fails so. */
static void
breaks(const char *function, enum wp_status status, const char *message)
{
    ctl_sandbox.fails = function;
    (void)wp_err_set(&ctl_sandbox.err, status, "%s", message);
}

/* The next call of this function of the system fails; "slow": what is written
 * is interrupted, then nothing goes, and then byte by byte. */
static const char *no_call = "";

static bool
is_refused(const char *call, int error)
{
    if (strcmp(no_call, call) != 0) {
        return false;
    }
    no_call = "";
    errno = error;
    return true;
}

FILE *__real_tmpfile(void);
FILE *__wrap_tmpfile(void);
FILE *
__wrap_tmpfile(void)
{
    return is_refused("tmpfile", EMFILE) ? NULL : __real_tmpfile();
}

int __real_fchmod(int fd, mode_t mode);
int __wrap_fchmod(int fd, mode_t mode);
int
__wrap_fchmod(int fd, mode_t mode)
{
    return is_refused("fchmod", EPERM) ? -1 : __real_fchmod(fd, mode);
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int
__wrap_rename(const char *from, const char *to)
{
    return is_refused("rename", EXDEV) ? -1 : __real_rename(from, to);
}

int __real_close(int fd);
int __wrap_close(int fd);
int
__wrap_close(int fd)
{
    int result = __real_close(fd);

    return is_refused("close", EDQUOT) ? -1 : result;
}

ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t
__wrap_write(int fd, const void *bytes, size_t len)
{
    if (is_refused("slow", EINTR)) {
        no_call = "nothing";
        return -1;
    }
    if (is_refused("nothing", ENOSPC)) {
        no_call = "byte by byte";
        return 0;
    }
    return __real_write(fd, bytes,
                        strcmp(no_call, "byte by byte") == 0 ? 1 : len);
}

/* --- exec --- */

static void
test_exec(void **state)
{
    (void)state;
    remember("a", "box-1");
    ctl_sandbox.http_status = 101;
    ctl_run("exec a -- ls -l");
    ctl_sandbox.http_status = 101;
    ctl_sandbox.exit_code = 3;
    ctl_run("exec a --cwd src --env A=1 --env B= --env A=x=2 --time-limit "
            "1500ms --no-stdin --http unix:/h.sock --timeout 4s -- sh -c "
            "'echo \"x\"'");
    ctl_sandbox.http_status = 101;
    ctl_sandbox.signal = 9;
    ctl_sandbox.exit_code = -1;
    ctl_run("exec a --time-limit 1ms x");
    ctl_sandbox.http_status = 101;
    ctl_sandbox.timed_out = true;
    ctl_run("exec a x");
    ctl_run("exec a -- \xff");
    ctl_run("exec a --env A=\xff -- x");
    ctl_run("exec a --env \xff=A -- x");
    ctl_run("exec a --cwd \xff -- x");
    /* What comes later does not make up for it. */
    ctl_run("exec a --env A=1 --cwd src --time-limit 1s -- \xff x");
    ctl_run("exec a --env A=\xff --env B=1 --cwd src --time-limit 1s -- x");
    ctl_run("exec a --cwd \xff --time-limit 1s -- x");
    ctl_run("exec a --token 00 -- x");
    breaks("open", WP_UNAVAILABLE, "cannot reach warmpoold's HTTP");
    ctl_run("exec a -- x");
    breaks("request", WP_INTERNAL, "it broke");
    ctl_run("exec a -- x");
    breaks("send", WP_INTERNAL, "it broke");
    ctl_run("exec a -- x");
    breaks("reply", WP_INTERNAL, "it broke");
    ctl_run("exec a -- x");
    ctl_run("exec a -- x");
    ctl_sandbox.http_status = 422;
    breaks("reply", WP_INVALID_ARGUMENT, "exec x: no such file or directory");
    ctl_run("exec a -- x");
    ctl_sandbox.http_status = 422;
    breaks("reply", WP_INVALID_ARGUMENT, "exec x: permission denied");
    ctl_run("exec a -- x");
    ctl_sandbox.http_status = 422;
    breaks("reply", WP_INVALID_ARGUMENT, "cwd: no such file");
    ctl_run("exec a -- x");
    ctl_sandbox.http_status = 423;
    breaks("reply", WP_INVALID_ARGUMENT, "exec x: no such file or directory");
    ctl_run("exec a -- x");
    ctl_sandbox.http_status = 101;
    breaks("session", WP_CANCELLED, "interrupted");
    ctl_run("exec a -- x");
    ctl_sandbox.http_status = 101;
    breaks("session", WP_FAILED_PRECONDITION, "output cannot be written");
    ctl_run("exec a -- x");
    ctl_sandbox.http_status = 101;
    breaks("session", WP_UNAVAILABLE, "the connection broke");
    reply_info("", true, false);
    ctl_run("exec a -- x");
    ctl_compare(GOLDEN("exec"));
}

/* Which sandbox it is, and what became of it. */
static void
test_the_claims_sandbox(void **state)
{
    char record[200] = "{\"claim_id\": \"c\", \"token\": \"";

    (void)state;
    /* Nothing is remembered: the daemon knows, and no token is sent. */
    reply_info("box-9", false, false);
    ctl_sandbox.http_status = 101;
    ctl_run("exec b --tenant ci -- x");
    reply_info("", false, true);
    ctl_run("exec b -- x");
    reply_info("box-9", true, false);
    ctl_run("exec b -- x");
    ctl_answer(WP_NOT_FOUND, "claim_id: no such claim", 0);
    ctl_run("exec b -- x");
    ctl_answer(WP_UNAVAILABLE, "cannot reach it", 0);
    ctl_run("exec b -- x");
    ctl_run("exec b --token-file missing -- x");
    /* A token without a sandbox. */
    for (int i = 0; i < WP_TOKEN_LEN; i++) {
        (void)snprintf(record + strlen(record), 3, "%02x", i);
    }
    (void)strcat(record, "\"}");
    ctl_file("token.json", record);
    reply_info("box-9", false, false);
    ctl_sandbox.http_status = 101;
    ctl_run("exec b --token-file token.json -- x");
    /* What failed is explained by what became of the claim. */
    remember("a", "box-1");
    breaks("reply", WP_NOT_FOUND, "no such sandbox");
    ctl_answer(WP_NOT_FOUND, "claim_id: no such claim", 0);
    ctl_run("exec a -- x");
    breaks("reply", WP_UNAVAILABLE, "nobody answers");
    reply_info("box-1", true, false);
    ctl_run("exec a -- x");
    breaks("reply", WP_UNAVAILABLE, "nobody answers");
    reply_info("box-1", false, false);
    ctl_run("exec a -- x");
    breaks("reply", WP_UNAVAILABLE, "nobody answers");
    reply_info("", false, true);
    ctl_run("exec a -- x");
    breaks("reply", WP_PERMISSION_DENIED, "the sandbox refuses: no");
    ctl_run("exec a -- x");
    ctl_compare(GOLDEN("exec_claims"));
}

/* --- cp, into a sandbox --- */

/* No file can be longer, as on a full disk. */
static void
limit_files(rlim_t bytes)
{
    struct rlimit limit;

    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void
test_copies_in(void **state)
{
    static char big[3 * 65536];

    (void)state;
    remember("a", "box-1");
    ctl_file("f", "content");
    ctl_file("empty", "");
    ctl_file("a:b", "colon");
    assert_int_equal(mkdir("folder", 0700), 0);
    ctl_run("cp f a:to/x.txt --http unix:/h.sock --timeout 2s");
    ctl_run("cp f a:");
    ctl_run("cp f a:to/");
    ctl_run("cp ./f a:to -o json");
    ctl_run("cp ./a:b a:c");
    ctl_run("cp empty a:e");
    memset(big, 'b', sizeof big - 1);
    ctl_file_bytes("big", big, 65536);
    ctl_run("cp big a:big -o json");
    ctl_file_bytes("big", big, 65537);
    ctl_run("cp big a:big -o json");
    ctl_stdin("from input");
    ctl_run("cp - a:in -o json");
    ctl_stdin(big);
    ctl_run("cp - a:in -o json");
    ctl_stdin(big);
    limit_files(65536 + 10);
    ctl_run("cp - a:in");
    limit_files(RLIM_INFINITY);
    ctl_stdin("from input");
    no_call = "tmpfile";
    ctl_run("cp - a:in");
    ctl_stdin("from input");
    ctl_run("cp - a:to/");
    ctl_run("cp - a:");
    ctl_run("cp f 'a:to\"x'");
    ctl_run("cp f a:to\\x");
    ctl_run("cp f 'a:to\nx'");
    ctl_run("cp f 'a:to\rx'");
    ctl_run("cp missing a:x");
    ctl_run("cp folder a:x");
    ctl_run("cp f/x a:x");
    breaks("open", WP_UNAVAILABLE, "cannot reach warmpoold's HTTP");
    ctl_run("cp f a:x");
    breaks("request", WP_INTERNAL, "it broke");
    ctl_run("cp f a:x");
    for (int i = 0; i < 4; i++) {
        breaks("send", WP_INTERNAL, "it broke");
        ctl_sandbox.fail_after = i;
        ctl_run("cp big a:x");
    }
    breaks("reply", WP_NOT_FOUND, "no such sandbox");
    ctl_answer(WP_NOT_FOUND, "claim_id: no such claim", 0);
    ctl_run("cp f a:x");
    breaks("reply", WP_INVALID_ARGUMENT, "the disk is full");
    ctl_run("cp f a:x");
    /* The answer comes before all is sent. */
    ctl_sandbox.answered_after = 2;
    ctl_run("cp big a:x");
    ctl_run("cp f g");
    ctl_run("cp a:f a:g");
    ctl_run("cp :f a:g");
    ctl_run("cp f none:g");
    ctl_run("cp f a:g --token 00");
    ctl_compare(GOLDEN("copy_in"));
}

/* --- cp, out of one --- */

/* What is there now, and nothing else. */
static void
note_file(const char *path)
{
    char text[200];
    struct stat st;
    FILE *file = fopen(path, "re");
    size_t n;

    if (file == NULL) {
        ctl_note("(%s is not there)\n\n", path);
        return;
    }
    n = fread(text, 1, sizeof text, file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    assert_int_equal(fclose(file), 0);
    ctl_note("(%s, %04o: %.*s)\n\n", path, st.st_mode & 07777u, (int)n, text);
}

static int
count_files(const char *folder)
{
    char command[100];
    char text[20];
    FILE *pipe;
    size_t n;

    (void)snprintf(command, sizeof command, "ls -A %s | wc -l", folder);
    pipe = popen(command, "re");
    assert_non_null(pipe);
    n = fread(text, 1, sizeof text - 1, pipe);
    text[n] = '\0';
    assert_int_equal(pclose(pipe), 0);
    return atoi(text);
}

static void
copy_out(const char *line, const char *body, const char *path)
{
    ctl_sandbox.body = body;
    ctl_run(line);
    note_file(path);
}

static void
copies_that_the_system_refuses(void)
{
    int out_fd;

    no_call = "slow";
    copy_out("cp a:f slow", "byte by byte", "slow");
    no_call = "fchmod";
    copy_out("cp a:f to/g", "x", "to/g");
    no_call = "rename";
    copy_out("cp a:f to/g", "x", "to/g");
    no_call = "close";
    copy_out("cp a:f to/g", "x", "to/g");
    no_call = "close";
    copy_out("cp a:f link", "through", "x");
    ctl_note("%d files in to\n", count_files("to"));
    /* To standard output. */
    assert_int_equal(fflush(stdout), 0);
    out_fd = dup(STDOUT_FILENO);
    assert_non_null(freopen("out", "w", stdout));
    ctl_sandbox.body = "to whom it may concern";
    ctl_run("cp a:f -");
    assert_int_equal(dup2(out_fd, STDOUT_FILENO), STDOUT_FILENO);
    assert_int_equal(close(out_fd), 0);
    note_file("out");
}

static void
test_copies_out(void **state)
{
    char text[64];
    struct stat st;
    int pipe_fd;

    (void)state;
    remember("a", "box-1");
    assert_int_equal(mkdir("to", 0700), 0);
    copy_out("cp a:src/f.txt to --http unix:/h.sock", "new", "to/f.txt");
    copy_out("cp a:f.txt to/ -o json", "newer", "to/f.txt");
    copy_out("cp a:f.txt to/g", "other", "to/g");
    copy_out("cp a:f.txt .", "here", "f.txt");
    ctl_sandbox.piece = 3;
    copy_out("cp 'a:b c%+ü/~x_-.Z9' x -o json", "in pieces", "x");
    copy_out("cp a:f x", "", "x");
    assert_int_equal(chmod("x", 0640), 0);
    copy_out("cp a:f x", "mode stays", "x");
    (void)umask(077);
    copy_out("cp a:f fresh", "umask", "fresh");
    (void)umask(022);
    /* Through a link; into a file that has two names. */
    assert_int_equal(symlink("x", "link"), 0);
    copy_out("cp a:f link", "by a link", "x");
    assert_int_equal(link("fresh", "second"), 0);
    copy_out("cp a:f second", "two names", "fresh");
    copy_out("cp a:f - -o json", "", "none");
    /* Into a pipe, which stays one. */
    assert_int_equal(mkfifo("pipe", 0600), 0);
    pipe_fd = open("pipe", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    assert_true(pipe_fd >= 0);
    ctl_sandbox.body = "through";
    ctl_run("cp a:f pipe -o json");
    assert_int_equal(read(pipe_fd, text, sizeof text), 7);
    assert_memory_equal(text, "through", 7);
    assert_int_equal(close(pipe_fd), 0);
    assert_int_equal(lstat("pipe", &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    copy_out("cp a:f missing/f", "x", "missing/f");
    copy_out("cp a: x", "x", "none");
    copy_out("cp a:src/ x", "x", "none");
    ctl_note("%d files in to\n", count_files("to"));
    breaks("request", WP_INTERNAL, "it broke");
    copy_out("cp a:f to/n", "x", "to/n");
    breaks("reply", WP_NOT_FOUND, "f: no such file");
    reply_info("box-1", false, false);
    copy_out("cp a:f to/n", "x", "to/n");
    breaks("read", WP_UNAVAILABLE, "it broke");
    reply_info("box-1", true, false);
    copy_out("cp a:f to/n", "x", "to/n");
    breaks("read", WP_INTERNAL, "it broke");
    ctl_sandbox.fail_after = 1;
    ctl_sandbox.piece = 1;
    copy_out("cp a:f to/g", "xyz", "to/g");
    breaks("read", WP_INTERNAL, "it broke");
    copy_out("cp a:f link", "xyz", "x");
    ctl_note("%d files in to\n", count_files("to"));
    /* By a link, so that no mistake can do harm to the device. */
    assert_int_equal(symlink("/dev/full", "full"), 0);
    copy_out("cp a:f full", "x", "none");
    copies_that_the_system_refuses();
    ctl_compare(GOLDEN("copy_out"));
}

/* Paths as long as may be, and one byte more. */
static void
test_long_paths(void **state)
{
    char path[5000];
    const char *const in[] = {"cp", "f", path, NULL};
    const char *const out[] = {"cp", path, "x", NULL};

    (void)state;
    remember("a", "box-1");
    ctl_file("f", "content");
    for (size_t len = 4095; len <= 4096; len++) {
        (void)strcpy(path, "a:");
        memset(path + 2, 'p', len);
        path[2 + len] = '\0';
        ctl_note("%zu bytes\n", len);
        ctl_run_words(in);
        ctl_sandbox.body = "body";
        ctl_run_words(out);
        memset(path + 2, '%', len);
        ctl_run_words(out);
        path[2 + len - 2] = '/';
        path[2 + len - 1] = '\0';
        ctl_run_words(in);
        ctl_run_words(out);
    }
    ctl_compare(GOLDEN("copy_long"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CTL_TEST(test_exec),       CTL_TEST(test_the_claims_sandbox),
        CTL_TEST(test_copies_in),  CTL_TEST(test_copies_out),
        CTL_TEST(test_long_paths),
    };

    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    /* What came from no file is kept in an unnamed one until the end. */
    wp_test_keeps_open();
    return failed;
}
