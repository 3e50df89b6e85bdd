#include "tests/support/stores/redis_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include "pool/base/clock.h"
#include "pool/base/compiler.h"
#include "tests/support/base/temp_dir.h"

void
redis_rig_pause(int64_t *since, const char *what)
{
    int64_t now = wp_clock_mono_ns(wp_clock_system());

    if (*since == 0) {
        *since = now;
    } else if (now - *since > REDIS_RIG_WAIT_MS * WP_NS_PER_MS) {
        fail_msg("waited too long for: %s", what);
    }
    (void)nanosleep(&(struct timespec){.tv_nsec = 10 * WP_NS_PER_MS}, NULL);
}

bool
redis_rig_available(void)
{
    if (system("redis-server --version >/dev/null 2>&1") == 0) {
        return true;
    }
    (void)printf("SKIP: the package redis-server is not installed\n");
    return false;
}

void
redis_rig_init(struct redis_rig *rig)
{
    memset(rig, 0, sizeof *rig);
    /* hiredis writes to connections that may be closed. */
    (void)signal(SIGPIPE, SIG_IGN);
    temp_dir_make(rig->dir, sizeof rig->dir);
}

void
redis_rig_fini(struct redis_rig *rig)
{
    char command[128];

    for (uint32_t i = 0; i < rig->n; i++) {
        redis_rig_kill(rig, i, SIGKILL);
    }
    (void)snprintf(command, sizeof command, "rm -rf '%s'", rig->dir);
    assert_int_equal(system(command), 0);
}

void
redis_rig_certify(struct redis_rig *rig, const char *name,
                  const char *subject_alt_names)
{
    char command[640];
    char more[256] = "";

    if (subject_alt_names != NULL) {
        (void)snprintf(more, sizeof more,
                       "-CA ca.pem -CAkey ca.key -addext subjectAltName=%s",
                       subject_alt_names);
    }
    (void)snprintf(command, sizeof command,
                   "cd '%s' && openssl req -x509 -newkey ec -pkeyopt "
                   "ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=%s "
                   "-keyout %s.key -out %s.pem %s >openssl.log 2>&1",
                   rig->dir, name, name, name, more);
    assert_int_equal(system(command), 0);
}

void
redis_rig_use_tls(struct redis_rig *rig)
{
    redis_rig_certify(rig, "ca", NULL);
    redis_rig_certify(rig, "server", "IP:127.0.0.1,DNS:redis.test");
    (void)snprintf(rig->ca, sizeof rig->ca, "%s/ca.pem", rig->dir);
    (void)snprintf(rig->cert, sizeof rig->cert, "%s/server.pem", rig->dir);
    (void)snprintf(rig->key, sizeof rig->key, "%s/server.key", rig->dir);
    rig->trust = (struct wp_redis_tls){
        .ca = rig->ca, .cert = rig->cert, .key = rig->key};
    rig->tls = true;
}

static uint16_t
free_port(void)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    (void)close(fd);
    return ntohs(address.sin_port);
}

static void
write_text(const char *dir, const char *name, const char *text)
{
    char path[160];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void
print_log(const struct redis_rig_server *server)
{
    char command[160];

    (void)snprintf(command, sizeof command, "tail -n 15 '%s/log' >&2",
                   server->dir);
    (void)!system(command);
}

static void
run(struct redis_rig_server *server)
{
    pid_t parent = getpid();

    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0) {
        char conf[128];
        const char *mode =
            server->kind == REDIS_RIG_SENTINEL ? "--sentinel" : NULL;
        int log;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)snprintf(conf, sizeof conf, "%s/redis.conf", server->dir);
        if (getppid() != parent || chdir(server->dir) != 0) {
            _exit(126);
        }
        log = open("log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        (void)dup2(log, STDOUT_FILENO);
        (void)dup2(log, STDERR_FILENO);
        (void)execlp("redis-server", "redis-server", conf, mode, (char *)NULL);
        _exit(127);
    }
}

static redisContext *
reach(struct redis_rig *rig, uint32_t i)
{
    struct timeval limit = {.tv_sec = 10};
    redisContext *context =
        redisConnectUnixWithTimeout(rig->servers[i].socket, limit);
    redisReply *reply;

    assert_non_null(context);
    if (context->err != 0 || redisSetTimeout(context, limit) != REDIS_OK) {
        redisFree(context);
        return NULL;
    }
    if (rig->password != NULL && rig->servers[i].kind != REDIS_RIG_SENTINEL) {
        reply = redisCommand(context, "AUTH %s", rig->password);
        if (reply == NULL) {
            redisFree(context);
            return NULL;
        }
        freeReplyObject(reply);
    }
    return context;
}

