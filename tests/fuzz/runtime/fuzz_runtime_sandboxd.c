/* What clients of sandboxd send: the first byte chooses the parser. Whatever
 * comes, a range lies in its file, a message is refused or freed whole. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pool/base/assert.h"
#include "runtime/sandboxd/grpc.h"
#include "runtime/sandboxd/process_wire.h"
#include "runtime/sandboxd/query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
try_query(struct wp_str text)
{
    static const char *const names[] = {"mode", "recursive", ""};
    struct wp_str value;
    mode_t mode = 0;
    bool flag;

    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        if (wp_query_find(text, names[i], &value)) {
            WP_ASSERT(value.len <= text.len);
            WP_ASSERT(!wp_query_bool(value, &flag) || value.len > 0);
            WP_ASSERT(!wp_query_mode(value, &mode) || mode <= 0777);
        }
    }
}

static void
try_range(struct wp_str text)
{
    static const uint64_t sizes[] = {0, 1, 10, UINT64_MAX};

    for (size_t i = 0; i < WP_ARRAY_LEN(sizes); i++) {
        uint64_t from = 0;
        uint64_t len = 0;

        if (wp_byte_range_read(text, sizes[i], &from, &len) == WP_RANGE_PART) {
            WP_ASSERT(len > 0 && from < sizes[i] && len <= sizes[i] - from);
        }
    }
}

static void
try_ask(const uint8_t *data, size_t size, bool start)
{
    struct wp_process_ask ask;
    struct wp_err err;

    if (wp_process_ask_read(data, size, start, &ask, &err) == WP_OK) {
        WP_ASSERT(ask.argv[0] != NULL && ask.argv[0][0] != '\0');
        WP_ASSERT(start || !ask.on_terminal);
        for (size_t i = 0; i < ask.environment.own; i++) {
            WP_ASSERT(strchr(ask.environment.list[i], '=') >
                      ask.environment.list[i]);
        }
    }
    wp_process_ask_free(&ask);
}

static void
try_others(const uint8_t *data, size_t size)
{
    struct wp_process_input input;
    struct winsize window;
    struct wp_err err;
    int32_t id;
    int signal = 0;

    if (wp_process_input_read(data, size, &input, &err) == WP_OK) {
        evbuffer_free(input.data);
    }
    if (wp_process_signal_read(data, size, &id, &signal, &err) == WP_OK) {
        WP_ASSERT(signal == 2 || signal == 9 || signal == 15);
    }
    if (wp_process_resize_read(data, size, &id, &window, &err) != WP_OK) {
        WP_ASSERT(err.msg[0] != '\0');
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_str text;
    int64_t ns = 0;

    if (size == 0) {
        return 0;
    }
    text = (struct wp_str){(const char *)data + 1, size - 1};
    switch (data[0] % 6) {
    case 0:
        try_query(text);
        break;
    case 1:
        try_range(text);
        break;
    case 2:
        WP_ASSERT(!wp_grpc_timeout_read(text, &ns) || ns >= 0);
        break;
    case 3:
        try_ask(data + 1, size - 1, false);
        break;
    case 4:
        try_ask(data + 1, size - 1, true);
        break;
    default:
        try_others(data + 1, size - 1);
        break;
    }
    return 0;
}
