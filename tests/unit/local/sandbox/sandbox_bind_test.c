/* tests/unit/local/sandbox/sandbox_bind_test.c - what a claim brings, on its
 * way to the sandbox's init: what is asked of whom, in which order, and how the
 * claim is answered. The loop is this test: what is posted runs when it says
 * so. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/control.h"
#include "local/sandbox/sandbox_impl.h"
#include "local/volumes/mount_into.h"
#include "pool/base/clock.h"
#include "pool/base/compiler.h"
#include "proto/checkout/trees.h"
#include "proto/parcel/pack.h"
#include "proto/parcel/parcel.h"
#include "proto/sockets/passing.h"
#include "tests/support/local/journal.h"

enum {
    PARCEL = 5,
};

/* What op->trees points to. */
struct wp_bind_trees {
    uint32_t n;
    struct wp_bind_tree at[2];
};

static struct wp_local local;
static struct wp_sandbox *box;
static struct wp_bind_op op;
static struct wp_binding binding;
static struct wp_template tmpl;
static struct wp_local_template made_from = {.tmpl = &tmpl};
static int64_t now_ns;
static size_t parcel_size;
/* Which call of its kind fails; 0: none. */
static int send_fails;
static bool post_fails;
static bool trees_fail;
static bool volumes_fail;
static int memory_fails; /* 1: memfd, 2: ftruncate, 3: mmap, 4: seals. */
static enum wp_status identify_status;
static enum wp_status record_status;
static enum wp_status mount_status;
static enum wp_status narrow_status;
static enum wp_status check_status;
static int trust_fails;
static struct wp_bind_trees trees;
static void (*posted)(void *ctx, uint64_t a, uint64_t b);
static void *posted_ctx;
static void (*fetched)(void *ctx, enum wp_status status, const char *reason);
static void *fetched_ctx;
static bool known;

/* --- What it stands on --- */

int __wrap_event_add(struct event *event, const struct timeval *wait);
int __wrap_event_del(struct event *event);
const struct wp_clock *__wrap_wp_clock_system(void);
int __real_ftruncate(int fd, off_t len);
int __wrap_ftruncate(int fd, off_t len);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
int __real_fcntl(int fd, int command, int seals);
int __wrap_fcntl(int fd, int command, int seals);

static const char *
name_of(const struct event *event)
{
    return event == &box->bind_timer ? "bind_timer" : "?";
}

int
__wrap_event_add(struct event *event, const struct timeval *wait)
{
    NOTE("add %s %lld.%06ld\n", name_of(event), (long long)wait->tv_sec,
         (long)wait->tv_usec);
    return 0;
}

int
__wrap_event_del(struct event *event)
{
    NOTE("del %s\n", name_of(event));
    return 0;
}

static int64_t
test_now_ns(const struct wp_clock *clock)
{
    (void)clock;
    return now_ns;
}

const struct wp_clock *
__wrap_wp_clock_system(void)
{
    static const struct wp_clock clock = {test_now_ns, test_now_ns};

    return &clock;
}

int64_t
wp_sandbox_now_ns(void)
{
    return now_ns;
}

int
__wrap_memfd_create(const char *name, unsigned flags)
{
    if (memory_fails == 1) {
        errno = EMFILE;
        return -1;
    }
    return __real_memfd_create(name, flags);
}

int
__wrap_ftruncate(int fd, off_t len)
{
    return memory_fails == 2 ? -1 : __real_ftruncate(fd, len);
}

void *
__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
    return memory_fails == 3 ? MAP_FAILED
                             : __real_mmap(at, len, prot, flags, fd, off);
}

int
__wrap_fcntl(int fd, int command, int seals)
{
    return memory_fails == 4 && command == F_ADD_SEALS
               ? -1
               : __real_fcntl(fd, command, seals);
}

size_t
wp_parcel_size(const struct wp_binding *of, struct wp_str identity)
{
    assert_ptr_equal(of, &binding);
    NOTE("parcel of %.*s\n", WP_STR_ARG(identity));
    return parcel_size;
}

