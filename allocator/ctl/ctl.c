#include "allocator/ctl/ctl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "allocator/ctl/help.h"
#include "pool/base/nearest.h"
#include "allocator/ctl/print.h"
#include "allocator/ctl/rpc_client.h"
#include "pool/base/clock.h"
#include "proto/formats/json_text.h"

/* Of address space; pages that are not written cost nothing. */
#define ARENA_SIZE ((size_t)1 << 30)

enum wp_ctl_exit
wp_ctl_exit_code(enum wp_status status)
{
    switch (wp_status_grpc_code(status)) {
    case 0: /* OK */
        return WP_EXIT_OK;
    case 3: /* INVALID_ARGUMENT */
        return WP_EXIT_USAGE;
    case 5: /* NOT_FOUND */
        return WP_EXIT_NOT_FOUND;
    case 14: /* UNAVAILABLE */
        return WP_EXIT_UNAVAILABLE;
    case 4: /* DEADLINE_EXCEEDED */
    case 8: /* RESOURCE_EXHAUSTED */
        return WP_EXIT_EXHAUSTED;
    default:
        return WP_EXIT_FAILED;
    }
}

/* What somebody who reads the message may want to know next; NULL: nothing. */
static const char *
hint_for(const struct wp_err *err)
{
    if (err->status == WP_UNAVAILABLE &&
        strncmp(err->msg, "cannot reach", 12) == 0) {
        return "Is it running? Start warmpoold, or say where it serves with "
               "--address (exec and cp: --http) or $WARMPOOL_ADDRESS.";
    }
    if (err->status == WP_PERMISSION_DENIED) {
        return "The daemon's settings 'identities' and 'allowed_uids' say who "
               "may do what.";
    }
    return NULL;
}

static int
own_failure(const struct wp_ctl *ctl, int code)
{
    /* exec's small codes are the command's. */
    return ctl->command != NULL && ctl->command->with_rest ? WP_EXIT_EXEC_FAILED
                                                           : code;
}

int
wp_ctl_fail(const struct wp_ctl *ctl, const struct wp_err *err,
            int64_t retry_after_ns)
{
    const char *hint = hint_for(err);
    char text[32];

    if (ctl->options.output == WP_OUTPUT_JSON) {
        json_t *error =
            json_pack("{s:s, s:o}", "code", wp_status_name(err->status),
                      "message", wp_json_from_text(err->msg));

        if (retry_after_ns > 0) {
            (void)json_object_set_new(
                error, "retry_after_ms",
                json_integer((retry_after_ns + WP_NS_PER_MS - 1) /
                             WP_NS_PER_MS));
        }
        wp_print_json(ctl->errors, json_pack("{s:o}", "error", error), false);
    } else {
        wp_print_field(ctl->errors, 0, "", "warmpoolctl: %s", err->msg);
        if (retry_after_ns > 0) {
            (void)fprintf(ctl->errors, "Expected to work again in %s.\n",
                          wp_print_duration(retry_after_ns, text));
        }
        if (hint != NULL) {
            (void)fprintf(ctl->errors, "%s\n", hint);
        }
    }
    return own_failure(ctl, (int)wp_ctl_exit_code(err->status));
}

int
wp_ctl_usage(const struct wp_ctl *ctl, const struct wp_err *err)
{
    wp_print_field(ctl->errors, 0, "", "warmpoolctl: %s", err->msg);
    if (ctl->command != NULL) {
        wp_help_usage(ctl->command, ctl->errors);
        (void)fprintf(ctl->errors, "See warmpoolctl %s --help\n",
                      ctl->command->name);
    } else {
        (void)fprintf(ctl->errors, "See warmpoolctl --help\n");
    }
    return own_failure(ctl, WP_EXIT_USAGE);
}

enum wp_status
wp_ctl_pool_parse(struct wp_ctl *ctl, const char *text,
                  struct wp_wire_pool_ref *out, struct wp_err *err)
{
    const char *slash = strchr(text, '/');

    *out = (struct wp_wire_pool_ref){{NULL, 0}, wp_str_from(text)};
    if (slash != NULL) {
        /* pack wants terminated strings. */
        size_t len = (size_t)(slash - text);
        char *space = wp_ctl_alloc(ctl, len + 1);

        memcpy(space, text, len);
        out->pool_namespace = wp_str_from(space);
        out->name = wp_str_from(slash + 1);
    }
    if (!wp_str_is_dns_name(out->name, WP_POOL_NAME_MAX) ||
        (slash != NULL &&
         !wp_str_is_dns_name(out->pool_namespace, WP_NAMESPACE_MAX))) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "'%.80s': expected a pool as NAME or NAMESPACE/NAME, "
                          "in lower-case letters, digits, '-' and '.'",
                          text);
    }
    return WP_OK;
}

