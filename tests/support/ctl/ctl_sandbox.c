#include "tests/support/ctl/ctl_rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>

#include "allocator/ctl/sandbox/exec_stream_client.h"
#include "allocator/ctl/sandbox/sandbox_client.h"
#include "allocator/ctl/sandbox/upload.h"
#include "pool/base/clock.h"

struct ctl_sandbox ctl_sandbox;

void
ctl_sandbox_reset(void)
{
    ctl_sandbox = (struct ctl_sandbox){.http_status = 200, .body = ""};
}

static bool
fails(const char *function, struct wp_err *err)
{
    if (ctl_sandbox.fails == NULL || strcmp(ctl_sandbox.fails, function) != 0 ||
        ctl_sandbox.fail_after-- > 0) {
        return false;
    }
    *err = ctl_sandbox.err;
    return true;
}

struct wp_sandbox_client *__wrap_wp_sandbox_client_open(const char *address,
                                                        int64_t timeout_ns,
                                                        struct wp_err *err);
struct wp_sandbox_client *
__wrap_wp_sandbox_client_open(const char *address, int64_t timeout_ns,
                              struct wp_err *err)
{
    ctl_note("http open %s %lld ms\n", address != NULL ? address : "default",
             (long long)(timeout_ns / WP_NS_PER_MS));
    return fails("open", err) ? NULL : (struct wp_sandbox_client *)&ctl_sandbox;
}

void __wrap_wp_sandbox_client_close(struct wp_sandbox_client *client);
void
__wrap_wp_sandbox_client_close(struct wp_sandbox_client *client)
{
    if (client != NULL) {
        ctl_note("http close\n");
    }
}

enum wp_status
__wrap_wp_sandbox_client_request(struct wp_sandbox_client *client,
                                 const struct wp_sandbox_request *req,
                                 struct wp_err *err);
enum wp_status
__wrap_wp_sandbox_client_request(struct wp_sandbox_client *client,
                                 const struct wp_sandbox_request *req,
                                 struct wp_err *err)
{
    assert_ptr_equal(client, &ctl_sandbox);
    ctl_note("http %s %s %s bearer=%s type=%s body=%llu upgrade=%s\n",
             req->method, req->sandbox, req->path, req->bearer,
             req->type != NULL ? req->type : "-",
             (unsigned long long)req->body_len,
             req->upgrade != NULL ? req->upgrade : "-");
    return fails("request", err) ? err->status : WP_OK;
}

enum wp_status __wrap_wp_sandbox_client_send(struct wp_sandbox_client *client,
                                             const void *bytes, size_t len,
                                             struct wp_err *err);
enum wp_status
__wrap_wp_sandbox_client_send(struct wp_sandbox_client *client,
                              const void *bytes, size_t len, struct wp_err *err)
{
    char label[64];

    assert_ptr_equal(client, &ctl_sandbox);
    (void)snprintf(label, sizeof label, "http send %zu:", len);
    ctl_note_bytes(label, bytes, len < 400 ? len : 40);
    ctl_sandbox.sends++;
    return fails("send", err) ? err->status : WP_OK;
}

bool __wrap_wp_sandbox_client_answered(const struct wp_sandbox_client *client);
bool
__wrap_wp_sandbox_client_answered(const struct wp_sandbox_client *client)
{
    (void)client;
    return ctl_sandbox.answered_after > 0 &&
           ctl_sandbox.sends >= ctl_sandbox.answered_after;
}

enum wp_status __wrap_wp_sandbox_client_reply(struct wp_sandbox_client *client,
                                              int *http_status,
                                              struct wp_err *err);
enum wp_status
__wrap_wp_sandbox_client_reply(struct wp_sandbox_client *client,
                               int *http_status, struct wp_err *err)
{
    assert_ptr_equal(client, &ctl_sandbox);
    *http_status = ctl_sandbox.http_status;
    ctl_note("http reply %d\n", ctl_sandbox.http_status);
    return fails("reply", err) ? err->status : WP_OK;
}

enum wp_status __wrap_wp_sandbox_client_read(struct wp_sandbox_client *client,
                                             void *buf, size_t cap, size_t *n,
                                             struct wp_err *err);
enum wp_status
__wrap_wp_sandbox_client_read(struct wp_sandbox_client *client, void *buf,
                              size_t cap, size_t *n, struct wp_err *err)
{
    size_t left = strlen(ctl_sandbox.body) - ctl_sandbox.body_at;

    assert_ptr_equal(client, &ctl_sandbox);
    if (fails("read", err)) {
        return err->status;
    }
    left = ctl_sandbox.piece > 0 && left > ctl_sandbox.piece ? ctl_sandbox.piece
                                                             : left;
    *n = left < cap ? left : cap;
    memcpy(buf, ctl_sandbox.body + ctl_sandbox.body_at, *n);
    ctl_sandbox.body_at += *n;
    ctl_note("http read %zu\n", *n);
    return WP_OK;
}

int __wrap_wp_sandbox_client_fd(const struct wp_sandbox_client *client);
int
__wrap_wp_sandbox_client_fd(const struct wp_sandbox_client *client)
{
    assert_ptr_equal(client, &ctl_sandbox);
    return 1234;
}

const uint8_t *
__wrap_wp_sandbox_client_extra(const struct wp_sandbox_client *client,
                               size_t *len);
const uint8_t *
__wrap_wp_sandbox_client_extra(const struct wp_sandbox_client *client,
                               size_t *len)
{
    assert_ptr_equal(client, &ctl_sandbox);
    *len = 3;
    return (const uint8_t *)"abc";
}

enum wp_status __wrap_wp_exec_session_run(int socket_fd, int in_fd,
                                          const uint8_t *extra,
                                          size_t extra_len,
                                          struct wp_exec_exit *end,
                                          struct wp_err *err);
enum wp_status
__wrap_wp_exec_session_run(int socket_fd, int in_fd, const uint8_t *extra,
                           size_t extra_len, struct wp_exec_exit *end,
                           struct wp_err *err)
{
    ctl_note("session on %d, input %d, extra %.*s\n", socket_fd, in_fd,
             (int)extra_len, (const char *)extra);
    *end = (struct wp_exec_exit){.exit_code = ctl_sandbox.exit_code,
                                 .signal = ctl_sandbox.signal,
                                 .timed_out = ctl_sandbox.timed_out};
    return fails("session", err) ? err->status : WP_OK;
}

enum wp_status __wrap_wp_upload_file(const struct wp_upload_target *target,
                                     const struct wp_brought_file *file,
                                     struct wp_err *err);
enum wp_status
__wrap_wp_upload_file(const struct wp_upload_target *target,
                      const struct wp_brought_file *file, struct wp_err *err)
{
    if (ctl_sandbox.n_signals > 0) {
        ctl_sandbox.n_signals--;
        (void)raise(*ctl_sandbox.signals++);
    }
    ctl_note("upload to %s %lld ms %s bearer=%s stop=%d: %s from %s, %llu "
             "bytes, %04o\n",
             target->http != NULL ? target->http : "default",
             (long long)(target->timeout_ns / WP_NS_PER_MS), target->sandbox,
             target->bearer, (int)*target->stop, file->path,
             file->from != NULL ? file->from : "memory",
             (unsigned long long)file->size, file->mode);
    return fails("upload", err) ? err->status : WP_OK;
}
