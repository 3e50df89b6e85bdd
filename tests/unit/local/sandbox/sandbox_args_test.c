/* local/sandbox/bwrap_args.c, extras.c and gvisor.c: all that a sandbox is started
 * with, whole, for templates that use everything and nothing; and what comes of
 * each lack of memory and descriptors. The texts are in golden/. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "local/sandbox/extras.h"
#include "local/sandbox/gvisor.h"
#include "local/sandbox/spawn.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/golden.h"

static struct {
    bool on;
    int calls;       /* Of allocations, or of what makes descriptors. */
    int fail_at;     /* 0: none fails. */
    bool has_proc;   /* This kernel has all that is hidden there. */
    size_t piece;    /* Bytes that one write takes; 0: all. */
    bool write_ends; /* One takes nothing. */
    bool read_only;  /* Files in memory cannot be written. */
    int memfd_flags; /* Of the last one. */
    char memfd_name[32];
} rig;
static struct golden seen;
static struct wp_local local;
static struct wp_local_template lt;
static struct wp_template tmpl;

static bool
fails(int error)
{
    if (!rig.on || ++rig.calls != rig.fail_at) {
        return false;
    }
    errno = error;
    return true;
}

/* --- What lies below --- */

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
char *__wrap_strdup(const char *text);
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);
int __real_stat(const char *path, struct stat *out);
int __wrap_stat(const char *path, struct stat *out);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
off_t __real_lseek(int fd, off_t to, int whence);
off_t __wrap_lseek(int fd, off_t to, int whence);
FILE *__real_open_memstream(char **text, size_t *len);
FILE *__wrap_open_memstream(char **text, size_t *len);
int __real_ferror(FILE *file);
int __wrap_ferror(FILE *file);
int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
int __real_wp_spawn_fd_above(int fd);
int __wrap_wp_spawn_fd_above(int fd);

void *
__wrap_realloc(void *old, size_t size)
{
    return fails(ENOMEM) ? NULL : __real_realloc(old, size);
}

void *
__wrap_malloc(size_t size)
{
    return fails(ENOMEM) ? NULL : __real_malloc(size);
}

char *
__wrap_strdup(const char *text)
{
    char *copy = fails(ENOMEM) ? NULL : __real_malloc(strlen(text) + 1);

    return copy != NULL ? strcpy(copy, text) : NULL; /* NOLINT */
}

int
__wrap_access(const char *path, int mode)
{
    if (!rig.on) {
        return __real_access(path, mode);
    }
    assert_int_equal(mode, F_OK);
    return rig.has_proc ? 0 : -1;
}

/* Some are folders, and one is not there. */
int
__wrap_stat(const char *path, struct stat *out)
{
    if (!rig.on) {
        return __real_stat(path, out);
    }
    memset(out, 0, sizeof *out);
    out->st_mode =
        strcmp(path, "/proc/acpi") == 0 || strcmp(path, "/proc/scsi") == 0
            ? S_IFDIR | 0555
            : S_IFREG | 0444;
    return rig.has_proc && strcmp(path, "/proc/timer_stats") != 0 ? 0 : -1;
}

int
__wrap_memfd_create(const char *name, unsigned flags)
{
    if (fails(EMFILE)) {
        return -1;
    }
    (void)snprintf(rig.memfd_name, sizeof rig.memfd_name, "%s", name);
    rig.memfd_flags = (int)flags;
    return rig.read_only ? open("/dev/null", O_RDONLY | O_CLOEXEC)
                         : __real_memfd_create(name, flags);
}

ssize_t
__wrap_write(int fd, const void *bytes, size_t len)
{
    if (rig.on && (rig.write_ends || fails(ENOSPC))) {
        return rig.write_ends ? 0 : -1;
    }
    return __real_write(fd, bytes,
                        rig.on && rig.piece > 0 && rig.piece < len ? rig.piece
                                                                   : len);
}

off_t
__wrap_lseek(int fd, off_t to, int whence)
{
    return fails(EIO) ? -1 : __real_lseek(fd, to, whence);
}

FILE *
__wrap_open_memstream(char **text, size_t *len)
{
    return fails(ENOMEM) ? NULL : __real_open_memstream(text, len);
}

int
__wrap_ferror(FILE *file)
{
    return fails(ENOMEM) ? 1 : __real_ferror(file);
}

