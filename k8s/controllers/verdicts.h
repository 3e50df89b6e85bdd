/* k8s/controllers/verdicts.h - what the API server says of the Pods of each
 * SandboxTemplate.
 *
 * The CRDs have no schema of a Pod, so a mistake in a template shows first when
 * a Pod is made. The template controller asks before that; those who make
 * sandboxes, or wait for them, tell people what it found. Nothing is refused
 * here: a verdict may be older than the cluster's rules. Loop thread only. */
#ifndef WP_K8S_CONTROLLERS_VERDICTS_H
#define WP_K8S_CONTROLLERS_VERDICTS_H

#include <stdbool.h>

#include "k8s/objects/object.h"

struct wp_verdicts; /* Opaque. */

enum {
    WP_VERDICT_WORDS_MAX = 768, /* Bytes; longer ones are cut. */
    WP_VERDICT_LISTENERS_MAX = 4,
};

/* NULL when memory lacks. */
struct wp_verdicts *wp_verdicts_create(void);
void wp_verdicts_destroy(struct wp_verdicts *verdicts); /* NULL is fine. */

/* What was found for this generation of the template; words: why no Pod of it
 * can start; NULL: nothing is known against it. True when that differs from
 * what was known of the template before; of one that nothing was known of, when
 * there are words. Listeners have been called then. */
bool wp_verdicts_set(struct wp_verdicts *verdicts,
                     const struct wp_object *template_, const char *words);
/* Was anything found for this generation of it? */
bool wp_verdicts_have(const struct wp_verdicts *verdicts,
                      const struct wp_object *template_);
/* The words that were found last, if only for an earlier generation: until the
 * next answer nothing else is known. NULL: nothing is known against it; also
 * when verdicts is NULL. Borrowed until the next wp_verdicts_set or _forget. */
const char *wp_verdicts_refusal(const struct wp_verdicts *verdicts,
                                const struct wp_object *template_);
/* The template is gone, or what was known of it does not count any more. As
 * after a change listeners are called when there were words. */
void wp_verdicts_forget(struct wp_verdicts *verdicts,
                        const struct wp_object *template_);
/* Calls changed(ctx, template) after each change; for as long as verdicts
 * lives. */
void wp_verdicts_listen(struct wp_verdicts *verdicts,
                        void (*changed)(void *ctx,
                                        const struct wp_object *template_),
                        void *ctx);

#endif
