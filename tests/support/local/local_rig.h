/* tests/support/local/local_rig.h - a local backend under test, and what it reported. */
#ifndef WP_TESTS_SUPPORT_LOCAL_LOCAL_RIG_H
#define WP_TESTS_SUPPORT_LOCAL_LOCAL_RIG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "local/sandbox/backend_local.h"

enum {
    LOCAL_RIG_SLOTS = 64,
    /* A generous limit: the machine may be busy. */
    PATIENCE_MS = 120000
};

struct local_rig_slot {
    int ready;
    int lost;
    int destroyed;
    char endpoint[WP_ENDPOINT_MAX + 1];
    char reason[WP_REASON_MAX + 1];
};

struct local_rig {
    char dir[64]; /* A new directory of its own; the state is in dir/s. */
    char state_dir[80];
    struct wp_local_config config;
    struct wp_template tmpl;
    struct wp_local *local;
    struct wp_local_sweep sweep;
    struct wp_backend backend;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct local_rig_slot slots[LOCAL_RIG_SLOTS];
    /* Of wp_local_events, with the rig as ctx; NULL, the default: all swept. */
    bool (*adopt)(void *ctx, const struct wp_local_found *found,
                  struct wp_slot_ref *ref);
    atomic_uint used; /* Calls of on_used, and the last ttl_ns. */
    _Atomic(int64_t) used_ttl_ns;
};

/* First in main: errors alone are logged, and an only argument says which tests
 * run. False, with the reason told: this machine cannot make sandboxes, exit
 * with 77. What it can do is in host, which may be NULL. */
bool local_rig_begin(int argc, char **argv, struct wp_host_report *host);

/* Fills config and a template that runs argv and listens on port 8080. */
void local_rig_init(struct local_rig *rig, const char *const *argv);
/* The same for warmpool-runtime, which is ready once it says it is healthy. */
void local_rig_init_runtime(struct local_rig *rig);
/* Creates and starts; fails the test with the backend's words otherwise. */
void local_rig_start(struct local_rig *rig);
/* And makes sandbox 0, which must become ready. */
void local_rig_start_one(struct local_rig *rig);
/* Stops, checks that nothing is left, removes the directory. */
void local_rig_fini(struct local_rig *rig);

void local_rig_create(struct local_rig *rig, uint32_t index,
                      int64_t ready_within_ms);
void local_rig_destroy(struct local_rig *rig, uint32_t index);

enum local_rig_report {
    RIG_READY,
    RIG_LOST,
    RIG_DESTROYED,
    RIG_READY_OR_LOST,
};
/* Fails the test when it does not come in time. */
void local_rig_wait(struct local_rig *rig, uint32_t index,
                    enum local_rig_report what, int64_t timeout_ms);

/* The recorded processes of sandbox index. */
void local_rig_pids(struct local_rig *rig, uint32_t index, int *outer,
                    int *inner);
void local_rig_name(uint32_t index, char out[16]);
/* Is anything of sandbox index below the state directory? */
bool local_rig_has_dir(const struct local_rig *rig, uint32_t index);
bool local_rig_alive(int pid);
/* Waits until pid is gone. */
void local_rig_wait_gone(int pid, int64_t timeout_ms);

/* The same, without waiting for the answer: the connection. */
int local_rig_send(struct local_rig *rig, uint32_t index, const char *request);
/* All that comes until the end, into out; closes fd. */
size_t local_rig_receive(int fd, char *out, size_t cap);

/* Runs a shell command inside, through the runtime's REST API on the sandbox's
 * endpoint; its standard output in out. The exit code. */
int local_rig_execute(struct local_rig *rig, uint32_t index,
                      const char *command, char *out, size_t cap);
/* Fails the test unless the command's first line in sandbox 0 is this. */
void local_rig_check_inside(struct local_rig *rig, const char *command,
                            const char *expected);
/* The whole answer to a request on the sandbox's socket; its length. */
size_t local_rig_request(struct local_rig *rig, uint32_t index,
                         const char *request, char *out, size_t cap);

/* How many processes have the text among their arguments. */
int local_rig_count_processes(const char *text);
/* Does a process hold a descriptor of the file? */
bool local_rig_holds(int pid, const struct stat *file);
/* The process that the kernel says has an flock of the file; 0: none. */
int local_rig_lock_holder(const struct stat *file);

#endif