void
wp_parcel_fill(const struct wp_binding *of, struct wp_str identity, uint8_t *at)
{
    assert_ptr_equal(of, &binding);
    NOTE("fill with %.*s\n", WP_STR_ARG(identity));
    memcpy(at, "parcel parcel parcel", parcel_size < 20 ? parcel_size : 20);
}

static void
note_file(int fd)
{
    char text[32];
    ssize_t n;

    if (fd == 77 || fd == 78) {
        NOTE(" tree %d", fd);
        return;
    }
    n = fd >= 0 ? pread(fd, text, sizeof text, 0) : -1;
    if (n >= 0) {
        NOTE(" file '%.*s' %s %s seals %x", (int)n, text,
             (__real_fcntl(fd, F_GETFD, 0) & FD_CLOEXEC) != 0 ? "cloexec"
                                                              : "inherited",
             ftruncate(fd, 99) == 0 ? "open" : "closed",
             (unsigned)__real_fcntl(fd, F_GET_SEALS, 0));
    } else {
        NOTE(" no file");
    }
}

ssize_t
wp_passing_send(int fd, const void *bytes, size_t len, int passed, int flags)
{
    NOTE("send to %d '%.*s' flags %x", fd, (int)len, (const char *)bytes,
         (unsigned)flags);
    note_file(passed);
    NOTE("\n");
    if (send_fails > 0 && --send_fails == 0) {
        return -1;
    }
    return (ssize_t)len;
}

bool
wp_loop_post(struct wp_loop *loop,
             void (*run)(void *ctx, uint64_t a, uint64_t b), void *ctx,
             uint64_t a, uint64_t b)
{
    assert_ptr_equal(loop, local.loop);
    NOTE("post %llu %llu\n", (unsigned long long)a, (unsigned long long)b);
    posted = run;
    posted_ctx = ctx;
    return !post_fails;
}

struct wp_bind_trees *
wp_bind_trees_make(const struct wp_binding *of, struct wp_str tenant)
{
    assert_ptr_equal(of, &binding);
    NOTE("trees of %.*s\n", WP_STR_ARG(tenant));
    return trees_fail ? NULL : &trees;
}

void
wp_bind_trees_drop(struct wp_bind_trees *of)
{
    NOTE("drop trees %d\n", of != NULL);
}

void
wp_bind_trees_fetch(struct wp_bind_trees *of, struct wp_fetcher *fetcher,
                    void (*done)(void *ctx, enum wp_status status,
                                 const char *reason),
                    void *ctx)
{
    assert_ptr_equal(of, &trees);
    assert_ptr_equal(fetcher, local.fetcher);
    NOTE("fetch trees\n");
    fetched = done;
    fetched_ctx = ctx;
}

const struct wp_bind_tree *
wp_bind_trees_at(const struct wp_bind_trees *of, uint32_t i)
{
    return i < of->n ? &of->at[i] : NULL;
}

const char *
wp_bind_trees_tenant(const struct wp_bind_trees *of)
{
    (void)of;
    return "owner";
}

enum wp_status
wp_bind_trees_check(const struct wp_remote_rules *rules,
                    const struct wp_binding *of, struct wp_err *err)
{
    assert_ptr_equal(rules, &local.remotes);
    assert_ptr_equal(of, &binding);
    return check_status == WP_OK
               ? WP_OK
               : wp_err_set(err, check_status, "not these repositories");
}

enum wp_status
wp_trust_check(struct wp_trust *trust, const char *tenant,
               const struct wp_bind_tree *tree, struct wp_err *err)
{
    assert_ptr_equal(trust, &local.trust);
    NOTE("trust %s with %.20s\n", tenant, tree->url);
    if (trust_fails > 0 && --trust_fails == 0) {
        return wp_err_set(err, WP_FAILED_PRECONDITION, "it has changed");
    }
    return WP_OK;
}

