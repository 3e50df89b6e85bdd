#include "allocator/ctl/options.h"

#include <stdlib.h>
#include <string.h>

#include "allocator/conf/value.h"
#include "pool/base/nearest.h"
#include "pool/base/clock.h"
#include "pool/limits.h"

#define AT(field) offsetof(struct wp_ctl_options, field)
#define TEXT(name, letter, operand, subject, field, help)                      \
    {                                                                          \
        name, letter, operand, WP_OPTION_TEXT, subject, AT(field), 0, 0, help  \
    }
#define FLAG(name, letter, field, help)                                        \
    {                                                                          \
        name, letter, NULL, WP_OPTION_FLAG, WP_SUBJECT_NONE, AT(field), 0, 0,  \
            help                                                               \
    }
#define DURATION(name, letter, field, min, max, help)                          \
    {                                                                          \
        name, letter, "TIME", WP_OPTION_DURATION, WP_SUBJECT_NONE, AT(field),  \
            min, max, help                                                     \
    }

static const struct wp_ctl_option options_table[] = {
    /* Every command's. */
    TEXT("address", 'a', "ADDR", WP_SUBJECT_NONE, address,
         "Where warmpoold serves gRPC: unix:/path or host:port. Default: "
         "$WARMPOOL_ADDRESS, else the daemon's default socket."),
    TEXT("http", 0, "ADDR", WP_SUBJECT_NONE, http,
         "Where it serves HTTP (exec, cp). Default: $WARMPOOL_HTTP, else its "
         "default socket."),
    TEXT("tls-ca", 0, "FILE", WP_SUBJECT_FILE, tls_ca,
         "Use TLS; authorities (PEM) that sign the daemon's certificate."),
    TEXT("tls-cert", 0, "FILE", WP_SUBJECT_FILE, tls_cert,
         "This client's certificate chain (PEM)."),
    TEXT("tls-key", 0, "FILE", WP_SUBJECT_FILE, tls_key,
         "The key of --tls-cert (PEM)."),
    TEXT("tls-name", 0, "NAME", WP_SUBJECT_NONE, tls_name,
         "The name in the daemon's certificate, when it is not the host's."),
    TEXT("access-token-file", 0, "FILE", WP_SUBJECT_FILE, access_token_file,
         "File with the daemon's access token, sent with calls over TCP. "
         "Default: $WARMPOOL_ACCESS_TOKEN_FILE, else the daemon's own on this "
         "machine, where it can be read."),
    DURATION("timeout", 0, timeout_ns, WP_NS_PER_MS, 3600 * WP_NS_PER_S,
             "How long a call may take, besides --wait. Default: 10s."),
    {"output", 'o', "FORMAT", WP_OPTION_OUTPUT, WP_SUBJECT_OUTPUT, AT(output),
     0, 0, "table (for people), json (stable names), or name (one a line)."},
    FLAG("help", 'h', help, "Explain the command."),
    /* Some commands'. */
    TEXT("id", 0, "ID", WP_SUBJECT_NONE, id,
         "The claim's id, 1 to 128 bytes; the same id again gets the same "
         "lease. With --count: of ID-1 to ID-N. Default: a new random one."),
    TEXT("tenant", 't', "NAME", WP_SUBJECT_NONE, tenant,
         "Whose claim it is, where the daemon does not know it from the "
         "credentials. Default: $WARMPOOL_TENANT."),
    TEXT("pool", 'p', "POOL", WP_SUBJECT_POOL, pool, "Only this pool's."),
    TEXT("token", 0, "HEX", WP_SUBJECT_NONE, token,
         "The lease's token, instead of the remembered one. Others on this "
         "machine can see it: prefer --token-file."),
    TEXT("token-file", 0, "FILE", WP_SUBJECT_FILE, token_file,
         "File with the lease's token, or with what claim --output json "
         "wrote; - is standard input."),
    DURATION("ttl", 0, ttl_ns, WP_TTL_MIN_NS, WP_TTL_MAX_NS,
             "How long the lease lasts unless renewed, 1s to 30d. Default: "
             "the pool's."),
    DURATION("wait", 'w', wait_ns, 0, WP_WAIT_MAX_NS,
             "How long to wait when no sandbox is ready, up to 10m. Default: "
             "not at all."),
    {"count", 'n', "N", WP_OPTION_COUNT, WP_SUBJECT_NONE, AT(count), 1,
     WP_BATCH_MAX, "Claim N sandboxes in one call, 1 to 256."},
    FLAG("all-or-nothing", 0, all_or_nothing,
         "With --count: either all N sandboxes or none."),
    FLAG("hold", 0, hold,
         "The lease may last as long as its pool holds one, which its "
         "annotation hold-max says; without --ttl it lasts until then."),
    FLAG("undo", 0, undo,
         "With POOL: take its drain back; it serves and is refilled again."),
    FLAG("forget", 0, forget,
         "Remove the records of URL: the next claim that brings it trusts "
         "anew."),
    TEXT("state-dir", 0, "DIR", WP_SUBJECT_FILE, state_dir,
         "The daemon's setting state_dir. Default: its default."),
    FLAG("terms", 0, terms,
         "Show the terms of the decision, and the decisions before."),
    DURATION("grace", 0, grace_ns, 0, 3600 * WP_NS_PER_S,
             "How long leases may live on, up to 1h. Default: 30s."),
    DURATION("in", 0, in_ns, 0, 365 * 24 * 3600 * WP_NS_PER_S,
             "When the demand begins, from now. Default: at once."),
    DURATION("for", 0, for_ns, WP_NS_PER_S, 31 * 24 * 3600 * WP_NS_PER_S,
             "How long until all of it has been claimed, 1s to 31d. Default: "
             "10m."),
    TEXT("target", 0, "N", WP_SUBJECT_NONE, target,
         "How many sandboxes to keep ready, 0 to 1048576. With an objective "
         "this takes over from the scaler."),
    TEXT("template", 0, "NAME", WP_SUBJECT_NONE, template_name,
         "The SandboxTemplate that the pool's sandboxes are made from."),
    TEXT("file", 'f', "FILE", WP_SUBJECT_FILE, file,
         "A SandboxWarmPool in YAML or JSON, with its SandboxTemplate unless "
         "the daemon has that; - is standard input."),
    {"autoscale", 's', "K=V", WP_OPTION_AUTOSCALE, WP_SUBJECT_NONE,
     AT(autoscale), 0, 0,
     "Set a key of the scaling policy, as in the annotations of the group "
     "autoscale.warmpool.io; an empty value takes it away. May be repeated."},
    TEXT("csv", 0, "FILE", WP_SUBJECT_FILE, csv,
         "Claim times to replay instead of what the daemon recorded: one a "
         "line, in seconds or as 2026-01-31T23:59:59Z, or TIME,COUNT; - is "
         "standard input."),
    {"objective", 0, "RATE", WP_OPTION_OBJECTIVE, WP_SUBJECT_NONE,
     AT(objectives), 0, 0,
     "A hit rate to try, such as 99.9%; may be repeated, up to 8 times. "
     "Default: 95, 99, 99.5, 99.9 and 99.99 %."},
    TEXT("plot", 0, "FILE", WP_SUBJECT_FILE, plot,
         "Draw the trade-off of hit rate and idle sandboxes as SVG."),
    DURATION("lead", 0, lead_ns, WP_NS_PER_MS, 3600 * WP_NS_PER_S,
             "How long an order takes to become ready. Default: as was "
             "measured."),
    {"replicas", 0, "N", WP_OPTION_COUNT, WP_SUBJECT_NONE, AT(replicas), 1,
     WP_TARGET_MAX, "Without POOL: the fixed size of today, to compare with."},
    TEXT("cwd", 'C', "DIR", WP_SUBJECT_NONE, cwd,
         "Directory in the sandbox to run the command in."),
    {"env", 'e', "K=V", WP_OPTION_ENV, WP_SUBJECT_NONE, AT(env), 0, 0,
     "Set a variable for the command; may be repeated. Others on this machine "
     "can see it."},
    {"secret", 0, "NAME=@FILE", WP_OPTION_WORDS, WP_SUBJECT_FILE, AT(secrets),
     0, 0,
     "Bring what is in FILE, byte for byte, as the file "
     "$WARMPOOL_BOUND_DIR/secrets/NAME; NAME=- reads standard input. May be "
     "repeated."},
    {"secret-env", 0, "NAME=@FILE", WP_OPTION_WORDS, WP_SUBJECT_FILE,
     AT(env_secrets), 0, 0,
     "The same, and set it as a variable, too. May be repeated."},
    {"copy", 0, "LOCAL:PATH", WP_OPTION_WORDS, WP_SUBJECT_FILE, AT(files), 0, 0,
     "Bring the file LOCAL, or all files of the folder LOCAL, as PATH, below "
     "the workspace. May be repeated. Of all files up to 1 MiB is there when "
     "the lease is granted; more, up to 1 GiB, is uploaded before the answer."},
    {"archive", 0, "FILE[:DIR]", WP_OPTION_WORDS, WP_SUBJECT_FILE, AT(archives),
     0, 0,
     "Bring the plain files of a tar archive, packed by gzip or not, below the "
     "workspace or DIR; - reads standard input. May be repeated."},
    {"skill", 0, "DIR", WP_OPTION_WORDS, WP_SUBJECT_FILE, AT(skills), 0, 0,
     "Bring the folder DIR, which has a SKILL.md, as .claude/skills/ and its "
     "name. May be repeated."},
    {"repo", 0, "URL[@REF][:DIR]", WP_OPTION_WORDS, WP_SUBJECT_NONE,
     AT(repositories), 0, 0,
     "Bring a shallow checkout of a Git repository that the daemon allows, at "
     "a "
     "branch, a tag or a commit, into the workspace or DIR below it. May be "
     "repeated, up to 8 times."},
    {"volume", 0, "NAME[:DIR]", WP_OPTION_WORDS, WP_SUBJECT_NONE, AT(volumes),
     0, 0,
     "Bring the tenant's folder NAME, which outlives the lease, as DIR (or "
     "NAME) below the workspace; made if need be. May be repeated, up to 4 "
     "times."},
    {"repo-password", 0, "HOST=@FILE", WP_OPTION_WORDS, WP_SUBJECT_FILE,
     AT(passwords), 0, 0,
     "Log in to HOST (or USER@HOST, or HOST:PORT) for its repositories with "
     "the password or access token in FILE; HOST=- reads standard input. The "
     "sandbox does not get it. May be repeated."},
    TEXT("sources", 0, "FILE", WP_SUBJECT_FILE, sources,
         "Bring only repositories that the policy in FILE (a sources.json) "
         "allows; the sandbox reaches the hosts it names at most, unless "
         "--egress says other ones."),
    TEXT("workdir", 0, "DIR", WP_SUBJECT_NONE, workdir,
         "Where commands run that name no folder; made when it is below the "
         "workspace."),
    TEXT("egress", 0, "POLICY", WP_SUBJECT_NONE, egress,
         "What the sandbox may reach: less than its pool, such as packages, "
         "none or \"example.org *.example.net\"."),
    TEXT("identity", 0, "AUDIENCE", WP_SUBJECT_NONE, audience,
         "Give the sandbox a signed identity for AUDIENCE, as the file "
         "$WARMPOOL_IDENTITY_FILE; it is renewed with the lease."),
    FLAG("run", 0, run,
         "Start the command that follows --, once the rest is there."),
    DURATION("time-limit", 0, time_limit_ns, WP_NS_PER_MS,
             24 * 3600 * WP_NS_PER_S,
             "Stop the command after this long, and exit with 124."),
    FLAG("no-stdin", 0, no_stdin,
         "Give the command an empty standard input; for loops that read."),
};

