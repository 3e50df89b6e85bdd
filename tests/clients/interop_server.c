/* tests/clients/interop_server.c - grpc.testing.TestService on the product's
 * transport, for gRPC's public interoperability cases.
 *
 * A service of ours sees neither metadata nor a choice of compression, so the
 * cases of those are not served, and it never ends a call with UNKNOWN: a status
 * that is asked for is INTERNAL. Prints "listening ADDRESS" and serves until
 * SIGTERM. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/grpc/server.h"
#include "pool/base/assert.h"
#include "tests/clients/interop.pb-c.h"

enum {
    WANTED_MAX = 64, /* Answers that one stream may owe. */
    ANSWER_MAX = 1024 * 1024,
};

/* A stream, in its call's arena. */
struct stream {
    uint32_t wanted[WANTED_MAX]; /* Sizes that are still to be sent. */
    uint32_t n_wanted;
    bool blocked; /* The one before is on its way. */
    bool ended;   /* The client sends no more. */
    bool adds;    /* StreamingInputCall: one answer, the sum. */
    uint32_t received;
};

static void
finish_bad(struct wp_call *call)
{
    call->ops->finish(call, WP_INVALID_ARGUMENT, "not a message of the cases",
                      0);
}

/* Reserves an answer with a payload of that size and fills it. */
static bool
fill(struct wp_call *call, uint32_t size)
{
    static uint8_t zeros[ANSWER_MAX];
    Interop__Payload payload = INTEROP__PAYLOAD__INIT;
    Interop__Carrier answer = INTEROP__CARRIER__INIT;
    uint8_t *room;

    payload.body.data = zeros;
    payload.body.len = size;
    answer.payload = &payload;
    if (size > ANSWER_MAX) {
        return false;
    }
    room = call->ops->reserve(call, interop__carrier__get_packed_size(&answer));
    if (room == NULL) {
        return false;
    }
    (void)interop__carrier__pack(&answer, room);
    return true;
}

static void
empty_call(struct wp_call *call, const uint8_t *request, size_t len)
{
    (void)request;
    (void)len;
    (void)call->ops->reserve(call, 0);
    call->ops->finish(call, WP_OK, NULL, 0);
}

static void
unary_call(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    Interop__Simple *request = interop__simple__unpack(NULL, len, bytes);

    if (request == NULL) {
        finish_bad(call);
        return;
    }
    if (request->status != NULL) {
        call->ops->finish(call, WP_INTERNAL, request->status->message, 0);
    } else if (request->size < 0 || !fill(call, (uint32_t)request->size)) {
        call->ops->finish(call, WP_RESOURCE_EXHAUSTED, "too long", 0);
    } else {
        call->ops->finish(call, WP_OK, NULL, 0);
    }
    interop__simple__free_unpacked(request, NULL);
}

/* --- Streams --- */

/* Sends what is owed, and ends the stream behind it. */
static void
move_on(struct wp_call *call)
{
    struct stream *stream = call->state;

    while (stream->n_wanted > 0 && !stream->blocked) {
        if (!fill(call, stream->wanted[0])) {
            call->ops->finish(call, WP_RESOURCE_EXHAUSTED, "too long", 0);
            return;
        }
        if (!call->ops->send(call)) {
            stream->blocked = true;
            return;
        }
        stream->n_wanted--;
        memmove(stream->wanted, stream->wanted + 1,
                stream->n_wanted * sizeof stream->wanted[0]);
    }
    if (stream->ended && stream->n_wanted == 0) {
        call->ops->finish(call, WP_OK, NULL, 0);
    }
}

static void
on_writable(struct wp_call *call)
{
    struct stream *stream = call->state;

    stream->blocked = false;
    move_on(call);
}

static void
on_cancelled(struct wp_call *call)
{
    call->ops->finish(call, WP_CANCELLED, NULL, 0);
}

static bool
take_wanted(struct stream *stream, const Interop__Streamed *request)
{
    if (request->n_wanted > WANTED_MAX - stream->n_wanted) {
        return false;
    }
    for (size_t i = 0; i < request->n_wanted; i++) {
        if (request->wanted[i]->size < 0) {
            return false;
        }
        stream->wanted[stream->n_wanted++] = (uint32_t)request->wanted[i]->size;
    }
    return true;
}