struct wp_bind_volumes *
wp_bind_volumes_make(const struct wp_binding *of, struct wp_str tenant)
{
    struct wp_bind_volumes *made = calloc(1, sizeof *made + sizeof made->at[0]);

    assert_ptr_equal(of, &binding);
    NOTE("volumes of %.*s\n", WP_STR_ARG(tenant));
    if (volumes_fail) {
        free(made);
        return NULL;
    }
    return made;
}

struct wp_sandbox *
wp_sandbox_find(const struct wp_local *of, struct wp_slot_ref ref)
{
    assert_ptr_equal(of, &local);
    NOTE("find %u.%u\n", ref.index, ref.generation);
    return known ? box : NULL;
}

void
wp_sandbox_thaw(struct wp_sandbox *sandbox)
{
    assert_ptr_equal(sandbox, box);
    NOTE("thaw\n");
}

void
wp_local_start_queued(struct wp_local *of)
{
    assert_ptr_equal(of, &local);
    NOTE("start queued, binds %u\n", atomic_load(&local.binds));
}

enum wp_status
wp_sandbox_identify(struct wp_sandbox *sandbox, const char *audience,
                    int64_t ttl_ms, struct wp_err *err)
{
    assert_ptr_equal(sandbox, box);
    NOTE("identify for %s, %lld ms\n", audience, (long long)ttl_ms);
    return identify_status == WP_OK
               ? WP_OK
               : wp_err_set(err, identify_status, "identity: no key");
}

enum wp_status
wp_sandbox_record_identity(struct wp_sandbox *sandbox, struct wp_err *err)
{
    assert_ptr_equal(sandbox, box);
    NOTE("record identity\n");
    return record_status == WP_OK
               ? WP_OK
               : wp_err_set(err, record_status, "identity: disk full");
}

enum wp_status
wp_sandbox_mount(struct wp_sandbox *sandbox,
                 const struct wp_bind_volumes *volumes, struct wp_err *err)
{
    assert_ptr_equal(sandbox, box);
    assert_ptr_equal(volumes, op.volumes);
    NOTE("mount\n");
    return mount_status == WP_OK
               ? WP_OK
               : wp_err_set(err, mount_status, "another one has it");
}

enum wp_status
wp_sandbox_narrow(struct wp_sandbox *sandbox, const char *by,
                  struct wp_err *err)
{
    assert_ptr_equal(sandbox, box);
    NOTE("narrow by %s\n", by);
    return narrow_status == WP_OK
               ? WP_OK
               : wp_err_set(err, narrow_status, "egress: too wide");
}

const struct wp_local_template *
wp_local_find_template(const struct wp_local *of,
                       struct wp_str template_namespace, struct wp_str name)
{
    assert_ptr_equal(of, &local);
    NOTE("template %.*s of %.*s\n", WP_STR_ARG(name),
         WP_STR_ARG(template_namespace));
    return known ? &made_from : NULL;
}

/* --- Steps --- */

static void
done(struct wp_bind_op *of)
{
    NOTE("done %u: %s '%s', fd %d, binds %u, volumes %d\n", of->ref.index,
         wp_status_name(of->status), of->reason, of->fd,
         atomic_load(&local.binds), of->volumes != NULL);
}

static void
step(const char *what)
{
    NOTE("--- %s\n", what);
}

static void
make_box(void)
{
    free(box);
    box = calloc(1, sizeof *box);
    assert_non_null(box);
    box->local = &local;
    box->state = WP_SANDBOX_READY;
    box->control_fd = 500;
    wp_list_init(&box->binds);
}

