#include "local/http_probe.h"

#include <stdio.h>
#include <string.h>

size_t
wp_http_probe_request(const char *path, char *out, size_t cap)
{
    int n = snprintf(out, cap,
                     "GET %s HTTP/1.1\r\nHost: sandbox\r\n"
                     "User-Agent: warmpool-probe\r\nConnection: close\r\n\r\n",
                     path);

    return n > 0 && (size_t)n < cap ? (size_t)n : 0;
}

int
wp_http_probe_status(const char *bytes, size_t len)
{
    static const char start[] = "HTTP/1.";
    size_t start_len = sizeof start - 1;

    if (memcmp(bytes, start, len < start_len ? len : start_len) != 0) {
        return -1;
    }
    if (len < WP_HTTP_STATUS_LINE) {
        return 0;
    }
    if (bytes[8] != ' ') {
        return -1;
    }
    for (int i = 9; i < 12; i++) {
        if (bytes[i] < '0' || bytes[i] > '9') {
            return -1;
        }
    }
    return (bytes[9] - '0') * 100 + (bytes[10] - '0') * 10 + (bytes[11] - '0');
}
