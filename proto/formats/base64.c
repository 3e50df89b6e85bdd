#include "proto/formats/base64.h"

#include <stdint.h>
#include <string.h>

static int
base64_digit(char c)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;

    return at != NULL ? (int)(at - digits) : -1;
}

bool
wp_base64_read(const char *text, char *out, size_t *out_len)
{
    uint32_t bits = 0;
    size_t digits = 0;
    size_t padding = 0;
    size_t len = 0;

    for (; *text != '\0'; text++) {
        int digit = base64_digit(*text);

        if (*text == '\n' || *text == '\r') {
            continue;
        }
        if (*text == '=') {
            padding++;
            continue;
        }
        if (digit < 0 || padding > 0) {
            return false;
        }
        bits = (bits << 6 | (uint32_t)digit) & 0xffffff;
        if (++digits % 4 == 0) {
            out[len++] = (char)(bits >> 16);
            out[len++] = (char)(bits >> 8 & 0xff);
            out[len++] = (char)(bits & 0xff);
        }
    }
    if ((digits + padding) % 4 != 0 || padding > 2) {
        return false;
    }
    /* What the last digit has beyond a whole byte must be nothing. */
    if (padding == 1) {
        out[len++] = (char)(bits >> 10 & 0xff);
        out[len++] = (char)(bits >> 2 & 0xff);
    } else if (padding == 2) {
        out[len++] = (char)(bits >> 4 & 0xff);
    }
    out[len] = '\0';
    *out_len = len;
    return (bits & (padding == 1 ? 3U : padding == 2 ? 15U : 0U)) == 0;
}
