/* local/manifest/manifest_impl.h - what the files of the manifest reader share.
 * */
#ifndef WP_LOCAL_MANIFEST_MANIFEST_IMPL_H
#define WP_LOCAL_MANIFEST_MANIFEST_IMPL_H

#include <stdbool.h>
#include <stddef.h>

#include "local/manifest/decode.h"
#include "local/manifest/files.h"
#include "local/manifest/manifest.h"
#include "local/manifest/program.h"

/* What is to be resolved. */
struct wp_manifest_waits {
    struct wp_file_mount *file_mounts; /* Until they have their files. */
    struct wp_program *programs;       /* Until they have their variables. */
};

struct wp_manifest {
    struct wp_region region;
    struct wp_template *templates;
    size_t templates_len;
    struct wp_pool_spec *pools;
    size_t pools_len;
    uint32_t inflight_max; /* Of a pool that does not say; 0: the usual. */
    /* Where each pool came from, for wp_manifest_check: "file:line". */
    const char **pool_places;
    struct wp_config_object *objects; /* The last one first. */
    uint32_t objects_len;
    struct wp_manifest_waits waits;
    struct wp_notes notes;
    struct wp_manifest
        *joined; /* Owned: those whose text is used here; NULL. */
};

/* metadata, the same in every kind. */
struct wp_object_meta {
    const char *name;
    const char *object_namespace;
    const struct wp_yaml *annotations; /* NULL when there are none. */
};

/* spec of a SandboxTemplate into tmpl, whose names are set; what waits for
 * other objects is added to waits. */
WP_MUST_CHECK bool wp_manifest_template(struct wp_decode *d,
                                        const struct wp_yaml *spec,
                                        struct wp_template *tmpl,
                                        struct wp_manifest_waits *waits);
/* spec and annotations of a SandboxWarmPool into pool, whose names are set. */
WP_MUST_CHECK bool wp_manifest_pool(struct wp_decode *d,
                                    const struct wp_yaml *spec,
                                    const struct wp_object_meta *meta,
                                    struct wp_pool_spec *pool);

#endif
