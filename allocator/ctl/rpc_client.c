#include "allocator/ctl/rpc_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>

#include "pool/base/address.h"
#include "pool/base/arena.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/file.h"
#include "pool/base/str.h"
#include "pool/egress/host.h"
#include "pool/trace/context.h"
#include "proto/wire/status.h"

enum {
    PEM_MAX = 1 << 20,
    MESSAGE_MAX = 32 << 20, /* Of a reply. */
    METADATA_MAX = 2,
};

struct wp_rpc_client {
    grpc_channel *channel;
    grpc_completion_queue *cq;
    char address[300];
    grpc_metadata metadata[METADATA_MAX]; /* Of each call. */
    size_t n_metadata;
};

/* --- Opening. --- */

/* A whole small file, terminated; NULL and err when that cannot be. */
static char *
read_pem(const char *path, const char *flag, struct wp_err *err)
{
    char *text = calloc(1, PEM_MAX + 1);
    ssize_t n = text != NULL ? wp_path_read(path, 0, text, PEM_MAX, NULL) : -1;

    if (n < 0) {
        (void)wp_err_sys(err, WP_INVALID_ARGUMENT, errno, "%s %s", flag, path);
    } else if (n == 0 || n == PEM_MAX) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "%s %s: expected a PEM file of at most 1 MiB", flag,
                         path);
        n = 0;
    }
    if (n <= 0) {
        free(text);
        return NULL;
    }
    return text;
}

static grpc_channel_credentials *
tls_credentials(const struct wp_rpc_target *target, struct wp_err *err)
{
    grpc_channel_credentials *credentials = NULL;
    grpc_ssl_pem_key_cert_pair pair = {NULL, NULL};
    char *ca = NULL;
    char *cert = NULL;
    char *key = NULL;

    ca = read_pem(target->tls_ca, "--tls-ca", err);
    if (ca == NULL) {
        return NULL;
    }
    if (target->tls_cert != NULL) {
        cert = read_pem(target->tls_cert, "--tls-cert", err);
        key = cert != NULL ? read_pem(target->tls_key, "--tls-key", err) : NULL;
        if (key == NULL) {
            goto out;
        }
        pair.cert_chain = cert;
        pair.private_key = key;
    }
    credentials = grpc_ssl_credentials_create(
        ca, target->tls_cert != NULL ? &pair : NULL, NULL, NULL);
    if (credentials == NULL) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "--tls-ca %s: gRPC cannot use it", target->tls_ca);
    }
out:
    free(ca);
    free(cert);
    free(key);
    return credentials;
}

/* Visible ASCII, which metadata can carry. */
static bool
is_word(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return false;
        }
    }
    return true;
}

enum wp_status
wp_rpc_target_token(const struct wp_rpc_target *target,
                    char out[WP_RPC_TOKEN_MAX], struct wp_err *err)
{
    static const char scheme[] = "Bearer ";
    const size_t cap = WP_RPC_TOKEN_MAX;
    const size_t skip = sizeof scheme - 1;
    char *word = out + skip;
    struct wp_address address;
    bool is_known =
        wp_address_parse(wp_str_from(target->address), &address, err) == WP_OK;
    ssize_t n;

    out[0] = '\0';
    if (target->token_file == NULL || (is_known && address.is_unix) ||
        (target->token_optional && !(is_known && address.is_loopback))) {
        return WP_OK;
    }
    n = wp_path_read(target->token_file, 0, word, cap - skip - 1, NULL);
    if (n < 0) {
        return target->token_optional
                   ? WP_OK
                   : wp_err_sys(err, WP_INVALID_ARGUMENT, errno,
                                "--access-token-file %.120s",
                                target->token_file);
    }
    memcpy(out, scheme, skip);
    while (n > 0 && (word[n - 1] == '\n' || word[n - 1] == '\r')) {
        n--;
    }
    word[n] = '\0';
    if (n < 16 || n > 256 || !is_word(word, (size_t)n)) {
        explicit_bzero(out, cap);
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "--access-token-file %.120s: expected one word of 16 "
                          "to 256 characters",
                          target->token_file);
    }
    return WP_OK;
}