static size_t
flatten(const redisReply *reply, char *out, size_t cap)
{
    size_t len = 0;

    out[0] = '\0';
    if (reply->type == REDIS_REPLY_ARRAY) {
        for (size_t i = 0; i < reply->elements; i++) {
            if (i > 0 && len + 1 < cap) {
                out[len++] = '\n';
            }
            len += flatten(reply->element[i], out + len, cap - len);
        }
        return len;
    }
    if (reply->type == REDIS_REPLY_INTEGER) {
        (void)snprintf(out, cap, "%lld", reply->integer);
    } else if (reply->type != REDIS_REPLY_NIL) {
        (void)snprintf(out, cap, "%s%s",
                       reply->type == REDIS_REPLY_ERROR ? "-" : "", reply->str);
    }
    return strlen(out);
}

static const char *
ask(struct redis_rig *rig, uint32_t i, const char *format, va_list args)
{
    redisContext *context = reach(rig, i);
    redisReply *reply;

    rig->answer[0] = '\0';
    if (context == NULL) {
        return NULL;
    }
    reply = redisvCommand(context, format, args);
    if (reply != NULL) {
        (void)flatten(reply, rig->answer, sizeof rig->answer);
        freeReplyObject(reply);
    }
    redisFree(context);
    return reply != NULL ? rig->answer : NULL;
}

const char *
redis_rig_ask(struct redis_rig *rig, uint32_t i, const char *format, ...)
{
    const char *answer;
    va_list args;

    va_start(args, format);
    answer = ask(rig, i, format, args);
    va_end(args);
    return answer;
}

const char *
redis_rig_must(struct redis_rig *rig, uint32_t i, const char *format, ...)
{
    const char *answer;
    va_list args;

    va_start(args, format);
    answer = ask(rig, i, format, args);
    va_end(args);
    if (answer == NULL || answer[0] == '-') {
        print_log(&rig->servers[i]);
        fail_msg("server %u: %s: %s", i, format, answer);
    }
    return answer;
}

void
redis_rig_wait_for(struct redis_rig *rig, uint32_t i, const char *command,
                   const char *text)
{
    int64_t since = 0;
    const char *answer;

    while ((answer = redis_rig_ask(rig, i, command)) == NULL ||
           strstr(answer, text) == NULL) {
        redis_rig_pause(&since, text);
    }
}

const char *
redis_rig_role(struct redis_rig *rig, uint32_t i)
{
    const char *answer = redis_rig_ask(rig, i, "ROLE");

    if (answer != NULL) {
        rig->answer[strcspn(rig->answer, "\n")] = '\0';
    }
    return rig->answer;
}

/* False when it ended instead, as it does when its port was taken. */
static bool
wait_until_up(struct redis_rig *rig, uint32_t i)
{
    struct redis_rig_server *server = &rig->servers[i];
    int64_t since = 0;

    for (;;) {
        const char *answer = redis_rig_ask(rig, i, "PING");

        if (answer != NULL && strcmp(answer, "PONG") == 0) {
            return true;
        }
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            server->pid = 0;
            return false;
        }
        redis_rig_pause(&since, "a server that answers");
    }
}

static void
configure(struct redis_rig *rig, uint32_t i, const char *conf)
{
    struct redis_rig_server *server = &rig->servers[i];
    char text[2048];
    int n;

    server->port = free_port();
    server->bus_port = free_port();
    n = snprintf(text, sizeof text,
                 "bind 127.0.0.1\n%s %u\nunixsocket %s\ndaemonize no\n",
                 rig->tls ? "port 0\ntls-port" : "port", server->port,
                 server->socket);
    if (rig->tls) {
        n +=
            snprintf(text + n, sizeof text - (size_t)n,
                     "tls-ca-cert-file %s\ntls-cert-file %s\n"
                     "tls-key-file %s\ntls-replication yes\n%s",
                     rig->ca, rig->cert, rig->key,
                     server->kind == REDIS_RIG_NODE ? "tls-cluster yes\n" : "");
    }
    if (server->kind != REDIS_RIG_SENTINEL) {
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "save \"\"\nrepl-diskless-sync yes\n"
                      "repl-diskless-sync-delay 0\n");
    }
    if (server->kind != REDIS_RIG_SENTINEL && rig->password != NULL) {
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "requirepass %s\nmasterauth %s\n", rig->password,
                      rig->password);
    }
    if (server->kind == REDIS_RIG_NODE) {
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "cluster-enabled yes\ncluster-port %u\n",
                      server->bus_port);
    }
    n += snprintf(text + n, sizeof text - (size_t)n, "%s\n",
                  conf != NULL ? conf : "");
    assert_in_range(n, 1, sizeof text - 1);
    write_text(server->dir, "redis.conf", text);
}

