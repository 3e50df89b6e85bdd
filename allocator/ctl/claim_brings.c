#include "allocator/ctl/claim_brings.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/ctl/sources.h"
#include "pool/base/os_error.h"
#include "pool/binding.h"
#include "pool/remotes/remote_word.h"

#define SKILLS ".claude/skills/"

enum {
    SOURCES_BYTES_MAX = 65536,
};

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

static const char *
text_of(struct wp_ctl *ctl, struct wp_str text)
{
    char *out = wp_ctl_alloc(ctl, text.len + 1);

    memcpy(out, text.ptr, text.len);
    return out;
}

/* All of the file, or of standard input. */
static enum wp_status
read_file(struct wp_ctl *ctl, const char *option, const char *path, size_t max,
          struct wp_str *out, struct wp_err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *in = is_stdin ? stdin : fopen(path, "re");
    size_t cap = max;
    struct stat st;
    char *bytes;
    size_t len;
    bool failed;

    if (in == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "--%s: %.160s: %s", option,
                          path, wp_os_error(errno));
    }
    if (fstat(fileno(in), &st) == 0 && S_ISREG(st.st_mode) &&
        (uint64_t)st.st_size < max) {
        cap = (size_t)st.st_size;
    }
    bytes = wp_ctl_alloc(ctl, cap + 1);
    len = fread(bytes, 1, cap + 1, in);
    failed = ferror(in) != 0;
    if (!is_stdin) {
        (void)fclose(in);
    }
    if (failed) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "--%s: %.160s: it cannot be read", option, path);
    }
    if (len > cap) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "--%s: %.160s: at most %zu bytes expected", option,
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

/* --copy LOCAL:PATH */
static enum wp_status
add_copies(struct wp_ctl *ctl, struct wp_brought *files, struct wp_err *err)
{
    const struct wp_ctl_words *words = &ctl->options.files;
    enum wp_status status = WP_OK;

    for (uint32_t i = 0; i < words->n && status == WP_OK; i++) {
        struct wp_str local;
        const char *path;

        if (!split(words->word[i], ':', true, &local, &path)) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "--copy '%.60s': expected LOCAL:PATH",
                              words->word[i]);
        }
        status = wp_brought_add(files, text_of(ctl, local), path, err);
    }
    return status == WP_OK ? WP_OK : wp_err_wrap(err, "--copy");
}

/* --archive FILE[:DIR] */
static enum wp_status
add_archives(struct wp_ctl *ctl, struct wp_brought *files, struct wp_err *err)
{
    const struct wp_ctl_words *words = &ctl->options.archives;
    enum wp_status status = WP_OK;

    for (uint32_t i = 0; i < words->n && status == WP_OK; i++) {
        struct wp_str file = wp_str_from(words->word[i]);
        const char *dir = "";

        (void)split(words->word[i], ':', true, &file, &dir);
        status = wp_brought_add_archive(files, text_of(ctl, file), dir, err);
    }
    return status == WP_OK ? WP_OK : wp_err_wrap(err, "--archive");
}

/* --skill DIR: where agents look for skills. */
static enum wp_status
add_skill(struct wp_brought *files, const char *dir, struct wp_err *err)
{
    char inside[PATH_MAX + sizeof "/SKILL.md"];
    char path[sizeof SKILLS + NAME_MAX + 1];
    char *whole = realpath(dir, NULL);
    enum wp_status status = WP_OK;

    if (whole == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "%.160s: %s", dir,
                          wp_os_error(errno));
    }
    (void)snprintf(inside, sizeof inside, "%s/SKILL.md", whole);
    (void)snprintf(path, sizeof path, SKILLS "%s", strrchr(whole, '/') + 1);
    if (access(inside, R_OK) != 0) {
        status =
            wp_err_set(err, WP_INVALID_ARGUMENT,
                       "%.160s: expected a folder with a file SKILL.md", dir);
    } else {
        status = wp_brought_add(files, whole, path, err);
    }
    free(whole);
    return status;
}

/* All files, and whether they are few and small enough to be brought by the
 * claim itself. */
static enum wp_status
read_files(struct wp_ctl *ctl, struct wp_ctl_brings *out, struct wp_err *err)
{
    const struct wp_ctl_words *skills = &ctl->options.skills;
    struct wp_brought *files = &out->files;
    enum wp_status status = add_copies(ctl, files, err);

    if (status == WP_OK) {
        status = add_archives(ctl, files, err);
    }
    for (uint32_t i = 0; i < skills->n && status == WP_OK; i++) {
        status = add_skill(files, skills->word[i], err);
        if (status != WP_OK) {
            return wp_err_wrap(err, "--skill");
        }
    }
    if (status == WP_OK) {
        status = wp_brought_check(files, err);
    }
    out->upload = files->n > WP_BINDING_FILES_MAX ||
                  files->bytes > WP_BINDING_FILES_BYTES_MAX;
    if (status == WP_OK && !out->upload) {
        status = wp_brought_read(files, err);
    }
    return status;
}

