/* A call of the daemon, from gRPC's functions upwards: what the channel and the
 * call are made of, and what each end is told as. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/string_util.h>

#include "allocator/ctl/rpc_client.h"
#include "pool/base/clock.h"
#include "proto/wire/status.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/temp_dir.h"

#define GOLDEN(name) WP_TEST_GOLDEN "/" name ".txt"

static struct golden seen;
static char dir[4096];

/* What gRPC's functions answer. */
static char a_channel;
static char a_queue;
static char a_call;
static char some_credentials;
static bool no_credentials;

/* One event of the queue. */
struct event {
    enum {
        EVENT_END,
        EVENT_MESSAGE,
        EVENT_NO_MESSAGE,
        EVENT_FAILED
    } kind;
    const char *text; /* Of the message, or the call's end. */
    int code;         /* Of the end. */
};

static const struct event *events;
static const char *retry_key;
static const char *retry_bytes;
static size_t retry_len;
static int until_shutdown;

/* Where the batches' results go. */
static struct {
    void *status_tag;
    grpc_metadata_array *trailing;
    grpc_status_code *code;
    grpc_slice *details;
    const char **error;
    void *message_tag;
    grpc_byte_buffer **reply;
} under_way;

#define NOTE(...) golden_add(&seen, __VA_ARGS__)

void __wrap_grpc_init(void);
void
__wrap_grpc_init(void)
{
    NOTE("  init\n");
}

void __wrap_grpc_shutdown(void);
void
__wrap_grpc_shutdown(void)
{
    NOTE("  shutdown\n");
}

void __wrap_gpr_set_log_function(gpr_log_func function);
void
__wrap_gpr_set_log_function(gpr_log_func function)
{
    gpr_log_func_args args = {0};

    NOTE("  log function\n");
    function(&args);
}

grpc_channel_credentials *__wrap_grpc_insecure_credentials_create(void);
grpc_channel_credentials *
__wrap_grpc_insecure_credentials_create(void)
{
    NOTE("  insecure\n");
    return (grpc_channel_credentials *)&some_credentials;
}

grpc_channel_credentials *
__wrap_grpc_ssl_credentials_create(const char *roots,
                                   grpc_ssl_pem_key_cert_pair *pair,
                                   const void *verify, void *reserved);
grpc_channel_credentials *
__wrap_grpc_ssl_credentials_create(const char *roots,
                                   grpc_ssl_pem_key_cert_pair *pair,
                                   const void *verify, void *reserved)
{
    NOTE("  TLS by %.20s (%zu), certificate %.20s, key %.20s%s\n", roots,
         strlen(roots), pair != NULL ? pair->cert_chain : "-",
         pair != NULL ? pair->private_key : "-",
         verify != NULL || reserved != NULL ? ", and more" : "");
    return no_credentials ? NULL
                          : (grpc_channel_credentials *)&some_credentials;
}

void __wrap_grpc_channel_credentials_release(grpc_channel_credentials *creds);
void
__wrap_grpc_channel_credentials_release(grpc_channel_credentials *creds)
{
    assert_ptr_equal(creds, &some_credentials);
    NOTE("  credentials released\n");
}

grpc_channel *__wrap_grpc_channel_create(const char *target,
                                         grpc_channel_credentials *creds,
                                         const grpc_channel_args *args);
grpc_channel *
__wrap_grpc_channel_create(const char *target, grpc_channel_credentials *creds,
                           const grpc_channel_args *args)
{
    assert_ptr_equal(creds, &some_credentials);
    NOTE("  channel to %s", target);
    for (size_t i = 0; i < args->num_args; i++) {
        const grpc_arg *arg = &args->args[i];

        if (arg->type == GRPC_ARG_INTEGER) {
            NOTE(", %s=%d", arg->key, arg->value.integer);
        } else if (strcmp(arg->key, GRPC_ARG_PRIMARY_USER_AGENT_STRING) == 0) {
            assert_string_equal(arg->value.string, "warmpoolctl/" WP_VERSION);
            NOTE(", %s", arg->key);
        } else {
            NOTE(", %s=%s", arg->key, arg->value.string);
        }
    }
    NOTE("\n");
    return (grpc_channel *)&a_channel;
}

void __wrap_grpc_channel_destroy(grpc_channel *channel);
void
__wrap_grpc_channel_destroy(grpc_channel *channel)
{
    assert_ptr_equal(channel, &a_channel);
    NOTE("  channel destroyed\n");
}

