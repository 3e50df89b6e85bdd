/* tests/unit/local/sandbox/sandbox_life_test.c - the life of a sandbox from its
 * order to its end: what is asked of the kernel and of the other parts, in
 * which order, and what is reported. Nothing here is a process: what
 * sandbox.c stands on writes down what it is asked for. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/sandbox_impl.h"
#include "pool/base/clock.h"
#include "pool/base/compiler.h"
#include "pool/base/log.h"
#include "tests/support/local/journal.h"

enum {
    FIRST_FD = 5000, /* From here on none is real. */
    SANDBOXES_MAX = 64,
};

static struct wp_local local;
static struct wp_sandbox_order order;
static struct wp_template tmpl;
static struct wp_local_template made_from = {.tmpl = &tmpl};
static struct wp_sandbox *known[SANDBOXES_MAX];
static uint32_t known_len;
static int64_t now_ns;
static int next_fd;
static int undo_fails;
static int spawn_fails;
static bool send_fails;
static uint32_t users[4];

/* --- Names --- */

static const struct {
    const char *name;
    size_t at;
} events[] = {
    {"outer", offsetof(struct wp_sandbox, outer_event)},
    {"inner", offsetof(struct wp_sandbox, inner_event)},
    {"control", offsetof(struct wp_sandbox, control_event)},
    {"stderr", offsetof(struct wp_sandbox, stderr_event)},
    {"bridge", offsetof(struct wp_sandbox, bridge_event)},
    {"timer", offsetof(struct wp_sandbox, timer)},
    {"bridge_timer", offsetof(struct wp_sandbox, bridge_timer)},
    {"bind_timer", offsetof(struct wp_sandbox, bind_timer)},
    {"identity_timer", offsetof(struct wp_sandbox, identity_timer)},
    {"look_timer", offsetof(struct wp_sandbox, look_timer)},
};

static event_callback_fn on_timer;

static const char *
name_of(const struct event *event)
{
    static char name[128];

    if (event == &local.start_timer) {
        return "start_timer";
    }
    for (uint32_t i = 0; i < known_len; i++) {
        for (size_t k = 0; k < WP_ARRAY_LEN(events); k++) {
            if ((const char *)event == (char *)known[i] + events[k].at) {
                (void)snprintf(name, sizeof name, "%s.%s", known[i]->name,
                               events[k].name);
                return name;
            }
        }
    }
    return "?";
}

static const char *
callback_name(event_callback_fn fn)
{
    static const struct {
        event_callback_fn fn;
        const char *name;
    } rows[] = {
        {wp_sandbox_on_outer_exit, "on_outer_exit"},
        {wp_sandbox_on_inner_exit, "on_inner_exit"},
        {wp_sandbox_on_control, "on_control"},
        {wp_sandbox_on_stderr, "on_stderr"},
        {wp_sandbox_on_bridge, "on_bridge"},
        {wp_sandbox_on_bridge_timer, "on_bridge_timer"},
        {wp_sandbox_on_bind_timer, "on_bind_timer"},
        {wp_sandbox_on_identity_timer, "on_identity_timer"},
        {wp_sandbox_on_look_timer, "on_look_timer"},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        if (rows[i].fn == fn) {
            return rows[i].name;
        }
    }
    on_timer = fn;
    return "on_timer";
}

/* --- What it stands on --- */

int __wrap_event_assign(struct event *event, struct event_base *base, int fd,
                        short what, event_callback_fn fn, void *arg);
int __wrap_event_add(struct event *event, const struct timeval *wait);
int __wrap_event_del(struct event *event);
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);
long __wrap_syscall(long number, ...);
int __real_close(int fd);
int __wrap_close(int fd);
const struct wp_clock *__wrap_wp_clock_system(void);
uint64_t __wrap_wp_rng_below(struct wp_rng *rng, uint64_t bound);

