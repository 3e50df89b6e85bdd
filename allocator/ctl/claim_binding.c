/* What a claim brings, from the options of `claim`. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "allocator/ctl/commands.h"
#include "pool/base/os_error.h"

/* "NAME<mark>VALUE"; false: it is not of that form. */
static bool
split(const char *text, char mark, bool last, struct wp_str *name,
      const char **rest)
{
    const char *at = last ? strrchr(text, mark) : strchr(text, mark);

    if (at == NULL || at == text || at[1] == '\0') {
        return false;
    }
    *name = (struct wp_str){text, (size_t)(at - text)};
    *rest = at + 1;
    return true;
}

/* All of the file, or of standard input. */
static enum wp_status
read_file(struct wp_ctl *ctl, const char *option, const char *path, size_t max,
          struct wp_str *out, struct wp_err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *in = is_stdin ? stdin : fopen(path, "re");
    char *bytes;
    size_t len;
    bool failed;

    if (in == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "--%s: %.300s: %s", option,
                          path, wp_os_error(errno));
    }
    bytes = wp_ctl_alloc(ctl, max + 1);
    len = fread(bytes, 1, max + 1, in);
    failed = ferror(in) != 0;
    if (!is_stdin) {
        (void)fclose(in);
    }
    if (failed) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "--%s: %.300s: it cannot be read", option, path);
    }
    if (len > max) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "--%s: %.300s: at most %zu bytes expected", option,
                          path, max);
    }
    *out = (struct wp_str){bytes, len};
    return WP_OK;
}

static enum wp_status
read_env(struct wp_ctl *ctl, struct wp_binding *out)
{
    const struct wp_ctl_options *options = &ctl->options;
    struct wp_binding_env *env =
        wp_ctl_alloc(ctl, options->n_env * sizeof *env + 1);

    for (uint32_t i = 0; i < options->n_env; i++) {
        const char *equals = strchr(options->env[i], '='); /* It has one. */

        env[i].name = (struct wp_str){options->env[i],
                                      (size_t)(equals - options->env[i])};
        env[i].value = wp_str_from(equals + 1);
    }
    out->env = env;
    out->n_env = options->n_env;
    return WP_OK;
}

/* Of --secret, or --secret-env. */
static enum wp_status
read_secrets(struct wp_ctl *ctl, const struct wp_ctl_words *words, bool in_env,
             struct wp_binding_secret *secrets, uint32_t *n, struct wp_err *err)
{
    const char *option = in_env ? "secret-env" : "secret";
    enum wp_status status = WP_OK;

    for (uint32_t i = 0; i < words->n && status == WP_OK; i++) {
        struct wp_binding_secret *secret = &secrets[(*n)++];
        const char *from;

        secret->in_env = in_env;
        if (!split(words->word[i], '=', false, &secret->name, &from) ||
            (strcmp(from, "-") != 0 && (from[0] != '@' || from[1] == '\0'))) {
            /* Not repeated: it may have the secret. */
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "--%s: expected NAME=@FILE, or NAME=- for "
                              "standard input",
                              option);
        }
        status = read_file(ctl, option, from[0] == '@' ? from + 1 : from,
                           WP_BINDING_VALUE_MAX, &secret->value, err);
    }
    return status;
}

static enum wp_status
read_files(struct wp_ctl *ctl, struct wp_binding *out, struct wp_err *err)
{
    const struct wp_ctl_words *words = &ctl->options.files;
    struct wp_binding_file *files =
        wp_ctl_alloc(ctl, words->n * sizeof *files + 1);
    enum wp_status status = WP_OK;

    for (uint32_t i = 0; i < words->n && status == WP_OK; i++) {
        struct wp_str local;
        const char *path;
        char *name;

        if (!split(words->word[i], ':', true, &local, &path)) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "--file '%.60s': expected LOCAL:PATH",
                              words->word[i]);
        }
        name = wp_ctl_alloc(ctl, local.len + 1);
        memcpy(name, local.ptr, local.len);
        files[i].path = wp_str_from(path);
        files[i].mode = 0644;
        status = read_file(ctl, "file", name, WP_BINDING_FILES_BYTES_MAX,
                           &files[i].content, err);
    }
    out->files = files;
    out->n_files = words->n;
    return status;
}

static void
read_command(struct wp_ctl *ctl, struct wp_binding *out)
{
    uint32_t n = ctl->options.run ? (uint32_t)ctl->options.n_rest : 0;
    struct wp_str *words = wp_ctl_alloc(ctl, n * sizeof *words + 1);

    for (uint32_t i = 0; i < n; i++) {
        words[i] = wp_str_from(ctl->options.rest[i]);
    }
    out->command = words;
    out->n_command = n;
}

enum wp_status
wp_ctl_read_binding(struct wp_ctl *ctl, struct wp_str *out, struct wp_err *err)
{
    const struct wp_ctl_options *options = &ctl->options;
    struct wp_binding binding = {.working_dir = wp_str_from(options->workdir)};
    struct wp_binding_secret *secrets = wp_ctl_alloc(
        ctl,
        (options->secrets.n + options->env_secrets.n) * sizeof *secrets + 1);
    enum wp_status status = read_env(ctl, &binding);
    uint8_t *bytes;

    *out = (struct wp_str){NULL, 0};
    if (status == WP_OK) {
        status = read_secrets(ctl, &options->secrets, false, secrets,
                              &binding.n_secrets, err);
    }
    if (status == WP_OK) {
        status = read_secrets(ctl, &options->env_secrets, true, secrets,
                              &binding.n_secrets, err);
    }
    binding.secrets = secrets;
    if (status == WP_OK) {
        status = read_files(ctl, &binding, err);
    }
    if (status == WP_OK && options->run && options->n_rest == 0) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "--run: expected -- and a command behind it");
    }
    if (status != WP_OK) {
        return status;
    }
    read_command(ctl, &binding);
    if (binding.n_env + binding.n_secrets + binding.n_files +
            binding.n_command + binding.working_dir.len ==
        0) {
        return WP_OK;
    }
    bytes = wp_ctl_alloc(ctl, wp_wire_size_binding(&binding) + 1);
    *out = (struct wp_str){(const char *)bytes,
                           wp_wire_pack_binding(&binding, bytes)};
    return WP_OK;
}
