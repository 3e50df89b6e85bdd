/* local/sandbox/sandbox_bind.c - what a claim brings, on its way to the
 * sandbox's init.
 *
 * Any thread packs it; the loop thread hands it over and hears the answer. A
 * sandbox has one binding under way at most: others that come meanwhile are
 * repeats of its claim, and hear the same. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "local/control.h"
#include "proto/sockets/passing.h"
#include "proto/checkout/trees.h"
#include "local/sandbox/gvisor.h"
#include "local/sandbox/sandbox_impl.h"
#include "pool/base/assert.h"
#include "proto/parcel/pack.h"
#include "proto/parcel/parcel.h"

#define IDENTITY_PATH WP_ROOT_BOUND "/" WP_IDENTITY_FILE

enum {
    BINDS_MAX = 256, /* Under way at once, each with its parcel. */
    VOLUME_WAIT_MS = 2000,
};

/* --- Packing --- */

/* In memory that nothing but the sealed file has; -1: there is none. */
static int
pack(const struct wp_binding *binding, size_t size)
{
    int fd = memfd_create("warmpool-binding", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *map = MAP_FAILED;

    WP_ASSERT(size <= WP_PARCEL_MAX);
    if (size == 0) {
        return fd; /* All of it comes as trees. */
    }
    if (fd >= 0 && ftruncate(fd, (off_t)size) == 0) {
        map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (map != MAP_FAILED) {
        wp_parcel_fill(binding, WP_STR(IDENTITY_PATH), map);
        (void)munmap(map, size);
        if (fcntl(fd, F_ADD_SEALS,
                  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) ==
            0) {
            return fd;
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return -1;
}

/* --- Answers --- */

static void
answer(struct wp_local *local, struct wp_bind_op *op, enum wp_status status,
       const char *reason)
{
    if (op->fd >= 0) {
        (void)close(op->fd);
        op->fd = -1;
    }
    wp_bind_trees_drop(op->trees);
    free(op->volumes);
    op->status = status;
    (void)snprintf(op->reason, sizeof op->reason, "%s", reason);
    (void)atomic_fetch_sub_explicit(&local->binds, 1, memory_order_relaxed);
    op->done(op);
    if (local->start_by_ns != 0) {
        wp_local_start_queued(local);
    }
}

void
wp_sandbox_end_binds(struct wp_sandbox *sandbox, enum wp_status status,
                     const char *reason)
{
    char whole[WP_BIND_REASON_MAX + 1];
    char text[WP_BIND_REASON_MAX + 1];
    struct wp_list *node;

    if (wp_list_empty(&sandbox->binds)) {
        return;
    }
    (void)evtimer_del(&sandbox->bind_timer);
    sandbox->volume_until_ns = 0;
    if (status == WP_OK) {
        sandbox->bound =
            WP_CONTAINER_OF(sandbox->binds.next, struct wp_bind_op, node)
                ->fingerprint;
    }
    (void)snprintf(whole, sizeof whole, "%s%s",
                   status == WP_FAILED_PRECONDITION ? "binding: "
                   : status == WP_OK                ? ""
                                     : "binding: the sandbox did not take it: ",
                   reason);
    /* The sandbox's own words may be among them. */
    (void)wp_str_make_printable(wp_str_from(whole), text, sizeof text);
    while ((node = wp_list_pop_front(&sandbox->binds)) != NULL) {
        answer(sandbox->local, WP_CONTAINER_OF(node, struct wp_bind_op, node),
               status, text);
    }
}

/* --- The way in --- */

static bool
send_trees(const struct wp_bind_op *op, int control_fd)
{
    const struct wp_bind_tree *tree;

    for (uint32_t i = 0;
         op->trees != NULL && (tree = wp_bind_trees_at(op->trees, i)) != NULL;
         i++) {
        char text[WP_CONTROL_TREE_MAX + 1];
        int n = snprintf(text, sizeof text, "%c%016" PRIx64 "%s",
                         WP_CONTROL_TREE, op->fingerprint, tree->dir);

        if (wp_passing_send(control_fd, text, (size_t)n, tree->fd,
                            MSG_NOSIGNAL | MSG_DONTWAIT) != n) {
            return false;
        }
    }
    return true;
}

/* what: PARCEL or BIND. */
static bool
hand_over(const struct wp_sandbox *sandbox, const struct wp_bind_op *op,
          char what)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%c%016" PRIx64, what, op->fingerprint);

    return wp_passing_send(sandbox->control_fd, text, (size_t)n, op->fd,
                           MSG_NOSIGNAL | MSG_DONTWAIT) == n;
}

static enum wp_status
tell_init(struct wp_sandbox *sandbox, const struct wp_bind_op *op,
          struct wp_err *err)
{
    bool identified = op->audience[0] != '\0';
    bool sent = send_trees(op, sandbox->control_fd);

    /* Its init is at work while the identity is signed. */
    if (sent && identified) {
        sent = hand_over(sandbox, op, WP_CONTROL_PARCEL);
        if (sent && wp_sandbox_identify(sandbox, op->audience,
                                        op->identity_ttl_ms, err) != WP_OK) {
            return err->status;
        }
    }
    return sent && hand_over(sandbox, op, WP_CONTROL_BIND)
               ? WP_OK
               : wp_err_set(err, WP_UNAVAILABLE, "its init does not read");
}

/* Its egress is as its claim wants it. What is to be known after a restart is
 * written while its init is at work: a daemon that dies before has answered
 * nobody, and a repeat of the claim is bound anew. */
static void
bind_on(struct wp_sandbox *sandbox)
{
    const struct wp_bind_op *op;
    enum wp_status status = WP_OK;
    struct wp_err err;
    bool init_has_to;

    if (wp_list_empty(&sandbox->binds)) {
        return; /* Given up meanwhile. */
    }
    op = WP_CONTAINER_OF(sandbox->binds.next, struct wp_bind_op, node);
    init_has_to = op->fd >= 0;
    if (init_has_to) {
        status = tell_init(sandbox, op, &err);
    }
    if (status == WP_OK) {
        status = wp_sandbox_record_identity(sandbox, &err);
    }
    if (status != WP_OK) {
        wp_sandbox_end_binds(sandbox, status, err.msg);
    } else if (!init_has_to) {
        wp_sandbox_end_binds(sandbox, WP_OK, "");
    }
}

void
wp_sandbox_on_narrowed(void *sandbox, bool narrowed)
{
    if (narrowed) {
        bind_on(sandbox);
    } else {
        wp_sandbox_end_binds(sandbox, WP_UNAVAILABLE,
                             "its egress cannot be narrowed");
    }
}

/* Each end of a sandbox that had a volume has all look again. False: it has
 * waited long enough. */
static bool
await_volume(struct wp_sandbox *sandbox)
{
    int64_t now_ns = wp_sandbox_now_ns();

    if (sandbox->volume_until_ns == 0) {
        sandbox->volume_until_ns = now_ns + VOLUME_WAIT_MS * WP_NS_PER_MS;
    }
    if (now_ns >= sandbox->volume_until_ns) {
        return false;
    }
    wp_sandbox_arm_ms(&sandbox->bind_timer,
                      (sandbox->volume_until_ns - now_ns) / WP_NS_PER_MS + 1);
    return true;
}

/* What it brings from elsewhere is here. A volume that another sandbox has is
 * waited for a while: that one's lease may just have ended. */
static void
begin(struct wp_sandbox *sandbox, const struct wp_bind_op *op)
{
    enum wp_status status = WP_OK;
    struct wp_err err;

    wp_sandbox_arm_ms(&sandbox->bind_timer, op->within_ns / WP_NS_PER_MS);
    if (op->volumes != NULL) {
        status = wp_sandbox_mount(sandbox, op->volumes, &err);
    }
    if (status == WP_PENDING && await_volume(sandbox)) {
        return;
    }
    sandbox->volume_until_ns = 0;
    if (status != WP_OK) {
        wp_sandbox_end_binds(sandbox, WP_FAILED_PRECONDITION, err.msg);
        return;
    }
    if (op->egress[0] != '\0') {
        status = wp_sandbox_narrow(sandbox, op->egress, &err);
    }
    if (status == WP_OK) {
        bind_on(sandbox);
    } else if (status != WP_PENDING) {
        wp_sandbox_end_binds(sandbox, status, err.msg);
    }
}

void
wp_sandbox_on_bind_timer(int fd, short what, void *arg)
{
    struct wp_sandbox *sandbox = arg;

    (void)fd;
    (void)what;
    if (sandbox->volume_until_ns != 0) {
        begin(sandbox,
              WP_CONTAINER_OF(sandbox->binds.next, struct wp_bind_op, node));
    } else {
        wp_sandbox_end_binds(sandbox, WP_DEADLINE_EXCEEDED,
                             "no answer in time");
    }
}

/* May the sandbox have all that was fetched? */
static enum wp_status
trust(struct wp_local *local, const struct wp_bind_trees *trees,
      struct wp_err *err)
{
    const struct wp_bind_tree *tree;

    for (uint32_t i = 0; (tree = wp_bind_trees_at(trees, i)) != NULL; i++) {
        if (wp_trust_check(&local->trust, wp_bind_trees_tenant(trees), tree,
                           err) != WP_OK) {
            return wp_err_wrap(err, "repository '%.*s'", WP_REMOTE_URL_SHOWN,
                               tree->url);
        }
    }
    return WP_OK;
}

/* The trees are dropped with their op, when the sandbox is lost, too. */
static void
on_trees(void *ctx, enum wp_status status, const char *reason)
{
    struct wp_sandbox *sandbox = ctx;
    const struct wp_bind_op *op =
        WP_CONTAINER_OF(sandbox->binds.next, struct wp_bind_op, node);
    struct wp_err err;

    if (status == WP_OK) {
        status = trust(sandbox->local, op->trees, &err);
        reason = err.msg;
    }
    if (status == WP_OK) {
        begin(sandbox, op);
        return;
    }
    wp_sandbox_end_binds(sandbox, WP_FAILED_PRECONDITION, reason);
}

static void
run_bind(void *ctx, uint64_t a, uint64_t b)
{
    struct wp_bind_op *op = ctx;
    struct wp_local *local = op->owner;
    struct wp_sandbox *sandbox = wp_sandbox_find(local, op->ref);
    bool first;

    (void)a;
    (void)b;
    if (sandbox == NULL || sandbox->state != WP_SANDBOX_READY ||
        sandbox->lost) {
        answer(local, op, WP_UNAVAILABLE,
               "the sandbox was lost before it was bound; try again");
        return;
    }
    if (sandbox->bound == op->fingerprint) {
        answer(local, op, WP_OK, ""); /* A repeat; nothing is fetched again. */
        return;
    }
    wp_sandbox_thaw(sandbox);
    first = wp_list_empty(&sandbox->binds);
    wp_list_push_back(&sandbox->binds, &op->node);
    if (!first) {
        return; /* A repeat of the claim; its init is at it. */
    }
    if (op->trees != NULL) {
        wp_bind_trees_fetch(op->trees, local->fetcher, on_trees, sandbox);
    } else {
        begin(sandbox, op);
    }
}

enum wp_status
wp_local_bind(void *self, struct wp_bind_op *op)
{
    struct wp_local *local = self;
    const char *lack = "binding: too many sandboxes are being bound; try again";
    size_t size = wp_parcel_size(op->binding, WP_STR(IDENTITY_PATH));
    bool fetches = op->binding->n_repositories > 0;
    bool mounts = op->binding->n_volumes > 0;
    bool init_has_to = size > 0 || fetches;
    bool whole;

    op->owner = local;
    op->fd = -1;
    op->fingerprint = op->binding->fingerprint;
    op->trees = NULL;
    op->volumes = NULL;
    WP_ASSERT(
        wp_str_copy(op->binding->egress, op->egress, sizeof op->egress) &&
        wp_str_copy(op->binding->audience, op->audience, sizeof op->audience));
    op->identity_ttl_ms = op->binding->identity_ttl_ms;
    if (atomic_fetch_add_explicit(&local->binds, 1, memory_order_relaxed) <
        BINDS_MAX) {
        op->fd = init_has_to ? pack(op->binding, size) : -1;
        if (op->fd >= 0 && fetches) {
            op->trees = wp_bind_trees_make(op->binding, op->tenant);
        }
        op->volumes =
            mounts ? wp_bind_volumes_make(op->binding, op->tenant) : NULL;
        whole = (op->fd >= 0 || !init_has_to) &&
                (op->trees != NULL || !fetches) &&
                (op->volumes != NULL || !mounts);
        if (whole && wp_loop_post(local->loop, run_bind, op, 0, 0)) {
            return WP_PENDING;
        }
        if (!whole) {
            lack = "binding: no memory for it; try again";
        }
    }
    (void)atomic_fetch_sub_explicit(&local->binds, 1, memory_order_relaxed);
    wp_bind_trees_drop(op->trees);
    free(op->volumes);
    if (op->fd >= 0) {
        (void)close(op->fd);
    }
    (void)snprintf(op->reason, sizeof op->reason, "%s", lack);
    return WP_RESOURCE_EXHAUSTED;
}

enum wp_status
wp_local_may_bring(void *self, const struct wp_binding *binding,
                   struct wp_err *err)
{
    const struct wp_local *local = self;
    enum wp_status status;

    if (binding->n_volumes > 0 && local->volumes.dir == NULL) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "binding.volumes: the daemon has none (setting "
                          "volumes_dir)");
    }
    status = wp_bind_trees_check(&local->remotes, binding, err);
    return status == WP_OK && binding->n_repositories > 0 &&
                   local->fetcher == NULL
               ? wp_err_set(err, WP_FAILED_PRECONDITION,
                            "binding.repositories: warmpool-fetch or git was "
                            "not found (setting fetch_path)")
               : status;
}

const char *
wp_local_unbound(void *self, struct wp_str template_namespace,
                 struct wp_str name)
{
    const struct wp_local_template *found =
        wp_local_find_template(self, template_namespace, name);

    if (found != NULL && found->gvisor != NULL) {
        return "their runtime class, gvisor, keeps their files";
    }
    if (found != NULL && found->tmpl->unbound) {
        return "the template says so (" WP_TEMPLATE_BINDING_KEY ")";
    }
    return NULL;
}
