#include "runtime/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/formats/sandbox_token.h"
#include "pool/base/str.h"

/* Where a setting goes and what it may be. */
enum kind {
    TEXT,
    NUMBER_I32,
    NUMBER_U32,
    NUMBER_I64,
    NUMBER_U64,
    ORIGIN,
    LEVEL,
    FORMAT,
    SWITCH,
    SCOPE,
};

struct setting {
    const char *flag;
    const char *env;
    enum kind kind;
    size_t offset;
    uint64_t min;
    uint64_t max;
    const char *meaning; /* For --help; "\n" begins another line. */
};

#define AT(field) offsetof(struct wp_options, field)

static const struct setting settings[] = {
    {"--bind", "WARMPOOL_RUNTIME_BIND", TEXT, AT(bind), 0, 0,
     "Address the ports listen on (default ::, which is every\n"
     "address, or 0.0.0.0 where there is no IPv6)."},
    {"--port", "PORT", NUMBER_I32, AT(port), 0, 65535,
     "Port that serves MCP and REST (default 8080, or none when a\n"
     "Unix socket or both ports below are given). 0: the system\n"
     "chooses."},
    {"--mcp-port", "MCP_PORT", NUMBER_I32, AT(mcp_port), 0, 65535,
     "One more port, for MCP only (default none)."},
    {"--rest-port", "REST_PORT", NUMBER_I32, AT(rest_port), 0, 65535,
     "One more port, for REST only (default none; clients of\n"
     "agent-sandbox expect 8888)."},
    {"--grpc-port", "GRPC_PORT", NUMBER_I32, AT(grpc_port), 0, 65535,
     "Port of commands over gRPC, process.v1.ProcessService (default\n"
     "none; clients of agent-sandbox's sandboxd expect 9090)."},
    {"--unix", "WARMPOOL_RUNTIME_UNIX", TEXT, AT(unix_path), 0, 0,
     "A Unix socket that serves MCP and REST (default none)."},
    {"--port-file", "WARMPOOL_RUNTIME_PORT_FILE", TEXT, AT(port_file), 0, 0,
     "Where to write the chosen ports: a line \"all N\", \"mcp N\",\n"
     "\"rest N\" or \"grpc N\" each, once they listen."},
    {"--workspace", "WORKSPACE_DIR", TEXT, AT(workspace), 0, 0,
     "Folder of the REST file calls and of /execute (default\n"
     "/workspace, or the current folder if there is none)."},
    {"--skills-dir", "SKILLS_DIR", TEXT, AT(skills_dir), 0, 0,
     "Folder of skills, read at start (default /skills)."},
    {"--allowed-origin", "WARMPOOL_RUNTIME_ALLOWED_ORIGIN", ORIGIN, 0, 0, 0,
     "An Origin besides the loopback ones that browsers may use;\n"
     "may be repeated; * allows any (default none)."},
    {"--execs-max", "WARMPOOL_RUNTIME_EXECS_MAX", NUMBER_U32, AT(execs_max), 1,
     1024, "Commands that may run at once (default 32); more wait."},
    {"--execs-waiting-max", "WARMPOOL_RUNTIME_EXECS_WAITING_MAX", NUMBER_U32,
     AT(execs_waiting_max), 0, 65536,
     "Commands of POST /execute and of MCP that may wait for that\n"
     "(default 256); more are refused (429), as are all those of\n"
     "/v1/exec."},
    {"--background-ms", "WARMPOOL_RUNTIME_BACKGROUND_MS", NUMBER_I64,
     AT(background_ms), 0, 3600000,
     "How long MCP's exec waits for the output of what a command\n"
     "left running in the background (default 10000)."},
    {"--progress-ms", "WARMPOOL_RUNTIME_PROGRESS_MS", NUMBER_I64,
     AT(progress_ms), 100, 600000,
     "How often a client that waits for a long MCP call hears that it\n"
     "goes on (default 10000)."},
    {"--exec-timeout-max-ms", "WARMPOOL_RUNTIME_EXEC_TIMEOUT_MAX_MS",
     NUMBER_I64, AT(exec_timeout_max_ms), 0, 86400000,
     "Longest any command may run (default 0: no limit)."},
    {"--rest-timeout-ms", "WARMPOOL_RUNTIME_REST_TIMEOUT_MS", NUMBER_I64,
     AT(rest_timeout_ms), 1, 86400000,
     "Time limit of a POST /execute without timeout_seconds (default\n"
     "60000)."},
    {"--output-max", "WARMPOOL_RUNTIME_OUTPUT_MAX", NUMBER_U64, AT(output_max),
     1024, 268435456,
     "Bytes kept of each stream of a command (default 8388608);\n"
     "the rest is dropped and stderr says so."},
    {"--read-max", "WARMPOOL_RUNTIME_READ_MAX", NUMBER_U64, AT(read_max), 1024,
     1073741824,
     "Bytes of the largest file read_file gives (default\n"
     "67108864)."},
    {"--upload-max", "WARMPOOL_RUNTIME_UPLOAD_MAX", NUMBER_U64, AT(upload_max),
     1024, 1099511627776, "Bytes of the largest upload (default 268435456)."},
    {"--conns-max", "WARMPOOL_RUNTIME_CONNS_MAX", NUMBER_U32, AT(conns_max), 1,
     65536, "Connections at once (default 512); more wait."},
    {"--grace-ms", "WARMPOOL_RUNTIME_GRACE_MS", NUMBER_I64, AT(grace_ms), 0,
     600000, "How long SIGTERM waits for requests (default 2000)."},
    {"--confine", "WARMPOOL_RUNTIME_CONFINE", SWITCH, AT(confine), 0, 0,
     "Write nowhere but in the workspace, /tmp, /dev/shm, /dev/null\n"
     "and its like, by Landlock, for this process and all it starts."},
    {"--readable", "WARMPOOL_RUNTIME_READABLE", TEXT, AT(readable), 0, 0,
     "With --confine: folders and files, with ':' between them, that\n"
     "can be read besides those that can be written; nothing else can\n"
     "(default: everything)."},
    {"--token-digest", WP_SANDBOX_TOKEN_ENV, TEXT, AT(token_digest), 0, 0,
     "SHA-256 of the token, in hexadecimal, that " WP_SANDBOX_TOKEN_FIELD "\n"
     "has to show (default none: nobody is asked). The daemon sets it\n"
     "in a cluster."},
    {"--token-for", "WARMPOOL_RUNTIME_TOKEN_FOR", SCOPE, AT(token_for), 0, 0,
     "control or all (default control, which is /v1/exec, /v1/bind and\n"
     "/v1/identity; all leaves only /healthz and /v1/health open;\n"
     "over gRPC the token may also come as 'authorization: Bearer\n"
     "TOKEN')."},
    {"--bound-dir", "WARMPOOL_BOUND_DIR", TEXT, AT(bound_dir), 0, 0,
     "Folder in memory, made if it is not there, for variables and\n"
     "secrets that the sandbox's claim brings in a cluster (default\n"
     "/dev/shm/warmpool)."},
    {"--log-level", "WARMPOOL_RUNTIME_LOG_LEVEL", LEVEL, AT(log_level), 0, 0,
     "debug, info, warn or error (default info)."},
    {"--log-format", "WARMPOOL_RUNTIME_LOG_FORMAT", FORMAT, AT(log_format), 0,
     0, "text or json (default text)."},
};

