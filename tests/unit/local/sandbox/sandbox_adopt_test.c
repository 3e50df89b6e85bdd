/* tests/unit/local/sandbox/sandbox_adopt_test.c - which sandboxes of an earlier
 * daemon are adopted, which are removed, and which are left: of one that could
 * be adopted each thing that may be wrong with it is tried. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/local_impl.h"
#include "pool/base/clock.h"
#include "pool/base/compiler.h"
#include "tests/support/local/journal.h"

enum {
    NAMES_MAX = 40,
    FIRST_FD = 5000,
};

static struct wp_local local;
static struct wp_local_sweep counts;
static struct wp_record record; /* Of the sandbox that is looked at. */
static struct wp_template tmpl;
static struct wp_local_template made_from = {.tmpl = &tmpl, .hash = 99};
static const char *names[NAMES_MAX];
static const char *roots[NAMES_MAX];
static uint32_t roots_apart; /* Those of one and of the next sandbox. */
static uint32_t next_fd;
static int zero_at; /* Which that is opened is 0; 0: none. */
static int64_t now_ns;
static uint32_t users[8];
static struct wp_sandbox *adopted[NAMES_MAX];
static uint32_t adopted_len;

/* What is wrong with the world. */
static struct {
    int record_errno;
    int inner_errno;
    int outer_errno;
    int socket_errno;
    int connect_errno;
    int lstat_errno;
    int list_errno; /* At the end of what can be read. */
    mode_t mode;
    bool no_path;     /* The control socket's path is too long. */
    bool no_endpoint; /* The endpoint's is. */
    bool no_sandbox;  /* No memory. */
    bool no_table;
    bool no_roots;
    bool no_sweep;
    bool no_template;
    bool unwanted;
    bool no_dir;
    bool no_removal;
    const struct wp_cgroups *group; /* Where its group is; NULL: nowhere. */
} wrong;

/* --- What it stands on --- */

DIR *__wrap_opendir(const char *path);
struct dirent *__wrap_readdir(DIR *dir);
int __wrap_closedir(DIR *dir);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len);
int __wrap_lstat(const char *path, struct stat *out);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *at, size_t size);
void *__wrap_realloc(void *at, size_t size);
int __real_close(int fd);
int __wrap_close(int fd);
const struct wp_clock *__wrap_wp_clock_system(void);

static struct {
    const char **names;
    uint32_t at;
    bool open;
} listing;

DIR *
__wrap_opendir(const char *path)
{
    NOTE("open %s\n", path);
    assert_false(listing.open);
    if (wrong.no_dir) {
        errno = EACCES;
        return NULL;
    }
    listing.names = strstr(path, "roots") != NULL ? roots : names;
    listing.at = 0;
    listing.open = true;
    return (DIR *)(uintptr_t)64;
}

struct dirent *
__wrap_readdir(DIR *dir)
{
    static struct dirent entry;

    assert_ptr_equal(dir, (DIR *)(uintptr_t)64);
    if (listing.names[listing.at] == NULL) {
        errno = listing.names == names ? wrong.list_errno : errno;
        return NULL;
    }
    (void)snprintf(entry.d_name, sizeof entry.d_name, "%s",
                   listing.names[listing.at++]);
    return &entry;
}

int
__wrap_closedir(DIR *dir)
{
    assert_ptr_equal(dir, (DIR *)(uintptr_t)64);
    listing.open = false;
    return 0;
}

static int
fail_or_open(int error)
{
    errno = error;
    if (error != 0) {
        return -1;
    }
    return zero_at > 0 && --zero_at == 0 ? 0 : (int)next_fd++;
}

int
__wrap_socket(int domain, int type, int protocol)
{
    NOTE("socket %d %x %d\n", domain, (unsigned)type, protocol);
    return fail_or_open(wrong.socket_errno);
}

int
__wrap_connect(int fd, const struct sockaddr *to, socklen_t len)
{
    assert_int_equal(len, sizeof(struct sockaddr_un));
    NOTE("connect %d to %s\n", fd, ((const struct sockaddr_un *)to)->sun_path);
    errno = wrong.connect_errno;
    return wrong.connect_errno != 0 ? -1 : 0;
}

