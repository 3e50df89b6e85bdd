#include "allocator/ctl/ctl.h"

#include <stdlib.h>
#include <string.h>

#include "allocator/ctl/commands.h"
#include "allocator/ctl/print.h"
#include "pool/base/clock.h"
#include "proto/formats/json_text.h"

static enum wp_ctl_exit
exit_code(enum wp_status status)
{
    switch (wp_status_grpc_code(status)) {
    case 0: /* OK */
        return WP_EXIT_OK;
    case 3: /* INVALID_ARGUMENT */
        return WP_EXIT_USAGE;
    case 5: /* NOT_FOUND */
        return WP_EXIT_NOT_FOUND;
    case 14: /* UNAVAILABLE */
        return WP_EXIT_UNAVAILABLE;
    case 4: /* DEADLINE_EXCEEDED */
    case 8: /* RESOURCE_EXHAUSTED */
        return WP_EXIT_EXHAUSTED;
    default:
        return WP_EXIT_FAILED;
    }
}

/* Which flag sets a field that the daemon complains of. */
static const char *
flag_of(const char *message)
{
    static const struct {
        const char *field;
        const char *hint;
    } known[] = {
        {"ttl_ms:", "--ttl sets it, as 90s, 30m or 2h."},
        {"wait_ms:", "--wait sets it, as 500ms, 30s or 5m."},
        {"claim_id:", "--id sets it."},
        {"tenant:", "--tenant or $WARMPOOL_TENANT sets it."},
        {"grace_ms:", "--grace sets it, as 30s or 5m."},
        {"target:", "--target sets it."},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(known); i++) {
        if (strncmp(message, known[i].field, strlen(known[i].field)) == 0) {
            return known[i].hint;
        }
    }
    return NULL;
}

/* Is something there that does not want this user? */
static bool
refused_us(const char *message)
{
    return strcasestr(message, "permission denied") != NULL ||
           strcasestr(message, "closed") != NULL ||
           strcasestr(message, "reset") != NULL;
}

/* What somebody who reads the message may want to know next; NULL: nothing. */
static const char *
hint_for(const struct wp_err *err)
{
    if (err->status == WP_UNAVAILABLE &&
        strncmp(err->msg, "cannot reach", 12) == 0) {
        return refused_us(err->msg)
                   ? "It lets other users in when its settings 'allowed_uids' "
                     "or 'identities' name them."
                   : "Is it running? Start warmpoold, or say where it serves "
                     "with --address (exec and cp: --http) or "
                     "$WARMPOOL_ADDRESS.";
    }
    if (err->status == WP_UNAUTHENTICATED &&
        strncmp(err->msg, "a call over TCP", 15) == 0) {
        return "--access-token-file or $WARMPOOL_ACCESS_TOKEN_FILE names that "
               "file; the daemon's user and root can read it.";
    }
    if (err->status == WP_PERMISSION_DENIED) {
        return strstr(err->msg, "the sandbox refuses") != NULL
                   ? NULL
                   : "The daemon's settings 'identities' and 'allowed_uids' "
                     "say who may do what.";
    }
    if (err->status == WP_NOT_FOUND && strncmp(err->msg, "pool:", 5) == 0) {
        return "warmpoolctl pools lists those that exist.";
    }
    return err->status == WP_INVALID_ARGUMENT ? flag_of(err->msg) : NULL;
}

static int
own_failure(const struct wp_ctl *ctl, int code)
{
    /* exec's small codes are the command's. */
    return ctl->command != NULL && ctl->command->with_rest ? WP_EXIT_EXEC_FAILED
                                                           : code;
}

int
wp_ctl_fail(const struct wp_ctl *ctl, const struct wp_err *err,
            int64_t retry_after_ns)
{
    const char *hint = hint_for(err);
    char text[32];

    if (ctl->options.output == WP_OUTPUT_JSON) {
        json_t *error =
            json_pack("{s:s, s:o}", "code", wp_status_name(err->status),
                      "message", wp_json_from_text(err->msg));

        if (retry_after_ns > 0) {
            (void)json_object_set_new(
                error, "retry_after_ms",
                json_integer((retry_after_ns + WP_NS_PER_MS - 1) /
                             WP_NS_PER_MS));
        }
        wp_print_json(ctl->errors, json_pack("{s:o}", "error", error), false);
    } else {
        wp_print_field(ctl->errors, 0, "", "warmpoolctl: %s", err->msg);
        if (retry_after_ns > 0) {
            (void)fprintf(ctl->errors, "Expected to work again in %s.\n",
                          wp_print_duration(retry_after_ns, text));
        }
        if (hint != NULL) {
            (void)fprintf(ctl->errors, "%s\n", hint);
        }
    }
    return own_failure(ctl, (int)exit_code(err->status));
}

int
wp_ctl_usage(const struct wp_ctl *ctl, const struct wp_err *err)
{
    wp_print_field(ctl->errors, 0, "", "warmpoolctl: %s", err->msg);
    if (ctl->command != NULL) {
        wp_help_usage(ctl->command, ctl->errors);
        (void)fprintf(ctl->errors, "See warmpoolctl %s --help\n",
                      ctl->command->name);
    } else {
        (void)fprintf(ctl->errors, "See warmpoolctl --help\n");
    }
    return own_failure(ctl, WP_EXIT_USAGE);
}

enum wp_status
wp_ctl_pool_parse(struct wp_ctl *ctl, const char *text,
                  struct wp_wire_pool_ref *out, struct wp_err *err)
{
    const char *slash = strchr(text, '/');

    *out = (struct wp_wire_pool_ref){{NULL, 0}, wp_str_from(text)};
    if (slash != NULL) {
        /* pack wants terminated strings. */
        size_t len = (size_t)(slash - text);
        char *space = wp_ctl_alloc(ctl, len + 1);

        memcpy(space, text, len);
        out->pool_namespace = wp_str_from(space);
        out->name = wp_str_from(slash + 1);
    }
    if (!wp_str_is_dns_name(out->name, WP_POOL_NAME_MAX) ||
        (slash != NULL &&
         !wp_str_is_dns_name(out->pool_namespace, WP_NAMESPACE_MAX))) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "'%.80s': expected a pool as NAME or NAMESPACE/NAME, "
                          "in lower-case letters, digits, '-' and '.'",
                          text);
    }
    return WP_OK;
}

void *
wp_ctl_alloc(struct wp_ctl *ctl, size_t n)
{
    void *p = wp_arena_alloc(&ctl->arena, n);

    if (p == NULL) {
        (void)fputs("warmpoolctl: out of memory\n", ctl->errors);
        exit(own_failure(ctl,
                         WP_EXIT_FAILED)); /* NOLINT(concurrency-mt-unsafe) */
    }
    memset(p, 0, n);
    return p;
}
