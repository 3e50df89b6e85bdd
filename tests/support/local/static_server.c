/* tests/support/local/static_server.c - a program that needs no files: for an image that
 * holds nothing else. Answers every connection on the port argv[1] with what it
 * sees of the root directory. */
#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static size_t
list_root(char *out, size_t cap)
{
    DIR *dir = opendir("/");
    struct dirent *entry;
    size_t used = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        int n = snprintf(out + used, cap - used, "/%s\n", entry->d_name);

        if (n > 0 && (size_t)n < cap - used) {
            used += (size_t)n;
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return used;
}

int
main(int argc, char **argv)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 8080)),
    };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, 16) != 0) {
        return 1;
    }
    for (;;) {
        int client = accept(fd, NULL, NULL);
        char text[4096];
        size_t len = list_root(text, sizeof text);

        if (client >= 0) {
            (void)!send(client, text, len, MSG_NOSIGNAL);
            (void)close(client);
        }
    }
}
