/* bench/load/procs.h - servers as child processes, and where threads run.
 *
 * Waking a thread on another, idle core costs some 30 us on a virtual machine,
 * more than anything measured here; so every comparison says where both sides
 * run. One thread. */
#ifndef WP_BENCH_LOAD_PROCS_H
#define WP_BENCH_LOAD_PROCS_H

#include <stdbool.h>
#include <sys/types.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"

enum {
    WP_PROC_ANY_CORE = -1
};

struct wp_proc {
    pid_t pid;             /* 0: none. */
    char unix_target[128]; /* "unix:/path" */
    char tcp_target[64];   /* "127.0.0.1:port" */
};

/* Starts argv (ended by NULL) as a child that dies with its parent, and waits
 * until it prints "ready"; a line "tcp ADDRESS" before it tells the address. */
WP_MUST_CHECK enum wp_status wp_proc_start(struct wp_proc *proc,
                                           const char *const *argv,
                                           const char *unix_path,
                                           struct wp_err *err);
/* SIGTERM, then SIGKILL after 5 s. Harmless when there is none. True when it
 * ended by itself with status 0. */
bool wp_proc_stop(struct wp_proc *proc);

/* Lets all threads of pid (0: of this process) run on that core only, or on any
 * (WP_PROC_ANY_CORE). False when the system refuses. */
bool wp_proc_pin(pid_t pid, int core);
int wp_proc_cores(void);

/* Resident memory of pid in bytes; 0 when it cannot be read. */
unsigned long long wp_proc_rss_bytes(pid_t pid);

/* "AMD EPYC, 2 cores, Linux 6.1.0, load 0.12": what the figures depend on. */
void wp_proc_machine(char *out, size_t cap);

#endif