/* Flags that contradict each other, or would send tokens in clear. */
static enum wp_status
check_target(const struct wp_rpc_target *target, struct wp_err *err)
{
    struct wp_address address;
    struct wp_str where = wp_str_from(target->address);
    struct wp_host host;
    const char *why;
    uint16_t port;

    if ((target->tls_cert == NULL) != (target->tls_key == NULL)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "--tls-cert and --tls-key go together");
    }
    if (target->tls_ca != NULL) {
        return WP_OK;
    }
    if (target->tls_cert != NULL || target->tls_name != NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "TLS needs --tls-ca, the authorities that sign the "
                          "daemon's certificate");
    }
    if (wp_address_parse(where, &address, err) == WP_OK) {
        if (address.is_loopback) {
            return WP_OK;
        }
    } else if (wp_str_starts_with(where, WP_STR("unix:")) ||
               memchr(where.ptr, ':', where.len) == NULL) {
        return err->status;
    } else if (memmem(where.ptr, where.len, "://", 3) != NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "address '%.100s': expected HOST:PORT or unix:/PATH, "
                          "not a URL",
                          target->address);
    } else if (!wp_host_port_parse(where, 0, &host, &port, &why)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "address '%.100s': expected HOST:PORT, [IPv6]:PORT "
                          "or unix:/PATH, with a port from 1 to 65535",
                          target->address);
    }
    return wp_err_set(err, WP_INVALID_ARGUMENT,
                      "address '%.100s' is beyond loopback: give --tls-ca, so "
                      "that lease tokens are not sent in clear",
                      target->address);
}

/* What goes wrong is said by this program, once. */
static void
drop_log(gpr_log_func_args *args)
{
    (void)args;
}

/* gRPC's arguments are char * that it only reads. */
static char *
constant_text(const char *constant)
{
    return (char *)(uintptr_t)constant;
}

/* What begun us says of its trace, by the variable that OpenTelemetry has for
 * it; "" when it says nothing that makes sense. */
static const char *
trace_parent(void)
{
    const char *text = getenv("TRACEPARENT");
    struct wp_trace_context context;

    return text != NULL && wp_trace_context_parse(wp_str_from(text), &context)
               ? text
               : "";
}

static void
add_metadata(struct wp_rpc_client *client, const char *key, const char *value)
{
    grpc_metadata *entry = &client->metadata[client->n_metadata];

    if (value[0] != '\0') {
        entry->key = grpc_slice_from_static_string(key);
        entry->value = grpc_slice_from_copied_string(value);
        client->n_metadata++;
    }
}

struct wp_rpc_client *
wp_rpc_client_open(const struct wp_rpc_target *target, struct wp_err *err)
{
    struct wp_rpc_client *client = NULL;
    grpc_channel_credentials *credentials;
    grpc_arg args[3];
    grpc_channel_args channel_args = {2, args};
    char token[WP_RPC_TOKEN_MAX];

    if (check_target(target, err) != WP_OK ||
        wp_rpc_target_token(target, token, err) != WP_OK) {
        return NULL;
    }
    gpr_set_log_function(drop_log);
    grpc_init();
    credentials = target->tls_ca != NULL ? tls_credentials(target, err)
                                         : grpc_insecure_credentials_create();
    if (credentials == NULL) {
        grpc_shutdown();
        return NULL;
    }
    args[0] = (grpc_arg){GRPC_ARG_INTEGER,
                         constant_text(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH),
                         {.integer = MESSAGE_MAX}};
    args[1] = (grpc_arg){GRPC_ARG_STRING,
                         constant_text(GRPC_ARG_PRIMARY_USER_AGENT_STRING),
                         {.string = constant_text("warmpoolctl/" WP_VERSION)}};
    if (target->tls_name != NULL) {
        args[2] = (grpc_arg){GRPC_ARG_STRING,
                             constant_text(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG),
                             {.string = constant_text(target->tls_name)}};
        channel_args.num_args = 3;
    }
    client = calloc(1, sizeof *client);
    WP_ASSERT(client != NULL);
    (void)snprintf(client->address, sizeof client->address, "%s",
                   target->address);
    client->channel =
        grpc_channel_create(target->address, credentials, &channel_args);
    client->cq = grpc_completion_queue_create_for_next(NULL);
    grpc_channel_credentials_release(credentials);
    add_metadata(client, "authorization", token);
    add_metadata(client, "traceparent", trace_parent());
    explicit_bzero(token, sizeof token);
    return client;
}

