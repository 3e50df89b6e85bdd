/* proto/parcel/request.h - how a parcel is brought to a sandbox in a cluster.
 *
 * POST WP_BIND_PATH with the sandbox's token (proto/formats/sandbox_token.h);
 * WP_BIND_FIELD has the binding's fingerprint. The body is as many bytes of
 * trees as WP_BIND_TREES_FIELD says (proto/checkout/tree_frame.h; without that
 * field none), and then the parcel.
 *
 *   200   all of it is there; WP_BIND_FIELD has the fingerprint, the body says
 *         by name what was bound
 *   409   it has another binding
 *   422   it took not all of this one, or a part of an earlier one only;
 *         {"error":"..."} says what not
 *
 * After 409 and 422 the sandbox is good for nobody. With other answers nothing
 * was tried. A sandbox takes one binding in its life: a second request with the
 * same fingerprint is answered as the first. */
#ifndef WP_PROTO_PARCEL_REQUEST_H
#define WP_PROTO_PARCEL_REQUEST_H

#define WP_BIND_PATH "/v1/bind"
#define WP_BIND_FIELD "X-Warmpool-Binding"
#define WP_BIND_TREES_FIELD "X-Warmpool-Trees"

enum {
    WP_BIND_FINGERPRINT_TEXT = 16, /* Lower-case hexadecimal digits. */
};

#endif