int
__wrap_event_assign(struct event *event, struct event_base *base, int fd,
                    short what, event_callback_fn fn, void *arg)
{
    const char *callback = callback_name(fn);

    assert_ptr_equal(base, local.base);
    NOTE("assign %s fd %d what %d %s of %s\n", name_of(event), fd, what,
         callback, ((struct wp_sandbox *)arg)->name);
    return 0;
}

int
__wrap_event_add(struct event *event, const struct timeval *wait)
{
    NOTE("add %s", name_of(event));
    if (wait != NULL) {
        NOTE(" %lld.%06ld", (long long)wait->tv_sec, (long)wait->tv_usec);
    }
    NOTE("\n");
    return 0;
}

int
__wrap_event_del(struct event *event)
{
    NOTE("del %s\n", name_of(event));
    return 0;
}

ssize_t
__wrap_send(int fd, const void *bytes, size_t len, int flags)
{
    NOTE("send to %d '%.*s' flags %x\n", fd, (int)len, (const char *)bytes,
         (unsigned)flags);
    return send_fails ? -1 : (ssize_t)len;
}

long
__wrap_syscall(long number, ...)
{
    va_list ap;
    int fd;
    int sig;
    void *info;
    int flags;

    va_start(ap, number);
    fd = va_arg(ap, int);
    sig = va_arg(ap, int);
    info = va_arg(ap, void *);
    flags = va_arg(ap, int);
    va_end(ap);
    assert_int_equal(number, SYS_pidfd_send_signal);
    assert_null(info);
    assert_int_equal(flags, 0);
    NOTE("signal %d to %d\n", sig, fd);
    return 0;
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

uint64_t
__wrap_wp_rng_below(struct wp_rng *rng, uint64_t bound)
{
    assert_ptr_equal(rng, &local.rng);
    return bound - 1;
}

enum wp_status
wp_sandbox_spawn(struct wp_sandbox *sandbox, struct wp_err *err)
{
    NOTE("spawn %s user %d\n", sandbox->name, (int)sandbox->host_user);
    assert_true(local.in_start);
    sandbox->has_dir = true;
    if (spawn_fails > 0) {
        spawn_fails--;
        return wp_err_set(err, WP_UNAVAILABLE, "no start for %s",
                          sandbox->name);
    }
    sandbox->outer_fd = next_fd++;
    sandbox->control_fd = next_fd++;
    sandbox->stderr_fd = next_fd++;
    return WP_OK;
}

bool
wp_sandbox_undo(struct wp_sandbox *sandbox)
{
    NOTE("undo %s\n", sandbox->name);
    errno = EBUSY;
    return undo_fails-- <= 0;
}

void
wp_sandbox_end_binds(struct wp_sandbox *sandbox, enum wp_status status,
                     const char *reason)
{
    NOTE("end binds of %s: %s: %s\n", sandbox->name, wp_status_name(status),
         reason);
}

void
wp_sandbox_thaw(struct wp_sandbox *sandbox)
{
    NOTE("thaw %s state %d lost %d\n", sandbox->name, sandbox->state,
         sandbox->lost);
}

void
wp_sandbox_unlook(struct wp_sandbox *sandbox)
{
    NOTE("unlook %s\n", sandbox->name);
}

void
wp_sandbox_silent(struct wp_sandbox *sandbox, const char *how)
{
    NOTE("silent %s: %s\n", sandbox->name, how);
}

void
wp_egress_proxy_leave(struct wp_egress_proxy *proxy,
                      struct wp_egress_member *member)
{
    assert_ptr_equal(proxy, local.egress);
    NOTE("egress leave %s\n", member == NULL ? "nobody" : "member");
}

void
wp_cgroup_kill(const struct wp_cgroups *groups, const char *name)
{
    assert_ptr_equal(groups, &local.cgroups);
    NOTE("kill group %s\n", name);
}

void
wp_local_volumes_freed(struct wp_local *of)
{
    NOTE("volumes freed, live %u\n", atomic_load(&of->live_count));
}

/* Callbacks, which nobody calls here. */
#define NEVER(name)                                                            \
    void name(int fd, short what, void *arg)                                   \
    {                                                                          \
        (void)fd;                                                              \
        (void)what;                                                            \
        (void)arg;                                                             \
        abort();                                                               \
    }
NEVER(wp_sandbox_on_outer_exit)
NEVER(wp_sandbox_on_inner_exit)
NEVER(wp_sandbox_on_control)
NEVER(wp_sandbox_on_stderr)
NEVER(wp_sandbox_on_bridge)
NEVER(wp_sandbox_on_bridge_timer)
NEVER(wp_sandbox_on_bind_timer)
NEVER(wp_sandbox_on_identity_timer)
NEVER(wp_sandbox_on_look_timer)

/* --- Reports --- */

static void
on_lost(void *ctx, struct wp_slot_ref ref, struct wp_str reason)
{
    assert_ptr_equal(ctx, &order);
    NOTE("report lost %u.%u: %.*s\n", ref.index, ref.generation,
         WP_STR_ARG(reason));
}

static void
on_destroyed(void *ctx, struct wp_slot_ref ref)
{
    assert_ptr_equal(ctx, &order);
    NOTE("report destroyed %u.%u, live %u, found %d\n", ref.index,
         ref.generation, atomic_load(&local.live_count),
         local.by_index[ref.index] != NULL);
}

static void
on_started(void *ctx, struct wp_slot_ref ref)
{
    assert_ptr_equal(ctx, &order);
    NOTE("report started %u.%u\n", ref.index, ref.generation);
}

/* --- Steps --- */

static void
counts(void)
{
    uint32_t queue = 0;
    uint32_t live = 0;

    WP_LIST_FOREACH (node, &local.queue) {
        queue++;
    }
    WP_LIST_FOREACH (node, &local.live) {
        live++;
    }
    NOTE("= queued %u starting %u ready %u dying %u, lists %u %u, turns %u,"
         " spawned %llu lost %llu live %u users %u\n",
         atomic_load(&local.queued), atomic_load(&local.starting),
         atomic_load(&local.ready), atomic_load(&local.dying), queue, live,
         local.turns, atomic_load(&local.spawned_total),
         atomic_load(&local.lost_total), atomic_load(&local.live_count),
         local.free_users_len);
}

static void
step(const char *what)
{
    NOTE("--- %s\n", what);
}

static void
begin(uint32_t spawns_max)
{
    journal_begin();
    memset(&local, 0, sizeof local);
    wp_list_init(&local.queue);
    wp_list_init(&local.live);
    local.base = (struct event_base *)(uintptr_t)64;
    local.egress = (struct wp_egress_proxy *)(uintptr_t)128;
    local.config.spawns_max = spawns_max;
    local.config.probe_every_ms = 5000;
    local.config.probe_timeout_ms = 2000;
    local.events = (struct wp_local_events){
        .ctx = &order,
        .on_lost = on_lost,
        .on_destroyed = on_destroyed,
        .on_started = on_started,
    };
    local.free_users = users;
    for (uint32_t i = 0; i < WP_ARRAY_LEN(users); i++) {
        users[i] = 30 - i;
    }
    local.free_users_len = WP_ARRAY_LEN(users);
    tmpl.probe = WP_READY_HTTP;
    known_len = 0;
    next_fd = FIRST_FD;
    now_ns = 1000 * WP_NS_PER_S;
    undo_fails = spawn_fails = 0;
    send_fails = false;
}

static struct wp_sandbox *
make(const char *name)
{
    struct wp_sandbox *sandbox = wp_sandbox_make(&local);

    assert_non_null(sandbox);
    (void)snprintf(sandbox->name, sizeof sandbox->name, "%s", name);
    sandbox->ref = (struct wp_slot_ref){.index = known_len, .generation = 7};
    sandbox->tmpl = &made_from;
    sandbox->ordered_ns = now_ns;
    sandbox->ready_within_ns = 10 * WP_NS_PER_S;
    known[known_len++] = sandbox;
    wp_sandbox_index(sandbox);
    atomic_fetch_add(&local.live_count, 1);
    return sandbox;
}

static struct wp_sandbox *
queued(const char *name)
{
    struct wp_sandbox *sandbox = make(name);

    wp_sandbox_enqueue(sandbox);
    return sandbox;
}

/* Without a word of how it came to be so. */
static struct wp_sandbox *
in_state(const char *name, enum wp_sandbox_state state)
{
    size_t len = journal.len;
    struct wp_sandbox *sandbox = queued(name);

    sandbox->inner_fd = next_fd++;
    wp_sandbox_set_state(sandbox, state);
    if (state == WP_SANDBOX_READY) {
        wp_sandbox_end_turn(sandbox);
    }
    journal.len = len;
    journal.text[len] = '\0';
    NOTE("--- %s in state %d\n", name, state);
    return sandbox;
}

static void
fire(struct wp_sandbox *sandbox)
{
    NOTE("--- timer of %s\n", sandbox->name);
    JOURNAL_RUN(on_timer(-1, EV_TIMEOUT, sandbox));
}

static void
destroy(struct wp_sandbox *sandbox)
{
    NOTE("--- destroy %s\n", sandbox->name);
    JOURNAL_RUN(wp_sandbox_destroy(sandbox));
}

static void
processes_gone(struct wp_sandbox *sandbox)
{
    NOTE("--- processes of %s are gone\n", sandbox->name);
    if (sandbox->outer_fd >= 0 && sandbox->inner_fd >= 0) {
        sandbox->outer_fd = -1;
        wp_sandbox_step_dying(sandbox); /* One is left. */
    }
    sandbox->outer_fd = sandbox->inner_fd = -1;
    JOURNAL_RUN(wp_sandbox_step_dying(sandbox));
    counts();
}

/* --- Tests --- */

static void
test_an_order_waits_as_long_as_is_left_of_its_time(void **state)
{
    static const struct {
        int64_t within_ns;
        int64_t spent_ns;
    } rows[] = {
        {1500 * WP_NS_PER_MS, 400 * WP_NS_PER_MS},
        {1500 * WP_NS_PER_MS, 1499 * WP_NS_PER_MS},
        {1500 * WP_NS_PER_MS, 1500 * WP_NS_PER_MS - 1},
        {1500 * WP_NS_PER_MS, 2500 * WP_NS_PER_MS},
        {30LL * 24 * 3600 * WP_NS_PER_S, 0},
        {30LL * 24 * 3600 * WP_NS_PER_S + WP_NS_PER_MS, 0},
        {INT64_MAX, 0},
    };

    (void)state;
    begin(0);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_sandbox *sandbox = make("a");

        sandbox->ready_within_ns = rows[i].within_ns;
        sandbox->ordered_ns = now_ns - rows[i].spent_ns;
        step("enqueue");
        wp_sandbox_enqueue(sandbox);
    }
    counts();
    step("too late for the first");
    fire(known[0]);
    counts();
    destroy(known[0]);
    destroy(known[1]);
    counts();
    for (size_t i = 2; i < WP_ARRAY_LEN(rows); i++) {
        step("abandon");
        wp_sandbox_abandon(known[i]);
    }
    free(local.by_index);
    journal_compare("life_order");
}

