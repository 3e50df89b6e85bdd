/* tests/support/base/fuzz_replay.c - runs a fuzz target over files, without a fuzzer.
 *
 * Arguments are files or folders of them; every build so checks the corpus. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat st;
    uint8_t *data;
    size_t n;

    if (file == NULL || fstat(fileno(file), &st) != 0) {
        perror(path);
        exit(1);
    }
    /* Exactly the size of the input, so that ASan sees one byte too far. */
    data = malloc(st.st_size > 0 ? (size_t)st.st_size : 1);
    if (data == NULL) {
        abort();
    }
    n = fread(data, 1, (size_t)st.st_size, file);
    (void)fclose(file);
    (void)LLVMFuzzerTestOneInput(data, n);
    free(data);
    return 1;
}

static int
replay(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    int count = 0;

    if (dir == NULL) {
        return replay_file(path);
    }
    while ((entry = readdir(dir)) != NULL) {
        char name[4096];

        if (entry->d_name[0] != '.') {
            (void)snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
            count += replay_file(name);
        }
    }
    (void)closedir(dir);
    return count;
}

int
main(int argc, char **argv)
{
    int count = 0;

    for (int i = 1; i < argc; i++) {
        count += replay(argv[i]);
    }
    (void)printf("%d inputs replayed\n", count);
    return count > 0 ? 0 : 1;
}
