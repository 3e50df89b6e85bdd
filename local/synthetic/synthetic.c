#include "local/synthetic/synthetic.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "local/sandbox/lock.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/file.h"
#include "pool/base/list.h"
#include "pool/base/log.h"
#include "pool/base/channel.h"
#include "pool/base/rng.h"
#include "proto/loop/thread.h"

#define DIR_NAME "/synthetic"

enum {
    CHANNEL_CAP = 16384,
    MESSAGES_A_TURN = 256,
    HEX_LEN = 2 * WP_UID_LEN,
    TEXT_MAX = WP_NAMESPACE_MAX + WP_POOL_NAME_MAX + WP_TEMPLATE_NAME_MAX +
               WP_SANDBOX_NAME_MAX + 5,
    /* So that "unix:DIR/UID" is no longer than an endpoint may be. */
    DIR_MAX = WP_ENDPOINT_MAX - (int)(sizeof "unix:" - 1) - 1 - HEX_LEN,
};

enum item_state {
    ITEM_NONE,
    ITEM_WARMING,
    ITEM_READY,
    ITEM_FAILED, /* Reported lost; waits to be destroyed. */
};

/* One for each slot. */
struct item {
    /* The backend's thread only. */
    struct wp_list node; /* In warming, the earliest due first; or in queue. */
    int64_t due_ns;      /* 0: not begun with. */
    uint32_t generation;
    enum item_state state;
    /* Filled by the thread that orders, which may again once it has been told
     * on_destroyed; read by the backend's between. */
    uint8_t uid[WP_UID_LEN];
    char text[TEXT_MAX]; /* The file's content. */
};

struct wp_synthetic {
    struct wp_synthetic_config config;
    struct wp_local_events events;
    char dir[DIR_MAX + 1];
    int dir_fd;
    struct item *items;     /* Owned; sandboxes_max of them. */
    struct wp_list warming; /* Begun with; the others wait in queue. */
    struct wp_list queue;
    uint32_t turns; /* In warming. */
    struct wp_rng rng;
    struct wp_channel channel;
    pthread_t thread;
    bool started;
    bool leaving; /* The thread's own, as is the next. */
    bool leave_ready;
    _Atomic(uint32_t) n_warming;
    _Atomic(uint32_t) n_ready;
    _Atomic(uint64_t) created_total;
    _Atomic(uint64_t) lost_total;
};

/* --- The life of a sandbox; the backend's thread. --- */

static void
move(struct wp_synthetic *synthetic, struct item *item, enum item_state to)
{
    if (item->state == ITEM_WARMING) {
        atomic_fetch_sub_explicit(&synthetic->n_warming, 1,
                                  memory_order_relaxed);
    } else if (item->state == ITEM_READY) {
        atomic_fetch_sub_explicit(&synthetic->n_ready, 1, memory_order_relaxed);
    }
    item->state = to;
    if (to == ITEM_WARMING) {
        atomic_fetch_add_explicit(&synthetic->n_warming, 1,
                                  memory_order_relaxed);
    } else if (to == ITEM_READY) {
        atomic_fetch_add_explicit(&synthetic->n_ready, 1, memory_order_relaxed);
    }
}

static struct wp_slot_ref
ref_of(const struct wp_synthetic *synthetic, const struct item *item)
{
    return (struct wp_slot_ref){(uint32_t)(item - synthetic->items),
                                item->generation};
}

static bool
make_file(const struct wp_synthetic *synthetic, const struct item *item)
{
    size_t len = strlen(item->text);
    char name[HEX_LEN + 1];
    ssize_t n;
    int fd;

    wp_hex_encode(item->uid, WP_UID_LEN, name);
    fd = openat(synthetic->dir_fd, name,
                O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) {
        return false;
    }
    n = write(fd, item->text, len);
    (void)close(fd);
    return n == (ssize_t)len;
}

static bool
remove_file(const struct wp_synthetic *synthetic, const uint8_t *uid)
{
    char name[HEX_LEN + 1];

    wp_hex_encode(uid, WP_UID_LEN, name);
    if (unlinkat(synthetic->dir_fd, name, 0) == 0 || errno == ENOENT) {
        return true;
    }
    wp_log_error("a synthetic sandbox's file was not removed",
                 wp_kv_str("file", name), wp_kv_int("errno", errno));
    return false;
}

