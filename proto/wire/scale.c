/* A pool's scaler as it is shown, and what is announced to it. */
#include "proto/wire/scale.h"

#include "proto/wire/check.h"
#include "proto/wire/decode.h"
#include "proto/wire/encode.h"
#include "proto/wire/parts.h"

#define WALL_MS_MAX (INT64_MAX / WP_NS_PER_MS)

enum {
    ID_MAX = sizeof(((struct wp_scale_reservation *)NULL)->id) - 1,
};

/* --- ScaleDecision --- */

/* A word that this build does not know has no number: the first one. */
static enum wp_scale_reason
reason_in(const char *word)
{
    for (int i = 0; i < WP_SCALE_REASON_COUNT; i++) {
        enum wp_scale_reason reason = (enum wp_scale_reason)i;

        if (wp_str_is(wp_str_from(word), wp_scale_reason_word(reason))) {
            return reason;
        }
    }
    return WP_SCALE_NOTHING_SEEN;
}

/* What both sides call the same. */
#define DECISION_FIELDS(COPY)                                                  \
    COPY(number)                                                               \
    COPY(target_before)                                                        \
    COPY(target)                                                               \
    COPY(wanted)                                                               \
    COPY(rate_per_s)                                                           \
    COPY(rate_fast_per_s)                                                      \
    COPY(rate_slow_per_s)                                                      \
    COPY(lead_mean_s)                                                          \
    COPY(lead_p99_s)                                                           \
    COPY(expected)                                                             \
    COPY(spread)                                                               \
    COPY(dispersion)                                                           \
    COPY(learned)                                                              \
    COPY(reserved)                                                             \
    COPY(floor)                                                                \
    COPY(hit_rate)                                                             \
    COPY(idle)                                                                 \
    COPY(hit_rate_seen)                                                        \
    COPY(hit_rate_best)                                                        \
    COPY(at_once)                                                              \
    COPY(shared_bound)                                                         \
    COPY(makes_per_s)                                                          \
    COPY(queue_s)                                                              \
    COPY(seen_claims)                                                          \
    COPY(burst_unix_ms)                                                        \
    COPY(due_unix_ms)

static void
decision_in(const Warmpool__V1__ScaleDecision *pb,
            struct wp_scale_decision *out)
{
    *out = (struct wp_scale_decision){
        .wall_ns = wp_wire_ms_in_ns(pb->unix_ms, WALL_MS_MAX),
        .reason = reason_in(pb->reason),
    };
#define COPY_IN(field) out->field = pb->field;
    DECISION_FIELDS(COPY_IN)
    /* Within what a clock has: whoever counts with them must not overflow. */
    out->burst_unix_ms =
        wp_wire_ms_in_ns(pb->burst_unix_ms, WALL_MS_MAX) / WP_NS_PER_MS;
    out->due_unix_ms =
        wp_wire_ms_in_ns(pb->due_unix_ms, WALL_MS_MAX) / WP_NS_PER_MS;
}

static void
decision_out(const struct wp_scale_decision *in, struct wp_wire_decision *pb)
{
    Warmpool__V1__ScaleDecision *to = &pb->message;

    warmpool__v1__scale_decision__init(to);
    wp_scale_decision_format(in, pb->sentence, sizeof pb->sentence);
#define COPY_OUT(field) to->field = in->field;
    DECISION_FIELDS(COPY_OUT)
    to->unix_ms = in->wall_ns / WP_NS_PER_MS;
    to->reason = wp_wire_borrow(wp_scale_reason_word(in->reason));
    to->sentence = pb->sentence;
}

static enum wp_status
text_in(const Warmpool__V1__ScaleDecision *pb,
        struct wp_wire_decision_text *out, struct wp_err *err)
{
    enum wp_status status = wp_wire_copy_text("reason", pb->reason, out->reason,
                                              sizeof out->reason, err);

    return status == WP_OK
               ? wp_wire_copy_text("sentence", pb->sentence, out->sentence,
                                   sizeof out->sentence, err)
               : status;
}

/* --- Reservation --- */

static enum wp_status
reservation_in(const Warmpool__V1__Reservation *pb,
               struct wp_scale_reservation *out, struct wp_err *err)
{
    *out = (struct wp_scale_reservation){
        .n = pb->sandboxes,
        .left = pb->left,
        .from_wall_ns = wp_wire_ms_in_ns(pb->not_before_unix_ms, WALL_MS_MAX),
        .until_wall_ns = wp_wire_ms_in_ns(pb->until_unix_ms, WALL_MS_MAX),
    };
    return wp_wire_copy_text("id", pb->id, out->id, sizeof out->id, err);
}

