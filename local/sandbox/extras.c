#include "local/sandbox/extras.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "local/control.h"
#include "local/sandbox/spawn.h"
#include "pool/base/compiler.h"

enum {
    FD_FIRST = 7, /* Behind those that every sandbox has. */
};

_Static_assert(FD_FIRST + 2 + WP_TEMPLATE_FILES_MAX <= WP_SPAWN_FDS_MAX,
               "every file has a descriptor");
_Static_assert((int)WP_TEMPLATE_INITS_MAX == (int)WP_CONTROL_INITS_MAX,
               "warmpool-init takes them all");

/* --- What warmpool-init runs --- */

static void
put(FILE *out, const char *text)
{
    (void)fwrite(text, 1, strlen(text) + 1, out);
}

static void
put_number(FILE *out, uint64_t number)
{
    (void)fprintf(out, "%llu", (unsigned long long)number);
    (void)fputc('\0', out);
}

static size_t
count(const char *const *texts)
{
    size_t n = 0;

    while (texts[n] != NULL) {
        n++;
    }
    return n;
}

static void
put_texts(FILE *out, const char *const *texts)
{
    for (size_t i = 0; texts[i] != NULL; i++) {
        put(out, texts[i]);
    }
}

static bool
sets(const char *const *env, const char *entry)
{
    size_t len = strcspn(entry, "=") + 1;

    for (size_t i = 0; env[i] != NULL; i++) {
        if (strncmp(env[i], entry, len) == 0) {
            return true;
        }
    }
    return false;
}

/* As the command's own: what a sandbox has unless its template says otherwise.
 */
static void
put_env(FILE *out, const char *const *env)
{
    static const char *const common[] = {
        ("PATH=" WP_SANDBOX_PATH),
        ("HOME=" WP_ROOT_WORKSPACE),
        "LANG=C.UTF-8",
    };
    size_t n = count(env);

    for (size_t i = 0; i < WP_ARRAY_LEN(common); i++) {
        n += !sets(env, common[i]);
    }
    put_number(out, n);
    for (size_t i = 0; i < WP_ARRAY_LEN(common); i++) {
        if (!sets(env, common[i])) {
            put(out, common[i]);
        }
    }
    put_texts(out, env);
}

static void
put_init(FILE *out, const struct wp_template_init *init)
{
    put(out, WP_PROGRAM_INIT);
    put(out, init->name);
    put_number(out, 0);
    put(out, init->working_dir != NULL ? init->working_dir : WP_ROOT_WORKSPACE);
    put_number(out, count(init->argv));
    put_texts(out, init->argv);
    put_env(out, init->env);
}

static void
put_probe(FILE *out, const struct wp_template *tmpl)
{
    put(out, WP_PROGRAM_PROBE);
    put(out, "readinessProbe");
    put_number(out, tmpl->probe_timeout_s);
    put(out, ""); /* Where, and with which variables, the command is. */
    put_number(out, count(tmpl->probe_argv));
    put_texts(out, tmpl->probe_argv);
    put_number(out, 0);
}

enum wp_status
wp_extras_make(struct wp_local_template *out, struct wp_err *err)
{
    const struct wp_template *tmpl = out->tmpl;
    char *text = NULL;
    size_t len = 0;
    FILE *stream;
    bool failed;

    if (tmpl->inits_len == 0 && tmpl->probe != WP_READY_EXEC) {
        return WP_OK;
    }
    stream = open_memstream(&text, &len);
    if (stream == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    for (uint32_t i = 0; i < tmpl->inits_len; i++) {
        put_init(stream, &tmpl->inits[i]);
    }
    if (tmpl->probe == WP_READY_EXEC) {
        put_probe(stream, tmpl);
    }
    failed = ferror(stream) != 0;
    failed = fclose(stream) != 0 || failed;
    out->programs = (struct wp_str){text, len};
    return failed ? wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory") : WP_OK;
}

void
wp_extras_fini(struct wp_local_template *tmpl)
{
    free((void *)(uintptr_t)tmpl->programs.ptr);
    tmpl->programs = (struct wp_str){NULL, 0};
}

/* --- Descriptors --- */

int
wp_extras_programs_fd(const struct wp_local *local)
{
    return FD_FIRST + (local->config.outlive ? 1 : 0);
}

int
wp_extras_files_fd(const struct wp_local *local,
                   const struct wp_local_template *tmpl)
{
    return wp_extras_programs_fd(local) + (tmpl->programs.len > 0 ? 1 : 0);
}

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

int
wp_extras_memory(struct wp_str bytes)
{
    int fd = memfd_create("warmpool", MFD_CLOEXEC);

    if (fd >= 0 &&
        (!write_all(fd, bytes.ptr, bytes.len) || lseek(fd, 0, SEEK_SET) != 0)) {
        int saved = errno;

        (void)close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

bool
wp_extras_open(const struct wp_local *local,
               const struct wp_local_template *tmpl, int *fds, int *len)
{
    int at = wp_extras_programs_fd(local);
    bool ok = true;

    if (tmpl->programs.len > 0) {
        fds[at] = wp_spawn_fd_above(wp_extras_memory(tmpl->programs));
        ok = fds[at++] >= 0;
    }
    for (uint32_t i = 0; i < tmpl->tmpl->mounts_len; i++) {
        const struct wp_template_mount *mount = &tmpl->tmpl->mounts[i];

        for (uint32_t j = 0; j < mount->files_len && ok; j++) {
            fds[at] =
                wp_spawn_fd_above(wp_extras_memory(mount->files[j].bytes));
            ok = fds[at++] >= 0;
        }
    }
    *len = at;
    return ok;
}
