/* warmpoolctl claim: what is asked of the daemon, with all that the sandbox is
 * to get, and what is said of the answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "tests/support/ctl/ctl_rig.h"

#define GOLDEN(name) WP_TEST_GOLDEN "/" name ".txt"

static struct wp_grant
grant_of(const char *sandbox)
{
    struct wp_grant grant = {
        .pool_namespace = "default",
        .pool = "agents",
        .endpoint = "unix:/run/s.sock",
        .fence = 7,
        .deadline_wall_ms = CTL_NOW_MS + 90 * 1000,
        .served = WP_SERVED_WARM,
    };

    for (size_t i = 0; i < sizeof grant.token; i++) {
        grant.token[i] = (uint8_t)(0x80 + i);
    }
    (void)snprintf(grant.sandbox, sizeof grant.sandbox, "%s", sandbox);
    return grant;
}

static void
reply(const struct wp_grant *grant, bool replayed)
{
    const struct wp_wire_claim_response response = {
        .claim_id = WP_STR("job"), .grant = grant, .replayed = replayed};

    CTL_REPLY(claim_response, &response);
}

/* The same with what the sandbox has of its binding. */
static void
reply_bound(const struct wp_grant *grant, const struct wp_binding *binding)
{
    const struct wp_wire_claim_response response = {
        .claim_id = WP_STR("job"), .grant = grant, .binding = binding};

    CTL_REPLY(claim_response, &response);
}

static void
note_remembered(const char *name)
{
    char path[200];
    char text[2000];
    FILE *file;
    size_t n;

    (void)snprintf(path, sizeof path, "state/warmpool/claims/%s.json", name);
    file = fopen(path, "re");
    if (file == NULL) {
        ctl_note("(%s is not remembered)\n\n", name);
        return;
    }
    n = fread(text, 1, sizeof text, file);
    assert_int_equal(fclose(file), 0);
    ctl_note("(%s is remembered)\n%.*s\n\n", name, (int)n, text);
}

static void
test_a_lease(void **state)
{
    static const char *const formats[] = {"table", "json", "name"};
    struct wp_grant grant = grant_of("box-1");
    char state_home[4096];
    char line[200];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(formats); i++) {
        (void)snprintf(line, sizeof line, "claim agents --id job -o %s",
                       formats[i]);
        reply(&grant, i == 1);
        ctl_run(line);
    }
    note_remembered("job");
    grant.waited_ns = 1500 * WP_NS_PER_MS;
    grant.served = WP_SERVED_QUEUED;
    grant.deadline_wall_ms = CTL_NOW_MS;
    reply(&grant, true);
    ctl_run("claim team/agents --id job --tenant ci --ttl 30m --wait 1m "
            "--timeout 2s --address unix:/d.sock");
    grant.deadline_wall_ms = CTL_NOW_MS + 1;
    grant.waited_ns = WP_NS_PER_US;
    grant.served = WP_SERVED_COLD;
    ctl_rig.tty = true;
    reply(&grant, false);
    ctl_run("claim agents");
    ctl_rig.tty = false;
    ctl_answer(WP_RESOURCE_EXHAUSTED, "nothing is ready", 1500000);
    ctl_run("claim agents --id other");
    ctl_answer(WP_NOT_FOUND, "pool: 'agents' does not exist", 0);
    ctl_run("claim agents -o json");
    ctl_run("claim Agents");
    ctl_run("claim agents --all-or-nothing");
    note_remembered("other");
    /* Nowhere to remember it: the lease is held all the same. */
    ctl_file("file", "");
    (void)snprintf(state_home, sizeof state_home, "%.4000s/file", ctl_rig.dir);
    assert_int_equal(setenv("XDG_STATE_HOME", state_home, 1), 0);
    reply(&grant, false);
    ctl_run("claim agents -o name");
    ctl_compare(GOLDEN("claim"));
}