/* What an option means to one command more exactly. */
static const struct {
    const char *command;
    const char *option;
    const char *help;
} own_help[] = {
    {"claim", "env",
     "Set a variable for all commands in the sandbox; may be repeated. Others "
     "on this machine can see it."},
    {"list", "tenant",
     "Only this tenant's. Default: $WARMPOOL_TENANT, else all that you may "
     "see."},
    {"tenants", "tenant",
     "Only this tenant. Default: $WARMPOOL_TENANT, else all that you may see."},
    {"reserve", "id",
     "The reservation's id, 1 to 63 bytes; the same id again with other "
     "numbers is refused. Default: a new random one."},
};

const char *const wp_ctl_options_common[] = {
    "address",           "http",    "tls-ca", "tls-cert", "tls-key", "tls-name",
    "access-token-file", "timeout", "output", "help",     NULL};

const struct wp_ctl_option *
wp_ctl_option_find(const char *name)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(options_table); i++) {
        if (strcmp(options_table[i].name, name) == 0) {
            return &options_table[i];
        }
    }
    return NULL;
}

const char *
wp_ctl_option_help(const struct wp_ctl_option *option, const char *command)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(own_help); i++) {
        if (strcmp(own_help[i].command, command) == 0 &&
            strcmp(own_help[i].option, option->name) == 0) {
            return own_help[i].help;
        }
    }
    return option->help;
}

