#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "local/sandbox/gvisor.h"

/* Descriptors as the sandbox's processes see them; sandbox_start.c puts them
 * there: 0-2 are standard. */
#define FD_LISTEN "3"
#define FD_CONTROL "4"
#define FD_INPUT "5" /* The seccomp filter, or gVisor's configuration. */
#define FD_REJOIN "6"

enum {
    ARGS_MAX = 1024,
    GVISOR_STATE_BYTES = 1 << 20,
};

struct builder {
    char **argv;
    size_t len;
    bool failed;
};

static void
add(struct builder *b, const char *text)
{
    if (b->len + 1 < ARGS_MAX) {
        b->argv[b->len] = strdup(text);
        b->failed |= b->argv[b->len] == NULL;
        b->len++;
    } else {
        b->failed = true;
    }
}

/* The arguments up to a NULL. */
static void
add_all(struct builder *b, ...)
{
    va_list ap;
    const char *text;

    va_start(ap, b);
    while ((text = va_arg(ap, const char *)) != NULL) {
        add(b, text);
    }
    va_end(ap);
}

static void
add_u64(struct builder *b, const char *option, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    add_all(b, option, text, NULL);
}

/* A place for a string of one sandbox. */
static size_t
add_hole(struct builder *b)
{
    b->argv[b->len] = NULL;
    return b->len++;
}

static void
add_tmpfs(struct builder *b, const char *path, const char *mode, uint64_t size)
{
    add_all(b, "--perms", mode, NULL);
    add_u64(b, "--size", size);
    add_all(b, "--tmpfs", path, NULL);
}

uint64_t
wp_local_tmpfs_size(const struct wp_local *local,
                    const struct wp_template *tmpl)
{
    return tmpl->memory_bytes != 0 ? tmpl->memory_bytes
                                   : local->config.tmpfs_bytes;
}

