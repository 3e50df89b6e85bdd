#include "proto/parcel/bind.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/parcel/parcel.h"

extern char **environ;

enum {
    PATH_BYTES = 1024,
    NAME_BYTES = 256,
    NAME_SHOWN = 60,
    SECRET_MODE = 0400,
    IDENTITY_PATH_MAX = 4096,
};

struct taking {
    int dir_fd;     /* Where the variables and secrets go. */
    int secrets_fd; /* -1 until the first. */
    int workspace_fd;
    const char *dir;
    const char *workspace;
    struct wp_bind_command *command;
    char *at; /* In command->text: the end of what is there. */
    size_t n_env;
    size_t n_words;
    char *why;
};

WP_PRINTF(2, 3) static bool refuse(const struct taking *t, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(t->why, WP_BIND_WHY_MAX, fmt, ap);
    va_end(ap);
    return false;
}

static bool
refuse_entry(const struct taking *t, const char *what,
             const struct wp_parcel_entry *entry)
{
    const char *error = strerror(errno);

    return refuse(
        t, "%s '%.*s': %s", what,
        (int)(entry->first_len < NAME_SHOWN ? entry->first_len : NAME_SHOWN),
        entry->first, error);
}

/* --- Files --- */

static bool
write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);

        if (n <= 0) {
            return false;
        }
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

/* False with errno. What is there under that name goes, unless it is a
 * folder. */
static bool
put_file(int dir, const char *name, const char *bytes, size_t len, mode_t mode)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(dir, name, flags, 0600);
    bool ok;
    int error;

    if (fd < 0 && errno == EEXIST && unlinkat(dir, name, 0) == 0) {
        fd = openat(dir, name, flags, 0600);
    }
    if (fd < 0) {
        return false;
    }
    ok = write_all(fd, bytes, len) && fchmod(fd, mode) == 0;
    error = errno;
    (void)close(fd);
    errno = error;
    return ok;
}

/* The folder `name` of dir, made if it is not there; closes dir unless it is
 * keep. -1 with errno; ELOOP and ENOTDIR for a link. */
static int
step_into(int dir, int keep, const char *name)
{
    const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(dir, name, flags);
    int error;

    if (fd < 0 && errno == ENOENT &&
        (mkdirat(dir, name, 0755) == 0 || errno == EEXIST)) {
        fd = openat(dir, name, flags);
    }
    error = errno;
    if (dir != keep) {
        (void)close(dir);
    }
    errno = error;
    return fd;
}

/* Will the kernel take all of these bytes for one name? */
static bool
is_name(const char *bytes, size_t len)
{
    return len > 0 && len < NAME_BYTES && memchr(bytes, '\0', len) == NULL &&
           !(len <= 2 && strncmp(bytes, "..", len) == 0);
}

/* The folder below the workspace that holds the last part of path, which is
 * copied to last; `all`: the folder that path itself is. -1 with errno. */
static int
walk(const struct taking *t, const char *path, size_t len, bool all,
     char last[NAME_BYTES])
{
    int dir = t->workspace_fd;
    size_t at = 0;

    last[0] = '\0';
    while (dir >= 0 && at <= len) {
        const char *slash = memchr(path + at, '/', len - at);
        size_t part = slash != NULL ? (size_t)(slash - path) - at : len - at;

        if (!is_name(path + at, part)) {
            if (dir != t->workspace_fd) {
                (void)close(dir);
            }
            errno = EINVAL;
            return -1;
        }
        memcpy(last, path + at, part);
        last[part] = '\0';
        at += part + 1;
        if (slash != NULL || all) {
            dir = step_into(dir, t->workspace_fd, last);
        }
    }
    return dir;
}

static bool
take_file(const struct taking *t, const struct wp_parcel_entry *entry)
{
    char name[NAME_BYTES];
    int dir = walk(t, entry->first, entry->first_len, false, name);
    bool ok = dir >= 0 && put_file(dir, name, entry->second, entry->second_len,
                                   (mode_t)entry->number & 0777);

    if (!ok) {
        (void)refuse_entry(t, "file", entry);
    }
    if (dir >= 0 && dir != t->workspace_fd) {
        (void)close(dir);
    }
    return ok;
}