static const char *
env(const char *name)
{
    /* A program with one thread as yet. */
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe) */

    return value != NULL && value[0] != '\0' ? value : NULL;
}

void
wp_ctl_options_init(struct wp_ctl_options *options)
{
    *options = (struct wp_ctl_options){
        .address = env("WARMPOOL_ADDRESS"),
        .http = env("WARMPOOL_HTTP"),
        .access_token_file = env("WARMPOOL_ACCESS_TOKEN_FILE"),
        .tenant = env("WARMPOOL_TENANT"),
        .timeout_ns = 10 * WP_NS_PER_S,
        .grace_ns = 30 * WP_NS_PER_S,
        .for_ns = 600 * WP_NS_PER_S,
    };
}

/* One use of parse. */
struct parser {
    struct wp_ctl_options *options;
    const char *const *names;
    struct wp_err *err;
    char **args;
    int n;
    int at;
};

static const struct wp_ctl_option *
allowed_option(const struct parser *parser, struct wp_str name, char letter)
{
    const char *const *lists[] = {wp_ctl_options_common, parser->names};

    for (size_t l = 0; l < WP_ARRAY_LEN(lists); l++) {
        for (const char *const *p = lists[l]; *p != NULL; p++) {
            const struct wp_ctl_option *option = wp_ctl_option_find(*p);

            if (letter != '\0' ? option->letter == letter
                               : wp_str_is(name, option->name)) {
                return option;
            }
        }
    }
    return NULL;
}