int
__wrap_fclose(FILE *file)
{
    int rc = __real_fclose(file);

    return fails(ENOMEM) ? EOF : rc;
}

int
__wrap_wp_spawn_fd_above(int fd)
{
    if (fails(EMFILE)) {
        (void)close(fd);
        return -1;
    }
    return __real_wp_spawn_fd_above(fd);
}

/* --- Templates --- */

static const char *const no_texts[] = {NULL};
static const char *const argv[] = {"/bin/server", "--flag", "", NULL};
static const char *const env[] = {"A=1", "PATH=/only", "EMPTY=", "B=c=d", NULL};
static const char *const odd_env[] = {"no equals", "=x", NULL};
static const struct wp_template_file files[] = {
    {"a", {"bytes of a", 10}, 0644},
    {"dir/b", {"", 0}, 0700},
    {"c", {"c", 1}, 0},
    {"d", {"dd", 2}, 0777},
};
static const struct wp_template_mount mounts[] = {
    {.kind = WP_MOUNT_FILES,
     .path = "/conf",
     .read_only = true,
     .files = files,
     .files_len = 2},
    {.kind = WP_MOUNT_FILE,
     .path = "/etc/one",
     .read_only = true,
     .files = files + 2,
     .files_len = 1},
    {.kind = WP_MOUNT_EMPTY, .path = "/data", .size_bytes = 12345},
    {.kind = WP_MOUNT_EMPTY, .path = "/ro", .read_only = true},
    {.kind = WP_MOUNT_EMPTY,
     .path = "/prepared",
     .read_only = true,
     .prepared = true},
    {.kind = WP_MOUNT_NONE, .path = "/tmp", .read_only = true},
    {.kind = WP_MOUNT_FILES,
     .path = "/last",
     .read_only = true,
     .prepared = true,
     .files = files + 3,
     .files_len = 1},
};
static const struct wp_template_mount own_mounts[] = {
    {.kind = WP_MOUNT_EMPTY, .path = "/workspace"},
    {.kind = WP_MOUNT_EMPTY, .path = "/tmp", .size_bytes = 1},
};
/* Nearly those that every sandbox has. */
static const char *const near_env[] = {"HOMES=1", "LAN=2", NULL};
static const struct wp_template_init inits[] = {
    {"first", argv, env, "/init"},
    {"second", no_texts, no_texts, NULL},
    {"third", no_texts, near_env, NULL},
};

/* One that says nothing. */
static void
plain(void)
{
    memset(&rig, 0, sizeof rig);
    memset(&local, 0, sizeof local);
    memset(&lt, 0, sizeof lt);
    tmpl = (struct wp_template){.name = "plain",
                                .argv = argv,
                                .env = no_texts,
                                .port = 8080,
                                .probe = WP_READY_TCP};
    lt.tmpl = &tmpl;
    (void)snprintf(lt.root.dir, sizeof lt.root.dir, "/s/root");
    (void)snprintf(local.state_dir, sizeof local.state_dir, "/s");
    (void)snprintf(local.host.runsc_path, sizeof local.host.runsc_path,
                   "/usr/bin/runsc");
    local.config.pids_max = 512;
    local.config.connections_max = 64;
    local.config.tmpfs_bytes = 1000000;
}

/* One that says it all. */
static void
full(void)
{
    static struct wp_root_bind binds[] = {
        {(char *)(uintptr_t) "/usr", (char *)(uintptr_t) "/usr"},
        {(char *)(uintptr_t) "/img/lib", (char *)(uintptr_t) "/lib"}};

    plain();
    memcpy(lt.root.binds, binds, sizeof binds);
    lt.root.binds_len = 2;
    tmpl.env = env;
    tmpl.working_dir = "/work";
    tmpl.probe = WP_READY_HTTP;
    tmpl.probe_path = "/healthy";
    tmpl.memory_bytes = 777;
    tmpl.mounts = mounts;
    tmpl.mounts_len = WP_ARRAY_LEN(mounts);
    tmpl.inits = inits;
    tmpl.inits_len = WP_ARRAY_LEN(inits);
    local.config.outlive = true;
    local.host.seccomp = true;
    rig.has_proc = true;
}

