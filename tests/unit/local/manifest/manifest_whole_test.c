/* tests/unit/local/manifest/manifest_whole_test.c - all that becomes of a
 * manifest, field by field: golden/whole.yaml to golden/whole.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/base/golden.h"
#include "tests/support/local/manifest_text.h"

static void
tell_text(struct golden *golden, const char *name, const char *text)
{
    golden_add(golden, "%s: ", name);
    if (text == NULL) {
        golden_add(golden, "none\n");
        return;
    }
    golden_add(golden, "'%s'\n", text);
}

static void
tell_texts(struct golden *golden, const char *name, const char *const *texts)
{
    golden_add(golden, "%s:", name);
    for (size_t i = 0; texts != NULL && texts[i] != NULL; i++) {
        golden_add(golden, " '%s'", texts[i]);
    }
    golden_add(golden, "%s\n", texts == NULL ? " none" : "");
}

static void
tell_mount(struct golden *golden, const struct wp_template_mount *mount)
{
    static const char *const kinds[] = {"empty", "files", "file", "nothing"};

    golden_add(golden, "mount: %s '%s' %llu bytes%s%s, %u files\n",
               kinds[mount->kind], mount->path,
               (unsigned long long)mount->size_bytes,
               mount->read_only ? ", read only" : "",
               mount->prepared ? ", prepared" : "", mount->files_len);
    for (uint32_t i = 0; i < mount->files_len; i++) {
        const struct wp_template_file *file = &mount->files[i];

        golden_add(golden, "  file: '%s' %04o, %zu bytes:", file->path,
                   file->mode, file->bytes.len);
        for (size_t b = 0; b < file->bytes.len; b++) {
            golden_add(golden, " %02x", (unsigned char)file->bytes.ptr[b]);
        }
        golden_add(golden, "\n");
    }
}

static void
tell_template(struct golden *golden, const struct wp_template *tmpl)
{
    static const char *const probes[] = {"tcp", "http", "exec"};
    static const char *const classes[] = {"bwrap", "gvisor"};

    golden_add(golden, "template %s/%s\n", tmpl->template_namespace,
               tmpl->name);
    tell_text(golden, "image", tmpl->image);
    tell_texts(golden, "argv", tmpl->argv);
    tell_texts(golden, "env", tmpl->env);
    tell_text(golden, "working_dir", tmpl->working_dir);
    golden_add(golden, "port: %u, probe: %s, %u s\n", tmpl->port,
               probes[tmpl->probe], tmpl->probe_timeout_s);
    tell_text(golden, "probe_path", tmpl->probe_path);
    tell_texts(golden, "probe_argv", tmpl->probe_argv);
    golden_add(golden, "cpu_milli: %u, memory_bytes: %llu, %s%s\n",
               tmpl->cpu_milli, (unsigned long long)tmpl->memory_bytes,
               classes[tmpl->runtime_class], tmpl->unbound ? ", unbound" : "");
    for (uint32_t i = 0; i < tmpl->inits_len; i++) {
        tell_text(golden, "init", tmpl->inits[i].name);
        tell_texts(golden, "  argv", tmpl->inits[i].argv);
        tell_texts(golden, "  env", tmpl->inits[i].env);
        tell_text(golden, "  working_dir", tmpl->inits[i].working_dir);
    }
    for (uint32_t i = 0; i < tmpl->mounts_len; i++) {
        tell_mount(golden, &tmpl->mounts[i]);
    }
    golden_add(golden, "hash: %016llx\n\n",
               (unsigned long long)wp_template_hash(tmpl));
}

static void
tell_pool(struct golden *golden, const struct wp_pool_spec *pool)
{
    golden_add(golden, "pool %s/%s of %s: %u\n", pool->pool_namespace,
               pool->name, pool->template_name, pool->target);
    golden_add(golden,
               "waiters_max: %u, of a tenant: %u, leases: %u, claims: %u%s, "
               "inflight: %u\n",
               pool->waiters_max, pool->tenant_waiters_max,
               pool->tenant_leases_max, pool->tenant_claims_per_minute,
               pool->fair_share ? ", fair" : "", pool->create_inflight_max);
    golden_add(golden,
               "ttl: %lld to %lld, hold: %lld, freeze: %lld, wait: %lld, "
               "ready: %lld ns\n",
               (long long)pool->ttl_default_ns, (long long)pool->ttl_max_ns,
               (long long)pool->hold_max_ns, (long long)pool->freeze_after_ns,
               (long long)pool->wait_max_ns, (long long)pool->ready_within_ns);
    golden_add(golden, "cold: %d%s%s, egress: '%s'\n\n", (int)pool->cold_start,
               pool->cold_start_said ? ", said" : "",
               pool->bind_env ? ", bind" : "", pool->egress);
}

static struct wp_manifest *
read_whole(struct wp_err *err)
{
    static char text[1 << 14];
    struct wp_manifest *manifest = wp_manifest_create();
    FILE *file = fopen(WP_TEST_GOLDEN "/whole.yaml", "re");
    struct wp_str bytes = {text, 0};

    assert_non_null(manifest);
    assert_non_null(file);
    bytes.len = fread(text, 1, sizeof text, file);
    assert_int_equal(fclose(file), 0);
    assert_true(bytes.len < sizeof text);
    if (wp_manifest_add_bytes(manifest, "whole.yaml", bytes, err) != WP_OK ||
        wp_manifest_check(manifest, err) != WP_OK) {
        fail_msg("%s", err->msg);
    }
    return manifest;
}

/* Hashes among it: another one replaces idle sandboxes of daemons before. */
static void
test_whole_manifest_is_read_as_ever(void **state)
{
    static struct golden golden;
    const struct wp_template *templates;
    const struct wp_pool_spec *pools;
    struct wp_err err;
    struct wp_manifest *manifest = read_whole(&err);
    size_t len = wp_manifest_templates(manifest, &templates);

    (void)state;
    for (size_t i = 0; i < len; i++) {
        tell_template(&golden, &templates[i]);
    }
    len = wp_manifest_pools(manifest, &pools);
    for (size_t i = 0; i < len; i++) {
        tell_pool(&golden, &pools[i]);
    }
    for (size_t i = 0; i < wp_manifest_notes_count(manifest); i++) {
        golden_add(&golden, "note: %s\n", wp_manifest_note(manifest, i));
    }
    golden_compare(golden.text, WP_TEST_GOLDEN "/whole.txt");
    wp_manifest_destroy(manifest);
}

