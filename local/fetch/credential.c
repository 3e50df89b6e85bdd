#include "local/fetch/credential.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/checkout/fetch_report.h"

enum {
    ENCODED_MAX = (WP_FETCH_CREDENTIAL_MAX + 2) / 3 * 4,
};

static ssize_t
read_all(int fd, char *out, size_t cap)
{
    size_t len = 0;

    for (;;) {
        ssize_t n = read(fd, out + len, cap - len);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 || len + (size_t)n == cap) {
            return -1;
        }
        if (n == 0) {
            return (ssize_t)len;
        }
        len += (size_t)n;
    }
}

/* Base64, as HTTP's basic authentication has it. */
static void
encode(const char *text, size_t len, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrs"
                                 "tuvwxyz0123456789+/";

    for (size_t i = 0; i < len; i += 3) {
        uint32_t bits = 0;

        for (size_t k = 0; k < 3; k++) {
            bits = bits << 8 | (i + k < len ? (uint8_t)text[i + k] : 0);
        }
        for (size_t k = 0; k < 4; k++) {
            *out++ =
                (char)(i + k <= len ? digits[bits >> (18 - 6 * k) & 63] : '=');
        }
    }
    *out = '\0';
}

static bool
write_config(int fd, const char *encoded)
{
    return dprintf(fd, "[http]\n\textraHeader = \"Authorization: Basic %s\"\n",
                   encoded) > 0;
}

int
wp_credential_open(int fd)
{
    char text[WP_FETCH_CREDENTIAL_MAX];
    char encoded[ENCODED_MAX + 1];
    ssize_t len = read_all(fd, text, sizeof text);
    char *nul = len > 0 ? memchr(text, '\0', (size_t)len) : NULL;
    int config = len == 0 ? 0 : -1;

    if (nul != NULL) {
        *nul = ':';
        encode(text, (size_t)len, encoded);
        config = memfd_create("git-config", MFD_CLOEXEC);
        if (config >= 0 && !write_config(config, encoded)) {
            (void)close(config);
            config = -1;
        }
        explicit_bzero(encoded, sizeof encoded);
    }
    explicit_bzero(text, sizeof text);
    return config;
}