static bool
take_dir(struct taking *t, const struct wp_parcel_entry *entry)
{
    char path[PATH_BYTES];
    char last[NAME_BYTES];
    bool absolute = entry->first_len > 0 && entry->first[0] == '/';
    int n =
        snprintf(path, sizeof path, "%s%s%.*s", absolute ? "" : t->workspace,
                 absolute ? "" : "/", (int)entry->first_len, entry->first);

    if (n <= 0 || n >= (int)sizeof path ||
        memchr(entry->first, '\0', entry->first_len) != NULL) {
        errno = n >= (int)sizeof path ? ENAMETOOLONG : EINVAL;
        return refuse_entry(t, "working_dir", entry);
    }
    t->command->dir_fd =
        absolute ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)
                 : walk(t, entry->first, entry->first_len, true, last);
    if (t->command->dir_fd < 0 ||
        !put_file(t->dir_fd, "cwd", path, (size_t)n, SECRET_MODE)) {
        return refuse_entry(t, "working_dir", entry);
    }
    return true;
}

/* --- Variables, secrets, words --- */

static void
add_env(struct taking *t, const struct wp_parcel_entry *entry)
{
    memcpy(t->at, entry->first, entry->first_len);
    t->at += entry->first_len;
    *t->at++ = '=';
    memcpy(t->at, entry->second, entry->second_len);
    t->at += entry->second_len;
    *t->at++ = '\0';
    t->n_env++;
}

/* Its file comes by itself. */
static bool
take_identity(struct taking *t, const struct wp_parcel_entry *entry)
{
    char path[IDENTITY_PATH_MAX];
    struct wp_parcel_entry variable = *entry;
    int n = snprintf(path, sizeof path, "%s/" WP_IDENTITY_FILE, t->dir);

    if (t->command->identity != NULL || n >= (int)sizeof path) {
        errno = t->command->identity != NULL ? EEXIST : ENAMETOOLONG;
        return refuse_entry(t, "identity", entry);
    }
    t->command->identity = t->at;
    if (variable.second_len == 0) {
        variable.second = path;
        variable.second_len = (size_t)n;
    }
    add_env(t, &variable);
    return true;
}

static bool
take_secret(struct taking *t, const struct wp_parcel_entry *entry)
{
    char name[NAME_BYTES];

    if (!is_name(entry->first, entry->first_len) ||
        memchr(entry->first, '/', entry->first_len) != NULL) {
        errno = EINVAL;
        return refuse_entry(t, "secret", entry);
    }
    memcpy(name, entry->first, entry->first_len);
    name[entry->first_len] = '\0';
    if (t->secrets_fd < 0) {
        t->secrets_fd =
            mkdirat(t->dir_fd, "secrets", 0700) == 0
                ? openat(t->dir_fd, "secrets", O_PATH | O_DIRECTORY | O_CLOEXEC)
                : -1;
    }
    if (t->secrets_fd < 0 || !put_file(t->secrets_fd, name, entry->second,
                                       entry->second_len, SECRET_MODE)) {
        return refuse_entry(t, "secret", entry);
    }
    if (entry->number != 0) {
        add_env(t, entry);
    }
    return true;
}

static bool
take_entry(struct taking *t, const struct wp_parcel_entry *entry)
{
    switch ((enum wp_parcel_kind)entry->kind) {
    case WP_PARCEL_ENV:
        add_env(t, entry);
        return true;
    case WP_PARCEL_SECRET:
        return take_secret(t, entry);
    case WP_PARCEL_FILE:
        return take_file(t, entry);
    case WP_PARCEL_DIR:
        return take_dir(t, entry);
    case WP_PARCEL_WORD:
        t->n_words++;
        return true;
    case WP_PARCEL_IDENTITY:
        return take_identity(t, entry);
    }
    return false;
}

/* --- The command --- */

static size_t
inherited(void)
{
    size_t count = 0;

    while (environ[count] != NULL) {
        count++;
    }
    return count;
}

static bool
is_set(char *const *env, size_t count, const char *entry)
{
    size_t len = strcspn(entry, "=") + 1;

    for (size_t i = 0; i < count; i++) {
        if (strncmp(env[i], entry, len) == 0) {
            return true;
        }
    }
    return false;
}

static bool
make_env(struct taking *t)
{
    struct wp_bind_command *command = t->command;
    char *at = command->text;
    size_t n = 0;

    command->env = calloc(t->n_env + inherited() + 1, sizeof *command->env);
    if (command->env == NULL) {
        return refuse(t, "command: no memory");
    }
    while (n < t->n_env) {
        command->env[n++] = at;
        at += strlen(at) + 1;
    }
    for (size_t i = 0; environ[i] != NULL; i++) {
        if (!is_set(command->env, t->n_env, environ[i])) {
            command->env[n++] = environ[i];
        }
    }
    return true;
}