int
__wrap_lstat(const char *path, struct stat *out)
{
    NOTE("lstat %s\n", path);
    *out = (struct stat){.st_mode = wrong.mode};
    errno = wrong.lstat_errno;
    return wrong.lstat_errno != 0 ? -1 : 0;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return wrong.no_table ? NULL : __real_calloc(n, size);
}

void *
__wrap_realloc(void *at, size_t size)
{
    uint32_t *room = wrong.no_roots ? NULL : __real_realloc(at, size);

    NOTE("room for %zu\n", size);
    for (size_t i = 0; at == NULL && i < size / sizeof *room && room != NULL;
         i++) {
        room[i] = record.roots; /* As memory that was used before. */
    }
    return room;
}

int
__wrap_close(int fd)
{
    if (fd != 0 && fd < FIRST_FD) {
        return __real_close(fd);
    }
    NOTE("close %d\n", fd);
    errno = EBADF; /* It may. */
    return 0;
}

static int64_t
test_now_ns(const struct wp_clock *clock)
{
    (void)clock;
    return now_ns += WP_NS_PER_MS;
}

const struct wp_clock *
__wrap_wp_clock_system(void)
{
    static const struct wp_clock clock = {test_now_ns, test_now_ns};

    return &clock;
}

bool
wp_record_read(const char *dir, struct wp_record *out)
{
    NOTE("read %s\n", dir);
    *out = record;
    record.roots += roots_apart;
    errno = wrong.record_errno;
    return wrong.record_errno == 0;
}

int
wp_process_open(pid_t pid, uint64_t start)
{
    NOTE("process %d of %llu\n", pid, (unsigned long long)start);
    return fail_or_open(pid == record.inner_pid ? wrong.inner_errno
                                                : wrong.outer_errno);
}

struct wp_sandbox *
wp_sandbox_make(struct wp_local *of)
{
    struct wp_sandbox *sandbox =
        wrong.no_sandbox ? NULL : calloc(1, sizeof *sandbox);

    if (sandbox != NULL) {
        sandbox->local = of;
        sandbox->groups = &of->cgroups;
        sandbox->outer_fd = sandbox->inner_fd = sandbox->control_fd = -1;
    }
    return sandbox;
}

bool
wp_local_endpoint(const struct wp_local *of, struct wp_str name,
                  char out[WP_ENDPOINT_MAX + 1])
{
    assert_ptr_equal(of, &local);
    (void)snprintf(out, WP_ENDPOINT_MAX + 1, "unix:/s/%.*s", WP_STR_ARG(name));
    return !wrong.no_endpoint;
}

bool
wp_sandbox_control_path(const struct wp_sandbox *sandbox,
                        struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)snprintf(out->sun_path, sizeof out->sun_path, "/c/%s", sandbox->name);
    errno = EMFILE; /* From before, when it is not about this. */
    return !wrong.no_path;
}

const struct wp_local_template *
wp_local_find_template(const struct wp_local *of,
                       struct wp_str template_namespace, struct wp_str name)
{
    assert_ptr_equal(of, &local);
    NOTE("template %.*s of %.*s\n", WP_STR_ARG(name),
         WP_STR_ARG(template_namespace));
    return wrong.no_template ? NULL : &made_from;
}

static const char *
group_name(const struct wp_cgroups *groups)
{
    return groups == &local.cgroups          ? "own"
           : groups == &local.old_cgroups[0] ? "old 0"
           : groups == &local.old_cgroups[1] ? "old 1"
                                             : "?";
}

bool
wp_cgroup_exists(const struct wp_cgroups *groups, const char *name)
{
    NOTE("%s in group %s?\n", name, group_name(groups));
    return groups == wrong.group;
}

