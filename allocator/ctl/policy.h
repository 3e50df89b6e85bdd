/* allocator/ctl/policy.h - a pool's scaling policy as it is shown. */
#ifndef WP_ALLOCATOR_CTL_POLICY_H
#define WP_ALLOCATOR_CTL_POLICY_H

#include <jansson.h>
#include <stdio.h>

#include "proto/wire/wire.h"

/* {"objective": "99.9%"}; a new reference. */
json_t *wp_ctl_policy_json(const struct wp_wire_pool_detail *detail);
/* A line for each key; their common title is padded to width. */
void wp_ctl_print_policy(FILE *out, int width,
                         const struct wp_wire_pool_detail *detail);
/* The latest decision in sentences (explain_words.c): what is kept and why,
 * what holds it back, what may be expected, what was seen. There must be one.
 */
void wp_ctl_explain_words(FILE *out, const struct wp_wire_pool_detail *detail);

#endif
