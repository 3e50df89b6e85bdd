/* tests/unit/local/sandbox/sandbox_prepare_test.c - what is made and checked
 * before the first sandbox: directories, programs, the filter, the limit of
 * open files, templates and their roots. Nothing of it is made here. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/extras.h"
#include "local/sandbox/gvisor.h"
#include "local/sandbox/host_probe.h"
#include "local/sandbox/local_impl.h"
#include "local/sandbox/lock.h"
#include "local/sandbox/subids.h"
#include "local/walls/seccomp_filter.h"
#include "pool/base/compiler.h"
#include "proto/checkout/inside.h"
#include "tests/support/local/journal.h"

enum {
    FIRST_FD = 5000, /* From here on none is real. */
};

static struct wp_local local;
static struct wp_template tmpl;
static struct wp_template_mount mounts[4];
static bool running; /* The code under test. */
static int fails_at; /* The call that fails; 0: none. */
static int calls;
static int error; /* How. */
static int next_fd;
static int zero_at;           /* Which that is opened is 0; 0: none. */
static const char *names[16]; /* What each directory has. */
static int end_errno;         /* What ends them; 0: that there are no more. */
static const char *self;      /* /proc/self/exe */
static int accessible;        /* Of the paths looked at, which; 0: none. */
static int accesses;
static uid_t user;
static struct rlimit files;

/* --- What it stands on --- */

static bool
fails(void)
{
    calls++;
    if (calls == fails_at) {
        NOTE("  fails\n");
        errno = error;
        return true;
    }
    return false;
}

static enum wp_status
outcome(struct wp_err *err, const char *what)
{
    return fails() ? wp_err_set(err, WP_ABORTED, "no %s", what) : WP_OK;
}

static int
open_next(void)
{
    if (fails()) {
        return -1;
    }
    return zero_at > 0 && --zero_at == 0 ? 0 : next_fd++;
}

ssize_t __wrap_readlink(const char *path, char *out, size_t cap);
int __wrap_access(const char *path, int mode);
int __real_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode);
int __real_close(int fd);
int __wrap_close(int fd);
DIR *__wrap_opendir(const char *path);
struct dirent *__wrap_readdir(DIR *dir);
int __wrap_closedir(DIR *dir);
uid_t __wrap_geteuid(void);
int __wrap_getrlimit(int what, struct rlimit *out);
int __wrap_setrlimit(int what, const struct rlimit *to);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

ssize_t
__wrap_readlink(const char *path, char *out, size_t cap)
{
    size_t len = strlen(self);

    NOTE("readlink %s %zu\n", path, cap);
    assert_true(len <= cap);
    memset(out, '/', cap); /* Its end is not marked. */
    memcpy(out, self, len);
    return fails() ? -1 : (ssize_t)len;
}

int
__wrap_access(const char *path, int mode)
{
    NOTE("access %s %d\n", path, mode);
    errno = EROFS;
    return ++accesses == accessible ? 0 : -1;
}

