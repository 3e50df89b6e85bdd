/* Multipart bodies: fed whole and byte by byte, the events are the same. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pool/base/assert.h"
#include "runtime/files/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A running hash of what was called, which pieces do not change. */
struct trace {
    uint64_t hash;
    bool open;
};

static void
note(struct trace *trace, unsigned char c)
{
    trace->hash = (trace->hash ^ c) * UINT64_C(0x100000001b3);
}

static void
on_part(void *user, const char *name, const char *filename)
{
    struct trace *trace = user;

    WP_ASSERT(!trace->open);
    trace->open = true;
    note(trace, 'P');
    for (; *name != '\0'; name++) {
        note(trace, (unsigned char)*name);
    }
    for (; filename != NULL && *filename != '\0'; filename++) {
        note(trace, (unsigned char)*filename);
    }
}

static void
on_data(void *user, const char *data, size_t len)
{
    struct trace *trace = user;

    WP_ASSERT(trace->open && len > 0);
    for (size_t i = 0; i < len; i++) {
        note(trace, (unsigned char)data[i]);
    }
}

static void
on_end(void *user)
{
    struct trace *trace = user;

    WP_ASSERT(trace->open);
    trace->open = false;
    note(trace, 'E');
}

static const struct wp_multipart_events events = {on_part, on_data, on_end};

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char type[] = "multipart/form-data; boundary=XX";
    const char *text = (const char *)data;
    struct wp_multipart whole;
    struct wp_multipart pieces;
    struct trace a = {0, false};
    struct trace b = {0, false};
    char header[256];

    WP_ASSERT(wp_multipart_init(&whole, type, &events, &a));
    WP_ASSERT(wp_multipart_init(&pieces, type, &events, &b));
    (void)wp_multipart_feed(&whole, text, size);
    for (size_t i = 0; i < size; i++) {
        (void)wp_multipart_feed(&pieces, text + i, 1);
    }
    WP_ASSERT(a.hash == b.hash && whole.state == pieces.state);
    /* The header is input too. */
    size = size < sizeof(header) - 1 ? size : sizeof(header) - 1;
    memcpy(header, data, size);
    header[size] = '\0';
    if (wp_multipart_init(&whole, header, &events, &a)) {
        WP_ASSERT(whole.mark_len > 4);
    }
    return 0;
}
