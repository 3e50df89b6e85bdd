#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "local/sandbox/extras.h"
#include "local/sandbox/gvisor.h"
#include "pool/base/compiler.h"

/* Descriptors as the sandbox's processes see them; sandbox_start.c puts them
 * there: 0-2 are standard. */
#define FD_LISTEN "3"
#define FD_CONTROL "4"
#define FD_INPUT "5" /* The seccomp filter, or gVisor's configuration. */
#define FD_OPTIONS "6"
#define FD_REJOIN "7"

enum {
    GVISOR_STATE_BYTES = 1 << 20,
    BOUND_BYTES = 1 << 20, /* Room for the longest binding's texts, twice. */
};

struct builder {
    char **argv;
    size_t len;
    size_t cap;
    size_t failed; /* How many had no room. */
};

/* The next place, empty; NULL: no memory, which is noted. */
static char **
add_place(struct builder *b)
{
    if (b->len == b->cap) {
        size_t cap = b->cap * 2 + 64;
        char **grown = realloc(b->argv, cap * sizeof *grown);

        if (grown == NULL) {
            b->failed++;
            return NULL;
        }
        b->argv = grown;
        b->cap = cap;
    }
    b->argv[b->len] = NULL;
    return &b->argv[b->len++];
}

static void
add(struct builder *b, const char *text)
{
    char **place = add_place(b);

    if (place != NULL) {
        *place = strdup(text);
        b->failed += *place == NULL;
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
    (void)add_place(b);
    return b->len - 1;
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
        if (tmpl->mounts[i].kind != WP_MOUNT_NONE &&
            strcmp(tmpl->mounts[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

/* What /proc tells of the machine beyond the sandbox's processes is covered,
 * and what sets the machine's course cannot be written, as OCI runtimes have
 * it; each where this kernel has it. What /proc/sys shows depends on who
 * looks, not on whose /proc it is. */
static void
add_proc_masks(struct builder *b)
{
    static const char *const masked[] = {
        "/proc/acpi",        "/proc/asound", "/proc/interrupts",
        "/proc/kcore",       "/proc/keys",   "/proc/latency_stats",
        "/proc/sched_debug", "/proc/scsi",   "/proc/timer_list",
        "/proc/timer_stats",
    };

    static const char *const fixed[] = {
        "/proc/bus",           "/proc/fs", "/proc/irq", "/proc/sys",
        "/proc/sysrq-trigger",
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(fixed); i++) {
        if (access(fixed[i], F_OK) == 0) {
            add_all(b, "--ro-bind", fixed[i], fixed[i], NULL);
        }
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(masked); i++) {
        struct stat st;

        if (stat(masked[i], &st) != 0) {
            continue;
        }
        if (S_ISDIR(st.st_mode)) {
            add_all(b, "--perms", "0555", "--tmpfs", masked[i], "--remount-ro",
                    masked[i], NULL);
        } else {
            /* A device that nobody can open there. */
            add_all(b, "--ro-bind", "/dev/null", masked[i], NULL);
        }
    }
}

/* A file whose bytes are read from descriptor fd. */
static void
add_file(struct builder *b, const char *option, int fd, uint32_t mode,
         const char *path)
{
    char mode_text[8];
    char fd_text[12];

    (void)snprintf(mode_text, sizeof mode_text, "%04o", mode);
    (void)snprintf(fd_text, sizeof fd_text, "%d", fd);
    add_all(b, "--perms", mode_text, option, fd_text, path, NULL);
}

/* Below `at`, which is the mount's place; fd is of its first file. */
static void
add_files(struct builder *b, const char *at,
          const struct wp_template_mount *mount, int fd)
{
    for (uint32_t i = 0; i < mount->files_len; i++) {
        char path[WP_ROOT_PATH_MAX];

        (void)snprintf(path, sizeof path, "%s/%s", at, mount->files[i].path);
        add_file(b, "--file", fd + (int)i, mount->files[i].mode, path);
    }
}

static void
add_volumes(struct builder *b, const struct wp_local *local,
            const struct wp_local_template *lt, uint64_t size)
{
    const struct wp_template *tmpl = lt->tmpl;
    int fd = wp_extras_files_fd(local, lt);

    for (uint32_t i = 0; i < tmpl->mounts_len; i++) {
        const struct wp_template_mount *mount = &tmpl->mounts[i];

        switch (mount->kind) {
        case WP_MOUNT_FILE:
            add_file(b, "--ro-bind-data", fd, mount->files[0].mode,
                     mount->path);
            break;
        case WP_MOUNT_EMPTY:
        case WP_MOUNT_FILES:
            add_tmpfs(b, mount->path, "0755",
                      mount->size_bytes != 0 ? mount->size_bytes : size);
            add_files(b, mount->path, mount, fd);
            if (mount->read_only && !mount->prepared) {
                add_all(b, "--remount-ro", mount->path, NULL);
            }
            break;
        case WP_MOUNT_NONE:
            break;
        }
        fd += (int)mount->files_len;
    }
}

static void
add_mounts(struct builder *b, const struct wp_local *local,
           const struct wp_local_template *lt)
{
    const struct wp_template *tmpl = lt->tmpl;
    uint64_t size = wp_local_tmpfs_size(local, tmpl);
    char bin[WP_ROOT_PATH_MAX];

    for (size_t i = 0; i < lt->root.binds_len; i++) {
        add_all(b, "--ro-bind", lt->root.binds[i].from, lt->root.binds[i].to,
                NULL);
    }
    (void)snprintf(bin, sizeof bin, "%s/bin", local->state_dir);
    add_all(b, "--ro-bind", bin, WP_ROOT_BIN, "--proc", "/proc", "--dev",
            "/dev", NULL);
    add_proc_masks(b);
    /* Devices come as binds; what is left of /dev is a file system that could
     * be filled: only its shared memory stays writable, with a size. */
    add_tmpfs(b, "/dev/shm", "1777", size);
    add_all(b, "--remount-ro", "/dev", NULL);
    add_volumes(b, local, lt, size);
    if (!wp_template_mounts(tmpl, WP_ROOT_WORKSPACE)) {
        add_tmpfs(b, WP_ROOT_WORKSPACE, "0755", size);
    }
    if (!wp_template_mounts(tmpl, "/tmp")) {
        add_tmpfs(b, "/tmp", "1777", size);
    }
    add_tmpfs(b, WP_ROOT_BOUND, "0700", BOUND_BYTES);
}

static void
add_env(struct builder *b, const struct wp_template *tmpl)
{
    add_all(b, "--setenv", "PATH", WP_SANDBOX_PATH, "--setenv", "HOME",
            WP_ROOT_WORKSPACE, "--setenv", "LANG", "C.UTF-8", "--setenv",
            "WARMPOOL_BOUND_DIR", WP_ROOT_BOUND, NULL);
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
         struct wp_local_template *lt)
{
    const struct wp_template *tmpl = lt->tmpl;

    add_all(b, "--listen", FD_LISTEN, "--control", FD_CONTROL, "--egress",
            NULL);
    lt->at_egress = add_hole(b);
    add_u64(b, "--port", tmpl->port);
    add_u64(b, "--conns", local->config.connections_max);
    if (tmpl->probe == WP_READY_HTTP) {
        add_all(b, "--http", tmpl->probe_path, NULL);
    }
    if (local->config.outlive) {
        add_all(b, "--rejoin", FD_REJOIN, NULL);
    }
    if (lt->programs.len > 0) {
        add_u64(b, "--programs", (uint64_t)wp_extras_programs_fd(local));
    }
}

/* What comes from here on is on the command line, for all to see. */
static void
begin_command(struct builder *b, struct wp_local_template *out, const char *at,
              const char *program)
{
    out->at_command = b->len;
    /* The root tells whose it is, and comes before what is mounted in it. */
    add_all(b, "bwrap", "--ro-bind", out->root.dir, at, "--args", FD_OPTIONS,
            "--", program, NULL);
}

static void
add_program(struct builder *b, const struct wp_local *local,
            struct wp_local_template *out)
{
    const struct wp_template *tmpl = out->tmpl;

    begin_command(b, out, "/", WP_ROOT_BIN "/warmpool-init");
    add_init(b, local, out);
    add_u64(b, "--procs", local->config.pids_max);
    add_all(b, "--bound", WP_ROOT_BOUND, "--workspace", WP_ROOT_WORKSPACE,
            "--write", "/tmp", "--write", WP_ROOT_WORKSPACE, NULL);
    for (uint32_t i = 0; i < tmpl->mounts_len; i++) {
        if (!tmpl->mounts[i].read_only) {
            add_all(b, "--write", tmpl->mounts[i].path, NULL);
        } else if (tmpl->mounts[i].prepared) {
            add_all(b, "--prepare", tmpl->mounts[i].path, NULL);
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
    add_program(b, local, out);
}

/* Where gVisor's configuration binds them from. There they have another owner
 * than the program is: what their owner may read, everybody may. */
static void
add_gvisor_volumes(struct builder *b, const struct wp_local *local,
                   const struct wp_local_template *lt)
{
    const struct wp_template *tmpl = lt->tmpl;
    int fd = wp_extras_files_fd(local, lt);

    for (uint32_t i = 0; i < tmpl->mounts_len; i++) {
        const struct wp_template_mount *mount = &tmpl->mounts[i];
        char at[WP_GVISOR_VOLUME_MAX];

        wp_gvisor_volume(i, at);
        if (mount->kind == WP_MOUNT_FILES) {
            add_all(b, "--perms", "0755", "--dir", at, NULL);
        }
        for (uint32_t j = 0; j < mount->files_len; j++) {
            char path[WP_ROOT_PATH_MAX];
            uint32_t mode = mount->files[j].mode;

            (void)snprintf(path, sizeof path, "%s%s%s", at,
                           mount->kind == WP_MOUNT_FILES ? "/" : "",
                           mount->files[j].path);
            add_file(b, "--file", fd++,
                     mode | (mode >> 3 & 050) | (mode >> 6 & 05), path);
        }
    }
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
    add_gvisor_volumes(b, local, out);
    add_tmpfs(b, "/tmp", "0700", GVISOR_STATE_BYTES);
    add_tmpfs(b, "/run", "0700", GVISOR_STATE_BYTES);
    add_all(b, "--remount-ro", "/", NULL);
    begin_command(b, out, WP_GVISOR_ROOT, "/bin/warmpool-init");
    add_init(b, local, out);
    add_all(b, "--confines-itself", "--", "/runsc", WP_GVISOR_RUNSC, "run",
            "--bundle", WP_GVISOR_BUNDLE, "sandbox", NULL);
}

enum wp_status
wp_bwrap_args_make(const struct wp_local *local, struct wp_local_template *out,
                   struct wp_err *err)
{
    struct builder b = {.argv = NULL};

    if (out->gvisor != NULL) {
        add_gvisor_sandbox(&b, local, out);
    } else {
        add_sandbox(&b, local, out);
    }
    out->argv = b.argv;
    out->argc = b.len;
    if (b.failed > 0) {
        wp_bwrap_args_fini(out);
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "no memory for the arguments of template %s",
                          out->tmpl->name);
    }
    return WP_OK;
}

int
wp_bwrap_options_open(char *const *argv, size_t len)
{
    size_t size = 0;
    char *text;
    char *at;
    int fd;

    for (size_t i = 0; i < len; i++) {
        size += strlen(argv[i]) + 1;
    }
    text = malloc(size + 1);
    if (text == NULL) {
        return -1;
    }
    at = text;
    for (size_t i = 0; i < len; i++) {
        at = stpcpy(at, argv[i]) + 1;
    }
    fd = wp_extras_memory((struct wp_str){text, size});
    free(text);
    return fd;
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
