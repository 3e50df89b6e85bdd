#include "local/walls/seccomp_filter.h"

#include <endian.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <seccomp.h>

#include "pool/base/compiler.h"

enum {
    NETLINK_ROUTE_PROTOCOL = 0,
    /* One above set_mempolicy_home_node, the last call libseccomp 2.5 knows.
     * From 424 on numbers are the same on every architecture but alpha. */
    FIRST_UNKNOWN_CALL = 451,
    /* The low half, which is all that the kernel looks at. */
#if __BYTE_ORDER == __LITTLE_ENDIAN
    IOCTL_REQUEST_AT = offsetof(struct seccomp_data, args[1]),
#else
    IOCTL_REQUEST_AT = offsetof(struct seccomp_data, args[1]) + 4,
#endif
    PROGRAM_BYTES_MAX = 32 << 10, /* 4096 instructions, the kernel's limit. */
};

/* What programs need; all else is refused as if by missing privilege: mounts
 * and roots, other namespaces, the kernel itself, its wide interfaces (bpf,
 * keys, userfaultfd), the machine's clock, names and memory placement. About
 * what container runtimes allow to a container without capabilities.
 *
 * ptrace stays, for debuggers: the PID and user namespaces, Landlock's domain
 * and init's being undumpable bound what it reaches. */
static const char *const allowed[] = {
    "accept",
    "accept4",
    "access",
    "alarm",
    "arch_prctl",
    "bind",
    "brk",
    "capget",
    "capset",
    "chdir",
    "chmod",
    "chown",
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "close",
    "close_range",
    "connect",
    "copy_file_range",
    "creat",
    "dup",
    "dup2",
    "dup3",
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "eventfd",
    "eventfd2",
    "execve",
    "execveat",
    "exit",
    "exit_group",
    "faccessat",
    "faccessat2",
    "fadvise64",
    "fallocate",
    "fchdir",
    "fchmod",
    "fchmodat",
    "fchown",
    "fchownat",
    "fcntl",
    "fdatasync",
    "fgetxattr",
    "flistxattr",
    "flock",
    "fork",
    "fremovexattr",
    "fsetxattr",
    "fstat",
    "fstatfs",
    "fsync",
    "ftruncate",
    "futex",
    "futex_waitv",
    "futimesat",
    "get_mempolicy",
    "get_robust_list",
    "get_thread_area",
    "getcpu",
    "getcwd",
    "getdents",
    "getdents64",
    "getegid",
    "geteuid",
    "getgid",
    "getgroups",
    "getitimer",
    "getpeername",
    "getpgid",
    "getpgrp",
    "getpid",
    "getppid",
    "getpriority",
    "getrandom",
    "getresgid",
    "getresuid",
    "getrlimit",
    "getrusage",
    "getsid",
    "getsockname",
    "getsockopt",
    "gettid",
    "gettimeofday",
    "getuid",
    "getxattr",
    "inotify_add_watch",
    "inotify_init",
    "inotify_init1",
    "inotify_rm_watch",
    "io_cancel",
    "io_destroy",
    "io_getevents",
    "io_pgetevents",
    "io_setup",
    "io_submit",
    "ioctl",
    "ioprio_get",
    "ioprio_set",
    "kill",
    "landlock_add_rule",
    "landlock_create_ruleset",
    "landlock_restrict_self",
    "lchown",
    "lgetxattr",
    "link",
    "linkat",
    "listen",
    "listxattr",
    "llistxattr",
    "lremovexattr",
    "lseek",
    "lsetxattr",
    "lstat",
    "madvise",
    "membarrier",
    "memfd_create",
    "mincore",
    "mkdir",
    "mkdirat",
    "mknod",
    "mknodat",
    "mlock",
    "mlock2",
    "mlockall",
    "mmap",
    "mprotect",
    "mq_getsetattr",
    "mq_notify",
    "mq_open",
    "mq_timedreceive",
    "mq_timedsend",
    "mq_unlink",
    "mremap",
    "msgctl",
    "msgget",
    "msgrcv",
    "msgsnd",
    "msync",
    "munlock",
    "munlockall",
    "munmap",
    "name_to_handle_at",
    "nanosleep",
    "newfstatat",
    "open",
    "openat",
    "openat2",
    "pause",
    "pidfd_open",
    "pidfd_send_signal",
    "pipe",
    "pipe2",
    "pkey_alloc",
    "pkey_free",
    "pkey_mprotect",
    "poll",
    "ppoll",
    "prctl",
    "pread64",
    "preadv",
    "preadv2",
    "prlimit64",
    "process_mrelease",
    "process_vm_readv",
    "process_vm_writev",
    "pselect6",
    "ptrace",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readahead",
    "readlink",
    "readlinkat",
    "readv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "remap_file_pages",
    "removexattr",
    "rename",
    "renameat",
    "renameat2",
    "restart_syscall",
    "rmdir",
    "rseq",
    "rt_sigaction",
    "rt_sigpending",
    "rt_sigprocmask",
    "rt_sigqueueinfo",
    "rt_sigreturn",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "rt_tgsigqueueinfo",
    "sched_get_priority_max",
    "sched_get_priority_min",
    "sched_getaffinity",
    "sched_getattr",
    "sched_getparam",
    "sched_getscheduler",
    "sched_rr_get_interval",
    "sched_setaffinity",
    "sched_setattr",
    "sched_setparam",
    "sched_setscheduler",
    "sched_yield",
    "seccomp",
    "select",
    "semctl",
    "semget",
    "semop",
    "semtimedop",
    "sendfile",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "set_robust_list",
    "set_thread_area",
    "set_tid_address",
    "setfsgid",
    "setfsuid",
    "setgid",
    "setgroups",
    "setitimer",
    "setpgid",
    "setpriority",
    "setregid",
    "setresgid",
    "setresuid",
    "setreuid",
    "setrlimit",
    "setsid",
    "setsockopt",
    "setuid",
    "setxattr",
    "shmat",
    "shmctl",
    "shmdt",
    "shmget",
    "shutdown",
    "sigaltstack",
    "signalfd",
    "signalfd4",
    "socketpair",
    "splice",
    "stat",
    "statfs",
    "statx",
    "symlink",
    "symlinkat",
    "sync",
    "sync_file_range",
    "syncfs",
    "sysinfo",
    "tee",
    "tgkill",
    "time",
    "timer_create",
    "timer_delete",
    "timer_getoverrun",
    "timer_gettime",
    "timer_settime",
    "timerfd_create",
    "timerfd_gettime",
    "timerfd_settime",
    "times",
    "tkill",
    "truncate",
    "umask",
    "uname",
    "unlink",
    "unlinkat",
    "utime",
    "utimensat",
    "utimes",
    "vfork",
    "vmsplice",
    "wait4",
    "waitid",
    "write",
    "writev",
};

