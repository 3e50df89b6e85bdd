#include "allocator/conf/paths.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
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
        put(out, cap, "/tmp/warmpool-%u", (unsigned)geteuid());
    }
    return out;
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
