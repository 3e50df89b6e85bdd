#include "local/fetch/git.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/checkout/fetch_report.h"

enum {
    TAIL_BYTES = 4096, /* Of what it prints to standard error. */
    PIECE_BYTES = 65536,
    CONFIG_TEXT = 2048,
};

#define ADDRESS_SPACE (UINT64_C(4) << 30)
/* Of that, what is not a file that it maps: it keeps all that a server says of
 * its refs. */
#define MEMORY_MAX (UINT64_C(1) << 30)

/* As git itself has them, for every command. */
static const struct {
    const char *key;
    const char *value;
} config[] = {
    /* A redirect may lead to another host, and on from there. */
    {"http.followRedirects", "false"},
    {"http.sslVerify", "true"},
    {"http.lowSpeedLimit", "1000"},
    {"http.lowSpeedTime", "20"},
    {"http.cookieFile", ""},
    {"credential.helper", ""},
    {"core.hooksPath", "/dev/null"},
    {"core.fsmonitor", "false"},
    {"core.attributesFile", "/dev/null"},
    {"core.excludesFile", "/dev/null"},
    {"core.logAllRefUpdates", "false"},
    {"core.symlinks", "true"},
    {"core.autocrlf", "false"},
    /* Names that another system would take for ".git". */
    {"core.protectHFS", "true"},
    {"core.protectNTFS", "true"},
    {"core.bigFileThreshold", "16m"},
    {"transfer.fsckObjects", "true"},
    {"fetch.fsckObjects", "true"},
    /* One pack, whose size is bounded; not a file for each object. */
    {"fetch.unpackLimit", "1"},
    {"fetch.recurseSubmodules", "false"},
    {"submodule.recurse", "false"},
    {"gc.auto", "0"},
    {"maintenance.auto", "false"},
    {"pack.threads", "1"},
    {"safe.directory", "*"},
};

struct environment {
    char *entries[2 * (sizeof config / sizeof config[0]) + 24];
    size_t n;
    char text[2 * CONFIG_TEXT];
    size_t used;
};

static void set(struct environment *env, const char *fmt, ...) WP_PRINTF(2, 3);

static void
set(struct environment *env, const char *fmt, ...)
{
    char *at = env->text + env->used;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(at, sizeof env->text - env->used, fmt, ap);
    va_end(ap);
    if (n > 0 && env->used + (size_t)n < sizeof env->text &&
        env->n + 1 < sizeof env->entries / sizeof env->entries[0]) {
        env->entries[env->n++] = at;
        env->used += (size_t)n + 1;
    }
}

/* Into one that is empty. */
static void
set_all(struct environment *env, const struct wp_git *git)
{
    size_t n = sizeof config / sizeof config[0];

    set(env, "PATH=/usr/bin:/bin");
    set(env, "HOME=/nonexistent");
    set(env, "LC_ALL=C");
    set(env, "GIT_CONFIG_NOSYSTEM=1");
    if (git->config_fd > 0) {
        set(env, "GIT_CONFIG_GLOBAL=/proc/self/fd/%d", git->config_fd);
    } else {
        set(env, "GIT_CONFIG_GLOBAL=/dev/null");
    }
    set(env, "GIT_ATTR_NOSYSTEM=1");
    set(env, "GIT_TERMINAL_PROMPT=0");
    set(env, "GIT_ASKPASS=/bin/false");
    set(env, "SSH_ASKPASS=/bin/false");
    set(env, "GIT_SSH_COMMAND=/bin/false");
    set(env, "GIT_EDITOR=/bin/false");
    set(env, "GIT_PAGER=cat");
    set(env, "GIT_ALLOW_PROTOCOL=%s", git->protocol);
    set(env, "GIT_CONFIG_COUNT=%zu", n);
    for (size_t i = 0; i < n; i++) {
        set(env, "GIT_CONFIG_KEY_%zu=%s", i, config[i].key);
        set(env, "GIT_CONFIG_VALUE_%zu=%s", i, config[i].value);
    }
}

/* The child, up to exec. */
WP_NORETURN static void
become_git(const struct wp_git *git, const char *const args[], int out, int err)
{
    const struct rlimit file = {git->file_max, git->file_max};
    const struct rlimit space = {ADDRESS_SPACE, ADDRESS_SPACE};
    const struct rlimit memory = {MEMORY_MAX, MEMORY_MAX};
    const struct rlimit none = {0, 0};
    static struct environment env;
    const char *words[WP_GIT_ARGS_MAX + 1] = {"git"};
    char *argv[WP_GIT_ARGS_MAX + 1];
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    for (size_t i = 0; i + 1 < WP_GIT_ARGS_MAX && args[i] != NULL; i++) {
        words[i + 1] = args[i];
    }
    memcpy(argv, words, sizeof argv);
    set_all(&env, git);
    (void)setrlimit(RLIMIT_FSIZE, &file);
    (void)setrlimit(RLIMIT_AS, &space);
    (void)setrlimit(RLIMIT_DATA, &memory);
    (void)setrlimit(RLIMIT_CORE, &none);
    if (git->config_fd > 0) {
        (void)fcntl(git->config_fd, F_SETFD, 0);
    }
    if (null >= 0 && dup2(null, 0) == 0 && dup2(out, 1) == 1 &&
        dup2(err, 2) == 2 && chdir(git->dir) == 0) {
        (void)execve(WP_FETCH_GIT, argv, env.entries);
    }
    (void)dprintf(err, "fatal: git cannot be run: %s\n", strerror(errno));
    _exit(127);
}

