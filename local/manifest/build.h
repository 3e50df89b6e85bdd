/* local/manifest/build.h - a wp_template while its manifest is being read. */
#ifndef WP_LOCAL_MANIFEST_BUILD_H
#define WP_LOCAL_MANIFEST_BUILD_H

#include "local/manifest/manifest_impl.h"

enum {
    WP_BUILD_PORTS_MAX = 32,
    WP_BUILD_VOLUMES_MAX = WP_TEMPLATE_MOUNTS_MAX,
    WP_BUILD_IMAGE_MAX = 255,
    WP_BUILD_PATH_MAX_BYTES = 255,
};

struct wp_build_port {
    const char *name; /* "" when it has none. */
    uint16_t number;
};

struct wp_build_volume {
    const char *name;
    uint64_t size_bytes;
    bool mounted;
};

/* What is collected before it can be put together. */
struct wp_build {
    struct wp_template *tmpl;
    const char **args;
    uint32_t args_len;
    const char **command;
    uint32_t command_len;
    const char **env;
    uint32_t env_len;
    struct wp_build_port ports[WP_BUILD_PORTS_MAX];
    uint32_t ports_len;
    struct wp_build_volume volumes[WP_BUILD_VOLUMES_MAX];
    uint32_t volumes_len;
    struct wp_template_mount *mounts;
    const char *mount_volumes[WP_TEMPLATE_MOUNTS_MAX];
    const struct wp_yaml *mount_nodes[WP_TEMPLATE_MOUNTS_MAX];
    const struct wp_yaml *probe_port; /* Not yet looked up. */
    bool has_container;
};

/* At least 4 KiB, as a Kubernetes quantity. */
WP_MUST_CHECK bool wp_build_size(struct wp_decode *d,
                                 const struct wp_yaml *node, uint64_t *out);

/* Readers of fields, for tables; out is a struct wp_build. */
bool wp_build_container_security(struct wp_decode *d,
                                 const struct wp_yaml *node, void *out);
bool wp_build_pod_security(struct wp_decode *d, const struct wp_yaml *node,
                           void *out);
bool wp_build_volumes(struct wp_decode *d, const struct wp_yaml *node,
                      void *out);
bool wp_build_volume_mounts(struct wp_decode *d, const struct wp_yaml *node,
                            void *out);
bool wp_build_ports(struct wp_decode *d, const struct wp_yaml *node, void *out);
bool wp_build_readiness_probe(struct wp_decode *d, const struct wp_yaml *node,
                              void *out);
bool wp_build_resources(struct wp_decode *d, const struct wp_yaml *node,
                        void *out);
bool wp_build_container(struct wp_decode *d, const struct wp_yaml *node,
                        void *out);

/* When all fields are read: what refers to something else is looked up. */
WP_MUST_CHECK bool wp_build_resolve_port(struct wp_decode *d,
                                         const struct wp_yaml *spec,
                                         struct wp_build *b);
WP_MUST_CHECK bool wp_build_resolve_mounts(struct wp_decode *d,
                                           struct wp_build *b);
WP_MUST_CHECK bool wp_build_resolve_argv(struct wp_decode *d,
                                         const struct wp_yaml *spec,
                                         struct wp_build *b);

#endif