static void
fill_reservation(const struct wp_scale_reservation *in,
                 Warmpool__V1__Reservation *pb)
{
    warmpool__v1__reservation__init(pb);
    pb->id = wp_wire_borrow(in->id);
    pb->sandboxes = in->n;
    pb->left = in->left;
    pb->not_before_unix_ms = in->from_wall_ns / WP_NS_PER_MS;
    pb->until_unix_ms = in->until_wall_ns / WP_NS_PER_MS;
}

WP_WIRE_DEFINE_PACK(reservation, wp_scale_reservation,
                    Warmpool__V1__Reservation, fill_reservation)

WP_WIRE_DEFINE_UNPACK(reservation, wp_scale_reservation,
                      Warmpool__V1__Reservation, warmpool__v1__reservation,
                      reservation_in)

/* --- Scaling --- */

enum wp_status
wp_wire_scaling_in(const Warmpool__V1__Scaling *pb, struct wp_pool_stats *out,
                   struct wp_err *err)
{
    if (pb == NULL) {
        return WP_OK;
    }
    out->scaled = true;
    out->replicas = pb->replicas;
    if (pb->n_decisions > 0) {
        decision_in(pb->decisions[0], &out->scale);
    }
    return wp_wire_check_range("decisions", (int64_t)pb->n_decisions, 0,
                               WP_WIRE_DECISIONS_MAX, err);
}

static enum wp_status
decisions_in(struct wp_arena *arena, const Warmpool__V1__Scaling *pb,
             struct wp_wire_pool_detail *out, struct wp_err *err)
{
    struct wp_scale_decision *decisions =
        wp_arena_alloc(arena, (pb->n_decisions + 1) * sizeof *decisions);
    struct wp_wire_decision_text *texts =
        wp_arena_alloc(arena, (pb->n_decisions + 1) * sizeof *texts);
    enum wp_status status = WP_OK;

    if (decisions == NULL || texts == NULL) {
        return wp_wire_too_long(err);
    }
    for (size_t i = 0; status == WP_OK && i < pb->n_decisions; i++) {
        decision_in(pb->decisions[i], &decisions[i]);
        status = text_in(pb->decisions[i], &texts[i], err);
    }
    out->decisions = decisions;
    out->texts = texts;
    out->n_decisions = (uint32_t)pb->n_decisions;
    return status;
}

enum wp_status
wp_wire_scaling_detail_in(struct wp_arena *arena,
                          const Warmpool__V1__Scaling *pb,
                          struct wp_wire_pool_detail *out, struct wp_err *err)
{
    struct wp_scale_reservation *reservations;
    enum wp_status status;

    if (pb == NULL) {
        return WP_OK;
    }
    status = wp_wire_check_range("reservations", (int64_t)pb->n_reservations, 0,
                                 WP_SCALE_RESERVATIONS_MAX, err);
    if (status == WP_OK) {
        status = decisions_in(arena, pb, out, err);
    }
    if (status != WP_OK) {
        return status;
    }
    reservations =
        wp_arena_alloc(arena, (pb->n_reservations + 1) * sizeof *reservations);
    if (reservations == NULL) {
        return wp_wire_too_long(err);
    }
    for (size_t i = 0; status == WP_OK && i < pb->n_reservations; i++) {
        status = reservation_in(pb->reservations[i], &reservations[i], err);
    }
    out->stats->group_unknown = pb->group_unknown;
    out->reservations = reservations;
    out->n_reservations = (uint32_t)pb->n_reservations;
    return status;
}

Warmpool__V1__Scaling *
wp_wire_scaling_out(const struct wp_pool_stats *in, struct wp_wire_scaling *pb)
{
    warmpool__v1__scaling__init(&pb->message);
    pb->message.replicas = in->replicas;
    if (in->scale.number > 0) {
        decision_out(&in->scale, &pb->decision);
        pb->decisions[0] = &pb->decision.message;
        pb->message.decisions = pb->decisions;
        pb->message.n_decisions = 1;
    }
    return &pb->message;
}

Warmpool__V1__Scaling *
wp_wire_scaling_detail_out(const struct wp_wire_pool_detail *in,
                           struct wp_wire_scaling_detail *pb)
{
    warmpool__v1__scaling__init(&pb->message);
    WP_ASSERT(in->n_decisions <= WP_WIRE_DECISIONS_MAX &&
              in->n_reservations <= WP_SCALE_RESERVATIONS_MAX);
    pb->message.replicas = in->stats->replicas;
    pb->message.group_unknown = in->stats->group_unknown;
    for (uint32_t i = 0; i < in->n_decisions; i++) {
        decision_out(&in->decisions[i], &pb->decision[i]);
        pb->decisions[i] = &pb->decision[i].message;
    }
    for (uint32_t i = 0; i < in->n_reservations; i++) {
        fill_reservation(&in->reservations[i], &pb->reservation[i]);
        pb->reservations[i] = &pb->reservation[i];
    }
    pb->message.decisions = pb->decisions;
    pb->message.n_decisions = in->n_decisions;
    pb->message.reservations = pb->reservations;
    pb->message.n_reservations = in->n_reservations;
    return &pb->message;
}

