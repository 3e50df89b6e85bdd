/* pool/base/mutant.h - places where a test breaks the product on purpose.
 *
 * The simulation (tests/sim) proves its worth by classic bugs that it must
 * catch. WP_MUTANT(NAME) is false, and costs nothing, but in the copy of the
 * library that is built for that test with WP_MUTANTS: there it is true while
 * the test has chosen that name. */
#ifndef WP_BASE_MUTANT_H
#define WP_BASE_MUTANT_H

#include <stdbool.h>

#ifdef WP_MUTANTS
/* Defined by the test; any thread. */
bool wp_mutant_is(const char *name);
#define WP_MUTANT(name) wp_mutant_is(#name)
#else
#define WP_MUTANT(name) false
#endif

#endif
