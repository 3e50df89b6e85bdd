#include "local/volumes/mount_into.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/checkout/inside.h"

enum {
    STACK_BYTES = 64 << 10,
};

/* Shared with children, which run in our memory and with our descriptors while
 * we wait. */
struct work {
    const struct wp_mount_into *mount;
    char ns_path[32];
    int tree_fd;      /* The folder, as a mount that is nowhere; -1. */
    int map_fd;       /* A user namespace that maps its owners; -1. */
    const char *step; /* Under way. */
    int error;        /* Of it; 0: none. */
};

/* errno stays: it is of what went wrong before. */
static void
close_fd(int fd)
{
    if (fd >= 0) {
        int error = errno;

        (void)close(fd);
        errno = error;
    }
}

/* --- Children: nothing here may allocate, or take a lock. --- */

static int
end(struct work *work, bool ok)
{
    work->error = ok ? 0 : errno;
    _exit(0);
}

/* Without links in its last part, and without what is mounted below it. */
static int
open_detached(const char *path)
{
    return open_tree(AT_FDCWD, path,
                     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
}

/* What the mount may do, changed; where it was detached. */
static bool
restrict_tree(struct work *work)
{
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        .propagation = MS_PRIVATE,
    };

    work->step = "take its rights away";
    if (work->map_fd >= 0) {
        work->step = "map its owners (a file system that cannot?)";
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (__u64)work->map_fd;
    }
    return mount_setattr(work->tree_fd, "", AT_EMPTY_PATH, &attr,
                         sizeof attr) == 0;
}

/* In a mount namespace of its own, where it may. */
__attribute__((no_sanitize("address", "undefined"))) static int
detach_child(void *arg)
{
    struct work *work = arg;

    work->tree_fd = open_detached(work->mount->from);
    return end(work, work->tree_fd >= 0 && restrict_tree(work));
}

/* In a user namespace of its own, which lives as long as the descriptor. */
__attribute__((no_sanitize("address", "undefined"))) static int
map_child(void *arg)
{
    struct work *work = arg;

    work->map_fd = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    return end(work, work->map_fd >= 0);
}

/* Raw calls: the C library's set*id would change every thread of the daemon. As
 * the user that owns the sandbox's namespaces it may do there what it likes,
 * and nothing elsewhere. */
static bool
become(uid_t user)
{
    return syscall(SYS_setgroups, 0, NULL) == 0 &&
           syscall(SYS_setresgid, user, user, user) == 0 &&
           syscall(SYS_setresuid, user, user, user) == 0;
}

/* The namespaces in which the sandbox's mounts are. */
static bool
enter(const struct work *work)
{
    struct pollfd gone = {.fd = work->mount->pidfd, .events = POLLIN};
    int mounts_fd = open(work->ns_path, O_RDONLY | O_CLOEXEC);
    int user_fd = mounts_fd >= 0 ? ioctl(mounts_fd, NS_GET_USERNS) : -1;
    bool ok = false;

    /* Asked after the open: what was opened is of a process that lived. */
    if (mounts_fd >= 0 && poll(&gone, 1, 0) != 0) {
        errno = ESRCH;
    } else if (user_fd >= 0) {
        ok = setns(user_fd, CLONE_NEWUSER) == 0 &&
             setns(mounts_fd, CLONE_NEWNS) == 0;
    }
    close_fd(mounts_fd);
    close_fd(user_fd);
    return ok;
}