static const struct wp_options defaults = {
    .bind = NULL,
    .port = WP_OPTIONS_PORT_NONE,
    .mcp_port = WP_OPTIONS_PORT_NONE,
    .rest_port = WP_OPTIONS_PORT_NONE,
    .grpc_port = WP_OPTIONS_PORT_NONE,
    .skills_dir = "/skills",
    .execs_max = 32,
    .execs_waiting_max = 256,
    .background_ms = 10000,
    .progress_ms = 10000,
    .rest_timeout_ms = 60000,
    .output_max = 8 << 20,
    .upload_max = 256 << 20,
    .read_max = 64 << 20,
    .conns_max = 512,
    .grace_ms = 2000,
    .bound_dir = "/dev/shm/warmpool",
    .log_level = WP_LOG_INFO,
    .log_format = WP_LOG_TEXT,
};

static void
help_print(void)
{
    printf("Usage: warmpool-runtime [SETTING ...]\n\n"
           "The server inside a sandbox: MCP tools (POST to any path), a REST\n"
           "file and command API (/, /execute, /upload, /download, /list,\n"
           "/exists), streaming commands (/v1/exec), the files and commands\n"
           "of agent-sandbox's sandboxd (/v1/files, gRPC) and /healthz.\n\n"
           "Each setting is a flag or an environment variable; a flag wins.\n");
    for (size_t i = 0; i < WP_ARRAY_LEN(settings); i++) {
        const struct setting *setting = &settings[i];

        printf("\n  %s%s   (%s)\n      ", setting->flag,
               setting->kind == SWITCH ? "" : " VALUE", setting->env);
        for (const char *p = setting->meaning; *p != '\0'; p++) {
            if (*p == '\n') {
                printf("\n      ");
            } else {
                putchar(*p);
            }
        }
        putchar('\n');
    }
    printf("\n  --help, --version\n");
}

