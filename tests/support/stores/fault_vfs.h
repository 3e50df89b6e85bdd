/* tests/support/stores/fault_vfs.h - a file system for SQLite that fails on demand, and
 * remembers what a power loss would leave.
 *
 * Lies over the real one. After install every file of every connection opened
 * goes through it. */
#ifndef WP_TESTS_SUPPORT_STORES_FAULT_VFS_H
#define WP_TESTS_SUPPORT_STORES_FAULT_VFS_H

#include <stdbool.h>

enum fault_kind {
    FAULT_WRITE = 1,
    FAULT_SYNC = 2,
};

/* Makes it the default. Once. */
void fault_vfs_install(void);

/* From now on the call number `after` (from 0) among those of these kinds fails
 * with this SQLite code; all later ones too when sticky. A write that fails has
 * written the first half of its bytes when torn. Any thread, as disarm. */
void fault_vfs_arm(unsigned kinds, int after, int code, bool sticky, bool torn);
/* Nothing fails any more; true when something had. */
bool fault_vfs_disarm(void);

/* From now on files grow by at most this many bytes together, then their writes
 * fail as on a full disk; what a truncation frees may be used again. Less than
 * 0: as much as the disk has. Any thread. */
void fault_vfs_room(long long bytes);

/* Begins to keep, in directory to, each file of directory from as it was when
 * it was last synced: what is there after a power loss that spares nothing
 * unsynced. Each is replaced at once, under a name with a dot at its front.
 * While no connection is open. */
void fault_vfs_shadow(const char *from, const char *to);

#endif
