/* runtime/exec/bound.h - what the claim that has this sandbox brought for its
 * commands.
 *
 * It comes while this program runs, so it is looked for before each command
 * until it is there: in the folder that WARMPOOL_BOUND_DIR names, where
 * warmpool-init or this program has put it (proto/parcel/bind.h). Loop thread
 * only. */
#ifndef WP_RUNTIME_EXEC_BOUND_H
#define WP_RUNTIME_EXEC_BOUND_H

/* Has each command that starts from here on find the variables: they become
 * this process's own. */
void wp_bound_look(void);
/* Where commands run that name no folder: a descriptor, borrowed, or fallback
 * when nothing else was brought. */
int wp_bound_folder(int fallback);

#endif