static enum wp_status
number_set(const struct setting *setting, const char *value, void *at,
           struct wp_err *err)
{
    uint64_t number;

    if (!wp_str_to_u64(wp_str_from(value), &number) || number < setting->min ||
        number > setting->max) {
        return wp_err_set(
            err, WP_INVALID_ARGUMENT,
            "%s (%s): a whole number from %llu to %llu is expected, not '%s'",
            setting->flag, setting->env, (unsigned long long)setting->min,
            (unsigned long long)setting->max, value);
    }
    if (setting->kind == NUMBER_I32) {
        *(int32_t *)at = (int32_t)number;
    } else if (setting->kind == NUMBER_U32) {
        *(uint32_t *)at = (uint32_t)number;
    } else if (setting->kind == NUMBER_I64) {
        *(int64_t *)at = (int64_t)number;
    } else {
        *(uint64_t *)at = number;
    }
    return WP_OK;
}

static enum wp_status
one_of(const struct setting *setting, const char *value,
       const char *const *names, int *out, struct wp_err *err)
{
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(value, names[i]) == 0) {
            *out = i;
            return WP_OK;
        }
    }
    return wp_err_set(err, WP_INVALID_ARGUMENT, "%s (%s): '%s' is not known",
                      setting->flag, setting->env, value);
}

static enum wp_status
setting_set(const struct setting *setting, const char *value,
            struct wp_options *out, struct wp_err *err)
{
    static const char *const levels[] = {"debug", "info", "warn", "error",
                                         NULL};
    static const char *const formats[] = {"text", "json", NULL};
    static const char *const scopes[] = {"control", "all", NULL};
    static const char *const switches[] = {"0", "1", "false", "true", NULL};
    void *at = (char *)out + setting->offset;
    enum wp_status status = WP_OK;
    int index = 0;

