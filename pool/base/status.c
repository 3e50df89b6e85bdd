#include "pool/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pool/base/assert.h"

static const struct {
    const char *name;
    const char *text;
    int grpc_code;
} statuses[WP_STATUS_COUNT] = {
#define X(name, text, code) {#name, text, code},
    WP_STATUS_TABLE(X)
#undef X
};

const char *
wp_status_text(enum wp_status status)
{
    WP_ASSERT(status < WP_STATUS_COUNT);
    return statuses[status].text;
}

const char *
wp_status_name(enum wp_status status)
{
    WP_ASSERT(status < WP_STATUS_COUNT);
    return statuses[status].name;
}

int
wp_status_grpc_code(enum wp_status status)
{
    WP_ASSERT(status < WP_STATUS_COUNT);
    return statuses[status].grpc_code;
}

enum wp_status
wp_err_set(struct wp_err *err, enum wp_status status, const char *fmt, ...)
{
    if (err != NULL) {
        va_list args;

        err->status = status;
        err->os_errno = 0;
        va_start(args, fmt);
        (void)vsnprintf(err->msg, sizeof err->msg, fmt, args);
        va_end(args);
    }
    return status;
}

enum wp_status
wp_err_sys(struct wp_err *err, enum wp_status status, int os_errno,
           const char *fmt, ...)
{
    if (err != NULL) {
        va_list args;
        char reason[96];
        size_t len;

        err->status = status;
        err->os_errno = os_errno;
        va_start(args, fmt);
        (void)vsnprintf(err->msg, sizeof err->msg, fmt, args);
        va_end(args);
        len = strlen(err->msg);
        (void)snprintf(err->msg + len, sizeof err->msg - len, ": %s",
                       strerror_r(os_errno, reason, sizeof reason));
    }
    return status;
}

enum wp_status
wp_err_wrap(struct wp_err *err, const char *fmt, ...)
{
    char inner[sizeof err->msg];
    va_list args;
    size_t len;

    if (err == NULL) {
        return WP_INTERNAL;
    }
    memcpy(inner, err->msg, sizeof inner);
    va_start(args, fmt);
    (void)vsnprintf(err->msg, sizeof err->msg, fmt, args);
    va_end(args);
    len = strlen(err->msg);
    (void)snprintf(err->msg + len, sizeof err->msg - len, ": %s", inner);
    return err->status;
}