static void
exec_probe(void)
{
    plain();
    tmpl.probe = WP_READY_EXEC;
    tmpl.probe_argv = argv;
    tmpl.probe_timeout_s = 9;
    tmpl.mounts = own_mounts;
    tmpl.mounts_len = WP_ARRAY_LEN(own_mounts);
    tmpl.env = odd_env;
}

static const struct {
    const char *name;
    void (*make)(void);
} templates[] = {{"plain", plain}, {"full", full}, {"exec", exec_probe}};

static int
set_up(void **state)
{
    (void)state;
    seen.len = 0;
    plain();
    return 0;
}

static void
compare(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/%s.txt", name);
    golden_compare(seen.text, path);
}

static void
make_extras(void)
{
    struct wp_err err;

    assert_int_equal(wp_extras_make(&lt, &err), WP_OK);
}

/* --- What bubblewrap is told --- */

static void
dump_args(void)
{
    for (size_t i = 0; i < lt.argc; i++) {
        if (i == lt.at_command) {
            golden_add(&seen, "the command:\n");
        }
        golden_add(&seen, "  %s\n",
                   lt.argv[i] != NULL    ? lt.argv[i]
                   : i == lt.at_hostname ? "<its hostname>"
                   : i == lt.at_name     ? "<its name>"
                   : i == lt.at_uid      ? "<its uid>"
                   : i == lt.at_egress   ? "<its egress>"
                                         : "<?>");
    }
}

static void
bubblewrap_is_told_all_of_a_template(void **state)
{
    struct wp_err err;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(templates); i++) {
        for (int gvisor = 0; gvisor < 2; gvisor++) {
            golden_add(&seen, "--- %s%s\n", templates[i].name,
                       gvisor != 0 ? " in gVisor" : "");
            templates[i].make();
            make_extras();
            lt.gvisor = gvisor != 0 ? json_true() : NULL;
            rig.on = true;
            assert_int_equal(wp_bwrap_args_make(&local, &lt, &err), WP_OK);
            rig.on = false;
            dump_args();
            wp_bwrap_args_fini(&lt);
            assert_null(lt.argv);
            assert_int_equal(lt.argc, 0);
            wp_extras_fini(&lt);
            assert_null(lt.programs.ptr);
        }
    }
    compare("args/bwrap");
}

/* A variable whose name is as long as a text can be. */
static void
a_variable_has_a_longest_name(void **state)
{
    static char long_env[WP_TEMPLATE_TEXT_MAX + 8];
    const char *const texts[] = {long_env, NULL};
    struct wp_err err;

    (void)state;
    for (size_t len = WP_TEMPLATE_TEXT_MAX - 1; len <= WP_TEMPLATE_TEXT_MAX;
         len++) {
        size_t found = 0;

        memset(long_env, 'n', len);
        (void)snprintf(long_env + len, 3, "=v");
        plain();
        tmpl.env = texts;
        assert_int_equal(wp_bwrap_args_make(&local, &lt, &err), WP_OK);
        for (size_t i = 0; i < lt.argc; i++) {
            if (lt.argv[i] != NULL && strlen(lt.argv[i]) == len) {
                found++;
                assert_string_equal(lt.argv[i - 1], "--setenv");
                assert_string_equal(lt.argv[i + 1], "v");
            }
        }
        assert_int_equal(found, len < WP_TEMPLATE_TEXT_MAX ? 1 : 0);
        wp_bwrap_args_fini(&lt);
    }
}

static void
no_memory_for_arguments_is_told(void **state)
{
    struct wp_err err;
    enum wp_status status;
    int failed = 0;

    (void)state;
    full();
    make_extras();
    do {
        rig.fail_at++;
        rig.calls = 0;
        rig.on = true;
        status = wp_bwrap_args_make(&local, &lt, &err);
        rig.on = false;
        if (status != WP_OK) {
            failed++;
            assert_int_equal(status, WP_RESOURCE_EXHAUSTED);
            assert_string_equal(
                err.msg, "no memory for the arguments of template plain");
            assert_null(lt.argv);
            assert_int_equal(lt.argc, 0);
        }
    } while (status != WP_OK);
    /* All but the holes, in a list that has grown three times. */
    assert_int_equal(failed, (int)lt.argc - 4 + 3);
    wp_bwrap_args_fini(&lt);
    wp_extras_fini(&lt);
}

/* --- Files in memory --- */