    switch (setting->kind) {
    case TEXT:
        *(const char **)at = value;
        break;
    case ORIGIN:
        if (out->origins_count == WP_OPTIONS_ORIGINS_MAX) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "--allowed-origin: at most %d are taken",
                              WP_OPTIONS_ORIGINS_MAX);
        }
        out->origins[out->origins_count++] = value;
        break;
    case LEVEL:
        status = one_of(setting, value, levels, &index, err);
        out->log_level = (enum wp_log_level)index;
        break;
    case FORMAT:
        status = one_of(setting, value, formats, &index, err);
        out->log_format = (enum wp_log_format)index;
        break;
    case SWITCH:
        status = one_of(setting, value, switches, &index, err);
        *(bool *)at = index % 2 == 1;
        break;
    case SCOPE:
        status = one_of(setting, value, scopes, &index, err);
        out->token_for = (enum wp_token_scope)index;
        break;
    case NUMBER_I32:
    case NUMBER_U32:
    case NUMBER_I64:
    case NUMBER_U64:
        return number_set(setting, value, at, err);
    }
    return status;
}

/* The setting that arg names, as "--flag" or "--flag=value". */
static const struct setting *
setting_find(const char *arg, const char **value)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(settings); i++) {
        size_t len = strlen(settings[i].flag);

        if (strncmp(arg, settings[i].flag, len) == 0 &&
            (arg[len] == '\0' || arg[len] == '=')) {
            *value = arg[len] == '=' ? arg + len + 1 : NULL;
            return &settings[i];
        }
    }
    return NULL;
}

static enum wp_status
arguments_read(int argc, char **argv, struct wp_options *out,
               struct wp_err *err)
{
    for (int i = 1; i < argc; i++) {
        const char *value = NULL;
        const struct setting *setting = setting_find(argv[i], &value);
        enum wp_status status;

        if (setting == NULL) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "'%s' is not a setting; --help lists them",
                              argv[i]);
        }
        if (value == NULL && setting->kind == SWITCH) {
            value = "1";
        } else if (value == NULL && ++i < argc) {
            value = argv[i];
        } else if (value == NULL) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "%s: a value is expected", setting->flag);
        }
        status = setting_set(setting, value, out, err);
        if (status != WP_OK) {
            return status;
        }
    }
    return WP_OK;
}

/* Who asks for the token must be able to know it: else nothing is open. */
static enum wp_status
token_check(const struct wp_options *options, struct wp_err *err)
{
    uint8_t bytes[WP_SANDBOX_TOKEN_TEXT / 2];
    const char *digest = options->token_digest;

    if (digest == NULL && options->token_for == WP_TOKEN_FOR_ALL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "--token-for (WARMPOOL_RUNTIME_TOKEN_FOR): all needs "
                          "--token-digest (" WP_SANDBOX_TOKEN_ENV ")");
    }
    if (digest != NULL &&
        (!wp_hex_decode(wp_str_from(digest), bytes, sizeof bytes) ||
         strpbrk(digest, "ABCDEF") != NULL)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "--token-digest (" WP_SANDBOX_TOKEN_ENV
                          "): %d hexadecimal digits, 0 to 9 and a to f, are "
                          "expected",
                          WP_SANDBOX_TOKEN_TEXT);
    }
    return WP_OK;
}

enum wp_options_outcome
wp_options_parse(int argc, char **argv, struct wp_options *out,
                 struct wp_err *err)
{
    *out = defaults;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            help_print();
            return WP_OPTIONS_HELP;
        }
        if (strcmp(argv[i], "--version") == 0) {
            printf("warmpool-runtime " WP_VERSION "\n");
            return WP_OPTIONS_HELP;
        }
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(settings); i++) {
        const char *value = getenv(settings[i].env);

        if (value != NULL && *value != '\0' &&
            setting_set(&settings[i], value, out, err) != WP_OK) {
            return WP_OPTIONS_INVALID;
        }
    }
    if (arguments_read(argc, argv, out, err) != WP_OK ||
        token_check(out, err) != WP_OK) {
        return WP_OPTIONS_INVALID;
    }
    if (out->port == WP_OPTIONS_PORT_NONE && out->unix_path == NULL &&
        (out->mcp_port == WP_OPTIONS_PORT_NONE ||
         out->rest_port == WP_OPTIONS_PORT_NONE)) {
        out->port = 8080;
    }
    return WP_OPTIONS_RUN;
}