static void
begin(void)
{
    memset(&local, 0, sizeof local);
    local.loop = (struct wp_loop *)(uintptr_t)64;
    local.fetcher = (struct wp_fetcher *)(uintptr_t)128;
    local.volumes.dir = "/v";
    make_box();
    binding = (struct wp_binding){.fingerprint = 0xabc123};
    op = (struct wp_bind_op){
        .binding = &binding,
        .tenant = WP_STR("t"),
        .ref = {.index = 4, .generation = 2},
        .within_ns = 1500 * WP_NS_PER_MS,
        .done = done,
        /* Left over from an earlier try. */
        .fd = 3,
        .trees = &op,
        .volumes = &op,
    };
    trees = (struct wp_bind_trees){
        .n = 2,
        .at = {{.fd = 77, .url = "https://one", .dir = "a/b"},
               {.fd = 78, .url = "https://two", .dir = ""}},
    };
    known = true;
    now_ns = 1000 * WP_NS_PER_S;
    parcel_size = PARCEL;
    send_fails = memory_fails = trust_fails = 0;
    post_fails = trees_fail = volumes_fail = false;
    identify_status = record_status = mount_status = WP_OK;
    narrow_status = check_status = WP_OK;
    posted = NULL;
    fetched = NULL;
}

static enum wp_status
bind_one(struct wp_bind_op *of)
{
    enum wp_status status = wp_local_bind(&local, of);

    NOTE("= bind: %s '%s', binds %u\n", wp_status_name(status),
         status == WP_PENDING ? "" : of->reason, atomic_load(&local.binds));
    return status;
}

static void
run(void)
{
    assert_non_null(posted);
    posted(posted_ctx, 0, 0);
    NOTE("= waiting %d, bound %" PRIx64 ", until %lld\n",
         !wp_list_empty(&box->binds), box->bound,
         (long long)box->volume_until_ns);
}

static void
all(const char *what)
{
    step(what);
    if (bind_one(&op) == WP_PENDING) {
        run();
    }
}

static void
with_all(void)
{
    begin();
    binding.n_repositories = 1;
    binding.n_volumes = 1;
    binding.egress = WP_STR("dns");
    binding.audience = WP_STR("aud");
    binding.identity_ttl_ms = 1234;
}

static void
bound(void)
{
    step("init has it");
    wp_sandbox_end_binds(box, WP_OK, "");
    NOTE("= waiting %d, bound %" PRIx64 "\n", !wp_list_empty(&box->binds),
         box->bound);
}

static void
end(void)
{
    if (box != NULL && !wp_list_empty(&box->binds)) {
        step("the end");
        wp_sandbox_end_binds(box, WP_UNAVAILABLE, "over");
    }
}

/* --- Tests --- */

static void
test_what_it_brings_is_handed_over(void **state)
{
    struct wp_bind_op repeat;
    char longest[WP_CONTROL_TREE_MAX - 1 - WP_CONTROL_FINGERPRINT + 1] = "";

    (void)state;
    journal_begin();
    begin();
    all("a parcel");
    repeat = op;
    repeat.ref.index = 5;
    step("a repeat while it is under way");
    (void)bind_one(&repeat);
    run();
    bound();
    step("a repeat later");
    (void)bind_one(&repeat);
    run();
    begin();
    parcel_size = 0;
    all("nothing for init");
    begin();
    parcel_size = 0;
    binding.egress = WP_STR("dns");
    narrow_status = WP_PENDING;
    all("nothing for init but egress");
    step("narrowed");
    wp_sandbox_on_narrowed(box, true);
    step("narrowed, and nobody waits any more");
    wp_sandbox_on_narrowed(box, true);
    begin();
    binding.egress = WP_STR("dns");
    narrow_status = WP_PENDING;
    all("egress that cannot be narrowed in the end");
    wp_sandbox_on_narrowed(box, false);
    begin();
    parcel_size = 0;
    binding.n_repositories = 1;
    all("trees alone");
    fetched(fetched_ctx, WP_OK, "");
    bound();
    with_all();
    all("all there is");
    fetched(fetched_ctx, WP_OK, "");
    bound();
    with_all();
    memset(longest, 'd', sizeof longest - 1);
    trees.at[0].dir = longest;
    trees.n = 1;
    all("as deep as can be");
    fetched(fetched_ctx, WP_OK, "");
    bound();
    journal_compare("bind_handed_over");
}

