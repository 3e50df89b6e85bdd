#include "proto/checkout/fetch_message.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pool/base/assert.h"

enum {
    TEXTS_MAX = 5,
};

/* Texts, each ended by a NUL:
 *
 *   checkout  PART   URL      REF  BYTES
 *   sweep     BYTES  SECONDS              */
static const char checkout[] = "checkout";
static const char sweep[] = "sweep";

size_t
wp_fetch_message_write(const struct wp_fetch_run *run,
                       char out[WP_FETCH_MESSAGE_MAX])
{
    int n =
        run->part != NULL
            ? snprintf(out, WP_FETCH_MESSAGE_MAX, "%s%c%s%c%s%c%s%c%" PRIu64,
                       checkout, '\0', run->part, '\0', run->url, '\0',
                       run->ref, '\0', run->bytes_max)
            : snprintf(out, WP_FETCH_MESSAGE_MAX, "%s%c%" PRIu64 "%c%" PRId64,
                       sweep, '\0', run->bytes_max, '\0', run->age_s);

    /* URL and ref have bounds of their own. */
    WP_ASSERT(n > 0 && n < WP_FETCH_MESSAGE_MAX);
    return (size_t)n + 1;
}

static bool
is_file_name(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len <= WP_FETCH_PART_MAX && strchr(text, '/') == NULL &&
           strcmp(text, ".") != 0 && strcmp(text, "..") != 0;
}

bool
wp_fetch_message_read(const char *bytes, size_t len, struct wp_fetch_run *out)
{
    const char *text[TEXTS_MAX];
    size_t n = 0;
    uint64_t seconds;

    *out = (struct wp_fetch_run){.credential = WP_STR("")};
    if (len == 0 || bytes[len - 1] != '\0') {
        return false;
    }
    while (len > 0 && n < TEXTS_MAX) {
        size_t one = strlen(bytes) + 1;

        text[n++] = bytes;
        bytes += one;
        len -= one;
    }
    if (len > 0) {
        return false;
    }
    if (n == 5 && strcmp(text[0], checkout) == 0 && is_file_name(text[1])) {
        out->part = text[1];
        out->url = text[2];
        out->ref = text[3];
        return wp_str_to_u64(wp_str_from(text[4]), &out->bytes_max);
    }
    if (n == 3 && strcmp(text[0], sweep) == 0 &&
        wp_str_to_u64(wp_str_from(text[2]), &seconds) && seconds <= INT32_MAX) {
        out->age_s = (int64_t)seconds;
        return wp_str_to_u64(wp_str_from(text[1]), &out->bytes_max);
    }
    return false;
}

int
wp_fetch_credential_pipe(struct wp_str credential)
{
    int ends[2];
    int error;
    bool ok;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    ok =
        credential.len == 0 || write(ends[1], credential.ptr, credential.len) ==
                                   (ssize_t)credential.len;
    error = errno;
    (void)close(ends[1]);
    if (!ok) {
        (void)close(ends[0]);
        errno = error;
        return -1;
    }
    return ends[0];
}
