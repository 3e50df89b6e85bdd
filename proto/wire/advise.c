/* Advise: a question, and what would have been. */
#include <math.h>

#include "proto/wire/wire.h"

#include "proto/wire/check.h"
#include "proto/wire/decode.h"
#include "proto/wire/encode.h"
#include "proto/wire/parts.h"

#define WALL_MS_MAX (INT64_MAX / WP_NS_PER_MS)
#define LEAD_MAX_MS INT64_C(3600000)

/* --- AdviseRequest --- */

static enum wp_status
check_objectives(const double *objectives, size_t n, struct wp_err *err)
{
    enum wp_status status = wp_wire_check_range("objectives", (int64_t)n, 0,
                                                WP_ADVICE_OBJECTIVES_MAX, err);

    for (size_t i = 0; status == WP_OK && i < n; i++) {
        if (!(objectives[i] >= 0.5 && objectives[i] <= 0.99999)) {
            status = wp_err_set(err, WP_INVALID_ARGUMENT,
                                "objectives: 0.5 to 0.99999 expected");
        }
    }
    return status;
}

static enum wp_status
advise_request_in(const Warmpool__V1__AdviseRequest *pb,
                  struct wp_wire_advise_request *out, struct wp_err *err)
{
    enum wp_status status;

    *out = (struct wp_wire_advise_request){
        .objectives = pb->objectives,
        .n_objectives = (uint32_t)pb->n_objectives,
        .lead_ms = pb->lead_ms,
        .claim_gaps_ms = pb->claim_gaps_ms,
        .n_claims = (uint32_t)pb->n_claim_gaps_ms,
        .first_wall_ms = pb->first_unix_ms,
    };
    status = wp_wire_pool_in(pb->pool, &out->pool, err);
    if (status == WP_OK) {
        status = check_objectives(pb->objectives, pb->n_objectives, err);
    }
    if (status == WP_OK) {
        status =
            wp_wire_check_range("lead_ms", pb->lead_ms, 0, LEAD_MAX_MS, err);
    }
    if (status == WP_OK) {
        status =
            wp_wire_check_range("claim_gaps_ms", (int64_t)pb->n_claim_gaps_ms,
                                0, WP_WIRE_ADVISE_CLAIMS_MAX, err);
    }
    /* Half of what there is: all gaps together fit into the rest. */
    return status == WP_OK
               ? wp_wire_check_range("first_unix_ms", pb->first_unix_ms, 0,
                                     WALL_MS_MAX / 2, err)
               : status;
}

WP_WIRE_DEFINE_UNPACK(advise_request, wp_wire_advise_request,
                      Warmpool__V1__AdviseRequest, warmpool__v1__advise_request,
                      advise_request_in)

struct advise_request {
    Warmpool__V1__AdviseRequest request;
    Warmpool__V1__PoolRef pool;
};

static void
fill_advise_request(const struct wp_wire_advise_request *in,
                    struct advise_request *pb)
{
    warmpool__v1__advise_request__init(&pb->request);
    wp_wire_pool_out(&in->pool, &pb->pool);
    pb->request.pool = &pb->pool;
    pb->request.n_objectives = in->n_objectives;
    pb->request.objectives = (double *)(uintptr_t)in->objectives;
    pb->request.lead_ms = in->lead_ms;
    pb->request.n_claim_gaps_ms = in->n_claims;
    pb->request.claim_gaps_ms = (uint32_t *)(uintptr_t)in->claim_gaps_ms;
    pb->request.first_unix_ms = in->first_wall_ms;
}

WP_WIRE_DEFINE_PACK(advise_request, wp_wire_advise_request,
                    struct advise_request, fill_advise_request)

/* --- AdviseRow --- */

static double
finite_in(double value)
{
    return isfinite(value) ? value : 0;
}

static const struct {
    enum wp_advice_kind kind;
    Warmpool__V1__AdviseKind pb;
} KINDS[] = {
    {WP_ADVICE_TODAY, WARMPOOL__V1__ADVISE_KIND__ADVISE_KIND_TODAY},
    {WP_ADVICE_OURS, WARMPOOL__V1__ADVISE_KIND__ADVISE_KIND_OBJECTIVE},
    {WP_ADVICE_FIXED, WARMPOOL__V1__ADVISE_KIND__ADVISE_KIND_FIXED},
    {WP_ADVICE_CLAIRVOYANT, WARMPOOL__V1__ADVISE_KIND__ADVISE_KIND_CLAIRVOYANT},
};