bool
wp_cgroup_freeze(const struct wp_cgroups *groups, const char *name, bool frozen)
{
    NOTE("%s %s in group %s\n", frozen ? "freeze" : "thaw", name,
         group_name(groups));
    return false;
}

void
wp_cgroups_close(struct wp_cgroups *groups)
{
    NOTE("close group %s\n", group_name(groups));
}

void
wp_sandbox_index(struct wp_sandbox *sandbox)
{
    NOTE("index %u.%u\n", sandbox->ref.index, sandbox->ref.generation);
}

void
wp_sandbox_adopt(struct wp_sandbox *s)
{
    NOTE("adopt %s of %s: uid %s %02x, socket %s, egress '%s' '%s', audience"
         " '%s' %lld, volumes '%s', user %d, pids %d %d, fds %d %d %d,"
         " adopted %d outlives %d dir %d group %d %s, ordered %lld\n",
         s->name, s->pool, s->uid_hex, s->uid[1], s->socket_path, s->egress,
         s->narrowed, s->audience, (long long)s->identity_ttl_ms, s->volumes,
         (int)s->host_user, s->outer_pid, s->inner_pid, s->outer_fd,
         s->inner_fd, s->control_fd, s->adopted, s->outlives, s->has_dir,
         s->has_group, group_name(s->groups), (long long)s->ordered_ns);
    wp_list_push_back(&local.live, &s->node);
    adopted[adopted_len++] = s;
}

struct wp_sweep {
    int any;
};

struct wp_sweep *
wp_sweep_create(struct wp_local *of, struct wp_local_sweep *to)
{
    assert_ptr_equal(of, &local);
    assert_ptr_equal(to, &counts);
    return wrong.no_sweep ? NULL : malloc(sizeof(struct wp_sweep));
}

void
wp_sweep_add(struct wp_sweep *sweep, const char *name)
{
    assert_non_null(sweep);
    NOTE("sweep %s\n", name);
}

void
wp_sweep_finish(struct wp_sweep *sweep)
{
    NOTE("sweep them\n");
    free(sweep);
}

enum wp_status
wp_dir_remove(const char *dir, struct wp_err *err)
{
    NOTE("remove %s\n", dir);
    return wrong.no_removal
               ? wp_err_set(err, WP_UNAVAILABLE, "no way to %s", dir)
               : WP_OK;
}

static bool
adopt(void *ctx, const struct wp_local_found *found, struct wp_slot_ref *ref)
{
    assert_ptr_equal(ctx, &counts);
    NOTE("wanted? %02x %.*s/%.*s of %.*s, %.*s at %.*s, egress '%.*s',"
         " current %d\n",
         found->uid[0], WP_STR_ARG(found->pool_namespace),
         WP_STR_ARG(found->pool), WP_STR_ARG(found->template_name),
         WP_STR_ARG(found->name), WP_STR_ARG(found->endpoint),
         WP_STR_ARG(found->egress), found->template_current);
    *ref = (struct wp_slot_ref){.index = 8, .generation = 9};
    return !wrong.unwanted;
}

/* --- Steps --- */

static void
begin(void)
{
    memset(&local, 0, sizeof local);
    memset(&wrong, 0, sizeof wrong);
    memset(&record, 0, sizeof record);
    memset(&counts, 0, sizeof counts);
    memset(users, 0xee, sizeof users);
    memset(names, 0, sizeof names);
    memset(roots, 0, sizeof roots);
    wp_list_init(&local.live);
    (void)snprintf(local.state_dir, sizeof local.state_dir, "/s");
    (void)snprintf(local.sandboxes_dir, sizeof local.sandboxes_dir,
                   "/s/sandboxes");
    (void)snprintf(local.boot_id, sizeof local.boot_id, "boot");
    local.config.sandboxes_max = 5;
    local.config.uid_first = 1000;
    local.host.own_uids = true;
    local.free_users = users;
    local.free_users_len = 3;
    local.roots = 7;
    local.old_cgroups_len = 2;
    local.events.ctx = &counts;
    local.events.adopt = adopt;
    wrong.mode = S_IFSOCK;
    wrong.group = &local.cgroups;
    record = (struct wp_record){
        .version = WP_RECORD_VERSION,
        .outer_pid = 200,
        .outer_start = 2000,
        .inner_pid = 100,
        .inner_start = 1000,
        .boot_id = "boot",
        .uid = {0xab, 0xcd},
        .pool_namespace = "ns",
        .pool = "pool",
        .template_name = "tmpl",
        .template_hash = 99,
        .name = "box",
        .endpoint = "unix:/s/box",
        .host_uid = 1003,
        .roots = 3,
        .ready = true,
        .egress = "dns",
        .identity_ttl_ms = 777,
    };
    names[0] = "box";
    roots[0] = "3";
    roots_apart = 0;
    next_fd = FIRST_FD;
    now_ns = 0;
}