void
wp_rpc_client_close(struct wp_rpc_client *client)
{
    gpr_timespec forever = gpr_inf_future(GPR_CLOCK_MONOTONIC);

    if (client == NULL) {
        return;
    }
    for (size_t i = 0; i < client->n_metadata; i++) {
        grpc_slice_unref(client->metadata[i].value);
    }
    grpc_channel_destroy(client->channel);
    grpc_completion_queue_shutdown(client->cq);
    while (grpc_completion_queue_next(client->cq, forever, NULL).type !=
           GRPC_QUEUE_SHUTDOWN) {
    }
    grpc_completion_queue_destroy(client->cq);
    grpc_shutdown();
    free(client);
}

/* --- Calling. --- */

/* A call in progress. Its two batches end in any order. */
struct running {
    struct wp_rpc_client *client;
    struct wp_rpc_call *spec;
    grpc_call *call;
    grpc_byte_buffer *request;
    grpc_byte_buffer *reply; /* NULL after a message that is the end. */
    grpc_metadata_array initial;
    grpc_metadata_array trailing;
    grpc_status_code code;
    grpc_slice details;
    const char *error;
    bool stopped; /* By on_message. */
    char on_status;
    char on_message;
};

static void
start_batch(struct running *run, const grpc_op *ops, size_t n, char *tag)
{
    grpc_call_error error = grpc_call_start_batch(run->call, ops, n, tag, NULL);

    WP_ASSERT(error == GRPC_CALL_OK);
}

static void
start_read(struct running *run)
{
    grpc_op op;

    memset(&op, 0, sizeof op);
    op.op = GRPC_OP_RECV_MESSAGE;
    op.data.recv_message.recv_message = &run->reply;
    start_batch(run, &op, 1, &run->on_message);
}

static void
start_call(struct running *run)
{
    grpc_op ops[5];
    grpc_op status;
    grpc_slice request = grpc_slice_from_copied_buffer(
        (const char *)run->spec->request, run->spec->request_len);

    run->request = grpc_raw_byte_buffer_create(&request, 1);
    grpc_slice_unref(request);
    memset(&status, 0, sizeof status);
    status.op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    status.data.recv_status_on_client.trailing_metadata = &run->trailing;
    status.data.recv_status_on_client.status = &run->code;
    status.data.recv_status_on_client.status_details = &run->details;
    status.data.recv_status_on_client.error_string = &run->error;
    start_batch(run, &status, 1, &run->on_status);

    memset(ops, 0, sizeof ops);
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[0].data.send_initial_metadata.metadata = run->client->metadata;
    ops[0].data.send_initial_metadata.count = run->client->n_metadata;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = run->request;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &run->initial;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &run->reply;
    start_batch(run, ops, 5, &run->on_message);
}

/* Hands the reply on; false when there is none or no more are wanted. */
static bool
deliver(struct running *run)
{
    grpc_byte_buffer_reader reader;
    grpc_slice slice;
    bool more;

    if (run->reply == NULL || run->stopped ||
        grpc_byte_buffer_reader_init(&reader, run->reply) == 0) {
        return false;
    }
    slice = grpc_byte_buffer_reader_readall(&reader);
    more = run->spec->on_message(run->spec->ctx, GRPC_SLICE_START_PTR(slice),
                                 GRPC_SLICE_LENGTH(slice));
    grpc_slice_unref(slice);
    grpc_byte_buffer_reader_destroy(&reader);
    grpc_byte_buffer_destroy(run->reply);
    run->reply = NULL;
    if (!more) {
        run->stopped = true;
        (void)grpc_call_cancel(run->call, NULL);
    }
    return more;
}

static void
wait_for_end(struct running *run)
{
    bool status_pending = true;
    bool message_pending = true;

    while (status_pending || message_pending) {
        grpc_event event = grpc_completion_queue_next(
            run->client->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);

        WP_ASSERT(event.type == GRPC_OP_COMPLETE);
        if (event.tag == &run->on_status) {
            status_pending = false;
        } else {
            message_pending = event.success && deliver(run);
            if (message_pending) {
                start_read(run);
            }
        }
    }
}