/* What this build does not know is shown with the others. */
static enum wp_advice_kind
kind_in(Warmpool__V1__AdviseKind pb)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(KINDS); i++) {
        if (KINDS[i].pb == pb) {
            return KINDS[i].kind;
        }
    }
    return WP_ADVICE_OTHER;
}

static Warmpool__V1__AdviseKind
kind_out(enum wp_advice_kind kind)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(KINDS); i++) {
        if (KINDS[i].kind == kind) {
            return KINDS[i].pb;
        }
    }
    return WARMPOOL__V1__ADVISE_KIND__ADVISE_KIND_UNSPECIFIED;
}

static enum wp_status
row_in(const Warmpool__V1__AdviseRow *pb, struct wp_advice_row *out,
       struct wp_err *err)
{
    enum wp_status status;

    *out = (struct wp_advice_row){
        .kind = kind_in(pb->kind),
        .objective = finite_in(pb->objective),
        .size = pb->size,
        .done = true,
        .hit_low = finite_in(pb->hit_rate_low),
        .hit_high = finite_in(pb->hit_rate_high),
        .result.claims = pb->claims,
        .result.hit_rate = finite_in(pb->hit_rate),
        .result.wait_p50_s = finite_in(pb->wait_p50_s),
        .result.wait_p99_s = finite_in(pb->wait_p99_s),
        .result.idle_mean = finite_in(pb->idle_mean),
        .result.idle_s = finite_in(pb->idle_sandbox_s),
        .result.warming_s = finite_in(pb->warming_sandbox_s),
        .result.created = pb->created,
        .result.unused = pb->unused,
        .result.stock_max = pb->stock_max,
    };
    status =
        wp_wire_copy_text("name", pb->name, out->name, sizeof out->name, err);
    if (status == WP_OK) {
        status = wp_wire_copy_text("setting", pb->setting, out->setting,
                                   sizeof out->setting, err);
    }
    return status;
}

static void
row_out(const struct wp_advice_row *in, Warmpool__V1__AdviseRow *pb)
{
    warmpool__v1__advise_row__init(pb);
    pb->kind = kind_out(in->kind);
    pb->name = wp_wire_borrow(in->name);
    pb->setting = wp_wire_borrow(in->setting);
    pb->objective = in->objective;
    pb->size = in->size;
    pb->claims = in->result.claims;
    pb->hit_rate = in->result.hit_rate;
    pb->hit_rate_low = in->hit_low;
    pb->hit_rate_high = in->hit_high;
    pb->wait_p50_s = in->result.wait_p50_s;
    pb->wait_p99_s = in->result.wait_p99_s;
    pb->idle_mean = in->result.idle_mean;
    pb->idle_sandbox_s = in->result.idle_s;
    pb->warming_sandbox_s = in->result.warming_s;
    pb->created = in->result.created;
    pb->unused = in->result.unused;
    pb->stock_max = in->result.stock_max;
}

/* --- AdviseReport, AdviseResponse --- */

static enum wp_status
lines_in(const Warmpool__V1__AdviseReport *pb, struct wp_advice_words *out,
         struct wp_err *err)
{
    enum wp_status status = wp_wire_check_range("lines", (int64_t)pb->n_lines,
                                                0, WP_ADVICE_LINES_MAX, err);

    out->n_lines = (uint32_t)pb->n_lines;
    for (size_t i = 0; status == WP_OK && i < pb->n_lines; i++) {
        status = wp_wire_copy_text("lines", pb->lines[i], out->lines[i],
                                   sizeof out->lines[i], err);
    }
    if (status == WP_OK) {
        status = wp_wire_check_range("recommended", pb->recommended, -1,
                                     (int64_t)pb->n_rows - 1, err);
    }
    out->recommended = pb->recommended;
    return status;
}

static enum wp_status
report_in(struct wp_arena *arena, const Warmpool__V1__AdviseReport *pb,
          struct wp_wire_advise_response *out, struct wp_err *err)
{
    enum wp_status status = wp_wire_check_range("rows", (int64_t)pb->n_rows, 0,
                                                WP_ADVICE_ROWS_MAX, err);
    struct wp_advice_row *rows;