/* Those that the claim itself brings. */
static void
bind_files(struct wp_ctl *ctl, const struct wp_brought *brought,
           struct wp_binding *out)
{
    struct wp_binding_file *files =
        wp_ctl_alloc(ctl, brought->n * sizeof *files + 1);

    for (uint32_t i = 0; i < brought->n; i++) {
        files[i] = (struct wp_binding_file){
            .path = wp_str_from(brought->files[i].path),
            .content = brought->files[i].content,
            .mode = brought->files[i].mode,
        };
    }
    out->files = files;
    out->n_files = brought->n;
}

/* Of a URL: what is between "//" and the next '/'. */
static struct wp_str
authority_of(struct wp_str url)
{
    const char *end = url.ptr + url.len;
    const char *from = memmem(url.ptr, url.len, "//", 2); /* It is there. */
    const char *slash = memchr(from + 2, '/', (size_t)(end - from - 2));

    from += 2;
    return (struct wp_str){from,
                           (size_t)((slash != NULL ? slash : end) - from)};
}

/* Of --repo-password: for the repositories of its host. */
static enum wp_status
read_password(struct wp_ctl *ctl, const char *word,
              struct wp_binding_repository *repositories, uint32_t n,
              struct wp_err *err)
{
    struct wp_str user = {NULL, 0};
    struct wp_str password = {NULL, 0};
    struct wp_str host;
    const char *from;
    const char *at;
    bool used = false;

    if (!split(word, '=', false, &host, &from) ||
        (strcmp(from, "-") != 0 && (from[0] != '@' || from[1] == '\0'))) {
        /* Not repeated: it may have the password. */
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "--repo-password: expected HOST=@FILE, or HOST=- for "
                          "standard input");
    }
    if (read_file(ctl, "repo-password", from[0] == '@' ? from + 1 : from,
                  WP_BINDING_PASSWORD_MAX + 1, &password, err) != WP_OK) {
        return err->status;
    }
    /* An editor's end of line is not meant. */
    if (password.len > 0 && password.ptr[password.len - 1] == '\n') {
        password.len--;
    }
    if (password.len == 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "--repo-password %.*s: the file is empty",
                          WP_STR_ARG(host));
    }
    at = memchr(host.ptr, '@', host.len);
    if (at != NULL) {
        user = (struct wp_str){host.ptr, (size_t)(at - host.ptr)};
        host = (struct wp_str){at + 1, host.len - user.len - 1};
    }
    for (uint32_t i = 0; i < n; i++) {
        if (wp_str_eq(authority_of(repositories[i].url), host)) {
            repositories[i].user = user;
            repositories[i].password = password;
            used = true;
        }
    }
    return used ? WP_OK
                : wp_err_set(err, WP_INVALID_ARGUMENT,
                             "--repo-password %.*s: expected the host of a "
                             "--repo",
                             WP_STR_ARG(host));
}

static enum wp_status
read_repositories(struct wp_ctl *ctl, struct wp_binding *out,
                  struct wp_err *err)
{
    const struct wp_ctl_words *passwords = &ctl->options.passwords;
    enum wp_status status = WP_OK;
    const struct wp_ctl_words *words = &ctl->options.repositories;
    struct wp_binding_repository *repositories =
        wp_ctl_alloc(ctl, words->n * sizeof *repositories + 1);

    for (uint32_t i = 0; i < words->n; i++) {
        struct wp_remote_word word;
        const char *why = "";

        if (!wp_remote_word_parse(words->word[i], &word, &why)) {
            /* Not repeated: it may have a password. */
            return wp_err_set(err, WP_INVALID_ARGUMENT, "--repo: %s", why);
        }
        repositories[i] = (struct wp_binding_repository){
            .url = word.url, .ref = word.ref, .dir = word.dir};
    }
    for (uint32_t i = 0; i < passwords->n && status == WP_OK; i++) {
        status =
            read_password(ctl, passwords->word[i], repositories, words->n, err);
    }
    out->repositories = repositories;
    out->n_repositories = words->n;
    return status;
}

