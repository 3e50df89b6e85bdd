/* pool/annotations/annotations.h - what the annotations of a SandboxWarmPool
 * mean, in a cluster as on one machine.
 *
 * Those of the group pool.warmpool.io/ go by the table in annotations.c, those
 * of autoscale.warmpool.io/ are the scaling policy (pool/policy). A group that
 * is one of the two but for a few letters is a mistake. Other groups are not
 * ours. deploy/man/warmpoold.8.md lists them. Pure but
 * for the zone files that a policy reads. */
#ifndef WP_POOL_ANNOTATIONS_ANNOTATIONS_H
#define WP_POOL_ANNOTATIONS_ANNOTATIONS_H

#include "pool/pool.h"

#define WP_POOL_ANNOTATIONS "pool.warmpool.io/"

/* Is key of one of the two groups, or of one that is meant to be? */
WP_MUST_CHECK bool wp_pool_annotation_is_ours(struct wp_str key);
/* Sets what the annotation says; one that is not ours changes nothing.
 * INVALID_ARGUMENT: err names the annotation and what was expected; spec is as
 * it was. */
WP_MUST_CHECK enum wp_status wp_pool_annotation_set(struct wp_pool_spec *spec,
                                                    struct wp_str key,
                                                    struct wp_str value,
                                                    struct wp_err *err);
/* After the last one: do they agree with each other? tenant_waiters_max is cut
 * to waiters_max. INVALID_ARGUMENT: err names the annotation. */
WP_MUST_CHECK enum wp_status
wp_pool_annotations_check(struct wp_pool_spec *spec, struct wp_err *err);
/* Takes from held all that annotations can say. */
void wp_pool_annotations_keep(struct wp_pool_spec *spec,
                              const struct wp_pool_spec *held);

#endif