static void
expect_bytes(int fd, const char *bytes, size_t len)
{
    char text[256];
    struct stat st;

    assert_true(fd >= 0);
    assert_int_equal(__real_lseek(fd, 0, SEEK_CUR), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, len);
    assert_int_equal(read(fd, text, sizeof text), (ssize_t)len);
    assert_memory_equal(text, bytes, len);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_int_equal(close(fd), 0);
}

static void
options_come_from_memory(void **state)
{
    char one[] = "--one";
    char none[] = "";
    char two[] = "2";
    char *const options[] = {one, none, two};

    (void)state;
    rig.on = true;
    rig.piece = 2;
    expect_bytes(wp_bwrap_options_open(options, 3), "--one\0\0002", 9);
    assert_string_equal(rig.memfd_name, "warmpool");
    assert_int_equal(rig.memfd_flags, MFD_CLOEXEC);
    expect_bytes(wp_bwrap_options_open(options, 2), "--one\0", 7);
    expect_bytes(wp_bwrap_options_open(options, 0), "", 0);
    rig.fail_at = rig.calls + 1;
    assert_int_equal(wp_bwrap_options_open(options, 3), -1);
}

static void
what_cannot_be_written_is_no_file(void **state)
{
    static const int errors[] = {EMFILE, ENOSPC, EIO};
    size_t before = descriptors_count();

    (void)state;
    rig.on = true;
    for (size_t i = 0; i < WP_ARRAY_LEN(errors); i++) {
        rig.calls = 0;
        rig.fail_at = (int)i + 1;
        errno = 0;
        assert_int_equal(wp_extras_memory(WP_STR("bytes")), -1);
        assert_int_equal(errno, errors[i]);
        assert_int_equal(descriptors_count(), before);
    }
    rig.fail_at = 0;
    rig.write_ends = true;
    assert_int_equal(wp_extras_memory(WP_STR("bytes")), -1);
    assert_int_equal(descriptors_count(), before);
}

/* --- What warmpool-init runs, and the files of mounts --- */

static void
inits_are_told_all_of_their_programs(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(templates); i++) {
        golden_add(&seen, "--- %s\n", templates[i].name);
        templates[i].make();
        make_extras();
        for (size_t at = 0; at < lt.programs.len; at++) {
            char c = lt.programs.ptr[at];

            golden_add(&seen, "%c", c != '\0' ? c : '\n');
        }
        golden_add(&seen, "descriptors %d and %d\n",
                   wp_extras_programs_fd(&local),
                   wp_extras_files_fd(&local, &lt));
        wp_extras_fini(&lt);
    }
    full();
    tmpl.probe = WP_READY_EXEC;
    tmpl.probe_argv = no_texts;
    tmpl.inits_len = 0;
    make_extras();
    assert_memory_equal(lt.programs.ptr,
                        "probe\0readinessProbe\0000\0\0000\0000",
                        lt.programs.len);
    wp_extras_fini(&lt);
    compare("args/programs");
}

static void
no_memory_for_programs_is_told(void **state)
{
    struct wp_err err;
    enum wp_status status;

    (void)state;
    for (int i = 1; i <= 4; i++) {
        full();
        rig.fail_at = i;
        rig.on = true;
        status = wp_extras_make(&lt, &err);
        rig.on = false;
        assert_int_equal(status, i < 4 ? WP_RESOURCE_EXHAUSTED : WP_OK);
        if (i < 4) {
            assert_string_equal(err.msg, "no memory");
        }
        wp_extras_fini(&lt);
    }
}

static void
each_file_has_its_descriptor(void **state)
{
    int fds[WP_SPAWN_FDS_MAX];
    int len = 0;

    (void)state;
    full();
    make_extras();
    memset(fds, -1, sizeof fds);
    assert_true(wp_extras_open(&local, &lt, fds, &len));
    assert_int_equal(len, 13);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(fds[i], -1);
    }
    for (int i = 8; i < 13; i++) {
        assert_true(fds[i] >= WP_SPAWN_FDS_MAX);
    }
    assert_int_equal(close(fds[8]), 0);
    expect_bytes(fds[9], "bytes of a", 10);
    expect_bytes(fds[10], "", 0);
    expect_bytes(fds[11], "c", 1);
    expect_bytes(fds[12], "dd", 2);
    wp_extras_fini(&lt);
    /* None at all. */
    plain();
    assert_true(wp_extras_open(&local, &lt, fds, &len));
    assert_int_equal(len, 7);
}

