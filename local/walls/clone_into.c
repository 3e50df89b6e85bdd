#include "local/walls/clone_into.h"

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>

/* The C library has no way to clone3, and what it has to clone does not say a
 * group. The child has the parent's registers and an empty stack, so that the
 * call and all that follows must not pass through a function's frame. */
#if defined(__x86_64__)

__attribute__((no_sanitize("address", "thread", "undefined"))) static long
clone3_calls(struct clone_args *args, void (*fn)(void *arg), void *arg)
{
    register void (*call)(void *) __asm__("r12") = fn;
    register void *with __asm__("r13") = arg;
    long result = SYS_clone3;

    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %%r13, %%rdi\n\t"
                     "call *%%r12\n\t"
                     "hlt\n"
                     "1:"
                     : "+a"(result)
                     : "D"(args), "S"(sizeof *args), "r"(call), "r"(with)
                     : "rcx", "r11", "memory");
    return result;
}

#elif defined(__aarch64__)

__attribute__((no_sanitize("address", "thread", "undefined"))) static long
clone3_calls(struct clone_args *args, void (*fn)(void *arg), void *arg)
{
    register long number __asm__("x8") = SYS_clone3;
    register long result __asm__("x0") = (long)(uintptr_t)args;
    register size_t size __asm__("x1") = sizeof *args;
    register void (*call)(void *) __asm__("x19") = fn;
    register void *with __asm__("x20") = arg;

    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x0, x20\n\t"
                     "blr x19\n\t"
                     "brk #0\n"
                     "1:"
                     : "+r"(result)
                     : "r"(number), "r"(size), "r"(call), "r"(with)
                     : "memory", "cc");
    return result;
}

#else

static long
clone3_calls(struct clone_args *args, void (*fn)(void *arg), void *arg)
{
    (void)args;
    (void)fn;
    (void)arg;
    return -ENOSYS;
}

#endif

/* NOLINTBEGIN(readability-non-const-parameter): the kernel writes *pidfd. */
pid_t
wp_clone_into(int group_fd, void (*fn)(void *arg), void *arg, void *stack,
              size_t stack_len, int *pidfd)
{
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | CLONE_INTO_CGROUP,
        .pidfd = (uintptr_t)pidfd,
        .exit_signal = SIGCHLD,
        .stack = (uintptr_t)stack,
        .stack_size = stack_len,
        .cgroup = (__u64)(unsigned)group_fd,
    };
    long result = clone3_calls(&args, fn, arg);

    if (result < 0) {
        errno = (int)-result;
        return -1;
    }
    return (pid_t)result;
}
/* NOLINTEND(readability-non-const-parameter) */
