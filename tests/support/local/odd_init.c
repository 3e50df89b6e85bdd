/* tests/support/local/odd_init.c - in the place of warmpool-init: says to the daemon
 * what the last argument asks for, letter by letter.
 *
 *   e  a line on standard error      x  ends with status 7
 *   d  hears nothing more            a  answers HTTP: 500, nothing, then 200
 *   s  answers each probe with N     w  waits until the daemon closes
 *   p  waits to be killed            c  takes no connections
 *   otherwise the message of that letter, with text for F and X
 *
 * Static: it needs no files. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int control_fd = -1;
static int listen_fd = -1;

static void
say(char letter)
{
    char message[32];

    (void)snprintf(message, sizeof message, "%c%s", letter,
                   letter == 'F'   ? "no such program"
                   : letter == 'X' ? "it is done"
                                   : "");
    (void)send(control_fd, message, strlen(message), MSG_NOSIGNAL);
}

/* So many connections: a refusal, none, and what is healthy from then on. */
static void
answer(void)
{
    static const char bad[] = "HTTP/1.0 500 no\r\nContent-Length: 0\r\n\r\n";
    static const char good[] = "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n";

    for (int i = 0; i < 3; i++) {
        int fd = accept(listen_fd, NULL, NULL);
        char request[512];

        if (fd < 0) {
            continue;
        }
        (void)!recv(fd, request, sizeof request, 0);
        if (i != 1) {
            (void)send(fd, i == 0 ? bad : good,
                       i == 0 ? sizeof bad - 1 : sizeof good - 1, MSG_NOSIGNAL);
        }
        (void)close(fd);
    }
}

/* To each probe; until the daemon closes. */
static void
listen_to_it(char reply)
{
    char message[256];

    while (recv(control_fd, message, sizeof message, 0) > 0) {
        if (reply != '\0' && message[0] == 'P') {
            say(reply);
        }
    }
}

static void
act(char letter)
{
    switch (letter) {
    case 'e':
        (void)fputs("a word on standard error\n", stderr);
        break;
    case 'x':
        _exit(7);
    case 'd':
        (void)shutdown(control_fd, SHUT_RD);
        break;
    case 'a':
        answer();
        break;
    case 'c':
        (void)close(listen_fd);
        break;
    case 's':
        listen_to_it('N');
        break;
    case 'w':
        listen_to_it('\0');
        break;
    case 'p':
        for (;;) {
            (void)pause();
        }
    default:
        say(letter);
        break;
    }
}

int
main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--control") == 0) {
            control_fd = atoi(argv[i + 1]); /* NOLINT(cert-err34-c) */
        } else if (strcmp(argv[i], "--listen") == 0) {
            listen_fd = atoi(argv[i + 1]); /* NOLINT(cert-err34-c) */
        }
    }
    for (const char *letter = argv[argc - 1]; *letter != '\0'; letter++) {
        act(*letter);
    }
    return 0;
}