static void
test_what_is_bound(void **state)
{
    const struct wp_binding_env env[] = {{WP_STR("CI"), WP_STR("1")},
                                         {WP_STR("LANG"), WP_STR("C")}};
    const struct wp_binding_secret secrets[] = {
        {.name = WP_STR("key"), .value = WP_STR("x")},
        {.name = WP_STR("pw"), .value = WP_STR("x"), .in_env = true}};
    const struct wp_binding_file files[] = {
        {.path = WP_STR("a.py"), .content = WP_STR("x")},
        {.path = WP_STR("b.py"), .content = WP_STR("x")}};
    const struct wp_binding_repository repositories[] = {
        {.url = WP_STR("https://git.example.com/a")},
        {.url = WP_STR("https://git.example.com/b")}};
    const struct wp_binding_volume volumes[] = {{.name = WP_STR("cache")},
                                                {.name = WP_STR("data")}};
    const struct wp_str command[] = {WP_STR("true")};
    struct wp_grant grant = grant_of("box-1");
    struct wp_binding binding = {
        .env = env,
        .n_env = 2,
        .secrets = secrets,
        .n_secrets = 2,
        .files = files,
        .n_files = 2,
        .repositories = repositories,
        .n_repositories = 2,
        .volumes = volumes,
        .n_volumes = 2,
        .command = command,
        .n_command = 1,
        .working_dir = WP_STR("src"),
        .egress = WP_STR("packages"),
        .audience = WP_STR("vault"),
    };

    (void)state;
    reply_bound(&grant, &binding);
    ctl_run("claim agents --id job");
    reply_bound(&grant, &binding);
    ctl_run("claim agents --id job -o json");
    binding = (struct wp_binding){.env = env,
                                  .n_env = 1,
                                  .secrets = secrets,
                                  .n_secrets = 1,
                                  .files = files,
                                  .n_files = 1};
    reply_bound(&grant, &binding);
    ctl_run("claim agents --id job");
    reply_bound(&grant, &binding);
    ctl_run("claim agents --id job -o json");
    binding = (struct wp_binding){.n_env = 0};
    reply_bound(&grant, &binding);
    ctl_run("claim agents --id job");
    ctl_compare(GOLDEN("claim_bound"));
}

static void
reply_batch(int code_1, int code_2)
{
    static struct wp_grant grants[2];
    const struct wp_wire_batch_item items[] = {
        {.claim_id = WP_STR("b-1"),
         .code = code_1,
         .message = code_1 != 0 ? WP_STR("no room") : WP_STR(""),
         .grant = code_1 == 0 ? &grants[0] : NULL,
         .replayed = true},
        {.claim_id = WP_STR("b-2"),
         .code = code_2,
         .message = code_2 != 0 ? WP_STR("too late") : WP_STR(""),
         .grant = code_2 == 0 ? &grants[1] : NULL},
    };
    const struct wp_wire_batch_response response = {items, 2};

    grants[0] = grant_of("box-1");
    grants[1] = grant_of("box-2");
    grants[1].served = WP_SERVED_QUEUED;
    CTL_REPLY(batch_response, &response);
}

static void
test_batches(void **state)
{
    static const char *const formats[] = {"table", "json", "name"};
    static const int codes[][2] = {{0, 0}, {0, 8}, {4, 0}, {4, 8}, {8, 4}};
    char line[300];
    char id[140];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(formats); i++) {
        (void)snprintf(line, sizeof line, "claim agents -n 2 --id b -o %s",
                       formats[i]);
        for (size_t j = 0; j < WP_ARRAY_LEN(codes); j++) {
            reply_batch(codes[j][0], codes[j][1]);
            ctl_run(line);
        }
    }
    note_remembered("b-1");
    note_remembered("b-2");
    reply_batch(0, 0);
    ctl_run("claim n/agents -n 2 --tenant ci --ttl 1m --wait 2s "
            "--all-or-nothing");
    ctl_answer(WP_RESOURCE_EXHAUSTED, "not as many", WP_NS_PER_S);
    ctl_run("claim agents -n 3 --id b");
    ctl_run("claim agents -n 3 --id b --env A=1");
    /* The longest id, and one byte more. */
    for (size_t len = 126; len <= 127; len++) {
        memset(id, 'i', len);
        id[len] = '\0';
        (void)snprintf(line, sizeof line, "claim agents -n 9 --id %s", id);
        ctl_run(line);
    }
    (void)snprintf(line, sizeof line, "claim agents -n 10 --id %.126s", id);
    ctl_run(line);
    ctl_compare(GOLDEN("claim_batch"));
}

/* --- What it brings --- */