static enum wp_status
unknown_option(const struct parser *parser, const char *word,
               struct wp_str name)
{
    struct wp_nearest nearest;

    wp_nearest_init(&nearest, name);
    for (const char *const *p = parser->names; *p != NULL; p++) {
        wp_nearest_offer(&nearest, *p);
    }
    for (const char *const *p = wp_ctl_options_common; *p != NULL; p++) {
        wp_nearest_offer(&nearest, *p);
    }
    if (nearest.best != NULL) {
        return wp_err_set(parser->err, WP_INVALID_ARGUMENT,
                          "unknown option '%.60s'; did you mean --%s?", word,
                          nearest.best);
    }
    return wp_err_set(parser->err, WP_INVALID_ARGUMENT,
                      "unknown option '%.60s'", word);
}

static enum wp_status
set_duration(const struct parser *parser, const struct wp_ctl_option *option,
             const char *value, int64_t *out)
{
    char min[32];
    char max[32];

    if (wp_conf_duration_parse(wp_str_from(value), out) &&
        *out >= option->min_ns && *out <= option->max_ns) {
        return WP_OK;
    }
    return wp_err_set(parser->err, WP_INVALID_ARGUMENT,
                      "--%s '%.60s': expected a time from %s to %s, such as "
                      "500ms, 30s, 5m, 2h or 7d",
                      option->name, value,
                      wp_conf_duration_format(option->min_ns, min),
                      wp_conf_duration_format(option->max_ns, max));
}