grpc_completion_queue *
__wrap_grpc_completion_queue_create_for_next(void *reserved);
grpc_completion_queue *
__wrap_grpc_completion_queue_create_for_next(void *reserved)
{
    assert_null(reserved);
    NOTE("  queue\n");
    return (grpc_completion_queue *)&a_queue;
}

void __wrap_grpc_completion_queue_shutdown(grpc_completion_queue *queue);
void
__wrap_grpc_completion_queue_shutdown(grpc_completion_queue *queue)
{
    assert_ptr_equal(queue, &a_queue);
    NOTE("  queue shut down\n");
    until_shutdown = 2;
}

void __wrap_grpc_completion_queue_destroy(grpc_completion_queue *queue);
void
__wrap_grpc_completion_queue_destroy(grpc_completion_queue *queue)
{
    assert_ptr_equal(queue, &a_queue);
    NOTE("  queue destroyed\n");
}

static void
note_slice(const char *label, grpc_slice slice)
{
    NOTE("%s%.*s", label, (int)GRPC_SLICE_LENGTH(slice),
         (const char *)GRPC_SLICE_START_PTR(slice));
}

grpc_call *
__wrap_grpc_channel_create_call(grpc_channel *channel, grpc_call *parent,
                                uint32_t mask, grpc_completion_queue *queue,
                                grpc_slice method, const grpc_slice *host,
                                gpr_timespec deadline, void *reserved);
grpc_call *
__wrap_grpc_channel_create_call(grpc_channel *channel, grpc_call *parent,
                                uint32_t mask, grpc_completion_queue *queue,
                                grpc_slice method, const grpc_slice *host,
                                gpr_timespec deadline, void *reserved)
{
    assert_ptr_equal(channel, &a_channel);
    assert_ptr_equal(queue, &a_queue);
    assert_null(parent);
    assert_null(host);
    assert_null(reserved);
    note_slice("  call ", method);
    NOTE(" mask %x until %lld.%09d of clock %d\n", mask,
         (long long)deadline.tv_sec, deadline.tv_nsec,
         (int)deadline.clock_type);
    return (grpc_call *)&a_call;
}

gpr_timespec __wrap_gpr_now(gpr_clock_type clock);
gpr_timespec
__wrap_gpr_now(gpr_clock_type clock)
{
    return (gpr_timespec){1000, 500000000, clock};
}

static void
note_op(const grpc_op *op, void *tag)
{
    char label[64];

    switch ((int)op->op) {
    case GRPC_OP_SEND_INITIAL_METADATA:
        NOTE("  send metadata");
        for (size_t i = 0; i < op->data.send_initial_metadata.count; i++) {
            grpc_metadata *m = &op->data.send_initial_metadata.metadata[i];

            note_slice(" ", m->key);
            note_slice("=", m->value);
        }
        NOTE("\n");
        break;
    case GRPC_OP_SEND_MESSAGE: {
        grpc_byte_buffer_reader reader;
        grpc_slice slice;

        assert_int_equal(grpc_byte_buffer_reader_init(
                             &reader, op->data.send_message.send_message),
                         1);
        slice = grpc_byte_buffer_reader_readall(&reader);
        (void)snprintf(label, sizeof label,
                       "  send %zu: ", GRPC_SLICE_LENGTH(slice));
        note_slice(label, slice);
        NOTE("\n");
        grpc_slice_unref(slice);
        grpc_byte_buffer_reader_destroy(&reader);
        break;
    }
    case GRPC_OP_SEND_CLOSE_FROM_CLIENT:
        NOTE("  send end\n");
        break;
    case GRPC_OP_RECV_INITIAL_METADATA:
        assert_non_null(op->data.recv_initial_metadata.recv_initial_metadata);
        NOTE("  receive metadata\n");
        break;
    case GRPC_OP_RECV_MESSAGE:
        NOTE("  receive a message\n");
        under_way.message_tag = tag;
        under_way.reply = op->data.recv_message.recv_message;
        break;
    case GRPC_OP_RECV_STATUS_ON_CLIENT:
        NOTE("  receive the end\n");
        under_way.status_tag = tag;
        under_way.trailing = op->data.recv_status_on_client.trailing_metadata;
        under_way.code = op->data.recv_status_on_client.status;
        under_way.details = op->data.recv_status_on_client.status_details;
        under_way.error = op->data.recv_status_on_client.error_string;
        break;
    default:
        NOTE("  another op %d\n", (int)op->op);
        break;
    }
    if (op->flags != 0 || op->reserved != NULL) {
        NOTE("    with flags\n");
    }
}

