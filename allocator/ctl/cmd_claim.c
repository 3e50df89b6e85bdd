/* claim: one sandbox, or several in one call. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/ctl/calls.h"
#include "allocator/ctl/commands.h"
#include "allocator/ctl/lease.h"
#include "allocator/ctl/print.h"
#include "pool/base/os_error.h"
#include "pool/base/rng.h"
#include "pool/remotes/remote_word.h"
#include "proto/formats/json_text.h"

enum {
    FIELD = 10, /* Width of the titles. */
};

/* How long a claim with repositories may take longer than another. */
#define FETCH_NS (60 * WP_NS_PER_S)

/* "ctl-" and 16 hexadecimal digits. */
static const char *
random_id(struct wp_ctl *ctl)
{
    uint8_t bytes[8];
    char hex[2 * sizeof bytes + 1];
    char *id = wp_ctl_alloc(ctl, 32);

    wp_random_bytes(bytes, sizeof bytes);
    wp_hex_encode(bytes, sizeof bytes, hex);
    (void)snprintf(id, 32, "ctl-%s", hex);
    return id;
}

/* A lease whose token could not be remembered is still granted: say so. */
static void
remember(const struct wp_ctl *ctl, struct wp_str claim_id,
         const struct wp_grant *grant)
{
    struct wp_token_record record = {.deadline_wall_ms =
                                         grant->deadline_wall_ms};
    struct wp_err err;

    if (!wp_str_copy(claim_id, record.claim_id, sizeof record.claim_id)) {
        return;
    }
    memcpy(record.sandbox, grant->sandbox, sizeof record.sandbox);
    memcpy(record.token, grant->token, sizeof record.token);
    if (wp_token_store_save(&record, &err) != WP_OK) {
        (void)fprintf(ctl->errors,
                      "warmpoolctl: the lease's token is not remembered: %s\n",
                      err.msg);
    }
}

static json_t *
names_json(const char *const *names, uint32_t n)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < n; i++) {
        (void)json_array_append_new(list, wp_json_from_text(names[i]));
    }
    return list;
}

static json_t *
bound_json(const struct wp_wire_bound *bound)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "env",
                     names_json(bound->env, bound->n_env), "secrets",
                     names_json(bound->secrets, bound->n_secrets), "files",
                     names_json(bound->files, bound->n_files), "repositories",
                     names_json(bound->repositories, bound->n_repositories),
                     "working_dir", wp_json_from_text(bound->working_dir),
                     "started", (int)bound->started, "egress",
                     wp_json_from_text(bound->egress), "identity",
                     wp_json_from_text(bound->identity));
}

static void
print_bound(FILE *out, const struct wp_wire_bound *bound)
{
    wp_print_field(out, FIELD, "bound", "%u variable%s, %u secret%s, %u file%s",
                   bound->n_env, bound->n_env == 1 ? "" : "s", bound->n_secrets,
                   bound->n_secrets == 1 ? "" : "s", bound->n_files,
                   bound->n_files == 1 ? "" : "s");
    for (uint32_t i = 0; i < bound->n_repositories; i++) {
        wp_print_field(out, FIELD, "", "%s", bound->repositories[i]);
    }
    if (bound->egress[0] != '\0') {
        wp_print_field(out, FIELD, "egress", "%s", bound->egress);
    }
    if (bound->identity[0] != '\0') {
        wp_print_field(out, FIELD, "identity", "for %s", bound->identity);
    }
    if (bound->started) {
        wp_print_field(out, FIELD, "", "the command was started");
    }
}

static json_t *
claim_json(const struct wp_wire_claim_response *response)
{
    json_t *lease = wp_ctl_lease_json(response->claim_id, response->grant,
                                      response->replayed);

    if (response->bound != NULL) {
        (void)json_object_set_new(lease, "bound", bound_json(response->bound));
    }
    return lease;
}

