#include "local/walls/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/base/compiler.h"

/* The kernel's contract, written out since the build machine's headers may be
 * older than the kernel that runs. */
enum {
    CREATE_VERSION = 1,
    RULE_PATH_BENEATH = 1,
};

#define FS_EXECUTE (UINT64_C(1) << 0)
#define FS_WRITE_FILE (UINT64_C(1) << 1)
#define FS_READ_FILE (UINT64_C(1) << 2)
#define FS_READ_DIR (UINT64_C(1) << 3)
#define FS_READ (FS_EXECUTE | FS_READ_FILE | FS_READ_DIR)
#define FS_ALL_V1 ((UINT64_C(1) << 13) - 1)
#define FS_REFER (UINT64_C(1) << 13)
#define FS_TRUNCATE (UINT64_C(1) << 14)
#define FS_IOCTL_DEV (UINT64_C(1) << 15)
/* What may stand on a rule for something that is no folder. */
#define FS_OF_FILES                                                            \
    (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV)
#define SCOPE_ALL UINT64_C(3) /* Abstract Unix sockets, signals. */

struct ruleset_attr {
    uint64_t handled_fs;
    uint64_t handled_net;
    uint64_t scoped;
};

struct path_attr {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

int
wp_landlock_abi(void)
{
    long abi =
        syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, CREATE_VERSION);

    return abi > 0 ? (int)abi : 0;
}

static uint64_t
handled_fs(int abi)
{
    uint64_t bits = FS_ALL_V1;

    bits |= abi >= 2 ? FS_REFER : 0;
    bits |= abi >= 3 ? FS_TRUNCATE : 0;
    bits |= abi >= 5 ? FS_IOCTL_DEV : 0;
    return bits;
}

static int
allow(int ruleset, const char *path, uint64_t bits)
{
    struct path_attr attr = {.allowed = bits};
    struct stat st;
    int saved;
    long rc;

    attr.parent_fd = open(path, O_PATH | O_CLOEXEC);
    if (attr.parent_fd < 0) {
        return errno == ENOENT ? 0 : -1;
    }
    if (fstat(attr.parent_fd, &st) == 0 && !S_ISDIR(st.st_mode)) {
        attr.allowed &= FS_OF_FILES;
    }
    rc = syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &attr, 0);
    saved = errno;
    (void)close(attr.parent_fd);
    errno = saved;
    return rc == 0 ? 0 : -1;
}

/* The same for each of them. */
static int
allow_all(int ruleset, const char *const *paths, size_t len, uint64_t bits)
{
    int rc = 0;

    for (size_t i = 0; i < len && rc == 0; i++) {
        rc = allow(ruleset, paths[i], bits);
    }
    return rc;
}

/* A ruleset that handles all that this kernel can; -1 with errno. */
static int
open_ruleset(int abi)
{
    struct ruleset_attr attr = {.handled_fs = handled_fs(abi)};
    size_t attr_len = abi >= 6   ? sizeof attr
                      : abi >= 4 ? 2 * sizeof(uint64_t)
                                 : sizeof(uint64_t);

    attr.scoped = abi >= 6 ? SCOPE_ALL : 0;
    return (int)syscall(SYS_landlock_create_ruleset, &attr, attr_len, 0);
}

/* Closes it. ok: it has all of its rules; else errno says why not. */
static int
enter(int ruleset, bool ok)
{
    int saved;

    ok = ok && syscall(SYS_landlock_restrict_self, ruleset, (uint32_t)0) == 0;
    saved = errno;
    (void)close(ruleset);
    errno = saved;
    return ok ? 0 : -1;
}

int
wp_landlock_confine(const char *const *writable, size_t writable_len)
{
    int abi = wp_landlock_abi();
    uint64_t all = handled_fs(abi);
    uint64_t devices = all & (FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV);
    int ruleset;
    bool ok;

    if (abi == 0) {
        return 0;
    }
    ruleset = open_ruleset(abi);
    if (ruleset < 0) {
        return -1;
    }
    /* Devices are the few that bubblewrap made; /proc guards itself. */
    ok = allow(ruleset, "/", FS_READ) == 0 &&
         allow(ruleset, "/dev", devices) == 0 &&
         allow(ruleset, "/dev/shm", all) == 0 &&
         allow(ruleset, "/proc", all & (FS_WRITE_FILE | FS_TRUNCATE)) == 0 &&
         allow_all(ruleset, writable, writable_len, all) == 0;
    return enter(ruleset, ok);
}

int
wp_landlock_confine_to(const char *const *readable, size_t readable_len,
                       const char *const *writable, size_t writable_len)
{
    int abi = wp_landlock_abi();
    int ruleset;
    bool ok;

    if (abi == 0) {
        errno = ENOSYS;
        return -1;
    }
    ruleset = open_ruleset(abi);
    if (ruleset < 0) {
        return -1;
    }
    ok = allow_all(ruleset, readable, readable_len, FS_READ) == 0 &&
         allow_all(ruleset, writable, writable_len, handled_fs(abi)) == 0;
    return enter(ruleset, ok);
}
