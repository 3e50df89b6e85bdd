/* bench/load/echo_server.c - the least a C-core server can do for a call.
 *
 * One completion queue, one thread, registered methods whose request arrives
 * with the call, one batch for the whole reply, a fixed message of the length
 * asked for. What Claim and Release cost beyond this is ours; what this costs is
 * the transport's.
 *
 *   echo_server --unix PATH --claim-reply BYTES --release-reply BYTES
 *
 * Also listens on a loopback port; prints "tcp 127.0.0.1:PORT" and then "ready"
 * and serves until SIGTERM. */
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>

#include "pool/base/assert.h"
#include "pool/base/str.h"

enum {
    SLOTS = 16, /* Calls armed per method. */
    METHODS = 2,
};

static grpc_server *server;
static grpc_completion_queue *cq;
static _Atomic(bool) stopping; /* Set before the server is told to stop. */

struct method {
    const char *path;
    void *registered;
    grpc_slice reply;
};

struct slot {
    struct method *method;
    grpc_call *call;
    grpc_byte_buffer *request;
    grpc_byte_buffer *reply;
    grpc_metadata_array metadata;
    gpr_timespec deadline;
    int cancelled;
    bool replying;
};

static struct method methods[METHODS] = {
    {.path = "/warmpool.bench.Echo/Claim"},
    {.path = "/warmpool.bench.Echo/Release"},
};
static struct slot slots[METHODS][SLOTS];

static void
arm(struct slot *slot)
{
    grpc_call_error rc;

    slot->replying = false;
    grpc_metadata_array_init(&slot->metadata);
    rc = grpc_server_request_registered_call(
        server, slot->method->registered, &slot->call, &slot->deadline,
        &slot->metadata, &slot->request, cq, cq, slot);
    if (rc != GRPC_CALL_OK) {
        /* A server that stops takes no more; the last answers are then told of
         * after it was told to stop. */
        WP_ASSERT(atomic_load(&stopping));
        grpc_metadata_array_destroy(&slot->metadata);
    }
}

static void
reply(struct slot *slot)
{
    grpc_op ops[4];
    grpc_call_error rc;

    memset(ops, 0, sizeof(ops));
    slot->replying = true;
    slot->reply = grpc_raw_byte_buffer_create(&slot->method->reply, 1);
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = slot->reply;
    ops[2].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[2].data.send_status_from_server.status = GRPC_STATUS_OK;
    ops[3].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    ops[3].data.recv_close_on_server.cancelled = &slot->cancelled;
    rc = grpc_call_start_batch(slot->call, ops, 4, slot, NULL);
    WP_ASSERT(rc == GRPC_CALL_OK);
}

static void
release(struct slot *slot)
{
    grpc_call_unref(slot->call);
    grpc_byte_buffer_destroy(slot->request);
    grpc_byte_buffer_destroy(slot->reply);
    grpc_metadata_array_destroy(&slot->metadata);
    slot->request = NULL;
    slot->reply = NULL;
}

static void *
serve(void *arg)
{
    (void)arg;
    for (;;) {
        grpc_event event = grpc_completion_queue_next(
            cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        struct slot *slot;

        if (event.type == GRPC_QUEUE_SHUTDOWN) {
            return NULL;
        }
        slot = event.tag;
        if (slot == NULL) {
            grpc_completion_queue_shutdown(cq); /* The server has stopped. */
        } else if (slot->replying) {
            release(slot);
            arm(slot);
        } else if (event.success) {
            reply(slot);
        } else {
            grpc_metadata_array_destroy(&slot->metadata);
        }
    }
}

static grpc_slice
zeros(const char *len_text)
{
    uint64_t len;
    grpc_slice slice;

    if (!wp_str_to_u64(wp_str_from(len_text), &len) || len > 65536) {
        (void)fprintf(stderr, "echo_server: '%s' is no length\n", len_text);
        exit(2);
    }
    slice = grpc_slice_malloc((size_t)len);
    memset(GRPC_SLICE_START_PTR(slice), 0, (size_t)len);
    return slice;
}

static void
listen_on(const char *unix_path)
{
    grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
    char address[256];
    int port = grpc_server_add_http2_port(server, "127.0.0.1:0", creds);

    (void)snprintf(address, sizeof(address), "unix:%s", unix_path);
    if (port == 0 || grpc_server_add_http2_port(server, address, creds) == 0) {
        (void)fprintf(stderr, "echo_server: cannot listen on %s\n", address);
        exit(1);
    }
    grpc_server_credentials_release(creds);
    (void)printf("tcp 127.0.0.1:%d\n", port);
}

/* Channelz is bookkeeping per call that nobody here reads. */
static grpc_server *
create_server(void)
{
    char key[] = GRPC_ARG_ENABLE_CHANNELZ;
    grpc_arg arg;
    grpc_channel_args args = {.num_args = 1, .args = &arg};

    memset(&arg, 0, sizeof(arg));
    arg.type = GRPC_ARG_INTEGER;
    arg.key = key;
    arg.value.integer = 0;
    return grpc_server_create(&args, NULL);
}

struct options {
    const char *unix_path;
    const char *claim_reply;
    const char *release_reply;
};

static struct options
parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"unix", required_argument, NULL, 'u'},
        {"claim-reply", required_argument, NULL, 'c'},
        {"release-reply", required_argument, NULL, 'r'},
        {NULL, 0, NULL, 0},
    };
    struct options options = {NULL, "0", "0"};
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 'u') {
            options.unix_path = optarg;
        } else if (option == 'c') {
            options.claim_reply = optarg;
        } else if (option == 'r') {
            options.release_reply = optarg;
        } else {
            options.unix_path = NULL;
            break;
        }
    }
    if (options.unix_path == NULL) {
        (void)fprintf(stderr,
                      "usage: %s --unix PATH --claim-reply BYTES "
                      "--release-reply BYTES\n",
                      argv[0]);
        exit(2);
    }
    return options;
}

int
main(int argc, char **argv)
{
    struct options options = parse(argc, argv);
    sigset_t signals;
    pthread_t thread;
    int signal_number;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* Before gRPC's threads. */
    grpc_init();
    server = create_server();
    cq = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(server, cq, NULL);
    methods[0].reply = zeros(options.claim_reply);
    methods[1].reply = zeros(options.release_reply);
    for (int m = 0; m < METHODS; m++) {
        methods[m].registered = grpc_server_register_method(
            server, methods[m].path, NULL,
            GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
    }
    listen_on(options.unix_path);
    grpc_server_start(server);
    for (int m = 0; m < METHODS; m++) {
        for (int i = 0; i < SLOTS; i++) {
            slots[m][i].method = &methods[m];
            arm(&slots[m][i]);
        }
    }
    pthread_create(&thread, NULL, serve, NULL);
    (void)printf("ready\n");
    (void)fflush(stdout);

    sigwait(&signals, &signal_number);
    atomic_store(&stopping, true);
    grpc_server_shutdown_and_notify(server, cq, NULL);
    grpc_server_cancel_all_calls(server);
    pthread_join(thread, NULL);
    grpc_server_destroy(server);
    grpc_completion_queue_destroy(cq);
    for (int m = 0; m < METHODS; m++) {
        grpc_slice_unref(methods[m].reply);
    }
    grpc_shutdown();
    return 0;
}