static void
report_lost(struct wp_synthetic *synthetic, struct item *item,
            struct wp_str reason)
{
    move(synthetic, item, ITEM_FAILED);
    atomic_fetch_add_explicit(&synthetic->lost_total, 1, memory_order_relaxed);
    synthetic->events.on_lost(synthetic->events.ctx, ref_of(synthetic, item),
                              reason);
}

/* Writes "unix:DIR/UID"; its length. It fits: create has seen to that. */
static size_t
endpoint_of(const struct wp_synthetic *synthetic, const uint8_t *uid,
            char out[WP_ENDPOINT_MAX + 1])
{
    char name[HEX_LEN + 1];
    int n;

    wp_hex_encode(uid, WP_UID_LEN, name);
    n = snprintf(out, WP_ENDPOINT_MAX + 1, "unix:%s/%s", synthetic->dir, name);
    WP_ASSERT(n > 0 && n <= WP_ENDPOINT_MAX);
    return (size_t)n;
}

static void
report_ready(struct wp_synthetic *synthetic, struct item *item)
{
    char endpoint[WP_ENDPOINT_MAX + 1];
    size_t len = endpoint_of(synthetic, item->uid, endpoint);

    move(synthetic, item, ITEM_READY);
    synthetic->events.on_ready(synthetic->events.ctx, ref_of(synthetic, item),
                               (struct wp_str){endpoint, len});
}

/* Begins with those that wait, as far as spawns_max allows. */
static void
start_queued(struct wp_synthetic *synthetic)
{
    uint32_t most = synthetic->config.spawns_max;

    while (!wp_list_empty(&synthetic->queue) &&
           (most == 0 || synthetic->turns < most)) {
        struct item *item =
            WP_CONTAINER_OF(synthetic->queue.next, struct item, node);

        wp_list_remove(&item->node);
        wp_list_push_back(&synthetic->warming, &item->node);
        synthetic->turns++;
        item->due_ns = wp_time_add(wp_clock_mono_ns(wp_clock_system()),
                                   synthetic->config.ready_ns);
        if (synthetic->events.on_started != NULL) {
            synthetic->events.on_started(synthetic->events.ctx,
                                         ref_of(synthetic, item));
        }
    }
}

/* It is in the making no more. */
static void
end_turn(struct wp_synthetic *synthetic, struct item *item)
{
    wp_list_remove(&item->node);
    if (item->due_ns != 0) {
        item->due_ns = 0;
        synthetic->turns--;
    }
}

static void
become_ready(struct wp_synthetic *synthetic, int64_t now_ns)
{
    while (!wp_list_empty(&synthetic->warming)) {
        struct item *item =
            WP_CONTAINER_OF(synthetic->warming.next, struct item, node);

        if (item->due_ns > now_ns) {
            return;
        }
        end_turn(synthetic, item);
        if (wp_rng_below(&synthetic->rng, 100) <
            synthetic->config.fail_percent) {
            report_lost(synthetic, item, WP_STR("told to fail"));
        } else {
            report_ready(synthetic, item);
        }
        start_queued(synthetic);
    }
}

/* The item of a sandbox that begins. */
static struct item *
take_item(struct wp_synthetic *synthetic, struct wp_slot_ref ref,
          enum item_state as)
{
    struct item *item = &synthetic->items[ref.index];

    /* The pool uses a slot again only after its on_destroyed. */
    WP_ASSERT(item->state == ITEM_NONE);
    wp_list_init(&item->node);
    item->generation = ref.generation;
    move(synthetic, item, as);
    return item;
}

static void
run_create(void *ctx, uint64_t packed, uint64_t unused)
{
    struct wp_synthetic *synthetic = ctx;
    struct item *item =
        take_item(synthetic, wp_slot_ref_unpack(packed), ITEM_WARMING);

    (void)unused;
    atomic_fetch_add_explicit(&synthetic->created_total, 1,
                              memory_order_relaxed);
    if (!make_file(synthetic, item)) {
        report_lost(synthetic, item, WP_STR("its file could not be made"));
        return;
    }
    wp_list_push_back(&synthetic->queue, &item->node);
    start_queued(synthetic);
}