static void
take_over(const char *what)
{
    struct wp_err err = {.status = WP_OK};
    enum wp_status status = WP_OK;
    bool no_table = wrong.no_table;

    NOTE("--- %s\n", what);
    wrong.no_table = false;
    JOURNAL_RUN((wrong.no_table = no_table,
                 status = wp_local_take_over(&local, &counts, &err),
                 wrong.no_table = false));
    journal_status("took over", status, &err);
    NOTE("= adopted %u, users", counts.adopted);
    for (uint32_t i = 0; i < local.free_users_len; i++) {
        NOTE(" %u", users[i]);
    }
    NOTE("\n");
    assert_false(listing.open);
    while (adopted_len > 0) {
        free(adopted[--adopted_len]);
    }
}

/* --- Tests --- */

static void
test_one_that_is_whole_is_adopted(void **state)
{
    (void)state;
    journal_begin();
    begin();
    take_over("whole");
    begin();
    local.events.adopt = NULL;
    take_over("nobody wants any");
    begin();
    names[0] = NULL;
    roots[0] = NULL;
    take_over("nothing is there");
    begin();
    (void)snprintf(record.narrowed, sizeof record.narrowed, "less");
    take_over("narrowed by a claim");
    begin();
    (void)snprintf(record.audience, sizeof record.audience, "aud");
    take_over("with a claim's identity");
    begin();
    (void)snprintf(record.volumes, sizeof record.volumes, "t/v\n");
    take_over("with a claim's volumes");
    begin();
    record.template_hash = 98;
    take_over("of an older template");
    begin();
    wrong.no_template = true;
    take_over("of no template");
    begin();
    wrong.group = NULL;
    take_over("without a group");
    begin();
    wrong.group = &local.old_cgroups[0];
    take_over("of an older group");
    begin();
    wrong.group = &local.old_cgroups[1];
    take_over("of another older group");
    for (int i = 1; i <= 3; i++) {
        begin();
        zero_at = i;
        take_over("with the first descriptor");
        begin();
        zero_at = i;
        wrong.unwanted = true;
        take_over("with the first descriptor, not wanted");
    }
    journal_compare("adopt_whole");
}

static void
take_over_long_paths(void)
{
    begin();
    memset(local.sandboxes_dir, 'd', sizeof local.sandboxes_dir - 5);
    take_over("its path just fits");
    begin();
    memset(local.sandboxes_dir, 'd', sizeof local.sandboxes_dir - 4);
    local.sandboxes_dir[sizeof local.sandboxes_dir - 4] = '\0';
    take_over("its path is too long");
}