int
__wrap_open(const char *path, int flags, mode_t mode)
{
    if (!running) {
        return __real_open(path, flags, mode);
    }
    NOTE("open %s", path);
    if ((flags & O_PATH) != 0) {
        assert_int_equal(flags, O_PATH | O_DIRECTORY | O_CLOEXEC);
        NOTE(" as a directory\n");
    } else {
        assert_int_equal(flags, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
        NOTE(" anew %o\n", mode);
    }
    return open_next();
}

int
__wrap_close(int fd)
{
    if (fd != 0 && fd < FIRST_FD) {
        return __real_close(fd);
    }
    NOTE("close %d\n", fd);
    return 0;
}

static uint32_t listed;

DIR *
__wrap_opendir(const char *path)
{
    NOTE("list %s\n", path);
    listed = 0;
    return fails() ? NULL : (DIR *)(uintptr_t)64;
}

struct dirent *
__wrap_readdir(DIR *dir)
{
    static struct dirent entry;

    assert_ptr_equal(dir, (DIR *)(uintptr_t)64);
    if (names[listed] == NULL) {
        errno = end_errno;
        return NULL;
    }
    (void)snprintf(entry.d_name, sizeof entry.d_name, "%s", names[listed++]);
    return &entry;
}

int
__wrap_closedir(DIR *dir)
{
    assert_ptr_equal(dir, (DIR *)(uintptr_t)64);
    NOTE("close list\n");
    return 0;
}

uid_t
__wrap_geteuid(void)
{
    return user;
}

int
__wrap_getrlimit(int what, struct rlimit *out)
{
    assert_int_equal(what, RLIMIT_NOFILE);
    *out = files;
    return fails() ? -1 : 0;
}

int
__wrap_setrlimit(int what, const struct rlimit *to)
{
    assert_int_equal(what, RLIMIT_NOFILE);
    NOTE("limit %llu %llu\n", (unsigned long long)to->rlim_cur,
         (unsigned long long)to->rlim_max);
    return fails() ? -1 : 0;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return running && fails() ? NULL : __real_calloc(n, size);
}

enum wp_status
wp_subids_check(const char *path, uint32_t first, uint32_t count,
                struct wp_err *err)
{
    NOTE("users of %s from %u, %u\n", path, first, count);
    return outcome(err, path);
}

enum wp_status
wp_dir_make(const char *dir, unsigned mode, struct wp_err *err)
{
    NOTE("make %s %o\n", dir, mode);
    return outcome(err, "directory");
}

enum wp_status
wp_dir_remove(const char *dir, struct wp_err *err)
{
    NOTE("remove %s\n", dir);
    return outcome(err, "removal");
}

enum wp_status
wp_file_copy(const char *from, const char *to, unsigned mode,
             struct wp_err *err)
{
    NOTE("copy %s to %s %o\n", from, to, mode);
    return outcome(err, "copy");
}

enum wp_status
wp_lock_take(const char *state_dir, int *fd, struct wp_err *err)
{
    NOTE("lock %s\n", state_dir);
    *fd = 99;
    return outcome(err, "lock");
}

enum wp_status
wp_lock_check(const char *state_dir, int fd, struct wp_err *err)
{
    NOTE("check lock %s %d\n", state_dir, fd);
    return outcome(err, "lock");
}

enum wp_status
wp_seccomp_filter_write(int fd, struct wp_err *err)
{
    NOTE("filter to %d\n", fd);
    return outcome(err, "filter");
}

int
wp_inside_open(int top, const char *path, enum wp_inside_links links)
{
    NOTE("open %s below %d%s\n", path, top,
         links == WP_INSIDE_STAY ? ", links stay" : "");
    return open_next();
}

bool
wp_inside_path(int fd, char *out, size_t cap)
{
    NOTE("path of %d, %zu\n", fd, cap);
    (void)snprintf(out, cap, "/images/real");
    return !fails();
}

enum wp_status
wp_host_try_gvisor(const struct wp_local_config *config,
                   const struct wp_host_report *report, struct wp_err *err)
{
    assert_ptr_equal(config, &local.config);
    assert_ptr_equal(report, &local.host);
    NOTE("try gvisor\n");
    return outcome(err, "gvisor");
}

void
wp_host_note(struct wp_host_report *report, const char *fmt, ...)
{
    char text[WP_HOST_NOTE_LEN];
    va_list ap;

    assert_ptr_equal(report, &local.host);
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    NOTE("note: %s\n", text);
}

uint64_t
wp_template_hash(const struct wp_template *of)
{
    assert_ptr_equal(of, &tmpl);
    return 0xfeed;
}

static void
note_limits(const struct wp_local_template *made)
{
    NOTE(" with %llu bytes %u milli %u pids, hash %llx\n",
         (unsigned long long)made->limits.memory_bytes, made->limits.cpu_milli,
         made->limits.pids_max, (unsigned long long)made->hash);
}

enum wp_status
wp_root_make(struct wp_root *root, const char *dir, const char *image_dir,
             const struct wp_template *of, struct wp_err *err)
{
    assert_non_null(root);
    assert_ptr_equal(of, &tmpl);
    NOTE("root %s of %s\n", dir, image_dir != NULL ? image_dir : "the host");
    return outcome(err, "root");
}

void
wp_root_fini(struct wp_root *root)
{
    assert_non_null(root);
    NOTE("end root\n");
}

enum wp_status
wp_gvisor_make(const struct wp_local *of, struct wp_local_template *out,
               struct wp_err *err)
{
    assert_ptr_equal(of, &local);
    NOTE("gvisor");
    note_limits(out);
    return outcome(err, "configuration");
}

void
wp_gvisor_fini(struct wp_local_template *made)
{
    assert_non_null(made);
    NOTE("end gvisor\n");
}

enum wp_status
wp_extras_make(struct wp_local_template *out, struct wp_err *err)
{
    assert_non_null(out);
    NOTE("extras\n");
    return outcome(err, "extras");
}

void
wp_extras_fini(struct wp_local_template *made)
{
    assert_non_null(made);
    NOTE("end extras\n");
}

enum wp_status
wp_bwrap_args_make(const struct wp_local *of, struct wp_local_template *out,
                   struct wp_err *err)
{
    assert_ptr_equal(of, &local);
    NOTE("bwrap");
    note_limits(out);
    return outcome(err, "words");
}

void
wp_bwrap_args_fini(struct wp_local_template *made)
{
    assert_non_null(made);
    NOTE("end bwrap\n");
}

/* --- Steps --- */

static void
begin(void)
{
    memset(&local, 0, sizeof local);
    memset(&tmpl, 0, sizeof tmpl);
    memset(mounts, 0, sizeof mounts);
    memset(names, 0, sizeof names);
    (void)snprintf(local.state_dir, sizeof local.state_dir, "/s");
    (void)snprintf(local.sandboxes_dir, sizeof local.sandboxes_dir, "/s/boxes");
    local.config.state_dir = "/cs";
    local.config.sandboxes_max = 100;
    local.config.uid_first = 1000;
    local.config.pids_max = 512;
    local.config.connections_max = 64;
    local.config.tmpfs_bytes = 4096;
    local.config.probe_timeout_ms = 1;
    local.config.probe_failures = 1;
    local.lock_fd = -1;
    local.roots = 6;
    local.has_roots = true;
    (void)snprintf(tmpl.name, sizeof tmpl.name, "tmpl");
    (void)snprintf(tmpl.template_namespace, sizeof tmpl.template_namespace,
                   "ns");
    tmpl.image = "host";
    names[0] = ".";
    names[1] = "..";
    end_errno = 0;
    self = "/usr/sbin/warmpoold";
    accessible = 1;
    error = EDQUOT;
    fails_at = calls = accesses = 0;
    next_fd = FIRST_FD;
    user = 0;
    files = (struct rlimit){.rlim_cur = 1024, .rlim_max = 4096};
}

static enum wp_status
check(struct wp_err *err)
{
    return wp_local_check_config(&local.config, err);
}

static enum wp_status
dirs(struct wp_err *err)
{
    enum wp_status status;

    local.has_roots = false;
    status = wp_local_prepare_dirs(&local, err);
    NOTE("= lock %d boxes %s roots %u %d\n", local.lock_fd, local.sandboxes_dir,
         local.roots, local.has_roots);
    return status;
}

static enum wp_status
programs(struct wp_err *err)
{
    return wp_local_prepare_programs(&local, err);
}

static enum wp_status
filter(struct wp_err *err)
{
    return wp_local_prepare_filter(&local, err);
}

static enum wp_status
roots(struct wp_err *err)
{
    (void)err;
    wp_local_remove_roots(&local);
    NOTE("= has roots %d\n", local.has_roots);
    return WP_OK;
}

static enum wp_status
raise_files(struct wp_err *err)
{
    (void)err;
    wp_local_raise_files(&local);
    return WP_OK;
}

static enum wp_status
template_(struct wp_err *err)
{
    enum wp_status status = wp_local_add_template(&local, &tmpl, err);

    NOTE("= made %u tried %d, found %d\n", local.templates_made,
         local.gvisor_tried,
         wp_local_template_hash(&local, WP_STR("ns"), WP_STR("tmpl")) ==
             0xfeed);
    return status;
}

static enum wp_status
once(const char *what, enum wp_status (*fn)(struct wp_err *err))
{
    struct wp_err err = {.status = WP_OK};
    enum wp_status status = WP_OK;

    NOTE("--- %s\n", what);
    running = true;
    JOURNAL_RUN(status = fn(&err));
    running = false;
    journal_status("", status, &err);
    wp_local_destroy_templates(&local);
    return status;
}

/* With each call failing in its turn, until none is left to fail. */
static void
each(const char *what, void (*set)(void), enum wp_status (*fn)(struct wp_err *))
{
    for (int n = 0;; n++) {
        char text[64];

        begin();
        if (set != NULL) {
            set();
        }
        fails_at = n;
        (void)snprintf(text, sizeof text, "%s, call %d fails", what, n);
        (void)once(text, fn);
        if (calls < n) {
            return;
        }
    }
}

/* --- Tests --- */

static void
test_users_of_others_are_not_taken(void **state)
{
    (void)state;
    journal_begin();
    each("root", NULL, check);
    begin();
    user = 1;
    (void)once("not root", check);
    journal_compare("prepare_users");
}

static void
set_lock(void)
{
    local.lock_fd = 12;
    for (uint32_t i = 2; i < 9; i++) {
        static const char *const all[] = {"7", "x", "3", "9", "", "9", "-8"};

        names[i] = all[i - 2];
    }
}

static void
test_directories_are_made(void **state)
{
    static const char *const numbers[] = {"0", "1", "4294967294", "4294967295",
                                          "18446744073709551615"};

    (void)state;
    journal_begin();
    each("no lock yet", NULL, dirs);
    each("locked", set_lock, dirs);
    begin();
    local.lock_fd = 0;
    (void)once("the first descriptor", dirs);
    begin();
    accessible = 0;
    (void)once("read-only", dirs);
    for (size_t i = 0; i < WP_ARRAY_LEN(numbers); i++) {
        begin();
        names[0] = "0";
        names[1] = numbers[i];
        (void)once(numbers[i], dirs);
    }
    journal_compare("prepare_dirs");
}

static void
set_paths(void)
{
    local.config.init_path = "/i";
    local.config.runtime_path = "/r";
}

static void
test_programs_are_placed(void **state)
{
    static char path[WP_LOCAL_PATH_MAX];

    (void)state;
    journal_begin();
    each("beside the daemon", NULL, programs);
    each("settings", set_paths, programs);
    begin();
    accessible = 2;
    (void)once("in the build tree", programs);
    begin();
    accessible = 0;
    (void)once("nowhere", programs);
    begin();
    self = "nameless";
    (void)once("no folder", programs);
    begin();
    self = "";
    (void)once("no name", programs);
    memset(path, 'p', sizeof path);
    path[0] = '/';
    path[WP_LOCAL_PATH_MAX - 1] = '\0';
    for (size_t at = 500; at < WP_LOCAL_PATH_MAX - 1; at += 5) {
        begin();
        path[at] = '/';
        self = path;
        accessible = 9;
        (void)once("a long way", programs);
        path[at] = 'p';
    }
    journal_compare("prepare_programs");
}

static void
test_the_filter_is_written(void **state)
{
    (void)state;
    journal_begin();
    each("filter", NULL, filter);
    begin();
    zero_at = 1;
    (void)once("the first descriptor", filter);
    NOTE("= %s\n", local.seccomp_path);
    journal_compare("prepare_filter");
}

static void
test_roots_in_which_nobody_is_are_removed(void **state)
{
    static const char *const other[] = {"box", ".x", "..x", "...", ""};

    (void)state;
    journal_begin();
    each("never started", NULL, roots);
    for (int i = 0; i < 8; i++) {
        begin();
        local.has_roots = (i & 1) != 0;
        local.base = (i & 2) != 0 ? (struct event_base *)(uintptr_t)64 : NULL;
        names[2] = (i & 4) != 0 ? "box" : NULL;
        NOTE("--- roots %d started %d boxes %d", i & 1, i >> 1 & 1, i >> 2);
        (void)once("", roots);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(other); i++) {
        begin();
        names[1] = other[i];
        (void)once(other[i], roots);
    }
    begin();
    names[0] = NULL;
    (void)once("nothing at all", roots);
    begin();
    end_errno = EIO;
    (void)once("nothing that can be read", roots);
    journal_compare("prepare_roots");
}

static void
test_the_limit_of_open_files_is_raised(void **state)
{
    /* 100 sandboxes: 1424 at least, 1524 with a proxy each. */
    static const struct rlimit rows[] = {
        {1523, 1523}, {1524, 1524}, {1024, 1424},
        {1024, 1423}, {1024, 1524}, {1024, RLIM_INFINITY},
    };

    (void)state;
    journal_begin();
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        for (int n = 0; n <= 2; n++) {
            char text[64];

            begin();
            files = rows[i];
            fails_at = n;
            (void)snprintf(text, sizeof text, "%llu of %llu, call %d fails",
                           (unsigned long long)files.rlim_cur,
                           (unsigned long long)files.rlim_max, n);
            (void)once(text, raise_files);
        }
    }
    journal_compare("prepare_files");
}

