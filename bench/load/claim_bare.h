/* bench/load/claim_bare.h - the least that can make a SandboxClaim Ready.
 *
 * In the place of a controller: for each claim the writes that a client waits
 * for, and nothing else. It decides nothing, and checks nothing but that they
 * were done. */
#ifndef WP_BENCH_LOAD_CLAIM_BARE_H
#define WP_BENCH_LOAD_CLAIM_BARE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct wp_api;
struct wp_bare; /* Opaque. */

/* Both are borrowed until destroy. NULL when memory lacks. */
struct wp_bare *wp_bare_create(struct wp_api *api, const char *ns);
void wp_bare_destroy(struct wp_bare *bare); /* NULL is fine. */
/* Sandboxes to hand out, from the answer of a list; it is kept. */
void wp_bare_stock(struct wp_bare *bare, json_t *list);
/* Hands the next one to a claim that has just come. False: none is left. A
 * write that fails is told on stderr, and its claim never becomes Ready. */
bool wp_bare_serve(struct wp_bare *bare, const json_t *claim);

#endif