static void
test_so_many_start_at_once(void **state)
{
    struct wp_sandbox *a;
    struct wp_sandbox *b;
    struct wp_sandbox *c;

    (void)state;
    begin(2);
    local.host.own_uids = true;
    a = queued("a");
    b = queued("b");
    c = queued("c");
    (void)queued("d");
    counts();
    local.events.on_started = NULL;
    step("a place is free");
    wp_sandbox_end_turn(a);
    counts();
    step("it had none any more");
    wp_sandbox_end_turn(a);
    counts();
    step("one dies while it starts, the next fails to start");
    spawn_fails = 1;
    destroy(c);
    counts();
    destroy(known[3]);
    fire(b);
    counts();
    tmpl.probe = WP_READY_TCP;
    b->lost = false;
    fire(b);
    b->lost = false;
    b->opened = true;
    fire(b);
    step("a again");
    a->lost = false;
    a->opened = true;
    fire(a);
    counts();
    for (uint32_t i = 0; i < 3; i++) {
        known[i]->inner_fd = next_fd++;
        processes_gone(known[i]);
        if (i != 2) {
            destroy(known[i]);
            counts();
        }
    }
    free(local.by_index);
    journal_compare("life_turns");
}

static void
test_starts_make_way_for_binds_for_a_while(void **state)
{
    struct wp_sandbox *a;

    (void)state;
    begin(1);
    atomic_store(&local.binds, 1);
    step("nobody in the queue");
    wp_local_start_queued(&local);
    NOTE("= by %lld\n", (long long)local.start_by_ns);
    a = queued("a");
    NOTE("= by %lld\n", (long long)local.start_by_ns);
    now_ns += 5 * WP_NS_PER_MS - 1;
    step("not yet");
    wp_local_on_start_timer(-1, EV_TIMEOUT, &local);
    now_ns += 1;
    step("now");
    wp_local_on_start_timer(-1, EV_TIMEOUT, &local);
    NOTE("= by %lld\n", (long long)local.start_by_ns);
    (void)queued("b");
    NOTE("= by %lld\n", (long long)local.start_by_ns);
    step("binds are over");
    atomic_store(&local.binds, 0);
    wp_sandbox_end_turn(a);
    NOTE("= by %lld\n", (long long)local.start_by_ns);
    counts();
    step("abandon");
    wp_sandbox_abandon(a);
    wp_sandbox_abandon(known[1]);
    free(local.by_index);
    journal_compare("life_way");
}