static void
set_image(void)
{
    local.config.rootfs_dir = "/images";
    tmpl.image = "a/b.c";
    local.config.memory_default = 71;
    local.config.cpu_milli_default = 72;
}

static void
set_image_link(void)
{
    set_image();
    error = EXDEV;
}

static void
set_gvisor(void)
{
    tmpl.runtime_class = WP_RUNTIME_GVISOR;
    local.host.runsc = true;
    local.host.limit_memory = local.host.limit_cpu = true;
    tmpl.memory_bytes = 81;
    tmpl.cpu_milli = 82;
    local.config.memory_default = 71;
    local.config.cpu_milli_default = 72;
}

static void
test_a_template_is_prepared(void **state)
{
    static const char *const images[] = {"a",   "a/b", "/a",   "a//b", "a/",
                                         ".a",  "..",  "a/.",  "a/..", "",
                                         "a.b", "hos", "hosts"};

    (void)state;
    journal_begin();
    each("host", NULL, template_);
    each("image", set_image, template_);
    each("image, by a link", set_image_link, template_);
    each("gvisor", set_gvisor, template_);
    begin();
    set_gvisor();
    local.gvisor_tried = true;
    (void)once("gvisor again", template_);
    begin();
    set_gvisor();
    local.host.runsc = false;
    (void)once("gvisor is not installed", template_);
    for (int i = 1; i <= 2; i++) {
        begin();
        set_image();
        zero_at = i;
        (void)once("the first descriptor", template_);
    }
    begin();
    tmpl.image = "a";
    (void)once("no rootfs directory", template_);
    for (size_t i = 0; i < WP_ARRAY_LEN(images); i++) {
        begin();
        set_image();
        tmpl.image = images[i];
        (void)once(images[i], template_);
    }
    begin();
    local.templates_made = 4 * WP_MANIFEST_TEMPLATES_MAX - 1;
    (void)once("the last one", template_);
    begin();
    local.templates_made = 4 * WP_MANIFEST_TEMPLATES_MAX;
    (void)once("one too many", template_);
    journal_compare("prepare_template");
}

