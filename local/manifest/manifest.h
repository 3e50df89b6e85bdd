/* local/manifest/manifest.h - reads SandboxTemplate and SandboxWarmPool
 * manifests, and the ConfigMaps and Secrets whose files they mount.
 *
 * The same YAML that a cluster takes (extensions.agents.x-k8s.io/v1beta1, many
 * documents in a file) becomes templates for the local backend and pool specs
 * for the core. Nothing is dropped in silence: a field is used, or noted as not
 * enforced on one machine, or refused with file, line, field path and what was
 * expected. Anchors and aliases are refused, and every count has a bound, so a
 * hostile file costs no more than its size. One thread at a time. */
#ifndef WP_LOCAL_MANIFEST_MANIFEST_H
#define WP_LOCAL_MANIFEST_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/status.h"
#include "pool/base/str.h"
#include "pool/pool.h"

enum {
    WP_MANIFEST_BYTES_MAX = 4 << 20, /* Of one file. */
    WP_MANIFEST_DOCUMENTS_MAX = 1024,
    WP_MANIFEST_TEMPLATES_MAX = 1024,
    WP_MANIFEST_OBJECTS_MAX = 1024, /* ConfigMaps and Secrets. */
    WP_TEMPLATE_ARGS_MAX = 256,
    WP_TEMPLATE_ENV_MAX = 256,
    WP_TEMPLATE_MOUNTS_MAX = 32,
    WP_TEMPLATE_FILES_MAX = 128, /* Of all its mounts. */
    WP_TEMPLATE_INITS_MAX = 16,
    WP_TEMPLATE_TEXT_MAX = 64 << 10, /* Of one argument or variable. */
};

enum wp_ready_probe {
    WP_READY_TCP,  /* The port takes a connection. */
    WP_READY_HTTP, /* GET probe_path answers 200 to 399. */
    WP_READY_EXEC, /* probe_argv ends with 0; then as WP_READY_TCP. */
};

enum wp_runtime_class {
    WP_RUNTIME_BWRAP,  /* No runtimeClassName. */
    WP_RUNTIME_GVISOR, /* runtimeClassName: gvisor. */
};

/* A file of a ConfigMap or a Secret. */
struct wp_template_file {
    const char *path; /* Below the mount, without a first slash. */
    struct wp_str bytes;
    uint32_t mode; /* 0 to 0777 */
};

enum wp_mount_kind {
    WP_MOUNT_EMPTY, /* An emptyDir. */
    WP_MOUNT_FILES, /* A directory with these files; read-only. */
    WP_MOUNT_FILE,  /* One of them, at path itself; read-only. */
    WP_MOUNT_NONE,  /* An optional file that is not there: nothing. */
};

/* A volume and where the container sees it. */
struct wp_template_mount {
    enum wp_mount_kind kind;
    const char *path;
    uint64_t size_bytes; /* 0: no sizeLimit given. */
    bool read_only;
    bool prepared; /* Init containers write there, whatever read_only says. */
    const struct wp_template_file *files;
    uint32_t files_len;
};

/* What runs to its end before the container does. */
struct wp_template_init {
    const char *name;
    const char *const *argv; /* As the template's. */
    const char *const *env;
    const char *working_dir;
};

/* What a sandbox is made from. All text belongs to the manifest. */
struct wp_template {
    char template_namespace[WP_NAMESPACE_MAX + 1];
    char name[WP_TEMPLATE_NAME_MAX + 1];
    const char *image;
    const char *const *argv;       /* command then args; ends with NULL. */
    const char *const *env;        /* "NAME=value"; ends with NULL. */
    const char *working_dir;       /* NULL: the backend's default. */
    const char *probe_path;        /* Of WP_READY_HTTP, starts with '/'. */
    const char *const *probe_argv; /* Of WP_READY_EXEC; ends with NULL. */
    uint32_t probe_timeout_s;      /* Of WP_READY_EXEC. */
    const struct wp_template_init *inits; /* In their order. */
    uint32_t inits_len;
    const struct wp_template_mount *mounts;
    uint32_t mounts_len;
    uint32_t cpu_milli;    /* 0: no limit. */
    uint64_t memory_bytes; /* 0: no limit. */
    uint16_t port;         /* The one that claims reach. */
    bool unbound;          /* Its annotation WP_TEMPLATE_BINDING_KEY says so. */
    enum wp_ready_probe probe;
    enum wp_runtime_class runtime_class;
};

/* Of all that a sandbox of it depends on, what a build gives it included. */
uint64_t wp_template_hash(const struct wp_template *tmpl);

struct wp_manifest; /* Owns everything read into it. */

/* NULL when memory lacks. */
struct wp_manifest *wp_manifest_create(void);
void wp_manifest_destroy(struct wp_manifest *manifest); /* NULL is fine. */
/* create_inflight_max of pools that are added later and do not say theirs; 0:
 * what wp_pool_spec_init has. */
void wp_manifest_set_inflight_max(struct wp_manifest *manifest, uint32_t n);

/* Adds all documents of a file (or of bytes that came from `name`). On failure
 * err says "name:line: Kind object: field.path: what was expected"; the
 * manifest is then only good for destroy. */
WP_MUST_CHECK enum wp_status wp_manifest_add_file(struct wp_manifest *manifest,
                                                  const char *path,
                                                  struct wp_err *err);
WP_MUST_CHECK enum wp_status wp_manifest_add_bytes(struct wp_manifest *manifest,
                                                   const char *name,
                                                   struct wp_str bytes,
                                                   struct wp_err *err);
/* After the last add: the templates get the files of the ConfigMaps and Secrets
 * that they mount. Templates are whole only then. */
WP_MUST_CHECK enum wp_status wp_manifest_resolve(struct wp_manifest *manifest,
                                                 struct wp_err *err);
/* The same, and every pool's template is there. */
WP_MUST_CHECK enum wp_status wp_manifest_check(struct wp_manifest *manifest,
                                               struct wp_err *err);
/* Adds what other has, which belongs to manifest from here on; both are
 * resolved. ALREADY_EXISTS: a pool of that name is there, or a template that
 * says something else; FAILED_PRECONDITION: a pool's template is in neither;
 * RESOURCE_EXHAUSTED: there are too many. Then nothing was added, and other is
 * the caller's. */
WP_MUST_CHECK enum wp_status wp_manifest_join(struct wp_manifest *manifest,
                                              struct wp_manifest *other,
                                              struct wp_err *err);

/* Borrowed until the next add or destroy. Text inside lives until destroy. */
size_t wp_manifest_templates(const struct wp_manifest *manifest,
                             const struct wp_template **out);
size_t wp_manifest_pools(const struct wp_manifest *manifest,
                         const struct wp_pool_spec **out);
/* Sentences on what was read but is not enforced on one machine, each once; for
 * the log. NULL at index >= count. */
size_t wp_manifest_notes_count(const struct wp_manifest *manifest);
const char *wp_manifest_note(const struct wp_manifest *manifest, size_t index);

#endif
