#include "local/walls/seccomp_filter.h"

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
#include <unistd.h>

#include <seccomp.h>

#include "pool/base/compiler.h"

enum {
    NETLINK_ROUTE_PROTOCOL = 0,
    /* One above set_mempolicy_home_node, the last call libseccomp 2.5 knows.
     * From 424 on numbers are the same on every architecture but alpha. */
    FIRST_UNKNOWN_CALL = 451,
    PROGRAM_BYTES_MAX = 32 << 10, /* 4096 instructions, the kernel's limit. */
};

/* Refused as if by missing privilege. */
static const char *const forbidden[] = {
    /* Mounts and roots. */
    "mount",
    "umount",
    "umount2",
    "pivot_root",
    "chroot",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "move_mount",
    "open_tree",
    "mount_setattr",
    /* Names outside the mount namespace. */
    "open_by_handle_at",
    "setns",
    "unshare",
    /* The kernel itself. */
    "init_module",
    "finit_module",
    "delete_module",
    "create_module",
    "kexec_load",
    "kexec_file_load",
    "reboot",
    "swapon",
    "swapoff",
    "acct",
    "quotactl",
    "quotactl_fd",
    "syslog",
    "iopl",
    "ioperm",
    "_sysctl",
    "nfsservctl",
    "lookup_dcookie",
    "vhangup",
    "uselib",
    "ustat",
    "sysfs",
    /* Wide interfaces with a history of escapes. */
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "add_key",
    "request_key",
    "keyctl",
    "fanotify_init",
    "fanotify_mark",
    "lsm_set_self_attr",
    /* The clock and names belong to the host. */
    "settimeofday",
    "clock_settime",
    "clock_adjtime",
    "adjtimex",
    "stime",
    "sethostname",
    "setdomainname",
    /* ptrace stays, for debuggers: the PID and user namespaces, Landlock's
     * domain and init's being undumpable bound what it reaches. */
    "process_madvise",
    "kcmp",
    "pidfd_getfd",
    /* Memory placement of the machine. */
    "mbind",
    "set_mempolicy",
    "migrate_pages",
    "move_pages",
    "set_mempolicy_home_node",
};

/* Refused as if the kernel were older: programs fall back. clone3 hides its
 * flags behind a pointer, where no filter can see them; libc then uses clone.
 */
static const char *const absent[] = {
    "clone3",       "io_uring_setup", "io_uring_enter", "io_uring_register",
    "memfd_secret", "modify_ldt",
};

static int
refuse(scmp_filter_ctx ctx, const char *const *names, size_t len, int error)
{
    for (size_t i = 0; i < len; i++) {
        int nr = seccomp_syscall_resolve_name(names[i]);
        int rc;

        /* Negative: unknown to the library, or not of this architecture. */
        if (nr < 0) {
            continue;
        }
        rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO((uint32_t)error), nr, 0);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* CLONE_NEWTIME is for unshare and clone3 only, both refused whole. */
static int
refuse_namespaces(scmp_filter_ctx ctx)
{
    static const unsigned flags[] = {
        CLONE_NEWNS,  CLONE_NEWUTS, CLONE_NEWIPC,    CLONE_NEWUSER,
        CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWCGROUP,
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(flags); i++) {
        int rc =
            seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, flags[i], flags[i]));

        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* Left: Unix, IPv4, IPv6, and netlink's routing part, which getifaddrs() reads.
 * Gone are packet sockets and above all vsock, which no namespace separates: it
 * reaches the hypervisor. */
static int
refuse_sockets(scmp_filter_ctx ctx)
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
    return rc;
}

/* Pushing characters into a terminal's input is the classic way out. */
static int
refuse_ioctls(scmp_filter_ctx ctx)
{
    static const unsigned requests[] = {TIOCSTI, TIOCLINUX};

    for (size_t i = 0; i < WP_ARRAY_LEN(requests); i++) {
        int rc = seccomp_rule_add(
            ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
            SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, requests[i]));

        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int
build(scmp_filter_ctx ctx)
{
    int rc = refuse(ctx, forbidden, WP_ARRAY_LEN(forbidden), EPERM);

    if (rc == 0) {
        rc = refuse(ctx, absent, WP_ARRAY_LEN(absent), ENOSYS);
    }
    if (rc == 0) {
        rc = refuse_namespaces(ctx);
    }
    if (rc == 0) {
        rc = refuse_sockets(ctx);
    }
    if (rc == 0) {
        rc = refuse_ioctls(ctx);
    }
    return rc;
}

/* Writes the program behind a prologue that refuses, as an older kernel would,
 * the calls that were not there when the list was made. Jumps are relative, so
 * putting instructions in front changes nothing. */
static enum wp_status
write_program(int from, int to, struct wp_err *err)
{
    const struct sock_filter prologue[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FIRST_UNKNOWN_CALL, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
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
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
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