/* What is resolved stays as it is: a text is not read for names again. */
static void
test_resolving_again_changes_nothing(void **state)
{
    const struct wp_template *templates;
    struct wp_err err;
    struct wp_manifest *manifest = read_whole(&err);
    size_t len = wp_manifest_templates(manifest, &templates);
    uint64_t hashes[8];

    (void)state;
    assert_true(len <= WP_ARRAY_LEN(hashes));
    for (size_t i = 0; i < len; i++) {
        hashes[i] = wp_template_hash(&templates[i]);
    }
    assert_string_equal(templates[0].argv[5], "$(PORT)");
    assert_int_equal(wp_manifest_resolve(manifest, &err), WP_OK);
    assert_string_equal(templates[0].argv[5], "$(PORT)");
    for (size_t i = 0; i < len; i++) {
        assert_true(wp_template_hash(&templates[i]) == hashes[i]);
    }
    wp_manifest_destroy(manifest);
}

/* --- Hashes --- */

static const char *const one[] = {"x", "yz", NULL};
static const char *const two[] = {"xy", "z", NULL};
static const char *const empty[] = {NULL};

/* Each of these alone makes another template. */
static void
change(struct wp_template *tmpl, int which)
{
    switch (which) {
    case 0:
        tmpl->image = "other";
        break;
    case 1:
        tmpl->argv = two;
        break;
    case 2:
        tmpl->argv = empty;
        break;
    case 3:
        tmpl->env = two;
        break;
    case 4:
        tmpl->env = empty;
        break;
    case 5:
        tmpl->working_dir = NULL;
        break;
    case 6:
        tmpl->working_dir = "";
        break;
    case 7:
        tmpl->probe_path = "/other";
        break;
    case 8:
        tmpl->probe_argv = two;
        break;
    case 9:
        tmpl->probe_timeout_s++;
        break;
    case 10:
        tmpl->inits_len = 0;
        break;
    case 11:
        tmpl->mounts_len = 0;
        break;
    case 12:
        tmpl->cpu_milli++;
        break;
    case 13:
        tmpl->memory_bytes++;
        break;
    case 14:
        tmpl->port++;
        break;
    case 15:
        tmpl->unbound = true;
        break;
    case 16:
        tmpl->probe = WP_READY_TCP;
        break;
    case 17:
        tmpl->runtime_class = WP_RUNTIME_GVISOR;
        break;
    default:
        break;
    }
}

/* And each of these. */
static void
change_part(struct wp_template_mount *mount, struct wp_template_file *file,
            struct wp_template_init *init, int which)
{
    switch (which) {
    case 18:
        mount->path = "/other";
        break;
    case 19:
        mount->size_bytes++;
        break;
    case 20:
        mount->read_only = false;
        break;
    case 21:
        mount->prepared = true;
        break;
    case 22:
        mount->kind = WP_MOUNT_FILE;
        break;
    case 23:
        mount->files_len = 0;
        break;
    case 24:
        file->path = "b";
        break;
    case 25:
        file->mode++;
        break;
    case 26:
        file->bytes.ptr = "filf";
        break;
    case 27:
        file->bytes.len--;
        break;
    case 28:
        init->name = "other";
        break;
    case 29:
        init->argv = two;
        break;
    case 30:
        init->env = two;
        break;
    case 31:
        init->working_dir = "/other";
        break;
    default:
        break;
    }
}

enum {
    CHANGES = 32
};

static uint64_t
hash_with(int which)
{
    struct wp_template_file file = {"a", WP_STR("file"), 0644};
    struct wp_template_mount mount = {.kind = WP_MOUNT_FILES,
                                      .path = "/m",
                                      .size_bytes = 1,
                                      .read_only = true,
                                      .files = &file,
                                      .files_len = 1};
    struct wp_template_init init = {"i", one, one, "/i"};
    struct wp_template tmpl = {
        .image = "image",
        .argv = one,
        .env = one,
        .working_dir = "/w",
        .probe_path = "/p",
        .probe_argv = one,
        .probe_timeout_s = 1,
        .inits = &init,
        .inits_len = 1,
        .mounts = &mount,
        .mounts_len = 1,
        .cpu_milli = 1,
        .memory_bytes = 1,
        .port = 1,
        .probe = WP_READY_EXEC,
    };

    change(&tmpl, which);
    change_part(&mount, &file, &init, which);
    return wp_template_hash(&tmpl);
}

static void
test_every_difference_is_another_hash(void **state)
{
    uint64_t hashes[CHANGES + 1];

    (void)state;
    for (int i = 0; i <= CHANGES; i++) {
        hashes[i] = hash_with(i);
        assert_true(hash_with(i) == hashes[i]);
        for (int j = 0; j < i; j++) {
            if (hashes[i] == hashes[j]) {
                fail_msg("changes %d and %d come to one hash", j, i);
            }
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_manifest_is_read_as_ever),
        cmocka_unit_test(test_resolving_again_changes_nothing),
        cmocka_unit_test(test_every_difference_is_another_hash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