static void
print_lease(const struct wp_ctl *ctl,
            const struct wp_wire_claim_response *response)
{
    const struct wp_grant *grant = response->grant;
    struct wp_str claim_id = response->claim_id;
    FILE *out = ctl->out;
    char text[32];

    switch (ctl->options.output) {
    case WP_OUTPUT_JSON:
        wp_print_json(out, claim_json(response), true);
        return;
    case WP_OUTPUT_NAME:
        (void)fprintf(out, "%.*s\n", WP_STR_ARG(claim_id));
        return;
    case WP_OUTPUT_TABLE:
        break;
    }
    wp_print_field(out, FIELD, "claim", "%.*s", WP_STR_ARG(claim_id));
    wp_print_field(out, FIELD, "pool", "%s/%s", grant->pool_namespace,
                   grant->pool);
    wp_print_field(out, FIELD, "sandbox", "%s", grant->sandbox);
    wp_print_field(out, FIELD, "endpoint", "%s", grant->endpoint);
    wp_print_field(
        out, FIELD, "served", "%s, %s%s%s", wp_served_text(grant->served),
        grant->waited_ns > 0 ? "after " : "at once",
        grant->waited_ns > 0 ? wp_print_duration(grant->waited_ns, text) : "",
        response->replayed ? " (the same lease as before)" : "");
    wp_print_field(out, FIELD, "ends in", "%s",
                   wp_ctl_left(grant->deadline_wall_ms, text));
    if (response->bound != NULL) {
        print_bound(out, response->bound);
    }
    if (isatty(fileno(out)) == 1) {
        (void)fprintf(out,
                      "\nUse it:  warmpoolctl exec %.*s -- sh -c 'uname -a'\n"
                      "End it:  warmpoolctl release %.*s\n",
                      WP_STR_ARG(claim_id), WP_STR_ARG(claim_id));
    }
}

/* --- What it brings --- */

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
    size_t cap = max;
    struct stat st;
    char *bytes;
    size_t len;
    bool failed;

    if (in == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "--%s: %.300s: %s", option,
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
                          "--%s: %.300s: it cannot be read", option, path);
    }
    if (len > cap) {
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
                              "--copy '%.60s': expected LOCAL:PATH",
                              words->word[i]);
        }
        name = wp_ctl_alloc(ctl, local.len + 1);
        memcpy(name, local.ptr, local.len);
        files[i].path = wp_str_from(path);
        files[i].mode = 0644;
        status = read_file(ctl, "copy", name, WP_BINDING_FILES_BYTES_MAX,
                           &files[i].content, err);
    }
    out->files = files;
    out->n_files = words->n;
    return status;
}