static void
end(struct wp_synthetic *synthetic, struct item *item)
{
    struct wp_slot_ref ref = ref_of(synthetic, item);

    (void)remove_file(synthetic, item->uid);
    end_turn(synthetic, item);
    start_queued(synthetic);
    move(synthetic, item, ITEM_NONE); /* The last touch before the report. */
    synthetic->events.on_destroyed(synthetic->events.ctx, ref);
}

static void
run_destroy(void *ctx, uint64_t packed, uint64_t unused)
{
    struct wp_synthetic *synthetic = ctx;
    struct wp_slot_ref ref = wp_slot_ref_unpack(packed);
    struct item *item;

    (void)unused;
    if (ref.index >= synthetic->config.sandboxes_max) {
        return;
    }
    item = &synthetic->items[ref.index];
    if (item->generation == ref.generation && item->state != ITEM_NONE) {
        end(synthetic, item);
    }
}

static void
run_leave(void *ctx, uint64_t leave_ready, uint64_t unused)
{
    struct wp_synthetic *synthetic = ctx;

    (void)unused;
    synthetic->leaving = true;
    synthetic->leave_ready = leave_ready != 0;
}

/* --- The port; the thread that orders. --- */

static enum wp_status
synthetic_create(void *self, const struct wp_sandbox_order *order,
                 struct wp_err *err)
{
    struct wp_synthetic *synthetic = self;
    struct item *item;
    int n;

    if (order->ref.index >= synthetic->config.sandboxes_max) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "all %u synthetic sandboxes are in use",
                          synthetic->config.sandboxes_max);
    }
    item = &synthetic->items[order->ref.index];
    n = snprintf(item->text, sizeof item->text, "%.*s\n%.*s\n%.*s\n%.*s\n",
                 WP_STR_ARG(order->pool_namespace), WP_STR_ARG(order->pool),
                 WP_STR_ARG(order->template_name), WP_STR_ARG(order->name));
    if (n < 0 || n >= (int)sizeof item->text) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "a name of the sandbox, its pool or its template is "
                          "too long");
    }
    memcpy(item->uid, order->uid, WP_UID_LEN);
    if (!wp_channel_send(&synthetic->channel,
                         (struct wp_message){run_create, synthetic,
                                             wp_slot_ref_pack(order->ref),
                                             0})) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "the synthetic backend has too much to do");
    }
    return WP_OK;
}

static enum wp_status
synthetic_destroy(void *self, struct wp_slot_ref ref)
{
    struct wp_synthetic *synthetic = self;

    return wp_channel_send(&synthetic->channel,
                           (struct wp_message){run_destroy, synthetic,
                                               wp_slot_ref_pack(ref), 0})
               ? WP_OK
               : WP_RESOURCE_EXHAUSTED;
}

struct wp_backend
wp_synthetic_port(struct wp_synthetic *synthetic)
{
    static const struct wp_backend_ops ops = {
        .name = "synthetic",
        .create = synthetic_create,
        .destroy = synthetic_destroy,
    };

    return (struct wp_backend){.ops = &ops,
                               .self = synthetic,
                               .at_once = synthetic->config.spawns_max};
}

/* --- Adoption: before there is a thread. --- */

/* The next line of *text, which is moved on; false when there is none. */
static bool
take_line(struct wp_str *text, struct wp_str *line)
{
    const char *end_of_line = memchr(text->ptr, '\n', text->len);

    if (end_of_line == NULL) {
        return false;
    }
    *line = (struct wp_str){text->ptr, (size_t)(end_of_line - text->ptr)};
    text->len -= line->len + 1;
    text->ptr = end_of_line + 1;
    return true;
}

/* False: its maker was killed before it was whole. */
static bool
read_file(const struct wp_synthetic *synthetic, const char *name,
          char text[TEXT_MAX], struct wp_local_found *out)
{
    int fd = openat(synthetic->dir_fd, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, TEXT_MAX) : -1;
    struct wp_str rest = {text, n > 0 ? (size_t)n : 0};

    if (fd >= 0) {
        (void)close(fd);
    }
    return take_line(&rest, &out->pool_namespace) &&
           take_line(&rest, &out->pool) &&
           take_line(&rest, &out->template_name) &&
           take_line(&rest, &out->name) && rest.len == 0;
}