/* Refused as if the kernel were older: programs fall back. clone3 hides its
 * flags behind a pointer, where no filter can see them; libc then uses clone.
 */
static const char *const absent[] = {
    "clone3",       "io_uring_setup", "io_uring_enter", "io_uring_register",
    "memfd_secret", "modify_ldt",
};

static int
add_calls(scmp_filter_ctx ctx, const char *const *names, size_t len,
          uint32_t action)
{
    for (size_t i = 0; i < len; i++) {
        int nr = seccomp_syscall_resolve_name(names[i]);
        int rc;

        /* Negative: unknown to the library, or not of this architecture. */
        if (nr < 0) {
            continue;
        }
        rc = seccomp_rule_add(ctx, action, nr, 0);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* Without a new namespace. CLONE_NEWTIME is for unshare and clone3 only, both
 * refused whole. */
static int
allow_clone(scmp_filter_ctx ctx)
{
    const unsigned spaces = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC |
                            CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET |
                            CLONE_NEWCGROUP;

    return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                            SCMP_A0(SCMP_CMP_MASKED_EQ, spaces, 0));
}

/* Linux itself, with and without 32-bit names and fixed addresses, and the
 * question what it is. */
static int
allow_personality(scmp_filter_ctx ctx)
{
    static const unsigned kept[] = {0x0,     0x8,     0x20000,
                                    0x20008, 0x40000, UINT32_MAX};
    int rc = 0;

    for (size_t i = 0; i < WP_ARRAY_LEN(kept) && rc == 0; i++) {
        rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
                              SCMP_A0(SCMP_CMP_MASKED_EQ, UINT32_MAX, kept[i]));
    }
    return rc;
}

/* Left: Unix, IPv4, IPv6, and netlink's routing part, which getifaddrs() reads.
 * Gone are packet sockets and above all vsock, which no namespace separates: it
 * reaches the hypervisor. */