static void
test_limits_are_kept_or_refused(void **state)
{
    (void)state;
    journal_begin();
    for (int i = 0; i < 32; i++) {
        char text[64];

        begin();
        local.host.limit_memory = (i & 1) != 0;
        local.host.limit_cpu = (i & 2) != 0;
        tmpl.memory_bytes = (i & 4) != 0 ? 1 : 0;
        tmpl.cpu_milli = (i & 8) != 0 ? 1 : 0;
        local.config.best_effort = (i & 16) != 0;
        local.cgroups.kind = (i & 1) != 0 ? WP_CGROUP_V2 : WP_CGROUP_NONE;
        (void)snprintf(local.cgroups.reason, sizeof local.cgroups.reason,
                       "no groups here");
        (void)snprintf(text, sizeof text, "can %d %d wants %d %d effort %d",
                       i & 1, i >> 1 & 1, i >> 2 & 1, i >> 3 & 1, i >> 4);
        (void)once(text, template_);
    }
    begin();
    tmpl.memory_bytes = 1;
    memset(tmpl.name, 'n', sizeof tmpl.name - 1);
    (void)once("a long name", template_);
    journal_compare("prepare_limits");
}

static void
test_what_stays_writable_is_said(void **state)
{
    (void)state;
    journal_begin();
    for (int abi = 0; abi < 2; abi++) {
        begin();
        local.host.landlock_abi = abi;
        tmpl.mounts = mounts;
        tmpl.mounts_len = 4;
        for (int i = 0; i < 4; i++) {
            static const char *const paths[] = {"/0", "/1", "/2", "/3"};

            mounts[i].path = paths[i];
            mounts[i].read_only = (i & 1) != 0;
            mounts[i].prepared = (i & 2) != 0;
        }
        (void)once(abi == 0 ? "no Landlock" : "Landlock", template_);
    }
    journal_compare("prepare_writable");
}