static void
test_what_cannot_be_packed_is_refused(void **state)
{
    int others; /* Nothing that the operation had before is its own. */

    (void)state;
    journal_begin();
    for (memory_fails = 1; memory_fails <= 4; memory_fails++) {
        int which = memory_fails;

        with_all();
        memory_fails = which;
        all("memory lacks");
    }
    begin();
    memory_fails = 1;
    parcel_size = 0;
    all("no memory is needed");
    begin();
    parcel_size = 1;
    all("one byte");
    end();
    with_all();
    trees_fail = true;
    all("trees lack memory");
    with_all();
    volumes_fail = true;
    all("volumes lack memory");
    with_all();
    post_fails = true;
    all("the loop is full");
    begin();
    atomic_store(&local.binds, 256);
    op.fd = dup(STDIN_FILENO);
    others = op.fd;
    all("too many");
    assert_int_equal(close(others), 0);
    begin();
    atomic_store(&local.binds, 255);
    all("the last");
    end();
    journal_compare("bind_refused");
}

static void
test_what_init_does_not_read_is_answered(void **state)
{
    (void)state;
    journal_begin();
    for (int i = 1; i <= 4; i++) {
        with_all();
        send_fails = i;
        all("init does not read");
        fetched(fetched_ctx, WP_OK, "");
    }
    with_all();
    identify_status = WP_RESOURCE_EXHAUSTED;
    all("no identity");
    fetched(fetched_ctx, WP_OK, "");
    with_all();
    record_status = WP_INTERNAL;
    all("no record");
    fetched(fetched_ctx, WP_OK, "");
    begin();
    parcel_size = 0;
    record_status = WP_INTERNAL;
    all("no record, nothing for init");
    with_all();
    narrow_status = WP_FAILED_PRECONDITION;
    all("not narrowed");
    fetched(fetched_ctx, WP_OK, "");
    with_all();
    all("not fetched");
    fetched(fetched_ctx, WP_UNAVAILABLE, "no such\x01repository");
    for (int i = 1; i <= 2; i++) {
        with_all();
        trust_fails = i;
        all("not trusted");
        fetched(fetched_ctx, WP_OK, "");
    }
    begin();
    known = false;
    all("no sandbox");
    begin();
    box->state = WP_SANDBOX_STARTING;
    all("not ready");
    begin();
    box->state = WP_SANDBOX_DYING;
    all("dying");
    begin();
    box->lost = true;
    local.start_by_ns = 1;
    all("lost");
    step("nobody waits");
    wp_sandbox_end_binds(box, WP_OK, "");
    journal_compare("bind_fails");
}

static void
first_is(const char *what)
{
    NOTE("= %s: the first descriptor is %s\n", what,
         __real_fcntl(0, F_GETFD, 0) < 0 ? "free" : "in use");
}

/* A daemon that was started without an input has room there. */
static void
test_the_first_descriptor_is_as_good_as_any(void **state)
{
    int input = dup(STDIN_FILENO);

    (void)state;
    assert_true(input >= 0 && close(STDIN_FILENO) == 0);
    journal_begin();
    with_all();
    all("all there is");
    fetched(fetched_ctx, WP_OK, "");
    first_is("under way");
    bound();
    first_is("bound");
    for (int i = 2; i <= 4; i++) {
        with_all();
        memory_fails = i;
        all("memory lacks");
        first_is("refused");
    }
    with_all();
    post_fails = true;
    all("the loop is full");
    first_is("refused");
    assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
    assert_int_equal(close(input), 0);
    journal_compare("bind_first");
}