static void
test_values(void **state)
{
    (void)state;
    ctl_file("token", "t0p\nsecret");
    ctl_file("empty", "");
    ctl_run("claim agents --id j --env A=1 -e B= -e C=x=y");
    ctl_run("claim agents --id j --secret key=@token --secret-env T=@token "
            "--secret none=@empty");
    ctl_stdin("from input");
    ctl_run("claim agents --id j --secret key=-");
    ctl_stdin("from input");
    ctl_run("claim agents --id j --secret-env a=b");
    ctl_run("claim agents --id j --secret key=@");
    ctl_run("claim agents --id j --secret key=");
    ctl_run("claim agents --id j --secret =@token");
    ctl_run("claim agents --id j --secret key");
    ctl_run("claim agents --id j --secret-env key=@missing");
    ctl_run("claim agents --id j --secret key=@token --secret key=@missing "
            "--secret bad");
    ctl_run("claim agents --id j --secret key=@.");
    ctl_run("claim agents --id j --workdir src --egress packages --identity "
            "vault");
    ctl_run("claim agents --id j --workdir src");
    ctl_run("claim agents --id j --egress none");
    ctl_run("claim agents --id j --identity vault");
    ctl_run("claim agents --id j --run -- sh -c 'exit 3'");
    ctl_run("claim agents --id j --run --");
    ctl_run("claim agents --id j --run");
    ctl_run("claim agents --id j --volume cache --volume data:var/data "
            "--volume :x --volume a:b:c");
    /* One of two kinds: neither makes up for the other. */
    ctl_run("claim agents --id j --env A=1 --secret key=@token");
    ctl_run("claim agents --id j --env A=1 --copy token:t");
    ctl_run("claim agents --id j --env A=1 --run -- x");
    ctl_run("claim agents --id j --env A=1 --repo https://h/x");
    ctl_run("claim agents --id j --env A=1 --volume x");
    ctl_run("claim agents --id j --env A=1 --workdir x");
    ctl_run("claim agents --id j --env A=1 --egress x");
    ctl_run("claim agents --id j --env A=1 --identity x");
    /* None of these goes with --count. */
    ctl_run("claim agents -n 2 --secret key=@token");
    ctl_run("claim agents -n 2 --secret-env key=@token");
    ctl_run("claim agents -n 2 --copy token:t");
    ctl_run("claim agents -n 2 --archive token");
    ctl_run("claim agents -n 2 --skill token");
    ctl_run("claim agents -n 2 --repo x");
    ctl_run("claim agents -n 2 --volume x");
    ctl_run("claim agents -n 2 --repo-password x");
    ctl_run("claim agents -n 2 --sources x");
    ctl_run("claim agents -n 2 --workdir x");
    ctl_run("claim agents -n 2 --egress x");
    ctl_run("claim agents -n 2 --identity x");
    ctl_run("claim agents -n 2 --run -- x");
    ctl_run("claim agents -n 2 --env A=1 --secret key=@token");
    ctl_run("claim agents -n 2 --env A=1 --secret-env key=@token");
    ctl_run("claim agents -n 2 --env A=1 --copy token:t");
    ctl_run("claim agents -n 2 --env A=1 --archive token");
    ctl_run("claim agents -n 2 --env A=1 --skill token");
    ctl_run("claim agents -n 2 --env A=1 --repo x");
    ctl_run("claim agents -n 2 --env A=1 --volume x");
    ctl_run("claim agents -n 2 --env A=1 --repo-password x");
    ctl_compare(GOLDEN("claim_values"));
}

/* As long as may be, and one byte more; from a file and from a pipe. */
static void
test_lengths(void **state)
{
    static const struct {
        const char *line;
        size_t max;
    } rows[] = {
        {"claim agents --id j --secret key=@long", WP_BINDING_VALUE_MAX},
        {"claim agents --id j --secret key=-", WP_BINDING_VALUE_MAX},
        {"claim agents --id j --repo https://h/x --repo-password h=@long",
         WP_BINDING_PASSWORD_MAX + 1},
        {"claim agents --id j --sources long", 65536},
    };
    static char text[131072];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        for (size_t more = 0; more < 2; more++) {
            memset(text, 'x', rows[i].max + more);
            text[rows[i].max + more] = '\0';
            ctl_file("long", text);
            ctl_stdin(text);
            ctl_note("%zu bytes\n", rows[i].max + more);
            ctl_run(rows[i].line);
        }
    }
    ctl_compare(GOLDEN("claim_lengths"));
}