static int
limit_sockets(scmp_filter_ctx ctx)
{
    static const int kept[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};
    int rc = 0;
    int last = -1;

    for (size_t i = 0; i < WP_ARRAY_LEN(kept) && rc == 0; i++) {
        for (int family = last + 1; family < kept[i] && rc == 0; family++) {
            rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT),
                                  SCMP_SYS(socket), 1,
                                  SCMP_A0(SCMP_CMP_EQ, (unsigned)family, 0));
        }
        last = kept[i];
    }
    if (rc == 0) {
        rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT),
                              SCMP_SYS(socket), 1,
                              SCMP_A0(SCMP_CMP_GT, (unsigned)last, 0));
    }
    if (rc == 0) {
        rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT),
                              SCMP_SYS(socket), 2,
                              SCMP_A0(SCMP_CMP_EQ, AF_NETLINK, 0),
                              SCMP_A2(SCMP_CMP_NE, NETLINK_ROUTE_PROTOCOL, 0));
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(kept) && rc == 0; i++) {
        rc = kept[i] == AF_NETLINK
                 ? seccomp_rule_add(
                       ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
                       SCMP_A0(SCMP_CMP_EQ, AF_NETLINK, 0),
                       SCMP_A2(SCMP_CMP_EQ, NETLINK_ROUTE_PROTOCOL, 0))
                 : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
                                    SCMP_A0(SCMP_CMP_EQ, (unsigned)kept[i], 0));
    }
    return rc;
}

static int
build(scmp_filter_ctx ctx)
{
    int rc = add_calls(ctx, allowed, WP_ARRAY_LEN(allowed), SCMP_ACT_ALLOW);

    if (rc == 0) {
        rc = add_calls(ctx, absent, WP_ARRAY_LEN(absent),
                       SCMP_ACT_ERRNO(ENOSYS));
    }
    if (rc == 0) {
        rc = allow_clone(ctx);
    }
    if (rc == 0) {
        rc = allow_personality(ctx);
    }
    return rc == 0 ? limit_sockets(ctx) : rc;
}

/* Writes the program behind a prologue that refuses, as an older kernel would,
 * the calls that were not there when the list was made; and two ioctls, since
 * pushing characters into a terminal's input is the classic way out, and the
 * library cannot exclude a value of 32 bits from what it allows. Jumps are
 * relative, so putting instructions in front changes nothing. */
static enum wp_status
write_program(int from, int to, struct wp_err *err)
{
    const struct sock_filter prologue[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 0, 8),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FIRST_UNKNOWN_CALL, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_ioctl, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, IOCTL_REQUEST_AT),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIOCSTI, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIOCLINUX, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    char *program = malloc(PROGRAM_BYTES_MAX);
    enum wp_status status = WP_OK;
    ssize_t n;

    if (program == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "no memory for the seccomp filter");
    }
    n = pread(from, program, PROGRAM_BYTES_MAX, 0);
    if (n <= 0 || (size_t)n + sizeof prologue > PROGRAM_BYTES_MAX) {
        status =
            wp_err_set(err, WP_INTERNAL, "the seccomp filter has a wrong size");
    } else if (write(to, prologue, sizeof prologue) !=
                   (ssize_t)sizeof prologue ||
               write(to, program, (size_t)n) != n) {
        status = wp_err_sys(err, WP_UNAVAILABLE, errno,
                            "cannot write the seccomp filter");
    }
    free(program);
    return status;
}

enum wp_status
wp_seccomp_filter_write(int fd, struct wp_err *err)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int program = memfd_create("seccomp", MFD_CLOEXEC);
    enum wp_status status = WP_OK;
    int rc = -ENOMEM;

    if (ctx != NULL && program >= 0) {
        rc = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH,
                              SCMP_ACT_KILL_PROCESS);
    }
    if (rc == 0) {
        rc = build(ctx);
    }
    if (rc == 0) {
        rc = seccomp_export_bpf(ctx, program);
    }
    if (rc == 0) {
        status = write_program(program, fd, err);
    } else {
        status = wp_err_sys(err, WP_INTERNAL, -rc,
                            "cannot build the seccomp filter");
    }
    if (ctx != NULL) {
        seccomp_release(ctx);
    }
    if (program >= 0) {
        (void)close(program);
    }
    return status;
}