static void
test_one_that_is_not_is_removed_and_one_not_known_is_left(void **state)
{
    static const int errors[] = {EMFILE, ENFILE, ENOMEM, ENOBUFS,
                                 ENOENT, ESRCH,  EINVAL, ECONNREFUSED};
    static const struct {
        bool *wrong;
        const char *what;
    } flags[] = {
        {&wrong.no_path, "control path"},
        {&wrong.no_endpoint, "endpoint too long"},
        {&wrong.no_sandbox, "no memory"},
        {&wrong.no_roots, "no memory for its root"},
        {&wrong.unwanted, "not wanted"},
    };

    (void)state;
    journal_begin();
    for (size_t i = 0; i < WP_ARRAY_LEN(errors); i++) {
        begin();
        wrong.record_errno = errors[i];
        take_over("its record cannot be read");
        begin();
        wrong.inner_errno = errors[i];
        take_over("inner process");
        begin();
        wrong.outer_errno = errors[i];
        take_over("outer process");
        begin();
        wrong.socket_errno = errors[i];
        take_over("socket");
        begin();
        wrong.connect_errno = errors[i];
        take_over("connection");
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(flags); i++) {
        begin();
        *flags[i].wrong = true;
        take_over(flags[i].what);
    }
    begin();
    record.version = 1;
    take_over("old record");
    begin();
    record.ready = false;
    take_over("never ready");
    begin();
    record.boot_id[0] = '\0';
    local.boot_id[0] = '\0';
    take_over("no boot id");
    begin();
    local.boot_id[0] = 'c';
    take_over("another boot");
    begin();
    record.name[0] = 'c';
    take_over("another name");
    begin();
    record.endpoint[5] = 'c';
    take_over("another endpoint");
    begin();
    wrong.lstat_errno = ENOENT;
    take_over("no socket");
    begin();
    wrong.mode = S_IFLNK;
    take_over("a link");
    begin();
    wrong.no_dir = true;
    take_over("no folder");
    begin();
    wrong.list_errno = EIO;
    take_over("the rest of it cannot be read");
    begin();
    wrong.no_table = true;
    take_over("no table");
    begin();
    wrong.no_sweep = true;
    take_over("no sweep");
    take_over_long_paths();
    journal_compare("adopt_not");
}

static void
test_each_has_a_user_of_its_own(void **state)
{
    static const uint32_t rows[] = {999, 1000, 1004, 1005, UINT32_MAX};

    (void)state;
    journal_begin();
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        begin();
        record.host_uid = rows[i];
        NOTE("--- %u\n", rows[i]);
        take_over("user");
    }
    begin();
    local.host.own_uids = false;
    take_over("not root");
    begin();
    names[1] = "box";
    take_over("two of one user");
    journal_compare("adopt_users");
}

static void
test_roots_in_use_stay(void **state)
{
    static const char *const all[] = {".", "..", "1", "2",  "3", "4",
                                      "7", "12", "x", "03", "",  ".8"};
    static const struct wp_local_sweep others[] = {
        {.sandboxes = 4, .killed = 5, .cgroups = 6, .failed = 7},
        {.cgroups = 1},
        {.sandboxes = 1, .cgroups = 1},
        {.sandboxes = 1},
        {.killed = 1, .failed = 1},
    };

    (void)state;
    journal_begin();
    begin();
    for (uint32_t i = 0; i < 12; i++) {
        roots[i] = all[i];
    }
    for (uint32_t i = 0; i < 20; i++) {
        names[i] = "box";
    }
    names[20] = ".hidden";
    local.host.own_uids = false;
    take_over("twenty of one root");
    begin();
    for (uint32_t i = 0; i < 20; i++) {
        names[i] = "box";
    }
    for (uint32_t i = 0; i < 12; i++) {
        roots[i] = all[i];
    }
    roots[12] = "22";
    roots[13] = "23";
    local.host.own_uids = false;
    roots_apart = 1;
    take_over("each of another");
    begin();
    for (uint32_t i = 0; i < 12; i++) {
        roots[i] = all[i];
    }
    wrong.unwanted = true;
    wrong.no_removal = true;
    take_over("none");
    for (size_t i = 0; i < WP_ARRAY_LEN(others); i++) {
        begin();
        names[0] = roots[0] = NULL;
        counts = others[i];
        take_over("swept");
    }
    journal_compare("adopt_roots");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_that_is_whole_is_adopted),
        cmocka_unit_test(
            test_one_that_is_not_is_removed_and_one_not_known_is_left),
        cmocka_unit_test(test_each_has_a_user_of_its_own),
        cmocka_unit_test(test_roots_in_use_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
