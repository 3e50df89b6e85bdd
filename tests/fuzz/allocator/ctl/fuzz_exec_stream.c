/* tests/fuzz/allocator/ctl/fuzz_exec_stream.c - what a sandbox, which nobody trusts, may send
 * to warmpoolctl exec. The first byte says how the rest is cut into pieces;
 * however it is cut, the outcome must be the same. */
#include <stddef.h>
#include <stdint.h>

#include "allocator/ctl/sandbox/exec_stream_client.h"
#include "pool/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    size_t len[2];
};

static bool
count(void *ctx, bool is_stderr, const uint8_t *bytes, size_t len)
{
    struct seen *seen = ctx;

    WP_ASSERT(len > 0 && bytes != NULL);
    seen->len[is_stderr] += len;
    return true;
}

static enum wp_status
read_in_pieces(const uint8_t *data, size_t size, size_t piece,
               struct seen *seen, int *code)
{
    static struct wp_exec_reader reader;
    struct wp_exec_sink sink = {count, seen};
    struct wp_err err;
    enum wp_status status = WP_OK;

    wp_exec_reader_init(&reader);
    while (size > 0 && status == WP_OK) {
        size_t n = size < piece ? size : piece;

        status = wp_exec_reader_feed(&reader, data, n, &sink, &err);
        data += n;
        size -= n;
    }
    WP_ASSERT(status == WP_OK || err.msg[0] != '\0');
    *code =
        reader.ended && status == WP_OK ? wp_exec_exit_code(&reader.exit) : -1;
    return status;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole = {{0, 0}};
    struct seen cut = {{0, 0}};
    int whole_code;
    int cut_code;

    if (size == 0) {
        return 0;
    }
    WP_ASSERT(read_in_pieces(data + 1, size - 1, size, &whole, &whole_code) ==
              read_in_pieces(data + 1, size - 1, (size_t)data[0] + 1, &cut,
                             &cut_code));
    WP_ASSERT(whole_code == cut_code && whole.len[0] == cut.len[0] &&
              whole.len[1] == cut.len[1]);
    return 0;
}
