/* tests/support/k8s/sandbox_journal.h - what a controller on the rig calls,
 * learns and says to its queue goes into the journal. */
#ifndef WP_TESTS_SUPPORT_K8S_SANDBOX_JOURNAL_H
#define WP_TESTS_SUPPORT_K8S_SANDBOX_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

/* What comes before this call (from 1) is left out; 0: nothing is. */
void sandbox_journal_from(uint32_t call);
/* With the bodies of what is written, from now on. */
void sandbox_journal_bodies(bool on);

#endif
