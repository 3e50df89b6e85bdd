/* local/manifest/build.h - a wp_template while its manifest is being read. */
#ifndef WP_LOCAL_MANIFEST_BUILD_H
#define WP_LOCAL_MANIFEST_BUILD_H

#include "local/manifest/files.h"
#include "local/manifest/manifest_impl.h"
#include "local/manifest/program.h"

enum {
    WP_BUILD_PORTS_MAX = 32,
    WP_BUILD_VOLUMES_MAX = WP_TEMPLATE_MOUNTS_MAX,
    WP_BUILD_MOUNTS_MAX = 2 * WP_TEMPLATE_MOUNTS_MAX,
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
    bool empty;                      /* emptyDir. */
    struct wp_volume_source *source; /* Of files; NULL: of none. */
};

/* What a container runs. */
struct wp_build_program {
    const struct wp_yaml *node;
    const char *name;
    const char *image;
    const char **command;
    uint32_t command_len;
    const char **args;
    uint32_t args_len;
    struct wp_variable *variables;
    uint32_t variables_len;
    const char **env; /* Room for these, and NULL. */
    const char *working_dir;
};

/* A mount as a container says it. */
struct wp_build_mount {
    const struct wp_yaml *node;
    const struct wp_build_program *of;
    const char *volume;
    const char *path;
    const char *sub_path; /* NULL: the whole volume. */
    const char *place;    /* For mistakes that show later. */
    bool read_only;
};

/* What is collected before it can be put together. */
struct wp_build {
    struct wp_template *tmpl;
    struct wp_build_program container;
    struct wp_build_program inits[WP_TEMPLATE_INITS_MAX];
    uint32_t inits_len;
    struct wp_build_program *program; /* The one that is being read. */
    struct wp_build_port ports[WP_BUILD_PORTS_MAX];
    uint32_t ports_len;
    struct wp_build_volume volumes[WP_BUILD_VOLUMES_MAX];
    uint32_t volumes_len;
    struct wp_build_mount mounts[WP_BUILD_MOUNTS_MAX];
    uint32_t mounts_len;
    struct wp_file_mount *file_mounts; /* The template's, the last one first. */
    struct wp_program *programs;       /* The same. */
    const struct wp_yaml *metadata;    /* Of the Pod; NULL: none. */
    const struct wp_yaml *probe_port;  /* Not yet looked up. */
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
bool wp_build_init_containers(struct wp_decode *d, const struct wp_yaml *node,
                              void *out);
/* Of what a container runs, into b->program. */
bool wp_build_image(struct wp_decode *d, const struct wp_yaml *node, void *out);
bool wp_build_command(struct wp_decode *d, const struct wp_yaml *node,
                      void *out);
bool wp_build_args(struct wp_decode *d, const struct wp_yaml *node, void *out);
bool wp_build_env(struct wp_decode *d, const struct wp_yaml *node, void *out);
bool wp_build_working_dir(struct wp_decode *d, const struct wp_yaml *node,
                          void *out);
/* A list of texts, which ends with NULL. */
WP_MUST_CHECK bool wp_build_texts(struct wp_decode *d,
                                  const struct wp_yaml *node,
                                  const char ***texts, uint32_t *len);

/* When all fields are read: what refers to something else is looked up. */
WP_MUST_CHECK bool wp_build_resolve_port(struct wp_decode *d,
                                         const struct wp_yaml *spec,
                                         struct wp_build *b);
WP_MUST_CHECK bool wp_build_resolve_mounts(struct wp_decode *d,
                                           const struct wp_yaml *spec,
                                           struct wp_build *b);
/* Adds what was read of a container to b->programs, with its argv. where names
 * the container in messages. */
WP_MUST_CHECK bool wp_build_end_program(struct wp_decode *d, struct wp_build *b,
                                        const struct wp_yaml *node,
                                        const struct wp_build_program *from,
                                        const char *where);
WP_MUST_CHECK bool wp_build_resolve_inits(struct wp_decode *d,
                                          const struct wp_yaml *spec,
                                          struct wp_build *b);

#endif