static enum wp_status
read_archives(struct wp_ctl *ctl, struct wp_binding *out, struct wp_err *err)
{
    const struct wp_ctl_words *words = &ctl->options.archives;
    struct wp_binding_archive *archives =
        wp_ctl_alloc(ctl, words->n * sizeof *archives + 1);
    enum wp_status status = WP_OK;

    for (uint32_t i = 0; i < words->n && status == WP_OK; i++) {
        struct wp_str file = wp_str_from(words->word[i]);
        const char *dir = "";
        char *name;

        (void)split(words->word[i], ':', true, &file, &dir);
        name = wp_ctl_alloc(ctl, file.len + 1);
        memcpy(name, file.ptr, file.len);
        archives[i].dir = wp_str_from(dir);
        status = read_file(ctl, "archive", name, WP_BINDING_FILES_BYTES_MAX,
                           &archives[i].content, err);
    }
    out->archives = archives;
    out->n_archives = words->n;
    return status;
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
    struct wp_str password;
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

/* The bytes of the Binding that the options ask for; ptr is NULL when they ask
 * for none. */
static enum wp_status
read_binding(struct wp_ctl *ctl, struct wp_str *out, struct wp_err *err)
{
    const struct wp_ctl_options *options = &ctl->options;
    struct wp_binding binding = {.working_dir = wp_str_from(options->workdir),
                                 .egress = wp_str_from(options->egress),
                                 .audience = wp_str_from(options->audience)};
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
    if (status == WP_OK) {
        status = read_archives(ctl, &binding, err);
    }
    if (status == WP_OK) {
        status = read_repositories(ctl, &binding, err);
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
            binding.n_command + binding.n_repositories + binding.n_archives +
            binding.working_dir.len + binding.egress.len +
            binding.audience.len ==
        0) {
        return WP_OK;
    }
    bytes = wp_ctl_alloc(ctl, wp_wire_size_binding(&binding) + 1);
    *out = (struct wp_str){(const char *)bytes,
                           wp_wire_pack_binding(&binding, bytes)};
    return WP_OK;
}

/* --- One, or several --- */

static int
claim_one(struct wp_ctl *ctl, struct wp_wire_pool_ref pool, const char *id)
{
    struct wp_wire_claim_request request = {
        .pool = pool,
        .claim_id = wp_str_from(id),
        .tenant = wp_str_from(ctl->options.tenant),
        .ttl_ms = ctl->options.ttl_ns / WP_NS_PER_MS,
        .wait_ms = ctl->options.wait_ns / WP_NS_PER_MS,
    };
    struct wp_wire_claim_response response;
    struct wp_ctl_call call = {.wait_ns = ctl->options.wait_ns};

    if (ctl->options.repositories.n > 0) {
        call.wait_ns += FETCH_NS;
    }
    if (read_binding(ctl, &request.binding, &call.err) != WP_OK) {
        return wp_ctl_usage(ctl, &call.err);
    }
    if (wp_ctl_call_claim(ctl, &request, &response, &call) != WP_OK) {
        return wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
    }
    remember(ctl, response.claim_id, response.grant);
    print_lease(ctl, &response);
    return WP_EXIT_OK;
}

static json_t *
item_json(const struct wp_wire_batch_item *item)
{
    if (item->code == 0) {
        return wp_ctl_lease_json(item->claim_id, item->grant, item->replayed);
    }
    return json_pack("{s:o, s:{s:i, s:o}}", "claim_id",
                     wp_json_from_str(item->claim_id), "error", "code",
                     item->code, "message", wp_json_from_str(item->message));
}

static void
print_batch(const struct wp_ctl *ctl,
            const struct wp_wire_batch_response *response)
{
    static const char *const titles[] = {"CLAIM", "SANDBOX", "ENDPOINT",
                                         "SERVED"};
    struct wp_table table;
    json_t *items = json_array();

    wp_table_init(&table, titles, 4, 0);
    for (uint32_t i = 0; i < response->n_items; i++) {
        const struct wp_wire_batch_item *item = &response->items[i];

        (void)json_array_append_new(items, item_json(item));
        wp_table_add(&table, "%.*s", WP_STR_ARG(item->claim_id));
        if (item->code == 0) {
            wp_table_add(&table, "%s", item->grant->sandbox);
            wp_table_add(&table, "%s", item->grant->endpoint);
            wp_table_add(&table, "%s", wp_served_text(item->grant->served));
        } else {
            wp_table_add(&table, "-");
            wp_table_add(&table, "-");
            wp_table_add(&table, "%.*s", WP_STR_ARG(item->message));
        }
        if (ctl->options.output == WP_OUTPUT_NAME && item->code == 0) {
            (void)fprintf(ctl->out, "%.*s\n", WP_STR_ARG(item->claim_id));
        }
    }
    if (ctl->options.output == WP_OUTPUT_TABLE) {
        wp_table_print(&table, ctl->out);
    }
    if (ctl->options.output == WP_OUTPUT_JSON) {
        wp_print_json(ctl->out, json_pack("{s:O}", "items", items), true);
    }
    json_decref(items);
    wp_table_fini(&table);
}

/* ID-1 .. ID-N. */
static enum wp_status
batch_ids(struct wp_ctl *ctl, const char *id, struct wp_str *out,
          struct wp_err *err)
{
    for (uint32_t i = 0; i < ctl->options.count; i++) {
        char *text = wp_ctl_alloc(ctl, WP_CLAIM_ID_MAX + 1);
        int n = snprintf(text, WP_CLAIM_ID_MAX + 1, "%s-%u", id, i + 1);

        if (n > WP_CLAIM_ID_MAX) {
            return wp_err_set(
                err, WP_INVALID_ARGUMENT,
                "--id: with -1 to -%u behind it, at most %d bytes",
                ctl->options.count, WP_CLAIM_ID_MAX);
        }
        out[i] = wp_str_from(text);
    }
    return WP_OK;
}

static int
claim_batch(struct wp_ctl *ctl, struct wp_wire_pool_ref pool, const char *id)
{
    struct wp_str ids[WP_BATCH_MAX];
    struct wp_wire_batch_request request = {
        .pool = pool,
        .claim_ids = ids,
        .n_claims = ctl->options.count,
        .tenant = wp_str_from(ctl->options.tenant),
        .ttl_ms = ctl->options.ttl_ns / WP_NS_PER_MS,
        .wait_ms = ctl->options.wait_ns / WP_NS_PER_MS,
        .all_or_nothing = ctl->options.all_or_nothing,
    };
    struct wp_wire_batch_response response;
    struct wp_ctl_call call = {.wait_ns = ctl->options.wait_ns};
    uint32_t failed = 0;
    int code = 0;

    if (batch_ids(ctl, id, ids, &call.err) != WP_OK) {
        return wp_ctl_usage(ctl, &call.err);
    }
    if (wp_ctl_call_claim_batch(ctl, &request, &response, &call) != WP_OK) {
        return wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
    }
    for (uint32_t i = 0; i < response.n_items; i++) {
        const struct wp_wire_batch_item *item = &response.items[i];

        if (item->code == 0) {
            remember(ctl, item->claim_id, item->grant);
        } else {
            failed++;
            code = item->code;
        }
    }
    print_batch(ctl, &response);
    if (failed == 0) {
        return WP_EXIT_OK;
    }
    (void)fprintf(ctl->errors, "warmpoolctl: %u of %u claims got no sandbox\n",
                  failed, response.n_items);
    return code == wp_status_grpc_code(WP_RESOURCE_EXHAUSTED)
               ? WP_EXIT_EXHAUSTED
               : WP_EXIT_FAILED;
}

static bool
brings_something(const struct wp_ctl_options *options)
{
    return options->n_env + options->secrets.n + options->env_secrets.n +
                   options->files.n + options->archives.n +
                   options->repositories.n + options->passwords.n !=
               0 ||
           options->workdir != NULL || options->egress != NULL ||
           options->audience != NULL || options->run;
}

int
wp_cmd_claim(struct wp_ctl *ctl)
{
    struct wp_wire_pool_ref pool;
    struct wp_err err;
    const char *id = ctl->options.id;

    if (wp_ctl_pool_parse(ctl, ctl->options.args[0], &pool, &err) != WP_OK) {
        return wp_ctl_usage(ctl, &err);
    }
    if (ctl->options.all_or_nothing && ctl->options.count == 0) {
        (void)wp_err_set(&err, WP_INVALID_ARGUMENT,
                         "--all-or-nothing goes with --count");
        return wp_ctl_usage(ctl, &err);
    }
    if (ctl->options.count > 0 && brings_something(&ctl->options)) {
        (void)wp_err_set(&err, WP_INVALID_ARGUMENT,
                         "--count: claims that bring something are made one "
                         "by one");
        return wp_ctl_usage(ctl, &err);
    }
    if (id == NULL) {
        id = random_id(ctl);
    }
    return ctl->options.count > 0 ? claim_batch(ctl, pool, id)
                                  : claim_one(ctl, pool, id);
}
