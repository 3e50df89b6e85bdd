/* A pool's scaling policy on the wire: in Pool, and in SetPoolRequest. */
#include "proto/wire/policy.h"

#include "proto/wire/check.h"
#include "proto/wire/decode.h"
#include "proto/wire/encode.h"
#include "proto/wire/parts.h"

/* Room for n settings. */
static enum wp_status
make_settings(struct wp_arena *arena, size_t n, struct wp_wire_setting **out,
              struct wp_err *err)
{
    enum wp_status status = wp_wire_check_range("autoscale", (int64_t)n, 0,
                                                WP_WIRE_AUTOSCALE_MAX, err);

    if (status == WP_OK) {
        *out = wp_arena_alloc(arena, (n + 1) * sizeof **out);
        status = *out != NULL ? WP_OK : wp_wire_too_long(err);
    }
    return status;
}

/* --- Pool --- */

enum wp_status
wp_wire_policy_in(struct wp_arena *arena, const Warmpool__V1__Pool *pb,
                  struct wp_wire_pool_detail *out, struct wp_err *err)
{
    struct wp_wire_setting *settings = NULL;
    enum wp_status status =
        make_settings(arena, pb->n_autoscale, &settings, err);

    for (size_t i = 0; status == WP_OK && i < pb->n_autoscale; i++) {
        settings[i].key = wp_str_from(pb->autoscale[i]->key);
        settings[i].value = wp_str_from(pb->autoscale[i]->value);
        status = wp_wire_check_text("autoscale", settings[i].key, 1,
                                    WP_SCALE_KEY_MAX, err);
        if (status == WP_OK) {
            status = wp_wire_check_text("autoscale", settings[i].value, 0,
                                        WP_SCALE_VALUE_MAX, err);
        }
    }
    out->autoscale = settings;
    out->n_autoscale = (uint32_t)pb->n_autoscale;
    return status;
}

void
wp_wire_policy_out(const struct wp_wire_pool_detail *in,
                   struct wp_wire_policy *pb, Warmpool__V1__Pool *pool)
{
    WP_ASSERT(in->n_autoscale <= WP_WIRE_AUTOSCALE_MAX);
    for (uint32_t i = 0; i < in->n_autoscale; i++) {
        warmpool__v1__pool__autoscale_entry__init(&pb->entry[i]);
        pb->entry[i].key = wp_wire_borrow_str(in->autoscale[i].key);
        pb->entry[i].value = wp_wire_borrow_str(in->autoscale[i].value);
        pb->entries[i] = &pb->entry[i];
    }
    pool->n_autoscale = in->n_autoscale;
    pool->autoscale = pb->entries;
}

/* --- SetPoolRequest --- */

static enum wp_status
settings_in(struct wp_arena *arena, const Warmpool__V1__SetPoolRequest *pb,
            struct wp_wire_set_pool_request *out, struct wp_err *err)
{
    size_t bytes = 0;
    struct wp_wire_setting *settings = NULL;
    enum wp_status status =
        make_settings(arena, pb->n_autoscale, &settings, err);

    if (status != WP_OK) {
        return status;
    }
    for (size_t i = 0; i < pb->n_autoscale; i++) {
        settings[i].key = wp_str_from(pb->autoscale[i]->key);
        settings[i].value = wp_str_from(pb->autoscale[i]->value);
        bytes += settings[i].key.len + settings[i].value.len;
    }
    out->autoscale = settings;
    out->n_autoscale = (uint32_t)pb->n_autoscale;
    return wp_wire_check_range("autoscale: bytes", (int64_t)bytes, 0,
                               WP_WIRE_AUTOSCALE_BYTES_MAX, err);
}

enum wp_status
wp_wire_unpack_set_pool_request(struct wp_arena *arena, const uint8_t *bytes,
                                size_t len,
                                struct wp_wire_set_pool_request *out,
                                struct wp_err *err)
{
    const Warmpool__V1__SetPoolRequest *pb = wp_wire_decode(
        arena, &warmpool__v1__set_pool_request__descriptor, bytes, len, err);
    enum wp_status status;

    *out = (struct wp_wire_set_pool_request){0};
    if (pb == NULL) {
        return WP_INVALID_ARGUMENT;
    }
    status = wp_wire_pool_in(pb->pool, &out->pool, err);
    if (status == WP_OK) {
        status = settings_in(arena, pb, out, err);
    }
    if (status != WP_OK) {
        return status;
    }
    /* Who knows of no policy leaves a target of 0 out. */
    out->has_target =
        pb->size_case == WARMPOOL__V1__SET_POOL_REQUEST__SIZE_TARGET ||
        out->n_autoscale == 0;
    if (pb->size_case == WARMPOOL__V1__SET_POOL_REQUEST__SIZE_TARGET) {
        out->target = pb->target;
    }
    return wp_wire_check_range("target", out->target, 0, WP_TARGET_MAX, err);
}

struct set_pool_request {
    Warmpool__V1__SetPoolRequest request;
    Warmpool__V1__PoolRef pool;
    Warmpool__V1__SetPoolRequest__AutoscaleEntry entry[WP_WIRE_AUTOSCALE_MAX];
    Warmpool__V1__SetPoolRequest__AutoscaleEntry
        *entries[WP_WIRE_AUTOSCALE_MAX];
};

static void
fill_set_pool_request(const struct wp_wire_set_pool_request *in,
                      struct set_pool_request *pb)
{
    warmpool__v1__set_pool_request__init(&pb->request);
    wp_wire_pool_out(&in->pool, &pb->pool);
    pb->request.pool = &pb->pool;
    if (in->has_target) {
        pb->request.size_case = WARMPOOL__V1__SET_POOL_REQUEST__SIZE_TARGET;
        pb->request.target = in->target;
    }
    WP_ASSERT(in->n_autoscale <= WP_WIRE_AUTOSCALE_MAX);
    for (uint32_t i = 0; i < in->n_autoscale; i++) {
        warmpool__v1__set_pool_request__autoscale_entry__init(&pb->entry[i]);
        pb->entry[i].key = wp_wire_borrow_str(in->autoscale[i].key);
        pb->entry[i].value = wp_wire_borrow_str(in->autoscale[i].value);
        pb->entries[i] = &pb->entry[i];
    }
    pb->request.n_autoscale = in->n_autoscale;
    pb->request.autoscale = pb->entries;
}

WP_WIRE_DEFINE_PACK(set_pool_request, wp_wire_set_pool_request,
                    struct set_pool_request, fill_set_pool_request)
