/* tests/support/base/call_counts.h - how often our code allocated, locked, or entered
 * the kernel.
 *
 * The linker sends every call that statically linked code makes to malloc and
 * its kin, to the locks of pthread, and to read, write and mmap through a
 * counter: build the test with wp_count_calls(TARGET) of
 * tests/unit/pool/core/core_claim_path.cmake. Calls within shared libraries are not seen.
 * Any thread. */
#ifndef WP_TESTS_SUPPORT_BASE_CALL_COUNTS_H
#define WP_TESTS_SUPPORT_BASE_CALL_COUNTS_H

#include <stdint.h>

void wp_call_counts_reset(void);
uint64_t wp_call_counts_allocations(void); /* Frees and mappings included. */
uint64_t wp_call_counts_locks(void);
uint64_t wp_call_counts_kernel(void);

#endif
