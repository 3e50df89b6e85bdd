#include "pool/base/log.h"

#include <stdio.h>
#include <unistd.h>

#include "pool/base/clock.h"

struct line {
    char text[2048];
    size_t len;
};

static enum wp_log_level level_min = WP_LOG_INFO;
static enum wp_log_format line_format = WP_LOG_TEXT;

static const char *const level_upper[] = {"DEBUG", "INFO", "WARN", "ERROR"};
static const char *const level_lower[] = {"debug", "info", "warn", "error"};

void
wp_log_configure(enum wp_log_level min_level, enum wp_log_format format)
{
    level_min = min_level;
    line_format = format;
}

bool
wp_log_enabled(enum wp_log_level level)
{
    return level >= level_min;
}

static void
put(struct line *line, const char *bytes, size_t len)
{
    size_t room = sizeof line->text - 2 - line->len; /* "}\n" always fits. */
    size_t n = len < room ? len : room;

    memcpy(line->text + line->len, bytes, n);
    line->len += n;
}

static void
put_text(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

/* A character beyond ASCII, whole or not at all; "?" for a byte that is none.
 * Returns how many bytes it took. */
static size_t
put_wide(struct line *line, struct wp_str rest)
{
    size_t n = wp_str_char_len(rest);

    if (n == 0) {
        put(line, "?", 1);
        return 1;
    }
    if (n <= sizeof line->text - 2 - line->len) {
        put(line, rest.ptr, n);
    }
    return n;
}

/* Escapes what would break the quotes or the line; the same rules serve both
 * formats. */
static void
put_escaped(struct line *line, struct wp_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        char hex[8];

        if (c == '"' || c == '\\') {
            char pair[2] = {'\\', (char)c};
            put(line, pair, 2);
        } else if (c == '\n') {
            put(line, "\\n", 2);
        } else if (c < 0x20 || c == 0x7F) {
            (void)snprintf(hex, sizeof hex, "\\u%04x", c);
            put_text(line, hex);
        } else if (c >= 0x80) {
            i += put_wide(line, (struct wp_str){s.ptr + i, s.len - i}) - 1;
        } else {
            put(line, (const char *)&c, 1);
        }
    }
}

static bool
needs_quotes(struct wp_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];

        if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7F) {
            return true;
        }
    }
    return s.len == 0;
}

static void
put_value(struct line *line, const struct wp_kv *kv)
{
    char number[48];

    if (kv->kind == WP_KV_STR) {
        bool quotes = line_format == WP_LOG_JSON || needs_quotes(kv->str);

        put(line, "\"", quotes ? 1 : 0);
        put_escaped(line, kv->str);
        put(line, "\"", quotes ? 1 : 0);
        return;
    }
    if (kv->kind == WP_KV_INT) {
        (void)snprintf(number, sizeof number, "%lld", (long long)kv->num);
    } else {
        (void)snprintf(number, sizeof number, "%.3f", (double)kv->num / 1e6);
    }
    put_text(line, number);
}

void
wp_log_emit(enum wp_log_level level, const char *event, const struct wp_kv *kvs)
{
    struct line line = {.len = 0};
    bool json = line_format == WP_LOG_JSON;
    char ts[32];
    ssize_t ignored;

    (void)wp_time_format_rfc3339(wp_clock_wall_ns(wp_clock_system()), ts);
    put_text(&line, json ? "{\"ts\":\"" : "");
    put_text(&line, ts);
    put_text(&line, json ? "\",\"level\":\"" : " ");
    put_text(&line, json ? level_lower[level] : level_upper[level]);
    put_text(&line, json ? "\",\"event\":\"" : " ");
    put_escaped(&line, wp_str_from(event));
    put_text(&line, json ? "\"" : "");
    for (; kvs->key != NULL; kvs++) {
        put_text(&line, json ? ",\"" : " ");
        put_text(&line, kvs->key);
        put_text(&line, json ? "\":" : "=");
        put_value(&line, kvs);
    }
    if (json) {
        line.text[line.len++] = '}';
    }
    line.text[line.len++] = '\n';
    ignored = write(STDERR_FILENO, line.text, line.len);
    (void)ignored;
}