static void
on_output_request(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    Interop__Streamed *request = interop__streamed__unpack(NULL, len, bytes);

    if (request == NULL || !take_wanted(call->state, request)) {
        finish_bad(call);
    } else if (request->status != NULL) {
        call->ops->finish(call, WP_INTERNAL, request->status->message, 0);
    } else {
        move_on(call);
    }
    if (request != NULL) {
        interop__streamed__free_unpacked(request, NULL);
    }
}

static void
on_input_request(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct stream *stream = call->state;
    Interop__Carrier *request = interop__carrier__unpack(NULL, len, bytes);

    if (request == NULL) {
        finish_bad(call);
        return;
    }
    if (request->payload != NULL) {
        stream->received += (uint32_t)request->payload->body.len;
    }
    interop__carrier__free_unpacked(request, NULL);
}

static void
on_ended(struct wp_call *call)
{
    struct stream *stream = call->state;

    stream->ended = true;
    if (stream->adds) {
        Interop__Total total = INTEROP__TOTAL__INIT;
        uint8_t *room;

        total.size = (int32_t)stream->received;
        room =
            call->ops->reserve(call, interop__total__get_packed_size(&total));
        WP_ASSERT(room != NULL);
        (void)interop__total__pack(&total, room);
        call->ops->finish(call, WP_OK, NULL, 0);
        return;
    }
    move_on(call);
}

static struct stream *
begin(struct wp_call *call)
{
    struct stream *stream = wp_arena_alloc(&call->arena, sizeof *stream);

    WP_ASSERT(stream != NULL);
    memset(stream, 0, sizeof *stream);
    call->state = stream;
    call->cancelled = on_cancelled;
    call->writable = on_writable;
    call->ended = on_ended;
    return stream;
}

static void
full_duplex_call(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    (void)begin(call);
    call->received = on_output_request;
    on_output_request(call, bytes, len);
}

/* One request, many answers. */
static void
streaming_output_call(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    begin(call)->ended = true;
    on_output_request(call, bytes, len);
}

static void
streaming_input_call(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    begin(call)->adds = true;
    call->received = on_input_request;
    on_input_request(call, bytes, len);
}

#define PATH(name) "/grpc.testing.TestService/" name

int
main(void)
{
    static const struct wp_method methods[] = {
        {.path = PATH("EmptyCall"), .start = empty_call},
        {.path = PATH("UnaryCall"), .start = unary_call},
        {.path = PATH("StreamingOutputCall"),
         .server_streaming = true,
         .start = streaming_output_call},
        {.path = PATH("StreamingInputCall"),
         .bidirectional = true,
         .start = streaming_input_call},
        {.path = PATH("FullDuplexCall"),
         .bidirectional = true,
         .start = full_duplex_call},
    };
    static const struct wp_service service = {
        .name = "grpc.testing.TestService",
        .methods = methods,
        .n_methods = WP_ARRAY_LEN(methods),
    };
    const struct wp_service *const services[] = {&service};
    static const char *const listen[] = {"127.0.0.1:0"};
    struct wp_rpc_config config;
    struct wp_rpc_server *server;
    struct wp_err err;
    sigset_t set;
    int signal_number;

    WP_ASSERT(sigemptyset(&set) == 0 && sigaddset(&set, SIGTERM) == 0 &&
              sigprocmask(SIG_BLOCK, &set, NULL) == 0 &&
              signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    wp_rpc_config_init(&config);
    config.listen = listen;
    config.n_listen = 1;
    config.anonymous = true;
    config.receive_bytes_max = ANSWER_MAX;
    server = wp_rpc_server_create(&config, services, 1, &err);
    if (server == NULL || wp_rpc_server_start(server, &err) != WP_OK) {
        (void)fprintf(stderr, "%s\n", err.msg);
        return EXIT_FAILURE;
    }
    (void)printf("listening %s\n", wp_rpc_server_address(server, 0));
    (void)fflush(stdout);
    WP_ASSERT(sigwait(&set, &signal_number) == 0);
    (void)wp_rpc_server_drain(server, 0);
    wp_rpc_server_stop(server);
    return EXIT_SUCCESS;
}