static enum wp_status
set_count(const struct parser *parser, const struct wp_ctl_option *option,
          const char *value, uint32_t *out)
{
    uint64_t n;

    if (wp_str_to_u64(wp_str_from(value), &n) &&
        n >= (uint64_t)option->min_ns && n <= (uint64_t)option->max_ns) {
        *out = (uint32_t)n;
        return WP_OK;
    }
    return wp_err_set(parser->err, WP_INVALID_ARGUMENT,
                      "--%s '%.60s': expected a whole number from %lld to %lld",
                      option->name, value, (long long)option->min_ns,
                      (long long)option->max_ns);
}

static enum wp_status
set_output(const struct parser *parser, const char *value)
{
    static const char *const names[] = {"table", "json", "name"};

    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        if (strcmp(value, names[i]) == 0) {
            parser->options->output = (enum wp_ctl_output)i;
            return WP_OK;
        }
    }
    return wp_err_set(parser->err, WP_INVALID_ARGUMENT,
                      "--output '%.60s': expected table, json or name", value);
}

static enum wp_status
set_env(const struct parser *parser, const char *value)
{
    struct wp_ctl_options *options = parser->options;
    const char *equals = strchr(value, '=');

    if (equals == NULL || equals == value) {
        return wp_err_set(parser->err, WP_INVALID_ARGUMENT,
                          "--env '%.60s': expected NAME=VALUE", value);
    }
    if (options->n_env == WP_CTL_ENV_MAX) {
        return wp_err_set(parser->err, WP_INVALID_ARGUMENT,
                          "--env: at most %d variables", WP_CTL_ENV_MAX);
    }
    options->env[options->n_env++] = value;
    return WP_OK;
}

static enum wp_status
set_autoscale(const struct parser *parser, const char *value)
{
    struct wp_ctl_options *options = parser->options;
    const char *equals = strchr(value, '=');

    if (equals == NULL || equals == value) {
        return wp_err_set(parser->err, WP_INVALID_ARGUMENT,
                          "--autoscale '%.60s': expected KEY=VALUE, such as "
                          "objective=99.9%%",
                          value);
    }
    if (options->n_autoscale == WP_CTL_AUTOSCALE_MAX) {
        return wp_err_set(parser->err, WP_INVALID_ARGUMENT,
                          "--autoscale: at most %d keys", WP_CTL_AUTOSCALE_MAX);
    }
    options->autoscale[options->n_autoscale++] = value;
    return WP_OK;
}

static enum wp_status
set_objective(const struct parser *parser, const char *value)
{
    struct wp_ctl_options *options = parser->options;

    if (options->n_objectives == WP_CTL_OBJECTIVES_MAX) {
        return wp_err_set(parser->err, WP_INVALID_ARGUMENT,
                          "--objective: at most %d", WP_CTL_OBJECTIVES_MAX);
    }
    options->objectives[options->n_objectives++] = value;
    return WP_OK;
}

static enum wp_status
add_word(const struct parser *parser, const struct wp_ctl_option *option,
         const char *value, struct wp_ctl_words *words)
{
    if (words->n == WP_CTL_WORDS_MAX) {
        return wp_err_set(parser->err, WP_INVALID_ARGUMENT,
                          "--%s: at most %d times", option->name,
                          WP_CTL_WORDS_MAX);
    }
    words->word[words->n++] = value;
    return WP_OK;
}