static void
test_a_ready_one_is_probed(void **state)
{
    struct wp_sandbox *a;

    (void)state;
    begin(1);
    a = in_state("a", WP_SANDBOX_READY);
    fire(a);
    NOTE("= asked %d\n", a->asked);
    fire(a);
    a->asked = false;
    send_fails = true;
    fire(a);
    NOTE("= asked %d\n", a->asked);
    send_fails = false;
    step("lost");
    a->bridge_fd = next_fd++;
    JOURNAL_RUN(wp_sandbox_lost(a, "why"));
    step("again");
    JOURNAL_RUN(wp_sandbox_lost(a, "why"));
    counts();
    a->egress_member = (struct wp_egress_member *)(uintptr_t)8;
    destroy(a);
    NOTE("= member %d\n", a->egress_member != NULL);
    JOURNAL_RUN(wp_sandbox_lost(a, "why"));
    counts();
    (void)snprintf(a->volumes, sizeof a->volumes, "v\n");
    destroy(a);
    processes_gone(a);
    free(local.by_index);
    journal_compare("life_probe");
}

static void
test_an_end_is_gentle_where_it_may_be(void **state)
{
    struct wp_sandbox *a;

    (void)state;
    begin(1);
    local.config.stop_grace_ms = 1;
    a = in_state("gentle", WP_SANDBOX_READY);
    destroy(a);
    counts();
    fire(a);
    a->kill_due = true;
    fire(a);
    a->has_group = true;
    fire(a);
    a->kill_due = false;
    fire(a);
    processes_gone(a);
    a = in_state("deaf", WP_SANDBOX_READY);
    send_fails = true;
    destroy(a);
    a->inner_fd = -1;
    fire(a);
    a->outer_fd = -1;
    fire(a);
    processes_gone(a);
    send_fails = false;
    local.config.stop_grace_ms = 0;
    a = in_state("at once", WP_SANDBOX_READY);
    destroy(a);
    processes_gone(a);
    local.config.stop_grace_ms = 700;
    a = queued("before its hello");
    destroy(a);
    NOTE("= kill due %d\n", a->kill_due);
    counts();
    fire(a);
    processes_gone(a);
    a = in_state("without processes", WP_SANDBOX_READY);
    a->inner_fd = a->outer_fd = -1;
    destroy(a);
    counts();
    a = in_state("first inner", WP_SANDBOX_READY);
    a->inner_fd = 0;
    destroy(a);
    step("an end that was asked for is no loss");
    JOURNAL_RUN(wp_sandbox_lost(a, "why"));
    fire(a);
    a->outer_fd = -1;
    wp_sandbox_step_dying(a);
    wp_sandbox_unwatch(&a->inner_event, &a->inner_fd);
    processes_gone(a);
    a = in_state("first outer", WP_SANDBOX_READY);
    a->inner_fd = -1;
    a->outer_fd = 0;
    destroy(a);
    fire(a);
    wp_sandbox_step_dying(a);
    processes_gone(a);
    local.config.spawns_max = 0;
    a = queued("never started");
    undo_fails = 1;
    destroy(a);
    counts();
    destroy(a);
    fire(a);
    counts();
    free(local.by_index);
    journal_compare("life_end");
}