void *
wp_ctl_alloc(struct wp_ctl *ctl, size_t n)
{
    void *p = wp_arena_alloc(&ctl->arena, n);

    if (p == NULL) {
        (void)fputs("warmpoolctl: out of memory\n", ctl->errors);
        exit(own_failure(ctl,
                         WP_EXIT_FAILED)); /* NOLINT(concurrency-mt-unsafe) */
    }
    memset(p, 0, n);
    return p;
}

static const struct wp_ctl_command *
find_command(const char *name, struct wp_nearest *nearest)
{
    wp_nearest_init(nearest, wp_str_from(name));
    for (const struct wp_ctl_command *c = wp_ctl_commands; c->name != NULL;
         c++) {
        if (strcmp(c->name, name) == 0) {
            return c;
        }
        wp_nearest_offer(nearest, c->name);
    }
    return NULL;
}

static int
unknown_command(struct wp_ctl *ctl, const char *name,
                const struct wp_nearest *nearest)
{
    struct wp_err err;

    (void)wp_err_set(&err, WP_INVALID_ARGUMENT, "unknown command '%.40s'%s%s%s",
                     name, nearest->best != NULL ? "; did you mean " : "",
                     nearest->best != NULL ? nearest->best : "",
                     nearest->best != NULL ? "?" : "");
    return wp_ctl_usage(ctl, &err);
}

/* Are there as many operands as the command takes? */
static enum wp_status
check_operands(const struct wp_ctl *ctl, struct wp_err *err)
{
    const struct wp_ctl_command *command = ctl->command;
    int n = ctl->options.n_args;

    if (n > command->args_max && !command->with_rest) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "%s: '%.60s' is too much",
                          command->name, ctl->options.args[command->args_max]);
    }
    if (n < command->args_min || n > command->args_max ||
        (command->with_rest && ctl->options.n_rest == 0)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "%s: expected %s",
                          command->name, command->operands);
    }
    return WP_OK;
}

static int
run_command(struct wp_ctl *ctl, char **args, int n)
{
    struct wp_err err;
    int code;

    if (wp_ctl_options_parse(&ctl->options, ctl->command->options,
                             ctl->command->with_rest, args, n, &err) != WP_OK) {
        return wp_ctl_usage(ctl, &err);
    }
    if (ctl->options.help) {
        wp_help_command(ctl->command, ctl->out);
        return WP_EXIT_OK;
    }
    if (check_operands(ctl, &err) != WP_OK) {
        return wp_ctl_usage(ctl, &err);
    }
    code = ctl->command->run(ctl);
    if (fflush(ctl->out) != 0 && code == WP_EXIT_OK) {
        (void)wp_err_set(&err, WP_INTERNAL, "cannot write the output");
        return wp_ctl_fail(ctl, &err, 0);
    }
    return code;
}

/* The words before the command may be common options: warmpoolctl -a ADDR
 * pools. Index of the command's word; argc when there is none. */
static int
skip_options(struct wp_ctl *ctl, int argc, char **argv)
{
    int i = 1;

    while (i < argc && argv[i][0] == '-' && argv[i][1] != '\0') {
        const struct wp_ctl_option *option = NULL;

        for (const char *const *p = wp_ctl_options_common; *p != NULL; p++) {
            const struct wp_ctl_option *o = wp_ctl_option_find(*p);

            if ((argv[i][1] == '-' && strcmp(argv[i] + 2, o->name) == 0) ||
                (argv[i][1] == o->letter && argv[i][2] == '\0')) {
                option = o;
            }
        }
        i += option != NULL && option->operand != NULL ? 2 : 1;
    }
    (void)ctl;
    return i < argc ? i : argc;
}

int
wp_ctl_main(int argc, char **argv, FILE *out, FILE *errors)
{
    static const char *const none[] = {NULL};
    struct wp_ctl ctl = {.out = out, .errors = errors};
    void *memory = mmap(NULL, ARENA_SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct wp_nearest nearest;
    struct wp_err err;
    int at = skip_options(&ctl, argc, argv);
    int code;

    if (memory == MAP_FAILED) {
        (void)fputs("warmpoolctl: out of memory\n", errors);
        return WP_EXIT_FAILED;
    }
    wp_arena_init(&ctl.arena, memory, ARENA_SIZE);
    wp_ctl_options_init(&ctl.options);
    if (wp_ctl_options_parse(&ctl.options, none, false, argv + 1, at - 1,
                             &err) != WP_OK) {
        code = wp_ctl_usage(&ctl, &err);
    } else if (at == argc || ctl.options.help ||
               strcmp(argv[at], "help") == 0) {
        code = wp_help_main(argc - at, argv + at, ctl.options.help, &ctl);
    } else {
        ctl.command = find_command(argv[at], &nearest);
        code = ctl.command == NULL
                   ? unknown_command(&ctl, argv[at], &nearest)
                   : run_command(&ctl, argv + at + 1, argc - at - 1);
    }
    wp_rpc_client_close(ctl.rpc);
    (void)munmap(memory, ARENA_SIZE);
    return code;
}
