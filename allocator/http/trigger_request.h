/* allocator/http/trigger_request.h - what a trigger asks for.
 *
 * The body of POST /api/v1/sandbox/trigger, as kagenti's schedulers send it:
 *
 *   {"type": "cron", "skill": ..., "schedule": ...}
 *   {"type": "webhook", "event": ..., "repo": ..., "branch": ..., "pr_number":
 *    ...}
 *   {"type": "alert", "alert": ..., "cluster": ..., "severity": ...}
 *
 * each with "namespace" and "ttl_hours". Keys of other types, and those that
 * are not known, say nothing. No I/O; any thread. */
#ifndef WP_ALLOCATOR_HTTP_TRIGGER_REQUEST_H
#define WP_ALLOCATOR_HTTP_TRIGGER_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/str.h"
#include "pool/limits.h"

enum {
    WP_TRIGGER_BODY_MAX = 16384, /* Bytes of a body. */
    WP_TRIGGER_VALUE_MAX = 255,  /* Bytes of one text. */
    WP_TRIGGER_WHY_MAX = 200,    /* Of a sentence for the client, NUL too. */
    WP_TRIGGER_MARKS_MAX = 5,
    WP_TRIGGER_SUFFIX_LEN = 6, /* Random, behind the stem and '-'. */
    WP_TRIGGER_STEM_MAX = WP_SANDBOX_NAME_MAX - 1 - WP_TRIGGER_SUFFIX_LEN,
};

/* One of the things that it says of itself. */
struct wp_trigger_mark {
    const char *key; /* "trigger-skill"; static. */
    char value[WP_TRIGGER_VALUE_MAX + 1];
};

struct wp_trigger {
    bool is_webhook;
    char ns[WP_NAMESPACE_MAX + 1]; /* "": not said. */
    /* The claim's name without its suffix: "cron-SKILL", "gh-REPO" or
     * "alert-ALERT" in lower case, with '-' for what no DNS label has. */
    char stem[WP_TRIGGER_STEM_MAX + 1];
    struct wp_trigger_mark marks[WP_TRIGGER_MARKS_MAX];
    uint32_t n_marks;
    int64_t ttl_ns;
};

/* 0, or the HTTP status that refuses the body, with why: 400 for a type that is
 * unknown, 422 for a field that is missing or wrong. */
WP_MUST_CHECK int wp_trigger_read(struct wp_str body, struct wp_trigger *out,
                                  char why[WP_TRIGGER_WHY_MAX]);

#endif