static void
test_what_cannot_be_removed_is_tried_for_long(void **state)
{
    struct wp_sandbox *a;
    size_t len = 0;

    (void)state;
    begin(1);
    a = in_state("a", WP_SANDBOX_STARTING);
    a->has_group = true;
    destroy(a);
    undo_fails = 17;
    processes_gone(a);
    for (uint32_t i = 0; i < 17; i++) {
        fire(a);
    }
    counts();
    local.turns = 0;
    a = in_state("b", WP_SANDBOX_READY);
    destroy(a);
    undo_fails = 1000;
    processes_gone(a);
    for (uint32_t i = 1; i < 200; i++) {
        len = i == 20 ? journal.len : len;
        if (i == 199) { /* All of them are alike. */
            journal.len = len;
            NOTE("--- after %d tries\n", 1000 - undo_fails);
        }
        fire(a);
    }
    counts();
    NOTE("= %d tries\n", 1000 - undo_fails);
    free(local.by_index);
    journal_compare("life_removal");
}

static void
test_one_of_an_earlier_daemon_is_watched(void **state)
{
    struct wp_sandbox *a;

    (void)state;
    begin(1);
    for (int i = 0; i < 2; i++) {
        a = make(i == 0 ? "a" : "b");
        a->outer_fd = next_fd++;
        a->inner_fd = next_fd++;
        a->control_fd = next_fd++;
        a->identity_due_ns = 77;
        if (i > 0) {
            local.config.probe_every_ms = 0;
            (void)snprintf(a->audience, sizeof a->audience, "x");
        }
        wp_sandbox_adopt(a);
        NOTE("= state %d due %lld\n", a->state, (long long)a->identity_due_ns);
        counts();
    }
    step("abandon");
    known[0]->stderr_fd = next_fd++;
    known[0]->bridge_fd = next_fd++;
    wp_sandbox_abandon(known[0]);
    counts();
    destroy(known[1]);
    processes_gone(known[1]);
    free(local.by_index);
    journal_compare("life_adopted");
}

