/* proto/wire/descriptor.h - the services' description for server reflection.
 *
 * A serialised google.protobuf.FileDescriptorSet: repeated field 1, one
 * FileDescriptorProto per file (field 1 its name, field 2 its package), in an
 * order in which every file comes after those it imports. It holds
 * warmpool/v1/allocator.proto, grpc/health/v1/health.proto and
 * grpc/reflection/v1alpha/reflection.proto. Made by the build. */
#ifndef WP_PROTO_WIRE_DESCRIPTOR_H
#define WP_PROTO_WIRE_DESCRIPTOR_H

#include <stddef.h>
#include <stdint.h>

extern const uint8_t wp_descriptor_set[];
extern const size_t wp_descriptor_set_len;

#endif