static void
adopt_one(struct wp_synthetic *synthetic, const char *name,
          struct wp_local_sweep *sweep)
{
    const struct wp_local_events *events = &synthetic->events;
    char endpoint[WP_ENDPOINT_MAX + 1];
    uint8_t uid[WP_UID_LEN];
    struct wp_local_found found = {.uid = uid, .template_current = true};
    struct wp_slot_ref ref = WP_SLOT_REF_NONE;
    char text[TEXT_MAX];

    if (!wp_hex_decode(wp_str_from(name), uid, sizeof uid)) {
        return; /* Not ours. */
    }
    found.endpoint =
        (struct wp_str){endpoint, endpoint_of(synthetic, uid, endpoint)};
    if (!read_file(synthetic, name, text, &found) || events->adopt == NULL ||
        !events->adopt(events->ctx, &found, &ref)) {
        sweep->sandboxes++;
        sweep->failed += !remove_file(synthetic, uid);
        return;
    }
    WP_ASSERT(ref.index < synthetic->config.sandboxes_max);
    memcpy(take_item(synthetic, ref, ITEM_READY)->uid, uid, WP_UID_LEN);
    sweep->adopted++;
}

static enum wp_status
adopt_all(struct wp_synthetic *synthetic, struct wp_local_sweep *sweep,
          struct wp_err *err)
{
    enum wp_status status = WP_OK;
    const struct dirent *entry;
    DIR *dir = opendir(synthetic->dir);

    while (dir != NULL && (entry = wp_folder_next(dir)) != NULL) {
        adopt_one(synthetic, entry->d_name, sweep);
    }
    if (errno != 0) {
        status = wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot list %s",
                            synthetic->dir);
    }
    wp_folder_close(dir);
    return status;
}

/* --- Start and stop --- */

static void
wait_for_work(struct wp_synthetic *synthetic)
{
    struct pollfd pfd = {wp_channel_fd(&synthetic->channel), POLLIN, 0};
    struct timespec limit = {0, 0};
    int64_t left_ns;

    if (wp_list_empty(&synthetic->warming)) {
        (void)ppoll(&pfd, 1, NULL, NULL);
        return;
    }
    left_ns =
        WP_CONTAINER_OF(synthetic->warming.next, struct item, node)->due_ns -
        wp_clock_mono_ns(wp_clock_system());
    if (left_ns > 0) {
        limit.tv_sec = left_ns / WP_NS_PER_S;
        limit.tv_nsec = left_ns % WP_NS_PER_S;
    }
    (void)ppoll(&pfd, 1, &limit, NULL);
}

static void *
thread_main(void *arg)
{
    struct wp_synthetic *synthetic = arg;

    (void)pthread_setname_np(pthread_self(), "wp-synthetic");
    while (!synthetic->leaving) {
        wait_for_work(synthetic);
        (void)wp_channel_run(&synthetic->channel, MESSAGES_A_TURN);
        become_ready(synthetic, wp_clock_mono_ns(wp_clock_system()));
    }
    for (uint32_t i = 0; i < synthetic->config.sandboxes_max; i++) {
        struct item *item = &synthetic->items[i];

        if (item->state != ITEM_NONE &&
            !(item->state == ITEM_READY && synthetic->leave_ready)) {
            end(synthetic, item);
        }
    }
    return NULL;
}

enum wp_status
wp_synthetic_start(struct wp_synthetic *synthetic,
                   const struct wp_local_events *events,
                   struct wp_local_sweep *sweep, struct wp_err *err)
{
    struct wp_local_sweep ignored;
    enum wp_status status;
    int error;

    WP_ASSERT(!synthetic->started);
    synthetic->events = *events;
    sweep = sweep != NULL ? sweep : &ignored;
    *sweep = (struct wp_local_sweep){0};
    status = adopt_all(synthetic, sweep, err);
    if (status != WP_OK) {
        return status;
    }
    error = wp_thread_start(&synthetic->thread, thread_main, synthetic);
    if (error != 0) {
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, error,
                          "no thread for the synthetic backend");
    }
    synthetic->started = true;
    return WP_OK;
}

