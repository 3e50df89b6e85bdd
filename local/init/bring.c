#include "local/init/init_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/parcel/parcel.h"
#include "proto/parcel/bind.h"

/* Starts it beside the program; its output is thrown away, and init.c reaps
 * it. 0, or an errno. */
static int
start_brought(struct wp_init *init, const struct wp_bind_command *command)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int report[2];
    int error = 0;
    pid_t pid;

    if (null < 0 || pipe2(report, O_CLOEXEC) != 0) {
        return errno; /* And init leaves. */
    }
    init->brought = (struct wp_program){
        .name = "", .dir = "", .argv = command->argv, .env = command->env};
    pid = fork();
    if (pid == 0) {
        if (command->dir_fd < 0 || fchdir(command->dir_fd) == 0) {
            wp_init_run_program(init, &init->brought, null, report[1]);
        }
        _exit(127);
    }
    if (pid < 0) {
        error = errno;
        (void)close(report[0]);
    }
    (void)close(report[1]);
    (void)close(null);
    return pid < 0 ? error : wp_init_await_program(pid, report[0]);
}

/* False: why says what is not taken. */
static bool
read_parcel(const struct wp_init *init, int fd, struct wp_taken *taken)
{
    void *parcel = MAP_FAILED;
    struct stat st;
    bool known;
    bool ok;

    if (init->untaken[0] != '\0') {
        (void)snprintf(taken->why, sizeof taken->why, "%s", init->untaken);
        return false;
    }
    known = fstat(fd, &st) == 0;
    if (known && st.st_size == 0) {
        return true; /* All of it came as trees. */
    }
    if (known && st.st_size <= WP_PARCEL_MAX) {
        parcel = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    if (parcel == MAP_FAILED) {
        (void)snprintf(taken->why, sizeof taken->why,
                       "what came cannot be read");
        return false;
    }
    ok = wp_bind_take(init->options.bound_dir, init->options.workspace, parcel,
                      (size_t)st.st_size, &taken->command, taken->why);
    (void)munmap(parcel, (size_t)st.st_size);
    return ok;
}

void
wp_init_take_parcel(struct wp_init *init, const char *fingerprint, int fd)
{
    struct wp_taken *taken = &init->taken;

    if (taken->fingerprint[0] == '\0' && init->options.bound_dir != NULL) {
        (void)snprintf(taken->fingerprint, sizeof taken->fingerprint, "%.*s",
                       WP_INIT_FINGERPRINT_MAX - 1, fingerprint);
        taken->command = (struct wp_bind_command){.dir_fd = -1};
        taken->whole = read_parcel(init, fd, taken);
    }
}

/* Does what is left. False: why says what is not bound. */
static bool
finish(struct wp_init *init, struct wp_taken *taken)
{
    bool ok =
        taken->whole && wp_bind_is_identified(init->options.bound_dir,
                                              &taken->command, taken->why);

    if (ok && taken->command.argv != NULL) {
        int error = start_brought(init, &taken->command);

        ok = error == 0;
        if (!ok) {
            (void)snprintf(taken->why, sizeof taken->why, "command '%.60s': %s",
                           taken->command.argv[0], strerror(error));
        }
    }
    wp_bind_command_fini(&taken->command);
    return ok;
}

void
wp_init_identify(const struct wp_init *init, const char *token, size_t len)
{
    /* Of the first one BIND misses the file; of a later one the former stays,
     * which is good for a while. */
    if (init->options.bound_dir != NULL) {
        (void)!wp_bind_identity(init->options.bound_dir, token, len);
    }
}

void
wp_init_bind(struct wp_init *init, const char *fingerprint, int fd)
{
    bool same;

    if (init->options.bound_dir == NULL) {
        wp_init_tell(init, WP_CONTROL_UNBOUND,
                     "its runtime class keeps its files");
        return;
    }
    wp_init_take_parcel(init, fingerprint, fd);
    same = strcmp(init->taken.fingerprint, fingerprint) == 0;
    if (init->is_bound) {
        wp_init_tell(init, same ? WP_CONTROL_BOUND : WP_CONTROL_UNBOUND,
                     same ? "" : "it has another binding");
    } else if (same && finish(init, &init->taken)) {
        init->is_bound = true;
        wp_init_tell(init, WP_CONTROL_BOUND, "");
    } else {
        wp_init_tell(init, WP_CONTROL_UNBOUND,
                     same ? init->taken.why : "it took another binding");
        /* Process 1 leaving takes what is half bound with it. */
        _exit(0);
    }
}

void
wp_init_take_tree(struct wp_init *init, const char *text, int fd)
{
    void *image = MAP_FAILED;
    struct stat st = {.st_size = 0};

    if (init->taken.fingerprint[0] != '\0' || init->options.bound_dir == NULL ||
        init->untaken[0] != '\0' || strlen(text) < WP_CONTROL_FINGERPRINT) {
        return;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    if (image == MAP_FAILED) {
        (void)snprintf(init->untaken, sizeof init->untaken,
                       "a tree that came cannot be read");
        return;
    }
    (void)!wp_unpack(init->options.workspace, text + WP_CONTROL_FINGERPRINT,
                     image, (size_t)st.st_size, init->untaken);
    (void)munmap(image, (size_t)st.st_size);
}