static bool
make_argv(struct taking *t, struct wp_parcel parcel)
{
    struct wp_parcel_entry entry;
    size_t n = 0;

    t->command->argv = calloc(t->n_words + 1, sizeof *t->command->argv);
    if (t->command->argv == NULL) {
        return refuse(t, "command: no memory");
    }
    while (wp_parcel_next(&parcel, &entry)) {
        if (entry.kind == WP_PARCEL_WORD) {
            t->command->argv[n++] = t->at;
            memcpy(t->at, entry.first, entry.first_len);
            t->at += entry.first_len;
            *t->at++ = '\0';
        }
    }
    return true;
}

/* The variables last: who sees them sees all. */
static bool
take_all(struct taking *t, struct wp_parcel parcel)
{
    struct wp_parcel rest = parcel;
    struct wp_parcel_entry entry;

    while (wp_parcel_next(&rest, &entry)) {
        if (!take_entry(t, &entry)) {
            return false;
        }
    }
    if (rest.pos != rest.end) {
        return refuse(t, "what came is no binding");
    }
    if (t->n_env > 0 &&
        !put_file(t->dir_fd, "env", t->command->text,
                  (size_t)(t->at - t->command->text), SECRET_MODE)) {
        return refuse(t, "env: %s", strerror(errno));
    }
    return t->n_words == 0 || (make_env(t) && make_argv(t, parcel));
}

bool
wp_bind_take(
    const char *dir, const char *workspace, const uint8_t *parcel, size_t len,
    struct wp_bind_command *command,
    /* NOLINTNEXTLINE(readability-non-const-parameter): refuse fills it */
    char why[WP_BIND_WHY_MAX])
{
    struct taking t = {
        .dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC),
        .secrets_fd = -1,
        .workspace_fd = open(workspace, O_PATH | O_DIRECTORY | O_CLOEXEC),
        .dir = dir,
        .workspace = workspace,
        .command = command,
        .why = why,
    };
    bool ok;

    *command = (struct wp_bind_command){.dir_fd = -1};
    /* An entry's head is longer than what its texts get between them. */
    command->text_len = len + IDENTITY_PATH_MAX + 1;
    command->text = malloc(command->text_len);
    t.at = command->text;
    if (t.dir_fd < 0 || t.workspace_fd < 0 || command->text == NULL) {
        ok = refuse(&t, "%s: %s", t.dir_fd < 0 ? dir : workspace,
                    strerror(errno));
    } else {
        ok = take_all(&t, (struct wp_parcel){parcel, parcel + len});
    }
    if (t.dir_fd >= 0) {
        (void)close(t.dir_fd);
    }
    if (t.secrets_fd >= 0) {
        (void)close(t.secrets_fd);
    }
    if (t.workspace_fd >= 0) {
        (void)close(t.workspace_fd);
    }
    return ok;
}

bool
wp_bind_identity(const char *dir, const char *token, size_t len)
{
    static const char fresh[] = WP_IDENTITY_FILE ".new";
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && put_file(fd, fresh, token, len, SECRET_MODE) &&
              renameat(fd, fresh, fd, WP_IDENTITY_FILE) == 0;

    if (fd >= 0) {
        (void)close(fd);
    }
    return ok;
}

bool
wp_bind_is_identified(
    const char *dir, const struct wp_bind_command *command,
    /* NOLINTNEXTLINE(readability-non-const-parameter): snprintf fills it */
    char why[WP_BIND_WHY_MAX])
{
    char path[IDENTITY_PATH_MAX];

    if (command->identity == NULL) {
        return true;
    }
    (void)snprintf(path, sizeof path, "%s/" WP_IDENTITY_FILE, dir);
    if (access(path, F_OK) == 0) {
        return true;
    }
    (void)snprintf(why, WP_BIND_WHY_MAX, "identity '%.*s': %s",
                   (int)strcspn(command->identity, "="), command->identity,
                   strerror(errno));
    return false;
}

void
wp_bind_command_fini(struct wp_bind_command *command)
{
    if (command->text != NULL) {
        explicit_bzero(command->text, command->text_len);
    }
    free(command->text);
    free(command->argv);
    free(command->env);
    if (command->dir_fd >= 0) {
        (void)close(command->dir_fd);
    }
    *command = (struct wp_bind_command){.dir_fd = -1};
}