/* However many there are left. */
static void
a_lack_of_descriptors_leaves_those_to_close(void **state)
{
    int fds[WP_SPAWN_FDS_MAX];
    int len;
    size_t before = descriptors_count();
    bool ok;
    int fail_at = 0;

    (void)state;
    do {
        full();
        make_extras();
        memset(fds, -1, sizeof fds);
        rig.fail_at = ++fail_at;
        rig.on = true;
        len = 0;
        ok = wp_extras_open(&local, &lt, fds, &len);
        if (!ok) {
            golden_add(&seen, "%d: %s, %d\n", fail_at, strerror(errno), len);
        }
        rig.on = false;
        for (int i = 0; i < len; i++) {
            if (fds[i] >= 0) {
                assert_int_equal(close(fds[i]), 0);
            }
        }
        assert_int_equal(descriptors_count(), before);
        wp_extras_fini(&lt);
    } while (!ok);
    compare("args/descriptors");
}

/* --- gVisor's configuration --- */

static void
add_json(const json_t *json)
{
    char *text = json_dumps(json, JSON_INDENT(1) | JSON_ENCODE_ANY);

    assert_non_null(text);
    golden_add(&seen, "%s\n", text);
    free(text);
}

static void
gvisor_is_told_all_of_a_template(void **state)
{
    struct wp_err err;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(templates); i++) {
        golden_add(&seen, "--- %s\n", templates[i].name);
        templates[i].make();
        assert_int_equal(wp_gvisor_make(&local, &lt, &err), WP_OK);
        add_json(lt.gvisor);
        wp_gvisor_fini(&lt);
        assert_null(lt.gvisor);
    }
    compare("args/gvisor");
}

static void
gvisor_takes_utf_8_only(void **state)
{
    static const char *const bad[] = {"a", "\xff", NULL};
    static const char *const bad_env[] = {"A=\xff", NULL};
    struct wp_err err;

    (void)state;
    for (int i = 0; i < 3; i++) {
        plain();
        if (i == 0) {
            tmpl.argv = bad;
        } else if (i == 1) {
            tmpl.env = bad_env;
        } else {
            tmpl.working_dir = bad[1];
        }
        assert_int_equal(wp_gvisor_make(&local, &lt, &err),
                         WP_INVALID_ARGUMENT);
        assert_null(lt.gvisor);
        assert_string_equal(err.msg,
                            "its arguments and environment do not make a "
                            "configuration for gVisor: UTF-8 was expected");
    }
}

/* What one sandbox has of its own; the template's stays as it is. */
static void
a_sandbox_has_its_own_configuration(void **state)
{
    static const char *const own[] = {
        "https_proxy=mine", "NO_PROXY=", "A=1", "WARMPOOL_SANDBOX=forged",
        "http_proxys=x",    "no_prox=y", NULL};
    char longest[WP_SANDBOX_NAME_MAX + 1];
    struct wp_err err;
    json_t *config;

    (void)state;
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    for (int i = 0; i < 4; i++) {
        int fd;

        plain();
        tmpl.env = i == 2 ? own : no_texts;
        assert_int_equal(wp_gvisor_make(&local, &lt, &err), WP_OK);
        fd = wp_gvisor_config_open(&lt, i == 3 ? longest : "pool-x1", "0123abc",
                                   i > 0);
        assert_true(fd >= 0);
        assert_int_equal(__real_lseek(fd, 0, SEEK_CUR), 0);
        assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
        config = json_loadfd(fd, 0, NULL);
        assert_non_null(config);
        add_json(json_object_get(json_object_get(config, "process"), "env"));
        add_json(json_object_get(config, "hostname"));
        json_decref(config);
        add_json(json_object_get(json_object_get(lt.gvisor, "process"), "env"));
        assert_null(json_object_get(lt.gvisor, "hostname"));
        assert_int_equal(close(fd), 0);
        wp_gvisor_fini(&lt);
    }
    compare("args/gvisor_own");
}

static void *
json_malloc(size_t size)
{
    int saved = errno;
    bool failed = fails(ENOMEM);

    errno = saved; /* That memory lacks is the caller's to say. */
    return failed ? NULL : __real_malloc(size);
}