/* --- The table --- */

static void
test_a_new_one_has_nothing(void **state)
{
    struct wp_sandbox *a;

    (void)state;
    begin(1);
    a = wp_sandbox_make(&local);
    assert_non_null(a);
    assert_ptr_equal(a->local, &local);
    assert_ptr_equal(a->groups, &local.cgroups);
    assert_int_equal(a->host_user, UINT32_MAX);
    assert_int_equal(a->outer_fd, -1);
    assert_int_equal(a->inner_fd, -1);
    assert_int_equal(a->control_fd, -1);
    assert_int_equal(a->stderr_fd, -1);
    assert_int_equal(a->bridge_fd, -1);
    assert_int_equal(a->door_fd, -1);
    assert_true(wp_list_empty(&a->node));
    assert_true(wp_list_empty(&a->binds));
    assert_int_equal(a->state, WP_SANDBOX_QUEUED);
    free(a);
}

static void
test_each_is_found_by_its_own_name(void **state)
{
    static const struct {
        uint32_t index;
        uint32_t len; /* Of the table then. */
    } rows[] = {{0, 128},   {63, 128},  {127, 128},   {128, 256},
                {255, 256}, {256, 512}, {5000, 10000}};
    struct wp_sandbox *made[WP_ARRAY_LEN(rows)];
    static struct wp_sandbox last;

    (void)state;
    begin(1);
    assert_null(wp_sandbox_find(
        &local, (struct wp_slot_ref){.index = 0, .generation = 0}));
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_slot_ref ref = {.index = rows[i].index, .generation = 3};

        made[i] = wp_sandbox_make(&local);
        assert_non_null(made[i]);
        made[i]->ref = ref;
        assert_null(wp_sandbox_find(&local, ref));
        wp_sandbox_index(made[i]);
        assert_int_equal(local.by_index_len, rows[i].len);
        for (size_t k = 0; k <= i; k++) {
            assert_ptr_equal(wp_sandbox_find(&local, made[k]->ref), made[k]);
        }
        ref.generation = 4;
        assert_null(wp_sandbox_find(&local, ref));
    }
    for (uint32_t i = 0, n = 0; i < local.by_index_len; i++) {
        n += local.by_index[i] != NULL;
        assert_true(i + 1 < local.by_index_len || n == WP_ARRAY_LEN(rows));
    }
    assert_null(wp_sandbox_find(
        &local,
        (struct wp_slot_ref){.index = local.by_index_len, .generation = 0}));
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        free(made[i]);
    }
    free(local.by_index);
    /* A table begins with room for 128, whichever comes first; from 64 on it
     * has twice the number. */
    for (uint32_t first = 63; first <= 65; first++) {
        begin(1);
        last.local = &local;
        last.ref = (struct wp_slot_ref){.index = first, .generation = 1};
        wp_sandbox_index(&last);
        assert_int_equal(local.by_index_len, first < 64 ? 128 : 2 * first);
        free(local.by_index);
    }
}