/* The folder in the sandbox, a name only; -1 with errno. */
static int
open_place(const struct wp_mount_into *mount)
{
    int top = open(mount->top, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int place = -1;

    if (top >= 0 && wp_inside_make(top, mount->path, 0755)) {
        place = wp_inside_open(top, mount->path, WP_INSIDE_NO_LINKS);
    }
    close_fd(top);
    return place;
}

static bool
is_same(int a, int b)
{
    struct stat of_a;
    struct stat of_b;

    return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 &&
           of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

__attribute__((no_sanitize("address", "undefined"))) static int
attach_child(void *arg)
{
    struct work *work = arg;
    const struct wp_mount_into *mount = work->mount;
    int place;
    bool ok;

    work->step = "change user";
    if (mount->own_user && !become(mount->user)) {
        return end(work, false);
    }
    work->step = "enter the sandbox";
    if (!enter(work)) {
        return end(work, false);
    }
    work->step = "make its place in the sandbox";
    place = open_place(mount);
    if (place < 0) {
        return end(work, false);
    }
    work->step = "mount it in the sandbox";
    ok = is_same(place, work->tree_fd) ||
         move_mount(work->tree_fd, "", place, "",
                    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0;
    close_fd(place);
    return end(work, ok);
}

/* --- The caller --- */

/* Runs it to its end in a process of its own; `reap` of that, before it is
 * gone. False: work says why. */
static bool
run(struct work *work, const char *step, int (*child)(void *), int flags,
    bool (*reap)(const struct work *work, pid_t pid))
{
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    sigset_t all;
    sigset_t old;
    pid_t pid;

    work->step = step;
    work->error = ENOMEM;
    if (stack == MAP_FAILED) {
        return false;
    }
    work->error = EINTR; /* Of a child that is killed. */
    /* No handler of ours may run in the child while it has our memory. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    pid = clone(child, stack + STACK_BYTES,
                CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD | flags, work);
    if (pid < 0) {
        work->error = errno;
    }
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (pid > 0) {
        if (work->error == 0 && reap != NULL && !reap(work, pid)) {
            work->error = errno;
        }
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    (void)munmap(stack, STACK_BYTES);
    return work->error == 0;
}

static bool
write_map(pid_t pid, const char *name, uid_t inside, uid_t outside)
{
    char path[48];
    char text[48];
    int n = snprintf(text, sizeof text, "%u %u 1\n", inside, outside);
    bool ok;
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    errno = EIO; /* Of a part of it. */
    ok = write(fd, text, (size_t)n) == n;
    close_fd(fd);
    return ok;
}

/* What owner has on the disk is user's in the mount. */
static bool
map_owners(const struct work *work, pid_t pid)
{
    const struct wp_mount_into *mount = work->mount;

    return write_map(pid, "uid_map", mount->owner, mount->user) &&
           write_map(pid, "gid_map", mount->owner, mount->user);
}

/* False: work says why. */
static bool
detach(struct work *work)
{
    static const char step[] = "open it";

    work->step = step;
    work->tree_fd = open_detached(work->mount->from);
    if (work->tree_fd < 0 && errno == EPERM) {
        /* In namespaces where this process may. */
        return run(work, step, detach_child, CLONE_NEWUSER | CLONE_NEWNS, NULL);
    }
    if (work->tree_fd < 0) {
        work->error = errno;
        return false;
    }
    if (work->mount->own_user &&
        !run(work, "map its owners", map_child, CLONE_NEWUSER, map_owners)) {
        return false;
    }
    if (!restrict_tree(work)) {
        work->error = errno;
        return false;
    }
    return true;
}

static enum wp_status
finish(struct work *work, bool ok, struct wp_err *err)
{
    close_fd(work->tree_fd);
    close_fd(work->map_fd);
    return ok ? WP_OK
              : wp_err_sys(err, WP_UNAVAILABLE, work->error, "cannot %s",
                           work->step);
}

enum wp_status
wp_mount_into(const struct wp_mount_into *mount, struct wp_err *err)
{
    struct work work = {.mount = mount, .tree_fd = -1, .map_fd = -1};

    (void)snprintf(work.ns_path, sizeof work.ns_path, "/proc/%d/ns/mnt",
                   (int)mount->pid);
    return finish(&work,
                  detach(&work) &&
                      run(&work, "enter the sandbox", attach_child, 0, NULL),
                  err);
}

enum wp_status
wp_mount_into_check(const struct wp_mount_into *mount, struct wp_err *err)
{
    struct work work = {.mount = mount, .tree_fd = -1, .map_fd = -1};

    return finish(&work, detach(&work), err);
}
