/* runtime/server/bind.h - the request that brings what a claim has for its
 * sandbox (proto/parcel/request.h). Loop thread only. */
#ifndef WP_RUNTIME_SERVER_BIND_H
#define WP_RUNTIME_SERVER_BIND_H

#include "proto/parcel/request.h"
#include "runtime/runtime.h"

extern const struct wp_http_ops wp_bind_ops;

/* What an earlier process of this sandbox was brought is found again. Before
 * the loop runs, with the options read. */
void wp_runtime_bind_init(struct wp_runtime *runtime);

#endif