static void
test_an_endpoint_is_as_long_as_it_may_be(void **state)
{
    char out[WP_ENDPOINT_MAX + 1];
    char name[WP_SANDBOX_NAME_MAX + 1];
    size_t room;

    (void)state;
    begin(1);
    (void)snprintf(local.sandboxes_dir, sizeof local.sandboxes_dir, "/s");
    assert_true(wp_local_endpoint(&local, WP_STR("abc"), out));
    assert_string_equal(out, "unix:/s/abc/port.sock");
    room = WP_ENDPOINT_MAX - strlen("unix:/4567/port.sock");
    memset(local.sandboxes_dir, 'd', sizeof local.sandboxes_dir);
    memset(name, 'n', sizeof name);
    local.sandboxes_dir[0] = '/';
    local.sandboxes_dir[room - 10] = '\0';
    assert_true(wp_local_endpoint(
        &local, (struct wp_str){.ptr = name, .len = 14}, out));
    assert_int_equal(strlen(out), WP_ENDPOINT_MAX);
    assert_string_equal(out + strlen(out) - 11, "n/port.sock");
    assert_false(wp_local_endpoint(
        &local, (struct wp_str){.ptr = name, .len = 15}, out));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_order_waits_as_long_as_is_left_of_its_time),
        cmocka_unit_test(test_so_many_start_at_once),
        cmocka_unit_test(test_starts_make_way_for_binds_for_a_while),
        cmocka_unit_test(test_a_ready_one_is_probed),
        cmocka_unit_test(test_an_end_is_gentle_where_it_may_be),
        cmocka_unit_test(test_what_cannot_be_removed_is_tried_for_long),
        cmocka_unit_test(test_one_of_an_earlier_daemon_is_watched),
        cmocka_unit_test(test_a_new_one_has_nothing),
        cmocka_unit_test(test_each_is_found_by_its_own_name),
        cmocka_unit_test(test_an_endpoint_is_as_long_as_it_may_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