grpc_call_error __wrap_grpc_call_start_batch(grpc_call *call,
                                             const grpc_op *ops, size_t n,
                                             void *tag, void *reserved);
grpc_call_error
__wrap_grpc_call_start_batch(grpc_call *call, const grpc_op *ops, size_t n,
                             void *tag, void *reserved)
{
    assert_ptr_equal(call, &a_call);
    assert_null(reserved);
    NOTE("  batch of %zu\n", n);
    for (size_t i = 0; i < n; i++) {
        note_op(&ops[i], tag);
    }
    return GRPC_CALL_OK;
}

static void
end_call(const struct event *event)
{
    *under_way.code = (grpc_status_code)event->code;
    *under_way.details = grpc_slice_from_copied_string(event->text);
    *under_way.error = gpr_strdup("error");
    if (retry_key != NULL) {
        under_way.trailing->metadata =
            gpr_zalloc(2 * sizeof *under_way.trailing->metadata);
        under_way.trailing->capacity = 2;
        under_way.trailing->count = 2;
        under_way.trailing->metadata[0].key =
            grpc_slice_from_static_string("other");
        under_way.trailing->metadata[0].value =
            grpc_slice_from_static_string("value");
        under_way.trailing->metadata[1].key =
            grpc_slice_from_static_string(retry_key);
        under_way.trailing->metadata[1].value =
            grpc_slice_from_static_buffer(retry_bytes, retry_len);
    }
}

grpc_event __wrap_grpc_completion_queue_next(grpc_completion_queue *queue,
                                             gpr_timespec deadline,
                                             void *reserved);
grpc_event
__wrap_grpc_completion_queue_next(grpc_completion_queue *queue,
                                  gpr_timespec deadline, void *reserved)
{
    grpc_event event = {.type = GRPC_OP_COMPLETE, .success = 1};
    const struct event *next = events;

    assert_ptr_equal(queue, &a_queue);
    assert_null(reserved);
    assert_int_equal(
        gpr_time_cmp(deadline, gpr_inf_future(GPR_CLOCK_MONOTONIC)), 0);
    if (until_shutdown > 0) {
        until_shutdown--;
        event.type =
            until_shutdown > 0 ? GRPC_OP_COMPLETE : GRPC_QUEUE_SHUTDOWN;
        NOTE("  next of the queue\n");
        return event;
    }
    events++;
    event.tag =
        next->kind == EVENT_END ? under_way.status_tag : under_way.message_tag;
    event.success = next->kind != EVENT_FAILED;
    if (next->kind == EVENT_END) {
        end_call(next);
    } else if (next->kind == EVENT_MESSAGE) {
        grpc_slice slice = grpc_slice_from_copied_string(next->text);

        *under_way.reply = grpc_raw_byte_buffer_create(&slice, 1);
        grpc_slice_unref(slice);
    } else {
        *under_way.reply = NULL;
    }
    return event;
}

grpc_call_error __wrap_grpc_call_cancel(grpc_call *call, void *reserved);
grpc_call_error
__wrap_grpc_call_cancel(grpc_call *call, void *reserved)
{
    assert_ptr_equal(call, &a_call);
    assert_null(reserved);
    NOTE("  call cancelled\n");
    return GRPC_CALL_OK;
}

void __wrap_grpc_call_unref(grpc_call *call);
void
__wrap_grpc_call_unref(grpc_call *call)
{
    assert_ptr_equal(call, &a_call);
    NOTE("  call released\n");
}

/* --- Opening --- */