static uint32_t
start(struct redis_rig *rig, enum redis_rig_kind kind, const char *conf)
{
    struct redis_rig_server *server = &rig->servers[rig->n];
    char base[sizeof rig->dir];
    bool up = false;

    assert_in_range(rig->n, 0, REDIS_RIG_MAX - 1);
    server->kind = kind;
    /* A copy, so that the compiler sees that nothing overlaps. */
    memcpy(base, rig->dir, sizeof base);
    (void)snprintf(server->dir, sizeof server->dir, "%s/%u", base, rig->n);
    (void)snprintf(server->socket, sizeof server->socket, "%s/%u/s", base,
                   rig->n);
    assert_int_equal(mkdir(server->dir, 0700), 0);
    rig->n++;
    /* Another program may take the port first. */
    for (int i = 0; i < 5 && !up; i++) {
        configure(rig, rig->n - 1, conf);
        run(server);
        up = wait_until_up(rig, rig->n - 1);
    }
    if (!up) {
        print_log(server);
        fail_msg("redis-server does not start");
    }
    return rig->n - 1;
}

uint32_t
redis_rig_start(struct redis_rig *rig, const char *conf)
{
    return start(rig, REDIS_RIG_PLAIN, conf);
}

uint32_t
redis_rig_start_node(struct redis_rig *rig, const char *conf)
{
    return start(rig, REDIS_RIG_NODE, conf);
}

uint32_t
redis_rig_start_replica(struct redis_rig *rig, uint32_t master)
{
    uint32_t i = redis_rig_start(rig, NULL);

    (void)redis_rig_must(rig, i, "REPLICAOF 127.0.0.1 %d",
                         rig->servers[master].port);
    redis_rig_wait_for(rig, i, "INFO replication", "master_link_status:up");
    return i;
}

uint32_t
redis_rig_start_sentinel(struct redis_rig *rig, uint32_t master,
                         const char *name, int quorum, int down_after_ms)
{
    /* Sooner than by itself. It stops for a while when it thinks that its
     * machine has been asleep, as a busy one may look; and when it has heard
     * nothing for four publish periods it turns a master that another sentinel
     * is just promoting back. While a master is down it asks replicas for INFO
     * once a second, whatever INFO-PERIOD says, and promotes only one that has
     * answered within five ping periods: so those must be more than a second,
     * or a failover finds no good replica, and six seconds later, in step, none
     * again. */
    static const struct {
        const char *name;
        int value;
    } tuning[] = {
        {"INFO-PERIOD", 300},       {"PING-PERIOD", 250},
        {"ASK-PERIOD", 100},        {"PUBLISH-PERIOD", 1000},
        {"TILT-TRIGGER", 60000},    {"TILT-PERIOD", 1000},
        {"ELECTION-TIMEOUT", 2000},
    };
    char conf[512];
    int n = snprintf(conf, sizeof conf,
                     "sentinel monitor %s 127.0.0.1 %u %d\n"
                     "sentinel down-after-milliseconds %s %d\n"
                     "sentinel failover-timeout %s 3000\n",
                     name, rig->servers[master].port, quorum, name,
                     down_after_ms, name);
    uint32_t i;

    if (rig->password != NULL) {
        (void)snprintf(conf + n, sizeof conf - (size_t)n,
                       "sentinel auth-pass %s %s\n", name, rig->password);
    }
    i = start(rig, REDIS_RIG_SENTINEL, conf);
    for (size_t t = 0; t < WP_ARRAY_LEN(tuning); t++) {
        (void)redis_rig_must(rig, i, "SENTINEL DEBUG %s %d", tuning[t].name,
                             tuning[t].value);
    }
    return i;
}

void
redis_rig_wait_sentinels(struct redis_rig *rig, const char *name,
                         uint32_t n_sentinels, uint32_t n_replicas)
{
    char command[128];
    char sentinels[64];
    char replicas[64];

    (void)snprintf(command, sizeof command, "SENTINEL MASTER %s", name);
    (void)snprintf(sentinels, sizeof sentinels, "num-other-sentinels\n%u\n",
                   n_sentinels - 1);
    (void)snprintf(replicas, sizeof replicas, "num-slaves\n%u\n", n_replicas);
    for (uint32_t i = 0; i < rig->n; i++) {
        if (rig->servers[i].kind == REDIS_RIG_SENTINEL) {
            redis_rig_wait_for(rig, i, command, sentinels);
            redis_rig_wait_for(rig, i, command, replicas);
        }
    }
}

void
redis_rig_kill(struct redis_rig *rig, uint32_t i, int signal)
{
    struct redis_rig_server *server = &rig->servers[i];

    if (server->pid <= 0) {
        return;
    }
    assert_int_equal(kill(server->pid, signal), 0);
    if (signal == SIGKILL) {
        assert_int_equal(waitpid(server->pid, NULL, 0), server->pid);
        server->pid = 0;
    }
}

void
redis_rig_restart(struct redis_rig *rig, uint32_t i)
{
    int64_t since = 0;

    assert_int_equal(rig->servers[i].pid, 0);
    do {
        redis_rig_pause(&since, "its old port");
        run(&rig->servers[i]);
    } while (!wait_until_up(rig, i));
}