static void
test_repositories(void **state)
{
    (void)state;
    ctl_file("pw", "hunter2\n");
    ctl_file("pw2", "other");
    ctl_file("blank", "\n");
    ctl_file("sources.json",
             "{\"version\": \"1\", \"allowed_remotes\": "
             "[\"https://git.example.com/team/*\"], \"allowed_domains\": "
             "[\"pypi.org\"], \"resource_limits\": {\"max_repos\": 2}}");
    ctl_file("bad.json", "{\"version\": \"2\"}");
    ctl_run("claim agents --id j --repo https://git.example.com/team/app "
            "--repo https://git.example.com/team/lib@v1:deps/lib --timeout "
            "5s --wait 1s");
    ctl_run("claim agents --id j --repo ftp://x/y");
    ctl_run("claim agents --id j --repo https://git.example.com/a --repo "
            "https://h:8443/b --repo https://git.example.com/c --repo-password "
            "git.example.com=@pw --repo-password me@h:8443=@pw2");
    ctl_stdin("typed\n");
    ctl_run("claim agents --id j --repo https://h/x --repo-password h=-");
    ctl_run("claim agents --id j --repo https://h/x --repo-password h=@blank");
    ctl_run("claim agents --id j --repo https://h/x --repo-password "
            "h=@missing");
    ctl_run("claim agents --id j --repo https://h/x --repo-password g=@pw "
            "--repo-password h=@pw");
    ctl_run("claim agents --id j --repo https://h/x --repo-password h=pw");
    ctl_run("claim agents --id j --repo https://h/x --repo-password h=@");
    ctl_run("claim agents --id j --repo https://h/x --repo-password h");
    ctl_run("claim agents --id j --repo-password u@h=@pw");
    ctl_run("claim agents --id j --sources sources.json --repo "
            "https://git.example.com/team/app");
    ctl_run("claim agents --id j --sources sources.json --egress none --repo "
            "https://git.example.com/team/app");
    ctl_run("claim agents --id j --sources sources.json --repo "
            "https://git.example.com/team/app --repo "
            "https://git.example.com/other/app");
    ctl_run("claim agents --id j --sources sources.json --repo "
            "https://git.example.com/team/a --repo "
            "https://git.example.com/team/b --repo "
            "https://git.example.com/team/c");
    ctl_run("claim agents --id j --sources sources.json");
    ctl_run("claim agents --id j --sources bad.json");
    ctl_run("claim agents --id j --sources missing.json");
    ctl_compare(GOLDEN("claim_repositories"));
}

/* An archive of one file, by hand. */
static size_t
make_tar(char *out, const char *path, char type, const char *content)
{
    unsigned sum = 0;

    memset(out, 0, 2048);
    (void)snprintf(out, 100, "%s", path);
    (void)strcpy(out + 100, "0000755");
    (void)strcpy(out + 108, "0000000");
    (void)strcpy(out + 116, "0000000");
    (void)snprintf(out + 124, 12, "%011o", (unsigned)strlen(content));
    (void)strcpy(out + 136, "00000000000");
    memset(out + 148, ' ', 8);
    out[156] = type;
    (void)strcpy(out + 257, "ustar");
    memcpy(out + 263, "00", 2);
    for (int i = 0; i < 512; i++) {
        sum += (unsigned char)out[i];
    }
    (void)snprintf(out + 148, 8, "%06o", sum);
    memcpy(out + 512, content, strlen(content));
    return 2048;
}

static void
test_files(void **state)
{
    char tar[2048];
    size_t len;

    (void)state;
    ctl_file("app.py", "print(1)");
    ctl_file("folder/b", "bb");
    ctl_file("folder/a", "a");
    ctl_file("folder/sub/tool", "#!");
    ctl_file("pdf/SKILL.md", "# pdf");
    ctl_file("pdf/run.sh", "x");
    assert_int_equal(chmod("folder/sub/tool", 0710), 0);
    assert_int_equal(chmod("pdf/run.sh", 0611), 0);
    assert_int_equal(mkdir("none", 0700), 0);
    assert_int_equal(mkdir("links", 0700), 0);
    assert_int_equal(symlink("../app.py", "links/l"), 0);
    assert_int_equal(mkdir("pipes", 0700), 0);
    assert_int_equal(mkfifo("pipes/p", 0600), 0);
    len = make_tar(tar, "in/tar.txt", '0', "packed");
    ctl_file_bytes("one.tar", tar, len);
    len = make_tar(tar, "in/link", '2', "");
    ctl_file_bytes("link.tar", tar, len);
    ctl_file("gone.tar", "\x1f\x8b damaged");
    ctl_run("claim agents --id j --copy app.py:src/main.py");
    ctl_file("with:colon", "c");
    ctl_run("claim agents --id j --copy with:colon:x");
    ctl_run("claim agents --id j --archive with:colon:x");
    ctl_run("claim agents --id j --copy folder:. --copy app.py:z");
    ctl_run("claim agents --id j --copy folder:to/x");
    ctl_run("claim agents --id j --copy none:to");
    ctl_run("claim agents --id j --skill pdf --skill pdf/../pdf");
    ctl_run("claim agents --id j --skill ./pdf/");
    ctl_run("claim agents --id j --skill folder");
    ctl_run("claim agents --id j --skill missing");
    ctl_run("claim agents --id j --archive one.tar");
    ctl_run("claim agents --id j --archive one.tar:below/it");
    ctl_stdin("what is no archive");
    ctl_run("claim agents --id j --archive -");
    ctl_run("claim agents --id j --archive link.tar --archive one.tar");
    ctl_run("claim agents --id j --archive gone.tar");
    ctl_run("claim agents --id j --archive missing.tar");
    ctl_run("claim agents --id j --archive none");
    ctl_stdin("typed");
    ctl_run("claim agents --id j --copy -:typed.txt");
    ctl_run("claim agents --id j --copy app.py");
    ctl_run("claim agents --id j --copy app.py:");
    ctl_run("claim agents --id j --copy :app.py");
    ctl_run("claim agents --id j --copy app.py:/etc/x");
    ctl_run("claim agents --id j --copy app.py:../x --copy missing:x");
    ctl_run("claim agents --id j --copy missing:x");
    ctl_run("claim agents --id j --copy links:x");
    ctl_run("claim agents --id j --copy links/l:x");
    ctl_run("claim agents --id j --copy pipes:x");
    ctl_run("claim agents --id j --copy app.py:x --copy folder/a:x");
    ctl_run("claim agents --id j --copy app.py:x --archive one.tar --skill pdf "
            "--env A=1 --secret s=@app.py --volume v --run -- x");
    ctl_compare(GOLDEN("claim_files"));
}

