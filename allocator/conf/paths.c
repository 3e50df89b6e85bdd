#include "allocator/conf/paths.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/compiler.h"

/* What fits; a cut path is reported by whoever opens it. */
static void put(char *out, size_t cap, const char *fmt, ...) WP_PRINTF(3, 4);

static void
put(char *out, size_t cap, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(out, cap, fmt, args);
    va_end(args);
}

static const char *
env(const char *name)
{
    /* Called before threads start, as the header asks. */
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe) */

    return value != NULL && value[0] == '/' ? value : NULL;
}

/* Made at a login, for this user alone. */
static bool
is_login_dir(const char *dir)
{
    struct stat st;

    return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid() && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

const char *
wp_paths_runtime_dir(char *out, size_t cap)
{
    if (env("RUNTIME_DIRECTORY") != NULL) {
        put(out, cap, "%s", env("RUNTIME_DIRECTORY"));
    } else if (geteuid() == 0) {
        put(out, cap, "/run/warmpool");
    } else if (env("XDG_RUNTIME_DIR") != NULL) {
        put(out, cap, "%s/warmpool", env("XDG_RUNTIME_DIR"));
    } else {
        put(out, cap, "/run/user/%u", (unsigned)geteuid());
        if (is_login_dir(out)) {
            put(out, cap, "/run/user/%u/warmpool", (unsigned)geteuid());
        } else {
            put(out, cap, "/tmp/warmpool-%u", (unsigned)geteuid());
        }
    }
    return out;
}

static enum wp_status
check_owner(const char *dir, const struct stat *st, struct wp_err *err)
{
    return st->st_uid == geteuid() || st->st_uid == 0
               ? WP_OK
               : wp_err_set(err, WP_PERMISSION_DENIED,
                            "'%.120s' belongs to user %u, not to user %u or"
                            " root: remove it, or choose another directory",
                            dir, (unsigned)st->st_uid, (unsigned)geteuid());
}

enum wp_status
wp_paths_check_dir(const char *dir, struct wp_err *err)
{
    enum wp_status status;
    struct stat st;

    if (lstat(dir, &st) != 0) {
        return WP_OK;
    }
    status = check_owner(dir, &st, err);
    if (status == WP_OK && S_ISLNK(st.st_mode)) {
        if (stat(dir, &st) != 0) {
            return WP_OK;
        }
        status = check_owner(dir, &st, err);
    }
    if (status == WP_OK &&
        ((st.st_mode & S_IWOTH) != 0 ||
         ((st.st_mode & S_IWGRP) != 0 && st.st_gid != getegid()))) {
        return wp_err_set(err, WP_PERMISSION_DENIED,
                          "others can write in '%.120s' (mode %03o): chmod go-w"
                          " it, or choose another directory",
                          dir, (unsigned)st.st_mode & 0777);
    }
    return status;
}

static const char *
socket_address(char *out, size_t cap, const char *name)
{
    char dir[512];

    put(out, cap, "unix:%s/%s", wp_paths_runtime_dir(dir, sizeof dir), name);
    return out;
}

const char *
wp_paths_grpc_address(char *out, size_t cap)
{
    return socket_address(out, cap, WP_GRPC_SOCKET_NAME);
}

const char *
wp_paths_http_address(char *out, size_t cap)
{
    return socket_address(out, cap, WP_HTTP_SOCKET_NAME);
}

const char *
wp_paths_access_token(char *out, size_t cap)
{
    char dir[512];

    put(out, cap, "%s/%s", wp_paths_runtime_dir(dir, sizeof dir),
        WP_ACCESS_TOKEN_NAME);
    return out;
}
