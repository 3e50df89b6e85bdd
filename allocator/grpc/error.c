/* What a failed call tells its client beside the status, and where gRPC's own
 * complaints go. */
#include "allocator/grpc/internal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <grpc/support/log.h>

#include "pool/base/log.h"
#include "proto/wire/status.h"

enum {
    LOG_LINES_PER_S = 5,
};

void
wp_rpc_trailers_make(struct wp_rpc_trailers *trailers, enum wp_status status,
                     const grpc_slice *details, int64_t retry_after_ns)
{
    struct wp_wire_status wire = {.code = wp_status_grpc_code(status),
                                  .retry_after_ns = retry_after_ns};
    char text[WP_RPC_MESSAGE_MAX + 1] = "";
    char ms[24];
    grpc_slice packed;

    trailers->count = 0;
    if (WP_LIKELY(retry_after_ns <= 0)) {
        return;
    }
    if (details != NULL) {
        wire.message.len = GRPC_SLICE_LENGTH(*details);
        memcpy(text, GRPC_SLICE_START_PTR(*details), wire.message.len);
    }
    wire.message.ptr = text;
    packed = grpc_slice_malloc(wp_wire_size_status(&wire));
    (void)wp_wire_pack_status(&wire, GRPC_SLICE_START_PTR(packed));
    memset(trailers->md, 0, sizeof(trailers->md));
    trailers->md[0].key =
        grpc_slice_from_static_string("grpc-status-details-bin");
    trailers->md[0].value = packed;
    (void)snprintf(
        ms, sizeof(ms), "%lld",
        (long long)((retry_after_ns + WP_NS_PER_MS - 1) / WP_NS_PER_MS));
    trailers->md[1].key =
        grpc_slice_from_static_string("grpc-retry-pushback-ms");
    trailers->md[1].value = grpc_slice_from_copied_string(ms);
    trailers->count = 2;
}

void
wp_rpc_trailers_unref(struct wp_rpc_trailers *trailers)
{
    for (size_t i = 0; i < trailers->count; i++) {
        grpc_slice_unref(trailers->md[i].value);
    }
}

/* Clients can make gRPC complain (a bad handshake does), so lines are rationed:
 * the count starts again with each second. */
static bool
may_log(void)
{
    static _Atomic(int64_t) second;
    static _Atomic(int) lines;
    int64_t now_s = wp_clock_mono_ns(wp_clock_system()) / WP_NS_PER_S;

    if (atomic_exchange_explicit(&second, now_s, memory_order_relaxed) !=
        now_s) {
        atomic_store_explicit(&lines, 0, memory_order_relaxed);
    }
    return atomic_fetch_add_explicit(&lines, 1, memory_order_relaxed) <
           LOG_LINES_PER_S;
}

static _Atomic(bool) accept_failed;

bool
wp_rpc_accept_failed(void)
{
    return atomic_load_explicit(&accept_failed, memory_order_relaxed);
}

/* C-core 1.51 never accepts again on a listener of its own after accept has
 * failed, as it does without free descriptors, and says so only in its log. */
static void
note_accept_failure(const char *message)
{
    if (strncmp(message, "Failed accept4", strlen("Failed accept4")) == 0 &&
        !atomic_exchange_explicit(&accept_failed, true, memory_order_relaxed)) {
        wp_log_error("a TLS listener is dead: restart the daemon",
                     wp_kv_str("cause", message));
    }
}

static void
log_line(gpr_log_func_args *args)
{
    const char *slash = strrchr(args->file, '/');
    const char *file = slash != NULL ? slash + 1 : args->file;

    note_accept_failure(args->message);
    if (!may_log()) {
        return;
    }
    if (args->severity == GPR_LOG_SEVERITY_ERROR) {
        wp_log_warn("grpc", wp_kv_str("message", args->message),
                    wp_kv_str("at", file), wp_kv_int("line", args->line));
    } else {
        wp_log_debug("grpc", wp_kv_str("message", args->message),
                     wp_kv_str("at", file), wp_kv_int("line", args->line));
    }
}

void
wp_rpc_log_route(void)
{
    gpr_set_log_function(log_line);
}
