#include "runtime/server/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/base/os_error.h"

/* Rights that Debian 12's kernel headers may not name yet. */
#define ACCESS_REFER (UINT64_C(1) << 13)    /* Since Landlock 2. */
#define ACCESS_TRUNCATE (UINT64_C(1) << 14) /* Since Landlock 3. */
#define ACCESS_V1 ((UINT64_C(1) << 13) - 1)

#define ACCESS_READ                                                            \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |               \
     LANDLOCK_ACCESS_FS_READ_DIR)

/* What may stand on a rule for something that is no folder. */
#define ACCESS_FILE                                                            \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |               \
     LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_TRUNCATE)

/* A path that is not there needs no rule. */
static int
allow(int rules, const char *path, uint64_t access)
{
    struct landlock_path_beneath_attr attr = {.allowed_access = access};
    struct stat st;
    long rc;

    attr.parent_fd = open(path, O_PATH | O_CLOEXEC);
    if (attr.parent_fd < 0) {
        return 0;
    }
    if (fstat(attr.parent_fd, &st) == 0 && !S_ISDIR(st.st_mode)) {
        attr.allowed_access &= ACCESS_FILE;
    }
    rc = syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH,
                 &attr, 0);
    close(attr.parent_fd);
    return (int)rc;
}

static enum wp_status
check_readable(const char *readable, struct wp_err *err)
{
    for (const char *path = readable; path != NULL; path = strchr(path, ':')) {
        path += path != readable ? 1 : 0;
        if (*path != '/' || strcspn(path, ":") >= PATH_MAX) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "--readable: expected absolute paths with ':' "
                              "between them, got '%.80s'",
                              readable);
        }
    }
    return WP_OK;
}

static int
allow_reading(int rules, const char *readable)
{
    char path[PATH_MAX];
    int rc = readable == NULL ? allow(rules, "/", ACCESS_READ) : 0;

    while (readable != NULL && *readable != '\0' && rc == 0) {
        size_t len = strcspn(readable, ":");

        memcpy(path, readable, len);
        path[len] = '\0';
        rc = allow(rules, path, ACCESS_READ);
        readable += len + (readable[len] == ':' ? 1 : 0);
    }
    return rc;
}

enum wp_status
wp_confine(const char *workspace, const char *readable, struct wp_err *err)
{
    const char *const writable[] = {
        workspace,   "/tmp",      "/var/tmp",    "/dev/shm",     "/dev/null",
        "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty",
        "/dev/ptmx", "/dev/pts",  "/proc/self",
    };
    struct landlock_ruleset_attr attr = {.handled_access_fs = ACCESS_V1};
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0,
                           LANDLOCK_CREATE_RULESET_VERSION);
    long rules;
    int rc;

    if (check_readable(readable, err) != WP_OK) {
        return err->status;
    }
    if (version < 1) {
        return wp_err_set(err, WP_UNIMPLEMENTED,
                          "this kernel has no Landlock: %s",
                          wp_os_error(errno));
    }
    attr.handled_access_fs |= version >= 2 ? ACCESS_REFER : 0;
    attr.handled_access_fs |= version >= 3 ? ACCESS_TRUNCATE : 0;
    rules = syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    if (rules < 0) {
        return wp_err_set(err, WP_INTERNAL, "landlock_create_ruleset: %s",
                          wp_os_error(errno));
    }
    rc = allow_reading((int)rules, readable);
    for (size_t i = 0; rc == 0 && i < WP_ARRAY_LEN(writable); i++) {
        rc = allow((int)rules, writable[i], attr.handled_access_fs);
    }
    if (rc == 0) {
        rc = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    }
    if (rc == 0) {
        rc = (int)syscall(SYS_landlock_restrict_self, (int)rules, 0);
    }
    if (rc != 0) {
        (void)wp_err_set(err, WP_INTERNAL, "landlock: %s", wp_os_error(errno));
    }
    close((int)rules);
    return rc == 0 ? WP_OK : WP_INTERNAL;
}
