/* Any bytes, cut anywhere, as a public trace: the first byte is the format, the
 * second the length of the pieces. What is accepted is in order, within its
 * bounds, and the same however it was cut; what is not names its line. */
#include <stdlib.h>
#include <string.h>

#include "bench/scaling/trace_azure.h"
#include "pool/base/clock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct wp_azure_reader reader;

static void
check(bool truth)
{
    if (!truth) {
        abort();
    }
}

static enum wp_status
read_all(const uint8_t *data, size_t size, enum wp_azure_format format,
         size_t piece, struct wp_trace *trace)
{
    struct wp_err err = {.msg = ""};
    enum wp_status status = WP_OK;

    wp_trace_init(trace, WP_TIME_NEVER);
    wp_azure_reader_init(&reader, format, WP_STR(""), 7, trace);
    reader.claims_max = 1000;
    for (size_t at = 0; at < size && status == WP_OK; at += piece) {
        size_t n = size - at < piece ? size - at : piece;

        status = wp_azure_reader_feed(
            &reader, (struct wp_str){(const char *)data + at, n}, &err);
    }
    if (status == WP_OK) {
        status = wp_azure_reader_feed(&reader, (struct wp_str){NULL, 0}, &err);
    }
    check(status == WP_OK || strstr(err.msg, "line ") != NULL);
    check(wp_trace_finish(trace));
    return status;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_trace whole;
    struct wp_trace cut;
    enum wp_azure_format format;

    if (size < 2) {
        return 0;
    }
    format = data[0] % 2 == 0 ? WP_AZURE_2019 : WP_AZURE_2021;
    check(read_all(data + 2, size - 2, format, size, &whole) ==
          read_all(data + 2, size - 2, format, (size_t)data[1] + 1, &cut));
    check(whole.n == cut.n && whole.n <= 1000);
    for (uint64_t i = 0; i < whole.n; i++) {
        check(whole.at_ns[i] == cut.at_ns[i]);
        check(whole.at_ns[i] >= 0);
        check(i == 0 || whole.at_ns[i - 1] <= whole.at_ns[i]);
    }
    wp_trace_fini(&whole);
    wp_trace_fini(&cut);
    return 0;
}
