#include "proto/wire/parts.h"

#include "proto/wire/check.h"
#include "proto/wire/encode.h"

bool
wp_wire_read_pool(const struct wp_wire_field *message,
                  struct wp_wire_pool_ref *pool)
{
    struct wp_wire_reader reader = {message->bytes,
                                    message->bytes + message->len};
    struct wp_wire_field field;
    enum wp_wire_read read;

    while ((read = wp_wire_read_next(&reader, &field)) == WP_WIRE_READ_FIELD) {
        if (field.number > 2) {
            continue;
        }
        if (field.type != WP_WIRE_BYTES) {
            return false;
        }
        *(field.number == 1 ? &pool->pool_namespace : &pool->name) =
            wp_wire_field_str(&field);
    }
    return read == WP_WIRE_READ_END;
}

void
wp_wire_terminate(struct wp_str *text)
{
    if (text->len > 0) {
        ((char *)(uintptr_t)text->ptr)[text->len] = '\0';
    } else {
        *text = WP_STR("");
    }
}

enum wp_status
wp_wire_check_pool(bool given, struct wp_wire_pool_ref *pool,
                   struct wp_err *err)
{
    enum wp_status status;

    if (!given) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "pool: the name of a pool expected, got none");
    }
    status = wp_wire_check_name("pool.name", pool->name, WP_POOL_NAME_MAX, err);
    if (status != WP_OK) {
        return status;
    }
    if (pool->pool_namespace.len == 0) {
        pool->pool_namespace = WP_STR("default");
        return WP_OK;
    }
    return wp_wire_check_name("pool.namespace", pool->pool_namespace,
                              WP_NAMESPACE_MAX, err);
}

enum wp_status
wp_wire_pool_in(const Warmpool__V1__PoolRef *pb, struct wp_wire_pool_ref *out,
                struct wp_err *err)
{
    if (pb != NULL) {
        out->pool_namespace = wp_str_from(pb->namespace_);
        out->name = wp_str_from(pb->name);
    }
    return wp_wire_check_pool(pb != NULL, out, err);
}

enum wp_status
wp_wire_pool_in_optional(const Warmpool__V1__PoolRef *pb,
                         struct wp_wire_pool_ref *out, struct wp_err *err)
{
    if (pb == NULL || (pb->name[0] == '\0' && pb->namespace_[0] == '\0')) {
        *out = (struct wp_wire_pool_ref){WP_STR(""), WP_STR("")};
        return WP_OK;
    }
    return wp_wire_pool_in(pb, out, err);
}

void
wp_wire_pool_out(const struct wp_wire_pool_ref *pool, Warmpool__V1__PoolRef *pb)
{
    warmpool__v1__pool_ref__init(pb);
    pb->namespace_ = wp_wire_borrow_str(pool->pool_namespace);
    pb->name = wp_wire_borrow_str(pool->name);
}

enum wp_status
wp_wire_pool_copy(const Warmpool__V1__PoolRef *pb,
                  char pool_namespace[WP_NAMESPACE_MAX + 1],
                  char name[WP_POOL_NAME_MAX + 1], struct wp_err *err)
{
    enum wp_status status;

    pool_namespace[0] = '\0';
    name[0] = '\0';
    if (pb == NULL) {
        return WP_OK;
    }
    status = wp_wire_copy_text("pool.namespace", pb->namespace_, pool_namespace,
                               WP_NAMESPACE_MAX + 1, err);
    if (status != WP_OK) {
        return status;
    }
    return wp_wire_copy_text("pool.name", pb->name, name, WP_POOL_NAME_MAX + 1,
                             err);
}

enum wp_served
wp_wire_served_in(Warmpool__V1__Served served)
{
    int number = (int)served;

    return number >= WP_SERVED_WARM && number <= WP_SERVED_COLD
               ? (enum wp_served)number
               : (enum wp_served)0;
}

Warmpool__V1__Served
wp_wire_served_out(enum wp_served served)
{
    _Static_assert((int)WP_SERVED_WARM == WARMPOOL__V1__SERVED__SERVED_WARM &&
                       (int)WP_SERVED_QUEUED ==
                           WARMPOOL__V1__SERVED__SERVED_QUEUED &&
                       (int)WP_SERVED_COLD == WARMPOOL__V1__SERVED__SERVED_COLD,
                   "the core and the wire number this alike");
    return (Warmpool__V1__Served)served;
}
