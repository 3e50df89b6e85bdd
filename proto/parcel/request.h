/* proto/parcel/request.h - how a parcel is brought to a sandbox in a cluster.
 *
 * POST WP_BIND_PATH with the sandbox's token (proto/formats/sandbox_token.h);
 * WP_BIND_FIELD has the binding's fingerprint. The body is as many bytes of
 * trees as WP_BIND_TREES_FIELD says (proto/checkout/tree_frame.h; without that
 * field none), and then the parcel. WP_IDENTITY_FIELD may have its identity.
 *
 *   200   all of it is there; WP_BIND_FIELD has the fingerprint, the body says
 *         by name what was bound; WP_IDENTITY_FIELD is there with an identity
 *   409   it has another binding
 *   422   it took not all of this one, or a part of an earlier one only;
 *         {"error":"..."} says what not
 *
 * After 409 and 422 the sandbox is good for nobody. With other answers nothing
 * was tried. A sandbox takes one binding in its life: a second request with the
 * same fingerprint is answered as the first, and its identity counts.
 *
 * POST WP_IDENTITY_PATH with the sandbox's token replaces the identity by that
 * in WP_IDENTITY_FIELD: 200 with that field when it is there, 409 when nothing
 * is bound. */
#ifndef WP_PROTO_PARCEL_REQUEST_H
#define WP_PROTO_PARCEL_REQUEST_H

#define WP_BIND_PATH "/v1/bind"
#define WP_BIND_FIELD "X-Warmpool-Binding"
#define WP_BIND_TREES_FIELD "X-Warmpool-Trees"
#define WP_IDENTITY_PATH "/v1/identity"
#define WP_IDENTITY_FIELD "X-Warmpool-Identity"

enum {
    WP_BIND_FINGERPRINT_TEXT = 16, /* Lower-case hexadecimal digits. */
    WP_IDENTITY_TEXT_MAX = 4095,   /* Letters, digits, '-', '_' and '.'. */
};

#endif