static void
end_thread(struct wp_synthetic *synthetic, bool leave_ready)
{
    const struct timespec again = {0, WP_NS_PER_MS};

    if (!synthetic->started) {
        return;
    }
    while (!wp_channel_send(
        &synthetic->channel,
        (struct wp_message){run_leave, synthetic, leave_ready, 0})) {
        (void)nanosleep(&again, NULL); /* The thread is emptying it. */
    }
    (void)pthread_join(synthetic->thread, NULL);
    synthetic->started = false;
}

void
wp_synthetic_stop(struct wp_synthetic *synthetic)
{
    end_thread(synthetic, false);
}

void
wp_synthetic_leave(struct wp_synthetic *synthetic)
{
    end_thread(synthetic, true);
}

static enum wp_status
open_dir(struct wp_synthetic *synthetic, const char *state_dir,
         struct wp_err *err)
{
    enum wp_status status;

    if (snprintf(synthetic->dir, sizeof synthetic->dir, "%s" DIR_NAME,
                 state_dir) >= (int)sizeof synthetic->dir) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "state directory '%.80s': at most %d characters,"
                          " since endpoints hold it",
                          state_dir, DIR_MAX - (int)(sizeof DIR_NAME - 1));
    }
    /* That of the local backend: one of them at a time has the directory. */
    status = synthetic->config.lock_fd >= 0
                 ? wp_lock_check(state_dir, synthetic->config.lock_fd, err)
                 : wp_lock_take(state_dir, &synthetic->config.lock_fd, err);
    if (status != WP_OK) {
        return status;
    }
    if (mkdir(synthetic->dir, 0755) != 0 && errno != EEXIST) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot make %s",
                          synthetic->dir);
    }
    synthetic->dir_fd =
        open(synthetic->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (synthetic->dir_fd < 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot open %s",
                          synthetic->dir);
    }
    return WP_OK;
}

struct wp_synthetic *
wp_synthetic_create(const struct wp_synthetic_config *config,
                    struct wp_err *err)
{
    struct wp_synthetic *synthetic = calloc(1, sizeof *synthetic);
    struct item *items = calloc(config->sandboxes_max, sizeof *items);

    if (synthetic == NULL || items == NULL ||
        !wp_channel_init(&synthetic->channel, CHANNEL_CAP)) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                         "no memory for the synthetic backend");
        free(synthetic);
        free(items);
        if (config->lock_fd >= 0) {
            (void)close(config->lock_fd);
        }
        return NULL;
    }
    synthetic->config = *config;
    synthetic->config.state_dir = NULL; /* Borrowed until the return only. */
    synthetic->items = items;
    synthetic->dir_fd = -1;
    wp_list_init(&synthetic->warming);
    wp_list_init(&synthetic->queue);
    wp_rng_init(&synthetic->rng, config->seed);
    if (open_dir(synthetic, config->state_dir, err) != WP_OK) {
        wp_synthetic_destroy(synthetic);
        return NULL;
    }
    return synthetic;
}

void
wp_synthetic_destroy(struct wp_synthetic *synthetic)
{
    if (synthetic == NULL) {
        return;
    }
    WP_ASSERT(!synthetic->started);
    if (synthetic->dir_fd >= 0) {
        (void)close(synthetic->dir_fd);
    }
    if (synthetic->config.lock_fd >= 0) {
        (void)close(synthetic->config.lock_fd);
    }
    wp_channel_fini(&synthetic->channel);
    free(synthetic->items);
    free(synthetic);
}

void
wp_synthetic_stats(const struct wp_synthetic *synthetic,
                   struct wp_local_stats *out)
{
    *out = (struct wp_local_stats){
        .starting =
            atomic_load_explicit(&synthetic->n_warming, memory_order_relaxed),
        .ready =
            atomic_load_explicit(&synthetic->n_ready, memory_order_relaxed),
        .spawned_total = atomic_load_explicit(&synthetic->created_total,
                                              memory_order_relaxed),
        .lost_total =
            atomic_load_explicit(&synthetic->lost_total, memory_order_relaxed),
    };
}