static enum wp_status
set_option(const struct parser *parser, const struct wp_ctl_option *option,
           const char *value)
{
    void *field = (char *)parser->options + option->offset;

    switch (option->type) {
    case WP_OPTION_FLAG:
        *(bool *)field = true;
        return WP_OK;
    case WP_OPTION_TEXT:
        *(const char **)field = value;
        return WP_OK;
    case WP_OPTION_DURATION:
        return set_duration(parser, option, value, field);
    case WP_OPTION_COUNT:
        return set_count(parser, option, value, field);
    case WP_OPTION_OUTPUT:
        return set_output(parser, value);
    case WP_OPTION_ENV:
        return set_env(parser, value);
    case WP_OPTION_AUTOSCALE:
        return set_autoscale(parser, value);
    case WP_OPTION_OBJECTIVE:
        return set_objective(parser, value);
    case WP_OPTION_WORDS:
        return add_word(parser, option, value, field);
    }
    return WP_INTERNAL;
}

/* The word at parser->at, which starts with '-'; takes the next one too when it
 * is the value. */
static enum wp_status
parse_option(struct parser *parser)
{
    const char *word = parser->args[parser->at];
    bool is_long = word[1] == '-';
    const char *value = is_long ? strchr(word, '=') : NULL;
    struct wp_str name = {word + 2, is_long ? strlen(word) - 2 : 0};
    const struct wp_ctl_option *option;
    char letter = '\0';

    if (!is_long) {
        letter = word[1];
    }
    if (value != NULL) {
        name.len = (size_t)(value - name.ptr);
        value++;
    } else if (!is_long && word[2] != '\0') {
        value = word + 2;
    }
    option = allowed_option(parser, name, letter);
    if (option == NULL) {
        return unknown_option(parser, word, name);
    }
    if (option->type == WP_OPTION_FLAG && value != NULL) {
        return wp_err_set(parser->err, WP_INVALID_ARGUMENT,
                          "--%s takes no value", option->name);
    }
    if (option->type != WP_OPTION_FLAG && value == NULL) {
        if (parser->at + 1 >= parser->n) {
            return wp_err_set(parser->err, WP_INVALID_ARGUMENT,
                              "--%s needs a value: %s", option->name,
                              option->operand);
        }
        value = parser->args[++parser->at];
    }
    return set_option(parser, option, value);
}

enum wp_status
wp_ctl_options_parse_first(struct wp_ctl_options *options, char **args, int n,
                           int *used, struct wp_err *err)
{
    static const char *const none[] = {NULL};
    struct parser parser = {options, none, err, args, n, 0};

    for (; parser.at < n; parser.at++) {
        const char *word = args[parser.at];

        if (strcmp(word, "--") == 0) {
            parser.at++;
            break;
        }
        if (word[0] != '-' || word[1] == '\0') {
            break;
        }
        if (parse_option(&parser) != WP_OK) {
            return err->status;
        }
    }
    *used = parser.at;
    return WP_OK;
}

enum wp_status
wp_ctl_options_parse(struct wp_ctl_options *options, const char *const *names,
                     bool with_rest, char **args, int n, struct wp_err *err)
{
    struct parser parser = {options, names, err, args, n, 0};

    options->args = args;
    for (; parser.at < n; parser.at++) {
        char *word = args[parser.at];

        if (strcmp(word, "--") == 0 ||
            (with_rest && options->n_args == 1 && word[0] != '-')) {
            parser.at += word[0] == '-';
            break;
        }
        if (word[0] == '-' && word[1] != '\0') {
            enum wp_status status = parse_option(&parser);

            if (status != WP_OK) {
                return status;
            }
        } else {
            /* Never ahead of what has been read. */
            args[options->n_args++] = word;
        }
    }
    if ((with_rest || options->run) && options->n_args > 0) {
        options->rest = args + parser.at;
        options->n_rest = n - parser.at;
    } else {
        while (parser.at < n) {
            args[options->n_args++] = args[parser.at++];
        }
    }
    return WP_OK;
}