/* --volume NAME[:DIR] */
static void
read_volumes(struct wp_ctl *ctl, struct wp_binding *out)
{
    const struct wp_ctl_words *words = &ctl->options.volumes;
    struct wp_binding_volume *volumes =
        wp_ctl_alloc(ctl, words->n * sizeof *volumes + 1);

    for (uint32_t i = 0; i < words->n; i++) {
        struct wp_str name = wp_str_from(words->word[i]);
        const char *dir = "";

        (void)split(words->word[i], ':', false, &name, &dir);
        volumes[i] = (struct wp_binding_volume){name, wp_str_from(dir)};
    }
    out->volumes = volumes;
    out->n_volumes = words->n;
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

/* --sources FILE: refuses what its policy does, and says what the sandbox may
 * reach where --egress does not. */
static enum wp_status
read_sources(struct wp_ctl *ctl, struct wp_binding *out, struct wp_err *err)
{
    const char *path = ctl->options.sources;
    struct wp_sources sources;
    struct wp_str text = {NULL, 0};
    enum wp_status status;

    if (path == NULL) {
        return WP_OK;
    }
    status = read_file(ctl, "sources", path, SOURCES_BYTES_MAX, &text, err);
    if (status != WP_OK) {
        return status;
    }
    status = wp_sources_parse(text, &sources, err);
    for (uint32_t i = 0; i < out->n_repositories && status == WP_OK; i++) {
        status = wp_sources_allow(&sources, out->repositories[i].url,
                                  out->n_repositories, err);
    }
    if (status == WP_OK && out->egress.len == 0) {
        out->egress = wp_str_from(text_of(ctl, wp_str_from(sources.egress)));
    }
    wp_sources_fini(&sources);
    return status == WP_OK ? WP_OK
                           : wp_err_wrap(err, "--sources: %.160s", path);
}

/* What the options ask for, but for files and secrets. */
static enum wp_status
read_rest(struct wp_ctl *ctl, struct wp_binding *out, struct wp_err *err)
{
    const struct wp_ctl_options *options = &ctl->options;

    out->working_dir = wp_str_from(options->workdir);
    out->egress = wp_str_from(options->egress);
    out->audience = wp_str_from(options->audience);
    if (options->run && options->n_rest == 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "--run: expected -- and a command behind it");
    }
    read_command(ctl, out);
    read_volumes(ctl, out);
    return read_repositories(ctl, out, err) == WP_OK
               ? read_sources(ctl, out, err)
               : err->status;
}

static enum wp_status
read_all_secrets(struct wp_ctl *ctl, struct wp_binding *out, struct wp_err *err)
{
    const struct wp_ctl_options *options = &ctl->options;
    struct wp_binding_secret *secrets = wp_ctl_alloc(
        ctl,
        (options->secrets.n + options->env_secrets.n) * sizeof *secrets + 1);
    enum wp_status status = read_secrets(ctl, &options->secrets, false, secrets,
                                         &out->n_secrets, err);

    if (status == WP_OK) {
        status = read_secrets(ctl, &options->env_secrets, true, secrets,
                              &out->n_secrets, err);
    }
    out->secrets = secrets;
    return status;
}

static bool
is_empty(const struct wp_binding *binding)
{
    return binding->n_env + binding->n_secrets + binding->n_files +
               binding->n_command + binding->n_repositories +
               binding->n_volumes + binding->working_dir.len +
               binding->egress.len + binding->audience.len ==
           0;
}

enum wp_status
wp_ctl_read_brings(struct wp_ctl *ctl, struct wp_ctl_brings *out,
                   struct wp_err *err)
{
    struct wp_binding binding = {.n_env = 0};
    enum wp_status status = read_env(ctl, &binding);
    uint8_t *bytes;

    *out = (struct wp_ctl_brings){.upload = false};
    if (status == WP_OK) {
        status = read_all_secrets(ctl, &binding, err);
    }
    if (status == WP_OK) {
        status = read_files(ctl, out, err);
    }
    if (status == WP_OK) {
        status = read_rest(ctl, &binding, err);
    }
    if (status == WP_OK && out->upload && binding.n_command > 0) {
        status = wp_err_set(err, WP_INVALID_ARGUMENT,
                            "--run: at most 1 MiB in %d files can be there "
                            "before the command starts; use exec",
                            WP_BINDING_FILES_MAX);
    }
    if (status != WP_OK) {
        wp_brought_fini(&out->files);
        return status;
    }
    if (!out->upload) {
        bind_files(ctl, &out->files, &binding);
    }
    if (!is_empty(&binding)) {
        bytes = wp_ctl_alloc(ctl, wp_wire_size_binding(&binding) + 1);
        out->binding = (struct wp_str){(const char *)bytes,
                                       wp_wire_pack_binding(&binding, bytes)};
    }
    return WP_OK;
}

bool
wp_ctl_brings_something(const struct wp_ctl_options *options)
{
    return options->n_env + options->secrets.n + options->env_secrets.n +
                   options->files.n + options->archives.n + options->skills.n +
                   options->repositories.n + options->volumes.n +
                   options->passwords.n !=
               0 ||
           options->sources != NULL || options->workdir != NULL ||
           options->egress != NULL || options->audience != NULL || options->run;
}