void
wp_git_error_line(const char *text, size_t len, char out[WP_GIT_ERROR_MAX])
{
    static const char *const marks[] = {"fatal: ", "error: "};
    size_t n = 0;
    int best = 3;

    out[0] = '\0';
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t line = end != NULL ? (size_t)(end - text) : len;
        size_t from = 0;
        int rank = 2;

        for (int i = 0; i < 2; i++) {
            size_t mark = strlen(marks[i]);

            if (line > mark && memcmp(text, marks[i], mark) == 0) {
                rank = i;
                from = mark;
            }
        }
        if (line > from && rank <= best) {
            best = rank;
            n = line - from < WP_GIT_ERROR_MAX ? line - from
                                               : WP_GIT_ERROR_MAX - 1;
            memcpy(out, text + from, n);
            out[n] = '\0';
        }
        text += line + (end != NULL ? 1 : 0);
        len -= line + (end != NULL ? 1 : 0);
    }
    for (size_t i = 0; i < n; i++) {
        if (out[i] < ' ' || out[i] > '~') {
            out[i] = '?';
        }
    }
}

struct tail {
    char text[TAIL_BYTES];
    size_t len;
};

static void
keep_tail(struct tail *tail, const char *bytes, size_t len)
{
    if (len > TAIL_BYTES) {
        bytes += len - TAIL_BYTES;
        len = TAIL_BYTES;
    }
    if (tail->len + len > TAIL_BYTES) {
        size_t gone = tail->len + len - TAIL_BYTES;

        memmove(tail->text, tail->text + gone, tail->len - gone);
        tail->len -= gone;
    }
    memcpy(tail->text + tail->len, bytes, len);
    tail->len += len;
}

/* Reads both until their ends. False: the output was enough. */
static bool
read_all(const struct wp_git *git, int out, int err, struct tail *tail)
{
    static char piece[PIECE_BYTES];
    struct pollfd polls[] = {{out, POLLIN, 0}, {err, POLLIN, 0}};

    while (polls[0].fd >= 0 || polls[1].fd >= 0) {
        if (poll(polls, 2, -1) < 0) {
            /* Of nobody is known that there is something to read. */
            if (errno == EINTR) {
                continue;
            }
            return false;
        }
        for (int i = 0; i < 2; i++) {
            ssize_t n;

            if (polls[i].fd < 0 || polls[i].revents == 0) {
                continue;
            }
            n = read(polls[i].fd, piece, sizeof piece);
            if (n <= 0) {
                polls[i].fd = -1;
            } else if (i == 1) {
                keep_tail(tail, piece, (size_t)n);
            } else if (git->output != NULL &&
                       !git->output(git->ctx, piece, (size_t)n)) {
                return false;
            }
        }
    }
    return true;
}

static bool
failed(struct wp_git *git, const char *what)
{
    (void)snprintf(git->error, sizeof git->error, "%s", what);
    return false;
}

/* The parent: hears it to its end. */
static bool
hear(struct wp_git *git, pid_t pid, int out, int err)
{
    static struct tail tail;
    int status = 0;
    bool whole;

    tail.len = 0;
    whole = read_all(git, out, err, &tail);
    if (!whole) {
        (void)kill(pid, SIGKILL);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    git->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (!whole) {
        return failed(git, "git printed more than was expected");
    }
    if (git->status != 0) {
        wp_git_error_line(tail.text, tail.len, git->error);
        return git->error[0] != '\0' ? false : failed(git, "git ended early");
    }
    return true;
}

bool
wp_git_run(struct wp_git *git, const char *const args[])
{
    int out[2];
    int err[2];
    pid_t pid;
    bool ok;

    git->status = -1;
    git->error[0] = '\0';
    if (pipe2(out, O_CLOEXEC) != 0) {
        return failed(git, "no descriptors for git");
    }
    if (pipe2(err, O_CLOEXEC) != 0) {
        (void)close(out[0]);
        (void)close(out[1]);
        return failed(git, "no descriptors for git");
    }
    pid = fork();
    if (pid == 0) {
        become_git(git, args, out[1], err[1]);
    }
    (void)close(out[1]);
    (void)close(err[1]);
    ok = pid > 0 ? hear(git, pid, out[0], err[0])
                 : failed(git, "git cannot be started");
    (void)close(out[0]);
    (void)close(err[0]);
    return ok;
}
