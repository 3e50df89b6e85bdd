/* allocator/ctl/options.h - warmpoolctl's flags.
 *
 * One table of options for all commands: a command lists the names of those it
 * takes, so that a flag means the same everywhere. Strings are borrowed from
 * argv and the environment. */
#ifndef WP_ALLOCATOR_CTL_OPTIONS_H
#define WP_ALLOCATOR_CTL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"

enum {
    WP_CTL_ENV_MAX = 256,      /* Of --env. */
    WP_CTL_WORDS_MAX = 64,     /* Of an option that may be repeated. */
    WP_CTL_AUTOSCALE_MAX = 12, /* Of --autoscale. */
    WP_CTL_OBJECTIVES_MAX = 8, /* Of --objective. */
};

enum wp_ctl_output {
    WP_OUTPUT_TABLE,
    WP_OUTPUT_JSON,
    WP_OUTPUT_NAME, /* Names only, one a line. */
};

/* Of an option that may be repeated. */
struct wp_ctl_words {
    const char *word[WP_CTL_WORDS_MAX];
    uint32_t n;
};

/* What was said; what was not has its default. */
struct wp_ctl_options {
    const char *address; /* NULL: the default socket. */
    const char *http;
    const char *tls_ca;
    const char *tls_cert;
    const char *tls_key;
    const char *tls_name;
    const char *access_token_file; /* NULL: the daemon's default. */
    const char *token;
    const char *token_file;
    const char *tenant;
    const char *id;
    const char *pool;
    const char *cwd;
    const char *csv;
    const char *plot;
    const char *objectives[WP_CTL_OBJECTIVES_MAX]; /* Of advise. */
    uint32_t n_objectives;
    const char *env[WP_CTL_ENV_MAX];
    uint32_t n_env;
    struct wp_ctl_words secrets;      /* NAME=@FILE or NAME=- */
    struct wp_ctl_words env_secrets;  /* The same. */
    struct wp_ctl_words files;        /* LOCAL:PATH */
    struct wp_ctl_words archives;     /* FILE[:DIR] */
    struct wp_ctl_words skills;       /* DIR */
    struct wp_ctl_words repositories; /* URL[@REF][:DIR] */
    struct wp_ctl_words volumes;      /* NAME[:DIR] */
    struct wp_ctl_words passwords;    /* [USER@]HOST[:PORT]=@FILE */
    const char *sources;              /* NULL: none. */
    const char *state_dir;            /* Of the daemon; NULL: its default. */
    const char *workdir;
    const char *egress;
    const char *audience;                        /* Of the identity. */
    const char *autoscale[WP_CTL_AUTOSCALE_MAX]; /* KEY=VALUE */
    uint32_t n_autoscale;
    const char *target; /* NULL: not given. */
    const char *template_name;
    const char *file;
    enum wp_ctl_output output;
    int64_t timeout_ns; /* Of a call, besides what it is asked to wait. */
    int64_t ttl_ns;     /* 0: the pool's default. */
    int64_t wait_ns;
    int64_t grace_ns;
    int64_t time_limit_ns; /* 0: none. */
    int64_t lead_ns;       /* Of advise; 0: as measured. */
    uint32_t replicas;     /* The same; 0: not given. */
    int64_t in_ns;         /* Until a reservation begins; 0: now. */
    int64_t for_ns;        /* How long it lasts. */
    uint32_t count;        /* 0: not given, a single claim. */
    bool all_or_nothing;
    bool hold;
    bool undo;
    bool terms;
    bool forget;
    bool no_stdin;
    bool run; /* What follows "--" is the rest. */
    bool help;

    char *const *args; /* Positional ones, in order. */
    int n_args;
    char *const *rest; /* A command to run and its arguments. */
    int n_rest;
};

enum wp_ctl_option_type {
    WP_OPTION_FLAG,
    WP_OPTION_TEXT,
    WP_OPTION_DURATION,
    WP_OPTION_COUNT,
    WP_OPTION_OUTPUT,
    WP_OPTION_ENV,
    WP_OPTION_AUTOSCALE,
    WP_OPTION_OBJECTIVE,
    WP_OPTION_WORDS,
};

/* What a shell may offer to complete. */
enum wp_ctl_subject {
    WP_SUBJECT_NONE,
    WP_SUBJECT_POOL,
    WP_SUBJECT_CLAIM,
    WP_SUBJECT_FILE,
    WP_SUBJECT_SHELL,
    WP_SUBJECT_OUTPUT,
};

struct wp_ctl_option {
    const char *name;
    char letter;         /* '\0': none. */
    const char *operand; /* "POOL"; NULL for a flag. */
    enum wp_ctl_option_type type;
    enum wp_ctl_subject subject;
    size_t offset; /* In struct wp_ctl_options. */
    int64_t min_ns;
    int64_t max_ns;
    const char *help;
};

/* The names every command takes, and the option of a name (NULL: none). */
extern const char *const wp_ctl_options_common[];
const struct wp_ctl_option *wp_ctl_option_find(const char *name);
/* What it does, in words for people; command: whose option it is. */
const char *wp_ctl_option_help(const struct wp_ctl_option *option,
                               const char *command);

/* Defaults, with what the environment says. */
void wp_ctl_options_init(struct wp_ctl_options *options);
/* Reads the common options before the command's word: warmpoolctl -a ADDR
 * pools. used: how many of the n words they are, with a "--" that ends them.
 * Errors as below. */
enum wp_status wp_ctl_options_parse_first(struct wp_ctl_options *options,
                                          char **args, int n, int *used,
                                          struct wp_err *err);
/* Reads the n words at args, which are reordered so that the positional ones
 * come first. names ends with NULL. with_rest: what follows the first
 * positional word or "--" is a command for somebody else, not looked into.
 * INVALID_ARGUMENT: err says which word and what was expected. */
enum wp_status wp_ctl_options_parse(struct wp_ctl_options *options,
                                    const char *const *names, bool with_rest,
                                    char **args, int n, struct wp_err *err);

#endif