/* --- The list of templates --- */

static void
test_of_one_name_the_newest_counts(void **state)
{
    static struct wp_template t[4];
    static struct wp_local_template made[4];
    static const char *const keys[4][2] = {
        {"ns", "a"}, {"ns", "b"}, {"other", "a"}, {"ns", "a"}};
    static const char *const asked[][2] = {
        {"ns", "a"},  {"ns", "b"}, {"other", "a"}, {"other", "b"},
        {"ns", "ab"}, {"n", "a"},  {"", ""}};
    static const int found[] = {3, 1, 2, -1, -1, -1, -1};

    (void)state;
    begin();
    for (size_t i = 0; i < WP_ARRAY_LEN(made); i++) {
        (void)snprintf(t[i].template_namespace, sizeof t[i].template_namespace,
                       "%s", keys[i][0]);
        (void)snprintf(t[i].name, sizeof t[i].name, "%s", keys[i][1]);
        made[i].tmpl = &t[i];
        made[i].hash = 100 + i;
        made[i].next = i > 0 ? &made[i - 1] : NULL;
    }
    atomic_store(&local.templates, &made[3]);
    for (size_t i = 0; i < WP_ARRAY_LEN(asked); i++) {
        struct wp_str ns = wp_str_from(asked[i][0]);
        struct wp_str name = wp_str_from(asked[i][1]);

        assert_ptr_equal(wp_local_find_template(&local, ns, name),
                         found[i] < 0 ? NULL : &made[found[i]]);
        assert_int_equal(wp_local_template_hash(&local, ns, name),
                         found[i] < 0 ? 0 : 100 + found[i]);
    }
    begin();
    journal_begin();
    running = true;
    assert_int_equal(wp_local_add_template(&local, &tmpl, NULL), WP_OK);
    assert_int_equal(wp_local_add_template(&local, &tmpl, NULL), WP_OK);
    running = false;
    assert_ptr_equal(
        wp_local_find_template(&local, WP_STR("ns"), WP_STR("tmpl")),
        atomic_load(&local.templates));
    wp_local_destroy_templates(&local);
    assert_null(atomic_load(&local.templates));
    journal_compare("prepare_list");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_users_of_others_are_not_taken),
        cmocka_unit_test(test_directories_are_made),
        cmocka_unit_test(test_programs_are_placed),
        cmocka_unit_test(test_the_filter_is_written),
        cmocka_unit_test(test_roots_in_which_nobody_is_are_removed),
        cmocka_unit_test(test_the_limit_of_open_files_is_raised),
        cmocka_unit_test(test_a_template_is_prepared),
        cmocka_unit_test(test_limits_are_kept_or_refused),
        cmocka_unit_test(test_what_stays_writable_is_said),
        cmocka_unit_test(test_of_one_name_the_newest_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
