/* local/sandbox/sandbox_bind.c - what a claim brings, on its way to the
 * sandbox's init.
 *
 * Any thread packs it; the loop thread hands it over and hears the answer. A
 * sandbox has one binding under way at most: others that come meanwhile are
 * repeats of its claim, and hear the same. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "local/bind_parcel.h"
#include "local/control.h"
#include "local/sandbox/gvisor.h"
#include "local/sandbox/sandbox_impl.h"
#include "pool/base/assert.h"

#define IDENTITY_PATH WP_ROOT_BOUND "/" WP_IDENTITY_FILE

enum {
    BINDS_MAX = 256, /* Under way at once, each with its parcel. */
};

/* --- Packing --- */

static uint8_t *
put(uint8_t *at, enum wp_parcel_kind kind, uint32_t number, struct wp_str first,
    struct wp_str second)
{
    const struct wp_parcel_entry entry = {
        .kind = kind,
        .number = number,
        .first_len = first.len,
        .second_len = second.len,
    };

    wp_parcel_put_head(&entry, at);
    at += WP_PARCEL_HEAD;
    if (first.len > 0) {
        memcpy(at, first.ptr, first.len);
    }
    if (second.len > 0) {
        memcpy(at + first.len, second.ptr, second.len);
    }
    return at + first.len + second.len;
}

static size_t
parcel_size(const struct wp_binding *binding)
{
    size_t entries = (size_t)binding->n_env + binding->n_secrets +
                     binding->n_files + binding->n_command +
                     (binding->working_dir.len > 0 ? 1 : 0);
    size_t size = entries * WP_PARCEL_HEAD + binding->working_dir.len;

    for (uint32_t i = 0; i < binding->n_env; i++) {
        size += binding->env[i].name.len + binding->env[i].value.len;
    }
    for (uint32_t i = 0; i < binding->n_secrets; i++) {
        size += binding->secrets[i].name.len + binding->secrets[i].value.len;
    }
    for (uint32_t i = 0; i < binding->n_files; i++) {
        size += binding->files[i].path.len + binding->files[i].content.len;
    }
    for (uint32_t i = 0; i < binding->n_command; i++) {
        size += binding->command[i].len;
    }
    if (binding->audience.len > 0) {
        size += WP_PARCEL_HEAD + sizeof WP_IDENTITY_ENV - 1 +
                sizeof IDENTITY_PATH - 1;
    }
    return size;
}

static void
fill_parcel(const struct wp_binding *binding, uint8_t *at)
{
    for (uint32_t i = 0; i < binding->n_env; i++) {
        at = put(at, WP_PARCEL_ENV, 0, binding->env[i].name,
                 binding->env[i].value);
    }
    for (uint32_t i = 0; i < binding->n_secrets; i++) {
        const struct wp_binding_secret *secret = &binding->secrets[i];

        at = put(at, WP_PARCEL_SECRET, secret->in_env ? 1 : 0, secret->name,
                 secret->value);
    }
    for (uint32_t i = 0; i < binding->n_files; i++) {
        const struct wp_binding_file *file = &binding->files[i];

        at = put(at, WP_PARCEL_FILE, file->mode, file->path, file->content);
    }
    if (binding->audience.len > 0) {
        at = put(at, WP_PARCEL_IDENTITY, 0, WP_STR(WP_IDENTITY_ENV),
                 WP_STR(IDENTITY_PATH));
    }
    if (binding->working_dir.len > 0) {
        at = put(at, WP_PARCEL_DIR, 0, binding->working_dir, WP_STR(""));
    }
    for (uint32_t i = 0; i < binding->n_command; i++) {
        at = put(at, WP_PARCEL_WORD, 0, binding->command[i], WP_STR(""));
    }
}