/* More than a claim can bring by itself. */
static void
test_uploads(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct wp_grant grant = grant_of("box-1");
    const struct wp_wire_release_response released = {.was_held = true};
    static char big[WP_BINDING_FILES_BYTES_MAX + 2];
    char path[64];

    (void)state;
    memset(big, 'b', sizeof big);
    ctl_file_bytes("most", big, WP_BINDING_FILES_BYTES_MAX);
    ctl_file_bytes("more", big, WP_BINDING_FILES_BYTES_MAX + 1);
    for (int i = 0; i < WP_BINDING_FILES_MAX; i++) {
        (void)snprintf(path, sizeof path, "many/%03d", i);
        ctl_file(path, "x");
    }
    ctl_file("one", "1");
    reply(&grant, false);
    ctl_run("claim agents --id job --copy more:big --http unix:/h.sock "
            "--timeout 3s");
    reply(&grant, false);
    ctl_run("claim agents --id job --copy most:big -o json --run -- x");
    reply(&grant, false);
    ctl_run("claim agents --id job --copy more:big -o json");
    reply(&grant, false);
    ctl_run("claim agents --id job --copy more:big -o name");
    ctl_run("claim agents --id job --copy more:big --run -- x");
    ctl_run("claim agents --id job --copy more:big --workdir src");
    /* The same number is just few enough, and one more is not. */
    reply(&grant, false);
    ctl_run("claim agents --id job --copy many:many -o json");
    reply(&grant, false);
    ctl_sandbox.fails = "upload";
    ctl_sandbox.fail_after = 2;
    (void)wp_err_set(&ctl_sandbox.err, WP_UNAVAILABLE, "'x' is not there");
    CTL_REPLY(release_response, &released);
    ctl_run("claim agents --id job --copy many:many --copy one:one");
    note_remembered("job");
    reply(&grant, true);
    ctl_sandbox.fails = "upload";
    (void)wp_err_set(&ctl_sandbox.err, WP_INTERNAL, "disk full");
    ctl_run("claim agents --id job --copy more:big --copy one:one");
    note_remembered("job");
    reply(&grant, false);
    ctl_sandbox.fails = "upload";
    (void)wp_err_set(&ctl_sandbox.err, WP_INTERNAL, "disk full");
    ctl_answer(WP_UNAVAILABLE, "gone", 0);
    ctl_run("claim agents --id job --copy more:big --copy one:one");
    note_remembered("job");
    reply(&grant, false);
    ctl_sandbox.signals = signals;
    ctl_sandbox.n_signals = 3;
    ctl_run("claim agents --id job --copy more:1 --copy most:2 --copy one:3 "
            "--copy one:4");
    ctl_compare(GOLDEN("claim_uploads"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CTL_TEST(test_a_lease), CTL_TEST(test_what_is_bound),
        CTL_TEST(test_batches), CTL_TEST(test_values),
        CTL_TEST(test_lengths), CTL_TEST(test_repositories),
        CTL_TEST(test_files),   CTL_TEST(test_uploads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
