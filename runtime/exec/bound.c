#include "runtime/exec/bound.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ENV_BYTES_MAX = 1 << 20,
    PATH_BYTES = 1024,
};

static bool env_is_there;
static int folder = -1;

/* All of a file of that folder, terminated; NULL: it is not there. The caller's
 * to free. */
static char *
read_whole(const char *name, size_t max, size_t *len)
{
    const char *dir = getenv("WARMPOOL_BOUND_DIR"); /* NOLINT */
    char path[PATH_BYTES];
    struct stat st;
    char *text = NULL;
    ssize_t n = -1;
    int fd;

    if (dir == NULL ||
        snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path)) {
        return NULL;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return NULL;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= 0 &&
        (uint64_t)st.st_size <= max) {
        text = malloc((size_t)st.st_size + 1);
    }
    if (text != NULL) {
        n = read(fd, text, (size_t)st.st_size);
    }
    close(fd);
    if (n < 0) {
        free(text);
        return NULL;
    }
    text[n] = '\0';
    *len = (size_t)n;
    return text;
}

/* What setenv keeps, it has copied. */
static void
take_env(char *text, size_t len)
{
    for (char *at = text; at < text + len; at += strlen(at) + 1) {
        char *equals = strchr(at, '=');

        if (equals != NULL && equals != at) {
            *equals = '\0';
            (void)setenv(at, equals + 1, 1); /* NOLINT(concurrency-mt-unsafe) */
            at = equals + 1;
        }
    }
    explicit_bzero(text, len);
}

void
wp_bound_look(void)
{
    size_t len = 0;
    char *text;

    if (env_is_there) {
        return;
    }
    text = read_whole("env", ENV_BYTES_MAX, &len);
    if (text != NULL) {
        take_env(text, len);
        env_is_there = true;
        free(text);
    }
}

int
wp_bound_folder(int fallback)
{
    size_t len = 0;
    char *path = folder < 0 ? read_whole("cwd", PATH_BYTES, &len) : NULL;

    if (path != NULL) {
        folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        free(path);
    }
    return folder >= 0 ? folder : fallback;
}
