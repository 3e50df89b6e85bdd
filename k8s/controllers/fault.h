/* k8s/controllers/fault.h - lets a test end the daemon at a named step. Any
 * thread.
 *
 * WARMPOOL_FAULT="claim.before_adopt:kill" kills the process with SIGKILL when
 * it comes to that step, "claim.before_adopt:kill:3" when it does so for the
 * third time; "stop" instead of "kill" sends SIGSTOP. Several are separated by
 * commas. It is read once, at the first step; without it a step costs one load.
 */
#ifndef WP_K8S_CONTROLLERS_FAULT_H
#define WP_K8S_CONTROLLERS_FAULT_H

/* The process is at this step. name is a literal. Nothing in a release: only a
 * build with WP_TEST_TOOLS has fault.c. */
#ifdef WP_TEST_TOOLS
void wp_fault(const char *name);
#else
static inline void
wp_fault(const char *name)
{
    (void)name;
}
#endif

#endif