bool
wp_template_mounts(const struct wp_template *tmpl, const char *path)
{
    for (uint32_t i = 0; i < tmpl->mounts_len; i++) {
        if (strcmp(tmpl->mounts[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

static void
add_mounts(struct builder *b, const struct wp_local *local,
           const struct wp_local_template *lt)
{
    const struct wp_template *tmpl = lt->tmpl;
    uint64_t size = wp_local_tmpfs_size(local, tmpl);
    char bin[WP_ROOT_PATH_MAX];

    add_all(b, "--ro-bind", lt->root.dir, "/", NULL);
    for (size_t i = 0; i < lt->root.binds_len; i++) {
        add_all(b, "--ro-bind", lt->root.binds[i].from, lt->root.binds[i].to,
                NULL);
    }
    (void)snprintf(bin, sizeof bin, "%s/bin", local->state_dir);
    add_all(b, "--ro-bind", bin, WP_ROOT_BIN, "--proc", "/proc", "--dev",
            "/dev", NULL);
    /* Devices come as binds; what is left of /dev is a file system that could
     * be filled: only its shared memory stays writable, with a size. */
    add_tmpfs(b, "/dev/shm", "1777", size);
    add_all(b, "--remount-ro", "/dev", NULL);
    for (uint32_t i = 0; i < tmpl->mounts_len; i++) {
        const struct wp_template_mount *mount = &tmpl->mounts[i];

        add_tmpfs(b, mount->path, "0755",
                  mount->size_bytes != 0 ? mount->size_bytes : size);
        if (mount->read_only) {
            add_all(b, "--remount-ro", mount->path, NULL);
        }
    }
    if (!wp_template_mounts(tmpl, WP_ROOT_WORKSPACE)) {
        add_tmpfs(b, WP_ROOT_WORKSPACE, "0755", size);
    }
    if (!wp_template_mounts(tmpl, "/tmp")) {
        add_tmpfs(b, "/tmp", "1777", size);
    }
}

static void
add_env(struct builder *b, const struct wp_template *tmpl)
{
    add_all(b, "--setenv", "PATH", WP_SANDBOX_PATH, "--setenv", "HOME",
            WP_ROOT_WORKSPACE, "--setenv", "LANG", "C.UTF-8", NULL);
    for (size_t i = 0; tmpl->env[i] != NULL; i++) {
        const char *entry = tmpl->env[i];
        const char *equals = strchr(entry, '=');
        char name[WP_TEMPLATE_TEXT_MAX];

        if (equals != NULL && (size_t)(equals - entry) < sizeof name) {
            memcpy(name, entry, (size_t)(equals - entry));
            name[equals - entry] = '\0';
            add_all(b, "--setenv", name, equals + 1, NULL);
        }
    }
}

static void
add_identity(struct builder *b, struct wp_local_template *lt)
{
    add_all(b, "--setenv", "WARMPOOL_SANDBOX", NULL);
    lt->at_name = add_hole(b);
    add_all(b, "--setenv", "WARMPOOL_SANDBOX_UID", NULL);
    lt->at_uid = add_hole(b);
}

static void
add_init(struct builder *b, const struct wp_local *local,
         const struct wp_template *tmpl)
{
    add_all(b, "--listen", FD_LISTEN, "--control", FD_CONTROL, NULL);
    add_u64(b, "--port", tmpl->port);
    add_u64(b, "--conns", local->config.connections_max);
    if (tmpl->probe == WP_READY_HTTP) {
        add_all(b, "--http", tmpl->probe_path, NULL);
    }
    if (local->config.outlive) {
        add_all(b, "--rejoin", FD_REJOIN, NULL);
    }
}

static void
add_program(struct builder *b, const struct wp_local *local,
            const struct wp_template *tmpl)
{
    add_all(b, "--", WP_ROOT_BIN "/warmpool-init", NULL);
    add_init(b, local, tmpl);
    add_u64(b, "--procs", local->config.pids_max);
    add_all(b, "--write", "/tmp", "--write", WP_ROOT_WORKSPACE, NULL);
    for (uint32_t i = 0; i < tmpl->mounts_len; i++) {
        if (!tmpl->mounts[i].read_only) {
            add_all(b, "--write", tmpl->mounts[i].path, NULL);
        }
    }
    add(b, "--");
    for (size_t i = 0; tmpl->argv[i] != NULL; i++) {
        add(b, tmpl->argv[i]);
    }
}

static void
add_common(struct builder *b, const struct wp_local *local,
           struct wp_local_template *out)
{
    add_all(b, "--as-pid-1", "--hostname", NULL);
    out->at_hostname = add_hole(b);
    if (!local->config.outlive) {
        add(b, "--die-with-parent");
    }
    add(b, "--clearenv");
}

static void
add_sandbox(struct builder *b, const struct wp_local *local,
            struct wp_local_template *out)
{
    const char *dir = out->tmpl->working_dir;

    add_all(b, "--unshare-all", "--uid", "1000", "--gid", "1000",
            "--new-session", "--cap-drop", "ALL", NULL);
    add_common(b, local, out);
    if (local->host.seccomp) {
        add_all(b, "--seccomp", FD_INPUT, NULL);
    }
    add_mounts(b, local, out);
    add_env(b, out->tmpl);
    add_identity(b, out);
    add_all(b, "--chdir", dir != NULL ? dir : WP_ROOT_WORKSPACE, NULL);
    add_program(b, local, out->tmpl);
}

/* Only warmpool-init and gVisor's own processes see this root. */
static void
add_gvisor_sandbox(struct builder *b, const struct wp_local *local,
                   struct wp_local_template *out)
{
    char bin[WP_ROOT_PATH_MAX];

    add_all(b, WP_GVISOR_BWRAP, NULL);
    add_common(b, local, out);
    add_identity(b, out);
    (void)snprintf(bin, sizeof bin, "%s/bin", local->state_dir);
    add_all(b, "--ro-bind", out->root.dir, WP_GVISOR_ROOT, NULL);
    for (size_t i = 0; i < out->root.binds_len; i++) {
        char to[WP_ROOT_PATH_MAX];

        (void)snprintf(to, sizeof to, WP_GVISOR_ROOT "%s",
                       out->root.binds[i].to);
        add_all(b, "--ro-bind", out->root.binds[i].from, to, NULL);
    }
    add_all(b, "--ro-bind", bin, WP_GVISOR_ROOT WP_ROOT_BIN, "--ro-bind", bin,
            "/bin", "--ro-bind", local->host.runsc_path, "/runsc",
            "--ro-bind-data", FD_INPUT, WP_GVISOR_BUNDLE "/config.json",
            "--proc", "/proc", "--dev", "/dev", NULL);
    add_tmpfs(b, "/tmp", "0700", GVISOR_STATE_BYTES);
    add_tmpfs(b, "/run", "0700", GVISOR_STATE_BYTES);
    add_all(b, "--remount-ro", "/", "--", "/bin/warmpool-init", NULL);
    add_init(b, local, out->tmpl);
    add_all(b, "--confines-itself", "--", "/runsc", WP_GVISOR_RUNSC, "run",
            "--bundle", WP_GVISOR_BUNDLE, "sandbox", NULL);
}

enum wp_status
wp_bwrap_args_make(const struct wp_local *local, struct wp_local_template *out,
                   struct wp_err *err)
{
    struct builder b = {.argv = calloc(ARGS_MAX, sizeof(char *))};

    if (b.argv == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    out->argv = b.argv;
    add(&b, "bwrap");
    if (out->gvisor != NULL) {
        add_gvisor_sandbox(&b, local, out);
    } else {
        add_sandbox(&b, local, out);
    }
    out->argc = b.len;
    if (b.failed) {
        wp_bwrap_args_fini(out);
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "template %s has too many arguments",
                          out->tmpl->name);
    }
    return WP_OK;
}

void
wp_bwrap_args_fini(struct wp_local_template *tmpl)
{
    for (size_t i = 0; i < tmpl->argc; i++) {
        free(tmpl->argv[i]);
    }
    free(tmpl->argv);
    tmpl->argv = NULL;
    tmpl->argc = 0;
}