static void
no_memory_for_gvisor_is_told(void **state)
{
    struct wp_err err;
    enum wp_status status;
    int fail_at = 0;
    int fd;
    json_malloc_t old_malloc;
    json_free_t old_free;

    (void)state;
    json_get_alloc_funcs(&old_malloc, &old_free);
    json_set_alloc_funcs(json_malloc, old_free);
    do {
        full();
        rig.fail_at = ++fail_at;
        rig.on = true;
        status = wp_gvisor_make(&local, &lt, &err);
        rig.on = false;
        if (status != WP_OK) {
            assert_int_equal(status, WP_INVALID_ARGUMENT);
            assert_null(lt.gvisor);
        }
    } while (rig.calls >= fail_at);
    assert_int_equal(status, WP_OK);
    fail_at = 0;
    do {
        rig.calls = 0;
        rig.fail_at = ++fail_at;
        rig.on = true;
        errno = 0;
        fd = wp_gvisor_config_open(&lt, "pool-x1", "0123abc", true);
        rig.on = false;
        if (fd < 0) {
            assert_true(errno == ENOMEM || errno == EMFILE || errno == EIO);
        } else {
            assert_true(rig.calls < fail_at);
            assert_int_equal(close(fd), 0);
        }
    } while (rig.calls >= fail_at);
    assert_true(fd >= 0);
    wp_gvisor_fini(&lt);
    json_set_alloc_funcs(old_malloc, old_free);
}

static void
a_configuration_that_cannot_be_written_is_none(void **state)
{
    struct wp_err err;
    size_t before = descriptors_count();

    (void)state;
    assert_int_equal(wp_gvisor_make(&local, &lt, &err), WP_OK);
    rig.on = true;
    rig.read_only = true;
    errno = 0;
    assert_int_equal(wp_gvisor_config_open(&lt, "pool-x1", "0123abc", false),
                     -1);
    assert_int_equal(errno, EBADF);
    assert_string_equal(rig.memfd_name, "config.json");
    assert_int_equal(rig.memfd_flags, MFD_CLOEXEC);
    rig.read_only = false;
    rig.calls = 0;
    rig.fail_at = 2;
    assert_int_equal(wp_gvisor_config_open(&lt, "pool-x1", "0123abc", false),
                     -1);
    assert_int_equal(errno, EIO);
    rig.on = false;
    assert_int_equal(descriptors_count(), before);
    wp_gvisor_fini(&lt);
}

/* As where the daemon began without a standard input. */
static void
the_first_descriptor_is_one_like_others(void **state)
{
    int kept = dup(STDIN_FILENO);
    struct wp_err err;
    json_t *config;
    int fd;

    (void)state;
    assert_true(kept > STDERR_FILENO);
    assert_int_equal(wp_gvisor_make(&local, &lt, &err), WP_OK);
    assert_int_equal(close(STDIN_FILENO), 0);
    fd = wp_extras_memory(WP_STR("bytes"));
    assert_int_equal(fd, STDIN_FILENO);
    expect_bytes(fd, "bytes", 5);
    fd = wp_gvisor_config_open(&lt, "pool-x1", "0123abc", false);
    assert_int_equal(fd, STDIN_FILENO);
    config = json_loadfd(fd, 0, NULL);
    assert_non_null(config);
    json_decref(config);
    assert_int_equal(dup2(kept, STDIN_FILENO), STDIN_FILENO);
    assert_int_equal(close(kept), 0);
    wp_gvisor_fini(&lt);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(bubblewrap_is_told_all_of_a_template),
        TEST(a_variable_has_a_longest_name),
        TEST(no_memory_for_arguments_is_told),
        TEST(options_come_from_memory),
        TEST(what_cannot_be_written_is_no_file),
        TEST(inits_are_told_all_of_their_programs),
        TEST(no_memory_for_programs_is_told),
        TEST(each_file_has_its_descriptor),
        TEST(a_lack_of_descriptors_leaves_those_to_close),
        TEST(gvisor_is_told_all_of_a_template),
        TEST(gvisor_takes_utf_8_only),
        TEST(a_sandbox_has_its_own_configuration),
        TEST(no_memory_for_gvisor_is_told),
        TEST(a_configuration_that_cannot_be_written_is_none),
        TEST(the_first_descriptor_is_one_like_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