/* In memory that nothing but the sealed file has; -1 with errno. */
static int
pack(const struct wp_binding *binding, size_t size)
{
    int fd = memfd_create("warmpool-binding", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *map = MAP_FAILED;
    int error;

    WP_ASSERT(size <= WP_PARCEL_MAX);
    if (fd >= 0 && ftruncate(fd, (off_t)size) == 0) {
        map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (map != MAP_FAILED) {
        fill_parcel(binding, map);
        (void)munmap(map, size);
        if (fcntl(fd, F_ADD_SEALS,
                  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) ==
            0) {
            return fd;
        }
    }
    error = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    errno = error;
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
    op->status = status;
    (void)snprintf(op->reason, sizeof op->reason, "%s", reason);
    (void)atomic_fetch_sub_explicit(&local->binds, 1, memory_order_relaxed);
    op->done(op);
}

void
wp_sandbox_end_binds(struct wp_sandbox *sandbox, enum wp_status status,
                     const char *reason)
{
    char text[WP_BIND_REASON_MAX + 1];
    struct wp_list *node;

    if (wp_list_empty(&sandbox->binds)) {
        return;
    }
    (void)evtimer_del(&sandbox->bind_timer);
    (void)snprintf(text, sizeof text, "%s%s",
                   status == WP_FAILED_PRECONDITION ? "binding: "
                   : status == WP_OK                ? ""
                                     : "binding: the sandbox did not take it: ",
                   reason);
    while ((node = wp_list_pop_front(&sandbox->binds)) != NULL) {
        answer(sandbox->local, WP_CONTAINER_OF(node, struct wp_bind_op, node),
               status, text);
    }
}

void
wp_sandbox_on_bind_timer(int fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    wp_sandbox_end_binds(arg, WP_DEADLINE_EXCEEDED, "no answer in time");
}

/* --- The way in --- */

static bool
hand_over(const struct wp_sandbox *sandbox, const struct wp_bind_op *op)
{
    char text[32];
    char ancillary[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = {0};
    int n = snprintf(text, sizeof text, "%c%016" PRIx64, WP_CONTROL_BIND,
                     op->fingerprint);
    struct iovec iov = {text, (size_t)n};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = ancillary,
        .msg_controllen = sizeof ancillary,
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &op->fd, sizeof op->fd);
    return sendmsg(sandbox->control_fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) == n;
}

/* Its egress is as its claim wants it. */
static void
bind_on(struct wp_sandbox *sandbox)
{
    const struct wp_bind_op *op;
    enum wp_status status = WP_OK;
    struct wp_err err;

    if (wp_list_empty(&sandbox->binds)) {
        return; /* Given up meanwhile. */
    }
    op = WP_CONTAINER_OF(sandbox->binds.next, struct wp_bind_op, node);
    if (op->audience[0] != '\0') {
        status = wp_sandbox_identify(sandbox, op->audience, op->identity_ttl_ms,
                                     &err);
    }
    if (status != WP_OK) {
        wp_sandbox_end_binds(sandbox, status, err.msg);
    } else if (op->fd < 0) {
        wp_sandbox_end_binds(sandbox, WP_OK, "");
    } else if (!hand_over(sandbox, op)) {
        wp_sandbox_end_binds(sandbox, WP_UNAVAILABLE, "its init does not read");
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

static void
run_bind(void *ctx, uint64_t a, uint64_t b)
{
    struct wp_bind_op *op = ctx;
    struct wp_local *local = op->owner;
    struct wp_sandbox *sandbox = wp_sandbox_find(local, op->ref);
    enum wp_status status = WP_OK;
    struct wp_err err;
    bool first;

    (void)a;
    (void)b;
    if (sandbox == NULL || sandbox->state != WP_SANDBOX_READY ||
        sandbox->lost) {
        answer(local, op, WP_UNAVAILABLE,
               "the sandbox was lost before it was bound; try again");
        return;
    }
    first = wp_list_empty(&sandbox->binds);
    wp_list_push_back(&sandbox->binds, &op->node);
    if (!first) {
        return; /* A repeat of the claim; its init is at it. */
    }
    wp_sandbox_arm_ms(&sandbox->bind_timer, op->within_ns / WP_NS_PER_MS);
    if (op->egress[0] != '\0') {
        status = wp_sandbox_narrow(sandbox, op->egress, &err);
    }
    if (status == WP_OK) {
        bind_on(sandbox);
    } else if (status != WP_PENDING) {
        wp_sandbox_end_binds(sandbox, status, err.msg);
    }
}

enum wp_status
wp_local_bind(void *self, struct wp_bind_op *op)
{
    struct wp_local *local = self;
    const char *lack = "binding: too many sandboxes are being bound; try again";
    /* 0: its init has nothing to do. */
    size_t size = parcel_size(op->binding);

    op->owner = local;
    op->fd = -1;
    op->fingerprint = op->binding->fingerprint;
    WP_ASSERT(
        wp_str_copy(op->binding->egress, op->egress, sizeof op->egress) &&
        wp_str_copy(op->binding->audience, op->audience, sizeof op->audience));
    op->identity_ttl_ms = op->binding->identity_ttl_ms;
    if (atomic_fetch_add_explicit(&local->binds, 1, memory_order_relaxed) <
        BINDS_MAX) {
        op->fd = size > 0 ? pack(op->binding, size) : -1;
        if ((op->fd >= 0 || size == 0) &&
            wp_loop_post(local->loop, run_bind, op, 0, 0)) {
            return WP_PENDING;
        }
        if (op->fd < 0 && size > 0) {
            lack = "binding: no memory for it; try again";
        }
    }
    (void)atomic_fetch_sub_explicit(&local->binds, 1, memory_order_relaxed);
    if (op->fd >= 0) {
        (void)close(op->fd);
    }
    (void)snprintf(op->reason, sizeof op->reason, "%s", lack);
    return WP_RESOURCE_EXHAUSTED;
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