static int64_t
retry_after(const struct running *run)
{
    static const char key[] = "grpc-status-details-bin";

    for (size_t i = 0; i < run->trailing.count; i++) {
        const grpc_metadata *entry = &run->trailing.metadata[i];
        uint64_t room[2048];
        struct wp_arena arena;
        struct wp_wire_status status;

        wp_arena_init(&arena, room, sizeof room);
        if (grpc_slice_str_cmp(entry->key, key) == 0 &&
            wp_wire_unpack_status(&arena, GRPC_SLICE_START_PTR(entry->value),
                                  GRPC_SLICE_LENGTH(entry->value), &status,
                                  NULL) == WP_OK) {
            return status.retry_after_ns;
        }
    }
    return 0;
}

static enum wp_status
status_of_code(grpc_status_code code)
{
    for (int i = 0; i < WP_STATUS_COUNT; i++) {
        enum wp_status status = (enum wp_status)i;

        if (status != WP_PENDING && wp_status_grpc_code(status) == (int)code) {
            return status;
        }
    }
    return WP_INTERNAL;
}

/* gRPC's account of a failed connection, in plain words. */
static enum wp_status
unreachable(const struct running *run, struct wp_str said, struct wp_err *err)
{
    static const struct {
        const char *word;
        const char *why;
    } known[] = {
        {"No such file", "there is no such socket"},
        {"refused", "connection refused"},
        {"Permission denied", "permission denied"},
        {"handshake", "the TLS handshake failed; see --tls-ca, --tls-cert "
                      "and --tls-name"},
        {"Peer name", "its certificate is for another name; see --tls-name"},
    };
    static const char last[] = "last error: ";
    const char *detail;

    for (size_t i = 0; i < WP_ARRAY_LEN(known); i++) {
        if (memmem(said.ptr, said.len, known[i].word, strlen(known[i].word)) !=
            NULL) {
            return wp_err_set(err, WP_UNAVAILABLE,
                              "cannot reach warmpoold at %s: %s",
                              run->client->address, known[i].why);
        }
    }
    detail = memmem(said.ptr, said.len, last, sizeof last - 1);
    if (detail != NULL) {
        detail += sizeof last - 1;
        said.len -= (size_t)(detail - said.ptr);
        said.ptr = detail;
    }
    return wp_err_set(err, WP_UNAVAILABLE, "cannot reach warmpoold at %s: %.*s",
                      run->client->address,
                      (int)(said.len < 100 ? said.len : 100), said.ptr);
}

static enum wp_status
outcome(const struct running *run, struct wp_err *err)
{
    enum wp_status status = status_of_code(run->code);
    struct wp_str said = {(const char *)GRPC_SLICE_START_PTR(run->details),
                          GRPC_SLICE_LENGTH(run->details)};

    if (run->stopped || status == WP_OK) {
        return WP_OK;
    }
    if (status == WP_UNAVAILABLE &&
        (wp_str_starts_with(said, WP_STR("failed to connect")) ||
         wp_str_starts_with(said, WP_STR("connections to all")))) {
        return unreachable(run, said, err);
    }
    if (said.len == 0) {
        said = wp_str_from(wp_status_text(status));
    }
    return wp_err_set(err, status, "%.*s",
                      (int)(said.len < 200 ? said.len : 200), said.ptr);
}

enum wp_status
wp_rpc_client_call(struct wp_rpc_client *client, struct wp_rpc_call *call,
                   struct wp_err *err)
{
    struct running run = {.client = client, .spec = call};
    grpc_slice method = grpc_slice_from_copied_string(call->method);
    gpr_timespec deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC);
    enum wp_status status;

    if (call->timeout_ns != WP_TIME_NEVER) {
        deadline =
            gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                         gpr_time_from_nanos(call->timeout_ns, GPR_TIMESPAN));
    }
    run.call =
        grpc_channel_create_call(client->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
                                 client->cq, method, NULL, deadline, NULL);
    grpc_slice_unref(method);
    WP_ASSERT(run.call != NULL);
    run.details = grpc_empty_slice();
    grpc_metadata_array_init(&run.initial);
    grpc_metadata_array_init(&run.trailing);
    start_call(&run);
    wait_for_end(&run);
    call->retry_after_ns = retry_after(&run);
    status = outcome(&run, err);

    grpc_metadata_array_destroy(&run.initial);
    grpc_metadata_array_destroy(&run.trailing);
    grpc_slice_unref(run.details);
    gpr_free((void *)(uintptr_t)run.error);
    grpc_byte_buffer_destroy(run.request);
    if (run.reply != NULL) {
        grpc_byte_buffer_destroy(run.reply);
    }
    grpc_call_unref(run.call);
    return status;
}
