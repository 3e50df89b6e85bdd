/* allocator/stores/sqlite/log_vfs.h - the system as SQLite sees it, but that a
 * transaction enters the log in one piece.
 *
 * SQLite writes each page of a transaction by two system calls, one of them for
 * 24 bytes. Here they are gathered, since they follow each other, and written
 * once the page is there that makes the transaction count, or before anything
 * else is done to the log. So a commit that fails has failed in its last write,
 * as without it, and a process that is killed has lost a transaction that was
 * not committed. */
#ifndef WP_ALLOCATOR_STORES_SQLITE_LOG_VFS_H
#define WP_ALLOCATOR_STORES_SQLITE_LOG_VFS_H

/* Its name, for sqlite3_open_v2; NULL when memory lacks. The first call makes
 * it, over what is the default then. Main thread. */
const char *wp_lease_log_vfs(void);

#endif