static void
put(const char *name, const char *text, size_t len)
{
    FILE *file = fopen(name, "we");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void
note_error(enum wp_status status, const struct wp_err *err)
{
    if (status == WP_OK) {
        NOTE("ok\n");
    } else {
        NOTE("%s (%s): %s\n", wp_status_name(status),
             wp_status_name(err->status), err->msg);
    }
}

static struct wp_rpc_client *
open_client(const struct wp_rpc_target *target)
{
    struct wp_err err = {.status = WP_OK};
    struct wp_rpc_client *client = wp_rpc_client_open(target, &err);

    if (client == NULL) {
        note_error(err.status, &err);
    }
    return client;
}

/* Makes a call that is answered at once, so that the metadata is seen. */
static void note_metadata(struct wp_rpc_client *client);

static bool
on_message(void *ctx, const uint8_t *bytes, size_t len)
{
    int *wanted = ctx;

    NOTE("  got %zu: %.*s\n", len, (int)len, (const char *)bytes);
    return --*wanted > 0;
}

static void
call(struct wp_rpc_client *client, const char *what, int64_t timeout_ns,
     int wanted, const struct event *some)
{
    struct wp_rpc_call spec = {
        .method = "/warmpool.v1.Allocator/Claim",
        .request = (const uint8_t *)"request",
        .request_len = 7,
        .timeout_ns = timeout_ns,
        .on_message = on_message,
        .ctx = &wanted,
        .retry_after_ns = -1,
    };
    struct wp_err err = {.status = WP_OK};

    NOTE("%s\n", what);
    events = some;
    note_error(wp_rpc_client_call(client, &spec, &err), &err);
    NOTE("retry after %lld\n\n", (long long)spec.retry_after_ns);
}

static const struct event an_answer[] = {{EVENT_MESSAGE, "reply", 0},
                                         {EVENT_NO_MESSAGE, NULL, 0},
                                         {EVENT_END, "", 0}};

static void
note_metadata(struct wp_rpc_client *client)
{
    call(client, "a call", WP_TIME_NEVER, 10, an_answer);
}

/* Where to, and what $TRACEPARENT says. */
static const struct {
    struct wp_rpc_target target;
    const char *parent;
} openings[] = {
    {{.address = "unix:/d.sock"}, NULL},
    {{.address = "127.0.0.1:1", .token_file = "token"}, NULL},
    {{.address = "[::1]:1", .token_file = "token"}, ""},
    {{.address = "unix:/d.sock", .token_file = "token"},
     "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    {{.address = "127.0.0.1:1", .token_file = "token"},
     "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    {{.address = "unix:/d.sock"}, "nonsense"},
    {{.address = "127.0.0.1:1",
      .token_file = "missing",
      .token_optional = true},
     NULL},
    {{.address = "127.0.0.1:1", .token_file = "token", .token_optional = true},
     NULL},
    {{.address = "h:1",
      .tls_ca = "ca",
      .token_file = "token",
      .token_optional = true},
     NULL},
    {{.address = "10.0.0.1:1",
      .tls_ca = "ca",
      .token_file = "token",
      .token_optional = true},
     NULL},
    {{.address = "h:1", .tls_ca = "ca", .token_file = "token"}, NULL},
    {{.address = "h:1", .tls_ca = "ca", .token_file = "missing"}, NULL},
    {{.address = "h:1", .tls_ca = "ca", .token_file = "."}, NULL},
    {{.address = "h:1", .tls_ca = "ca", .tls_name = "name"}, NULL},
    {{.address = "h:1", .tls_ca = "ca", .tls_cert = "cert", .tls_key = "key"},
     NULL},
    {{.address = "h:1", .tls_ca = "ca", .tls_cert = "cert"}, NULL},
    {{.address = "h:1", .tls_ca = "ca", .tls_key = "key"}, NULL},
    {{.address = "h:1", .tls_ca = "missing"}, NULL},
    {{.address = "h:1", .tls_ca = "empty"}, NULL},
    {{.address = "h:1", .tls_ca = "most"}, NULL},
    {{.address = "h:1", .tls_ca = "big"}, NULL},
    {{.address = "h:1",
      .tls_ca = "ca",
      .tls_cert = "missing",
      .tls_key = "key"},
     NULL},
    {{.address = "h:1", .tls_ca = "ca", .tls_cert = "cert", .tls_key = "empty"},
     NULL},
    {{.address = "127.0.0.1:1", .tls_name = "name"}, NULL},
    {{.address = "127.0.0.1:1", .tls_cert = "cert", .tls_key = "key"}, NULL},
    {{.address = "10.0.0.1:1"}, NULL},
    {{.address = "host.example:50051"}, NULL},
    {{.address = "[2001:db8::1]:1"}, NULL},
    {{.address = "http://h:1"}, NULL},
    {{.address = "h:0"}, NULL},
    {{.address = "h:65535"}, NULL},
    {{.address = "h:65536"}, NULL},
    {{.address = "h"}, NULL},
    {{.address = "unix:"}, NULL},
    {{.address = "unix:relative:x"}, NULL},
};

static void
test_opening(void **state)
{
    static char big[(1 << 20) + 1];

    (void)state;
    memset(big, 'b', sizeof big);
    put("token", "0123456789abcdef\r\n", 18);
    put("ca", "CA", 2);
    put("cert", "CERT", 4);
    put("key", "KEY", 3);
    put("empty", "", 0);
    put("most", big, (1 << 20) - 1);
    put("big", big, 1 << 20);
    for (size_t i = 0; i < WP_ARRAY_LEN(openings); i++) {
        struct wp_rpc_client *client;

        NOTE("open %s\n", openings[i].target.address);
        if (openings[i].parent != NULL) {
            assert_int_equal(setenv("TRACEPARENT", openings[i].parent, 1), 0);
        } else {
            assert_int_equal(unsetenv("TRACEPARENT"), 0);
        }
        client = open_client(&openings[i].target);
        if (client != NULL && i < 11) {
            note_metadata(client);
        }
        wp_rpc_client_close(client);
        NOTE("\n");
    }
    no_credentials = true;
    NOTE("open without credentials\n");
    wp_rpc_client_close(
        open_client(&(struct wp_rpc_target){.address = "h:1", .tls_ca = "ca"}));
    no_credentials = false;
    golden_compare(seen.text, GOLDEN("rpc_open"));
}

/* A token is one word of 16 to 256 visible characters. */
static void
test_tokens(void **state)
{
    static const struct {
        const char *text;
        size_t n; /* So many letters before it. */
    } rows[] = {
        {"", 15},     {"", 16},    {"", 256},    {"", 257},      {"\n", 15},
        {"\n\n", 16}, {"\r", 256}, {"\n", 256},  {"\r\n", 257},  {" ", 15},
        {"!", 15},    {"~", 15},   {"\x7f", 15}, {"\x80", 15},   {" x", 20},
        {"\nx", 20},  {"\n", 0},   {"", 0},      {"\r\n\n", 20}, {"\n", 300},
        {"\n", 390},
    };
    struct wp_rpc_target target = {.address = "127.0.0.1:1",
                                   .token_file = "token"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        char text[400];
        char room[WP_RPC_TOKEN_MAX + 32]; /* More than it may use. */
        char *out = room;
        struct wp_err err = {.status = WP_OK};
        enum wp_status status;

        memset(text, 'a', rows[i].n);
        (void)strcpy(text + rows[i].n, rows[i].text);
        put("token", text, strlen(text));
        memset(room, 'x', sizeof room);
        status = wp_rpc_target_token(&target, out, &err);
        for (size_t at = WP_RPC_TOKEN_MAX; at < sizeof room; at++) {
            assert_int_equal(room[at], 'x');
        }
        NOTE("%zu: ", rows[i].n);
        note_error(status, &err);
        if (status == WP_OK) {
            NOTE("  %zu bytes: %s\n", strlen(out), out);
        } else {
            for (size_t at = 0; at < WP_RPC_TOKEN_MAX; at++) {
                assert_int_equal(out[at], 0);
            }
        }
    }
    golden_compare(seen.text, GOLDEN("rpc_tokens"));
}

/* --- Calling --- */

#define LONG                                                                   \
    "0123456789012345678901234567890123456789012345678901234567890123456789"   \
    "0123456789012345678901234567890123456789012345678901234567890123456789"   \
    "0123456789012345678901234567890123456789012345678901234567890"

static void
test_calls(void **state)
{
    static const struct {
        const char *what;
        int64_t timeout_ns;
        int wanted;
        struct event events[6];
    } rows[] = {
        {"the end comes last",
         WP_TIME_NEVER,
         9,
         {{EVENT_MESSAGE, "reply", 0},
          {EVENT_NO_MESSAGE, NULL, 0},
          {EVENT_END, "", 0}}},
        {"the end comes first",
         1500 * WP_NS_PER_MS,
         9,
         {{EVENT_END, "", 0},
          {EVENT_MESSAGE, "reply", 0},
          {EVENT_NO_MESSAGE, NULL, 0}}},
        {"the end comes between",
         0,
         9,
         {{EVENT_MESSAGE, "one", 0},
          {EVENT_END, "", 0},
          {EVENT_MESSAGE, "two", 0},
          {EVENT_NO_MESSAGE, NULL, 0}}},
        {"no message",
         WP_NS_PER_S,
         9,
         {{EVENT_NO_MESSAGE, NULL, 0}, {EVENT_END, "", 0}}},
        {"the batch fails",
         WP_NS_PER_S,
         9,
         {{EVENT_FAILED, NULL, 0}, {EVENT_END, "gone", 14}}},
        {"no more are wanted",
         WP_NS_PER_S,
         2,
         {{EVENT_MESSAGE, "one", 0},
          {EVENT_MESSAGE, "two", 0},
          {EVENT_END, "cancelled", 1}}},
        {"a failure after a message",
         WP_NS_PER_S,
         9,
         {{EVENT_MESSAGE, "one", 0},
          {EVENT_NO_MESSAGE, NULL, 0},
          {EVENT_END, "it broke", 13}}},
    };
    const struct wp_rpc_target target = {.address = "unix:/d.sock"};
    struct wp_rpc_client *client;

    (void)state;
    client = open_client(&target);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        call(client, rows[i].what, rows[i].timeout_ns, rows[i].wanted,
             rows[i].events);
    }
    wp_rpc_client_close(client);
    wp_rpc_client_close(NULL);
    golden_compare(seen.text, GOLDEN("rpc_calls"));
}

static void
test_ends(void **state)
{
    static const struct {
        int code;
        const char *text;
    } rows[] = {
        {0, "nobody reads this"},
        {1, "cancelled it was"},
        {2, "unknown"},
        {3, "ttl_ms: too long"},
        {4, "Deadline Exceeded"},
        {5, ""},
        {6, "there"},
        {7, "not yours"},
        {8, "none"},
        {9, "not so"},
        {10, "aborted"},
        {11, "out of range"},
        {12, ""},
        {13, "inside"},
        {14, ""},
        {14, "leaving"},
        {15, "data loss"},
        {16, "who"},
        {17, "new"},
        {13, LONG},
        {13, LONG "x"},
        {14, "failed to connect to all addresses; last error: UNKNOWN: "
             "unix:/d.sock: No such file or directory"},
        {14, "failed to connect: Connection refused"},
        {14, "connections to all backends failing; last error: x: Permission "
             "denied"},
        {14, "failed to connect: Ssl handshake failed"},
        {14, "failed to connect: Peer name h is not in peer certificate"},
        {14, "failed to connect; last error: something else"},
        {14, "failed to connect; last error: "},
        {14, "failed to connect and that is all"},
        {14, "failed to connect; last error: " LONG},
        {14, "connections to none"},
        {14, "a failed to connect: refused"},
        {13, "failed to connect: refused"},
    };
    const struct wp_rpc_target target = {.address = "unix:/d.sock"};
    struct wp_rpc_client *client;

    (void)state;
    client = open_client(&target);
    memset(&seen, 0, sizeof seen);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        const struct event some[] = {{EVENT_NO_MESSAGE, NULL, 0},
                                     {EVENT_END, rows[i].text, rows[i].code}};
        int wanted = 9;
        struct wp_rpc_call spec = {.method = "/x",
                                   .request = (const uint8_t *)"",
                                   .on_message = on_message,
                                   .ctx = &wanted};
        struct wp_err err = {.status = WP_OK};
        size_t len = seen.len;
        enum wp_status status;

        events = some;
        status = wp_rpc_client_call(client, &spec, &err);
        seen.len = len;
        NOTE("%d %.60s\n  ", rows[i].code, rows[i].text);
        note_error(status, &err);
    }
    wp_rpc_client_close(client);
    golden_compare(seen.text, GOLDEN("rpc_ends"));
}

