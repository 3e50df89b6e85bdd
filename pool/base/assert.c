#include "pool/base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void
wp_assert_failed(const char *expr, const char *file, int line, const char *func)
{
    char text[512];
    int len =
        snprintf(text, sizeof text, "assertion failed: %s at %s:%d (%s)\n",
                 expr, file, line, func);

    if (len > 0) {
        size_t n = (size_t)len < sizeof text ? (size_t)len : sizeof text - 1;
        ssize_t ignored = write(STDERR_FILENO, text, n);
        (void)ignored;
    }
    abort();
}
