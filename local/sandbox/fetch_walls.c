#include "local/sandbox/fetch_walls.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "proto/checkout/fetch_report.h"
#include "pool/base/compiler.h"

static void
add(struct wp_fetch_args *args, const char *word)
{
    if (args->n + 1 < WP_FETCH_ARGS_MAX) {
        args->word[args->n++] = word;
    }
}

void
wp_fetch_args_add(struct wp_fetch_args *args, const char *a, const char *b,
                  const char *c)
{
    add(args, a);
    add(args, b);
    add(args, c);
}

/* Programs, libraries, and what a resolver and TLS read. */
static void
add_machine(struct wp_fetch_args *args)
{
    static const char *const dirs[] = {"/bin", "/sbin", "/lib", "/lib32",
                                       "/lib64"};
    static const char *const files[] = {
        "/etc/ssl",         "/etc/ca-certificates", "/etc/resolv.conf",
        "/etc/hosts",       "/etc/nsswitch.conf",   "/etc/gai.conf",
        "/etc/ld.so.cache", "/etc/host.conf",
    };

    wp_fetch_args_add(args, "--ro-bind", "/usr", "/usr");
    for (size_t i = 0; i < WP_ARRAY_LEN(dirs); i++) {
        /* "/usr/bin" as a link's target is right where /bin is one. */
        static const char *const merged[] = {"usr/bin", "usr/sbin", "usr/lib",
                                             "usr/lib32", "usr/lib64"};
        struct stat st;

        if (lstat(dirs[i], &st) == 0) {
            bool link = S_ISLNK(st.st_mode);

            wp_fetch_args_add(args, link ? "--symlink" : "--ro-bind",
                              link ? merged[i] : dirs[i], dirs[i]);
        }
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(files); i++) {
        wp_fetch_args_add(args, "--ro-bind-try", files[i], files[i]);
    }
}

void
wp_fetch_walls(struct wp_fetch_args *args, const char *program,
               const char *cache, int seccomp_fd)
{
    static const char *const first[] = {
        "bwrap",
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
        "--clearenv",
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(first); i++) {
        add(args, first[i]);
    }
    add_machine(args);
    wp_fetch_args_add(args, "--proc", "/proc", "--dev");
    wp_fetch_args_add(args, "/dev", "--size", "16777216");
    wp_fetch_args_add(args, "--tmpfs", "/tmp", "--ro-bind");
    wp_fetch_args_add(args, program, "/warmpool-fetch", "--bind");
    wp_fetch_args_add(args, cache, WP_FETCH_CACHE_DIR, "--remount-ro");
    wp_fetch_args_add(args, "/", "--chdir", WP_FETCH_CACHE_DIR);
    if (seccomp_fd >= 0) {
        (void)snprintf(args->seccomp_fd, sizeof args->seccomp_fd, "%d",
                       seccomp_fd);
        add(args, "--seccomp");
        add(args, args->seccomp_fd);
    }
}