/* --- ReserveRequest --- */

static enum wp_status
check_span(const struct wp_wire_reserve_request *request, struct wp_err *err)
{
    enum wp_status status = wp_wire_check_range(
        "not_before_unix_ms", request->not_before_ms, 0, WALL_MS_MAX, err);

    if (status == WP_OK) {
        status = wp_wire_check_range("until_unix_ms", request->until_ms, 1,
                                     WALL_MS_MAX, err);
    }
    if (status != WP_OK) {
        return status;
    }
    if (request->until_ms <= request->not_before_ms ||
        (request->not_before_ms != 0 &&
         request->until_ms - request->not_before_ms > WP_WIRE_RESERVE_MAX_MS)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "until_unix_ms: later than not_before_unix_ms, and "
                          "within 31 days of it, expected");
    }
    return WP_OK;
}

static enum wp_status
reserve_request_in(const Warmpool__V1__ReserveRequest *pb,
                   struct wp_wire_reserve_request *out, struct wp_err *err)
{
    enum wp_status status;

    out->id = wp_str_from(pb->id);
    out->sandboxes = pb->sandboxes;
    out->not_before_ms = pb->not_before_unix_ms;
    out->until_ms = pb->until_unix_ms;
    status = wp_wire_pool_in(pb->pool, &out->pool, err);
    if (status == WP_OK) {
        status = wp_wire_check_text("id", out->id, 1, ID_MAX, err);
    }
    if (status == WP_OK) {
        status = wp_wire_check_range("sandboxes", pb->sandboxes, 1,
                                     WP_TARGET_MAX, err);
    }
    return status == WP_OK ? check_span(out, err) : status;
}

WP_WIRE_DEFINE_UNPACK(reserve_request, wp_wire_reserve_request,
                      Warmpool__V1__ReserveRequest,
                      warmpool__v1__reserve_request, reserve_request_in)

struct reserve_request {
    Warmpool__V1__ReserveRequest request;
    Warmpool__V1__PoolRef pool;
};

static void
fill_reserve_request(const struct wp_wire_reserve_request *in,
                     struct reserve_request *pb)
{
    warmpool__v1__reserve_request__init(&pb->request);
    wp_wire_pool_out(&in->pool, &pb->pool);
    pb->request.pool = &pb->pool;
    pb->request.id = wp_wire_borrow_str(in->id);
    pb->request.sandboxes = in->sandboxes;
    pb->request.not_before_unix_ms = in->not_before_ms;
    pb->request.until_unix_ms = in->until_ms;
}

WP_WIRE_DEFINE_PACK(reserve_request, wp_wire_reserve_request,
                    struct reserve_request, fill_reserve_request)

/* --- CancelReservation --- */

static enum wp_status
cancel_reservation_request_in(const Warmpool__V1__CancelReservationRequest *pb,
                              struct wp_wire_cancel_reservation_request *out,
                              struct wp_err *err)
{
    enum wp_status status;

    out->id = wp_str_from(pb->id);
    status = wp_wire_pool_in(pb->pool, &out->pool, err);
    return status == WP_OK ? wp_wire_check_text("id", out->id, 1, ID_MAX, err)
                           : status;
}

WP_WIRE_DEFINE_UNPACK(cancel_reservation_request,
                      wp_wire_cancel_reservation_request,
                      Warmpool__V1__CancelReservationRequest,
                      warmpool__v1__cancel_reservation_request,
                      cancel_reservation_request_in)

struct cancel_request {
    Warmpool__V1__CancelReservationRequest request;
    Warmpool__V1__PoolRef pool;
};

static void
fill_cancel_request(const struct wp_wire_cancel_reservation_request *in,
                    struct cancel_request *pb)
{
    warmpool__v1__cancel_reservation_request__init(&pb->request);
    wp_wire_pool_out(&in->pool, &pb->pool);
    pb->request.pool = &pb->pool;
    pb->request.id = wp_wire_borrow_str(in->id);
}

WP_WIRE_DEFINE_PACK(cancel_reservation_request,
                    wp_wire_cancel_reservation_request, struct cancel_request,
                    fill_cancel_request)

WP_WIRE_DEFINE_EMPTY(cancel_reservation_response,
                     wp_wire_cancel_reservation_response,
                     warmpool__v1__cancel_reservation_response)