    if (status != WP_OK) {
        return status;
    }
    rows = wp_arena_alloc(arena, (pb->n_rows + 1) * sizeof *rows);
    if (rows == NULL) {
        return wp_wire_too_long(err);
    }
    out->has_report = true;
    out->facts = (struct wp_advice_facts){
        .from_wall_ns = wp_wire_ms_in_ns(pb->from_unix_ms, WALL_MS_MAX),
        .until_wall_ns = wp_wire_ms_in_ns(pb->until_unix_ms, WALL_MS_MAX),
        .known_ns = wp_wire_ms_in_ns(pb->known_ms, WALL_MS_MAX),
        .run_up_ns = wp_wire_ms_in_ns(pb->run_up_ms, WALL_MS_MAX),
        .claims = pb->claims,
        .dropped = pb->dropped,
        .n_gaps = pb->gaps,
        .n_leads = pb->lead_times,
        .lead_mean_s = finite_in(pb->lead_mean_s),
        .lead_p99_s = finite_in(pb->lead_p99_s),
        .at_once = pb->at_once,
        .peaks = pb->peaks,
    };
    out->rows = rows;
    out->n_rows = (uint32_t)pb->n_rows;
    for (size_t i = 0; status == WP_OK && i < pb->n_rows; i++) {
        status = row_in(pb->rows[i], &rows[i], err);
    }
    return status == WP_OK ? lines_in(pb, &out->words, err) : status;
}

enum wp_status
wp_wire_unpack_advise_response(struct wp_arena *arena, const uint8_t *bytes,
                               size_t len, struct wp_wire_advise_response *out,
                               struct wp_err *err)
{
    const Warmpool__V1__AdviseResponse *pb = wp_wire_decode(
        arena, &warmpool__v1__advise_response__descriptor, bytes, len, err);

    if (pb == NULL) {
        return WP_INVALID_ARGUMENT;
    }
    memset(out, 0, sizeof *out);
    out->progress = finite_in(pb->progress);
    return pb->report != NULL ? report_in(arena, pb->report, out, err) : WP_OK;
}

struct advise_response {
    Warmpool__V1__AdviseResponse response;
    Warmpool__V1__AdviseReport report;
    Warmpool__V1__AdviseRow row[WP_ADVICE_ROWS_MAX];
    Warmpool__V1__AdviseRow *rows[WP_ADVICE_ROWS_MAX];
    char *lines[WP_ADVICE_LINES_MAX];
};

static void
fill_advise_response(const struct wp_wire_advise_response *in,
                     struct advise_response *pb)
{
    Warmpool__V1__AdviseReport *report = &pb->report;

    warmpool__v1__advise_response__init(&pb->response);
    pb->response.progress = in->progress;
    if (!in->has_report) {
        return;
    }
    WP_ASSERT(in->n_rows <= WP_ADVICE_ROWS_MAX &&
              in->words.n_lines <= WP_ADVICE_LINES_MAX);
    warmpool__v1__advise_report__init(report);
    pb->response.report = report;
    report->from_unix_ms = in->facts.from_wall_ns / WP_NS_PER_MS;
    report->until_unix_ms = in->facts.until_wall_ns / WP_NS_PER_MS;
    report->known_ms = in->facts.known_ns / WP_NS_PER_MS;
    report->run_up_ms = in->facts.run_up_ns / WP_NS_PER_MS;
    report->claims = in->facts.claims;
    report->dropped = in->facts.dropped;
    report->gaps = in->facts.n_gaps;
    report->lead_times = in->facts.n_leads;
    report->lead_mean_s = in->facts.lead_mean_s;
    report->lead_p99_s = in->facts.lead_p99_s;
    report->at_once = in->facts.at_once;
    report->peaks = in->facts.peaks;
    report->n_rows = in->n_rows;
    report->rows = pb->rows;
    for (uint32_t i = 0; i < in->n_rows; i++) {
        row_out(&in->rows[i], &pb->row[i]);
        pb->rows[i] = &pb->row[i];
    }
    report->n_lines = in->words.n_lines;
    report->lines = pb->lines;
    for (uint32_t i = 0; i < in->words.n_lines; i++) {
        pb->lines[i] = wp_wire_borrow(in->words.lines[i]);
    }
    report->recommended = in->words.recommended;
}

WP_WIRE_DEFINE_PACK(advise_response, wp_wire_advise_response,
                    struct advise_response, fill_advise_response)
