/* pool/base/log.h - structured logs on standard error, one line an event.
 *
 *   wp_log_info("sandbox ready", wp_kv_str("pool", name), wp_kv_int("n", 3));
 *   => 2026-01-31T23:59:59.123Z INFO sandbox ready pool=agents n=3
 *   or, as JSON: {"ts":"...","level":"info","event":"sandbox ready","pool":...}
 *
 * Any thread; a line is one write(2), so lines never mix. Never on the claim
 * path. Secrets (tokens, keys) are never passed in. Values are escaped. */
#ifndef WP_BASE_LOG_H
#define WP_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/status.h"
#include "pool/base/str.h"

enum wp_log_level {
    WP_LOG_DEBUG,
    WP_LOG_INFO,
    WP_LOG_WARN,
    WP_LOG_ERROR,
};

enum wp_log_format {
    WP_LOG_TEXT,
    WP_LOG_JSON,
};

struct wp_kv {
    const char *key; /* NULL ends a list. */
    enum {
        WP_KV_STR,
        WP_KV_INT,
        WP_KV_MS
    } kind;
    struct wp_str str;
    int64_t num;
};

static inline struct wp_kv
wp_kv_slice(const char *key, struct wp_str value)
{
    return (struct wp_kv){key, WP_KV_STR, value, 0};
}

static inline struct wp_kv
wp_kv_str(const char *key, const char *value)
{
    return wp_kv_slice(key, wp_str_from(value));
}

static inline struct wp_kv
wp_kv_int(const char *key, int64_t value)
{
    return (struct wp_kv){key, WP_KV_INT, {NULL, 0}, value};
}

/* A duration in nanoseconds, printed in milliseconds with three decimals. */
static inline struct wp_kv
wp_kv_ms(const char *key, int64_t duration_ns)
{
    return (struct wp_kv){key, WP_KV_MS, {NULL, 0}, duration_ns};
}

/* error="message" */
static inline struct wp_kv
wp_kv_err(const struct wp_err *err)
{
    return wp_kv_str("error", err->msg);
}

/* Before threads start. Default: INFO, text. */
void wp_log_configure(enum wp_log_level min_level, enum wp_log_format format);
bool wp_log_enabled(enum wp_log_level level);
/* kvs ends with a NULL key. A line is cut at 2 KiB. */
void wp_log_emit(enum wp_log_level level, const char *event,
                 const struct wp_kv *kvs);

/* Every list ends with the NULL key that the level macros append. */
#define WP_LOG(level, event, ...)                                              \
    do {                                                                       \
        if (wp_log_enabled(level)) {                                           \
            const struct wp_kv wp_log_kvs[] = {__VA_ARGS__};                   \
            wp_log_emit(level, event, wp_log_kvs);                             \
        }                                                                      \
    } while (0)

#define WP_LOG_END wp_kv_int(NULL, 0)
#define wp_log_debug(...) WP_LOG(WP_LOG_DEBUG, __VA_ARGS__, WP_LOG_END)
#define wp_log_info(...) WP_LOG(WP_LOG_INFO, __VA_ARGS__, WP_LOG_END)
#define wp_log_warn(...) WP_LOG(WP_LOG_WARN, __VA_ARGS__, WP_LOG_END)
#define wp_log_error(...) WP_LOG(WP_LOG_ERROR, __VA_ARGS__, WP_LOG_END)

#endif