static void
test_a_volume_is_waited_for(void **state)
{
    (void)state;
    journal_begin();
    with_all();
    binding.n_repositories = 0;
    mount_status = WP_PENDING;
    all("another one has it");
    now_ns += 500 * WP_NS_PER_MS + 1;
    step("still");
    wp_sandbox_on_bind_timer(-1, EV_TIMEOUT, box);
    now_ns += 1500 * WP_NS_PER_MS - 2;
    step("at the last moment");
    wp_sandbox_on_bind_timer(-1, EV_TIMEOUT, box);
    now_ns += 1;
    step("too late");
    wp_sandbox_on_bind_timer(-1, EV_TIMEOUT, box);
    NOTE("= until %lld\n", (long long)box->volume_until_ns);
    with_all();
    binding.n_repositories = 0;
    mount_status = WP_PENDING;
    all("another one has it");
    step("it is free");
    mount_status = WP_OK;
    wp_sandbox_on_bind_timer(-1, EV_TIMEOUT, box);
    NOTE("= until %lld\n", (long long)box->volume_until_ns);
    step("no answer");
    wp_sandbox_on_bind_timer(-1, EV_TIMEOUT, box);
    with_all();
    binding.n_repositories = 0;
    mount_status = WP_PENDING;
    all("another one has it");
    step("lost meanwhile");
    wp_sandbox_end_binds(box, WP_UNAVAILABLE, "the sandbox was killed");
    NOTE("= until %lld\n", (long long)box->volume_until_ns);
    with_all();
    binding.n_repositories = 0;
    mount_status = WP_FAILED_PRECONDITION;
    all("it cannot be mounted");
    journal_compare("bind_volume");
}

static void
test_reasons_are_whole_and_can_be_printed(void **state)
{
    char long_reason[400];

    (void)state;
    journal_begin();
    begin();
    all("long");
    memset(long_reason, 'r', sizeof long_reason - 1);
    long_reason[sizeof long_reason - 1] = '\0';
    wp_sandbox_end_binds(box, WP_FAILED_PRECONDITION, long_reason);
    begin();
    all("odd");
    wp_sandbox_end_binds(box, WP_ABORTED, "a\nb");
    journal_compare("bind_reasons");
}

static void
test_what_may_be_brought(void **state)
{
    struct wp_err err;

    (void)state;
    journal_begin();
    for (int i = 0; i < 32; i++) {
        enum wp_status status;

        begin();
        binding.n_volumes = (i & 1) != 0;
        binding.n_repositories = (i & 2) != 0;
        local.volumes.dir = (i & 4) != 0 ? "/v" : NULL;
        local.fetcher = (i & 8) != 0 ? local.fetcher : NULL;
        check_status = (i & 16) != 0 ? WP_INVALID_ARGUMENT : WP_OK;
        status = wp_local_may_bring(&local, &binding, &err);
        NOTE("volumes %d repositories %d, there %d %d, rules %d: %s%s%s\n",
             i & 1, i >> 1 & 1, i >> 2 & 1, i >> 3 & 1, i < 16,
             wp_status_name(status), status == WP_OK ? "" : ": ",
             status == WP_OK ? "" : err.msg);
    }
    for (int i = 0; i < 8; i++) {
        const char *why;

        known = (i & 1) != 0;
        tmpl.unbound = (i & 2) != 0;
        made_from.gvisor =
            (i & 4) != 0 ? (json_t *)(uintptr_t)64 : (json_t *)NULL;
        why = wp_local_unbound(&local, WP_STR("ns"), WP_STR("name"));
        NOTE("found %d unbound %d gvisor %d: %s\n", i & 1, i >> 1 & 1, i >> 2,
             why != NULL ? why : "can be bound");
    }
    free(box);
    box = NULL;
    journal_compare("bind_may");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_it_brings_is_handed_over),
        cmocka_unit_test(test_what_cannot_be_packed_is_refused),
        cmocka_unit_test(test_what_init_does_not_read_is_answered),
        cmocka_unit_test(test_the_first_descriptor_is_as_good_as_any),
        cmocka_unit_test(test_a_volume_is_waited_for),
        cmocka_unit_test(test_reasons_are_whole_and_can_be_printed),
        cmocka_unit_test(test_what_may_be_brought),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
