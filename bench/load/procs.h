/* bench/load/procs.h - what the system tells of a process, and of the machine. Any
 * thread. */
#ifndef WP_BENCH_LOAD_PROCS_H
#define WP_BENCH_LOAD_PROCS_H

#include <stddef.h>
#include <sys/types.h>

/* Resident memory of pid in bytes; 0 when it cannot be read. */
unsigned long long wp_proc_rss_bytes(pid_t pid);
/* Open descriptors of pid; -1 when it cannot be read: it is another user's. */
int wp_proc_descriptors(pid_t pid);

/* "AMD EPYC, 2 cores, Linux 6.1.0, load 0.12": what the figures depend on. */
void wp_proc_machine(char *out, size_t cap);

#endif
