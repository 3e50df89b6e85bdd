#include "bench/load/procs.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/utsname.h>
#include <unistd.h>

unsigned long long
wp_proc_rss_bytes(pid_t pid)
{
    char path[64];
    char line[256];
    unsigned long long kib = 0;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            kib = strtoull(line + 6, NULL, 10);
        }
    }
    (void)fclose(file);
    return kib * 1024;
}

int
wp_proc_descriptors(pid_t pid)
{
    char path[64];
    int n = -2; /* "." and ".." */
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    if (dir == NULL) {
        return -1;
    }
    while (readdir(dir) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        n++;
    }
    (void)closedir(dir);
    return n;
}

static void
cpu_model(char *out, size_t cap)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];

    (void)snprintf(out, cap, "unknown processor");
    if (file == NULL) {
        return;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        const char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            line[strcspn(line, "\n")] = '\0';
            (void)snprintf(out, cap, "%s", colon + 2);
            break;
        }
    }
    (void)fclose(file);
}

void
wp_proc_machine(char *out, size_t cap)
{
    struct utsname uts;
    char model[128];
    double load[1] = {0};

    cpu_model(model, sizeof(model));
    uname(&uts);
    if (getloadavg(load, 1) != 1) {
        load[0] = -1;
    }
    (void)snprintf(out, cap, "%s, %d cores, Linux %s, load %.2f", model,
                   (int)sysconf(_SC_NPROCESSORS_ONLN), uts.release, load[0]);
}