/* What the daemon says of when to try again. */
static void
test_retries(void **state)
{
    static uint8_t packed[WP_WIRE_STATUS_SIZE_MAX];
    static const struct event refused[] = {{EVENT_NO_MESSAGE, NULL, 0},
                                           {EVENT_END, "none", 8}};
    const struct wp_wire_status status = {
        .code = 8, .message = WP_STR("none"), .retry_after_ns = 1500000001};
    const struct wp_rpc_target target = {.address = "unix:/d.sock"};
    struct wp_rpc_client *client;

    (void)state;
    client = open_client(&target);
    retry_bytes = (const char *)packed;
    retry_len = wp_wire_pack_status(&status, packed);
    retry_key = "grpc-status-details-bin";
    call(client, "a time", WP_NS_PER_S, 9, refused);
    retry_key = "grpc-status-details";
    call(client, "another key", WP_NS_PER_S, 9, refused);
    retry_key = "grpc-status-details-bin";
    memset(packed, 0xff, sizeof packed);
    call(client, "nonsense", WP_NS_PER_S, 9, refused);
    retry_key = NULL;
    wp_rpc_client_close(client);
    golden_compare(seen.text, GOLDEN("rpc_retries"));
}

static int
set_up(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof seen);
    temp_dir_make(dir, sizeof dir);
    (void)unsetenv("TRACEPARENT");
    return chdir(dir);
}

static int
tear_down(void **state)
{
    (void)state;
    temp_dir_remove(dir);
    return chdir("/");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_opening, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tokens, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_retries, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
