/* local/manifest/program.h - what a container runs, and the variables that come
 * from elsewhere.
 *
 * A template may come before the ConfigMap or Secret that a variable names, and
 * values and arguments may name variables before them. So a program's variables
 * and arguments are made when all manifests are read. */
#ifndef WP_LOCAL_MANIFEST_PROGRAM_H
#define WP_LOCAL_MANIFEST_PROGRAM_H

#include "local/manifest/config_object.h"
#include "local/manifest/manifest.h"

enum wp_variable_from {
    WP_VARIABLE_VALUE, /* value, in which $(NAME) is replaced. */
    WP_VARIABLE_FIELD, /* value, as it stands. */
    WP_VARIABLE_CONFIG_MAP,
    WP_VARIABLE_SECRET,
    WP_VARIABLE_LIMIT, /* key: limits.cpu or limits.memory of the template. */
};

struct wp_variable {
    const char *name;
    enum wp_variable_from from;
    const char *value;
    const char *object; /* The ConfigMap's or Secret's name. */
    const char *key;
    uint64_t divisor;  /* Of a limit: thousandths of a processor, or bytes. */
    bool optional;     /* Without the object or its key there is none. */
    const char *place; /* "file:line: SandboxTemplate name: field: " */
};

/* A program that waits for its variables. In the manifest's region. */
struct wp_program {
    struct wp_program *next;
    const struct wp_template *tmpl;
    const struct wp_variable *variables;
    uint32_t variables_len;
    const char **env;  /* Room for as many, and NULL. */
    const char **argv; /* As the template says them; ends with NULL. */
    const char *place;
};

/* Fills env and argv of every program of the list; objects are all there are. A
 * command line is for all to see, so an argument that names a Secret's variable
 * is refused. */
WP_MUST_CHECK enum wp_status
wp_programs_resolve(struct wp_program *programs,
                    const struct wp_config_object *objects,
                    struct wp_region *region, struct wp_err *err);

#endif
