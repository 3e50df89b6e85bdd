/* warmpoolctl release, renew, get, list and tenants: what is asked, what is said
 * of the answers, and what is remembered of a lease. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/ctl/lease.h"
#include "allocator/ctl/token_store.h"
#include "pool/base/clock.h"
#include "pool/tenants.h"
#include "tests/support/ctl/ctl_rig.h"

#define GOLDEN(name) WP_TEST_GOLDEN "/" name ".txt"

/* WP_WIRE_PAGE_TOKEN_MAX bytes. */
#define LONGEST_TOKEN                                                          \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdeX"

static const char *const formats[] = {"table", "json", "name"};

/* Remembers a lease of that claim. */
static void
remember(const char *claim_id, uint8_t first)
{
    struct wp_token_record record = {.deadline_wall_ms = CTL_NOW_MS + 5000};
    struct wp_err err;

    (void)snprintf(record.claim_id, sizeof record.claim_id, "%s", claim_id);
    (void)snprintf(record.sandbox, sizeof record.sandbox, "box-%s", claim_id);
    for (size_t i = 0; i < sizeof record.token; i++) {
        record.token[i] = (uint8_t)(first + i);
    }
    assert_int_equal(wp_token_store_save(&record, &err), WP_OK);
}

static void
note_remembered(const char *claim_id)
{
    struct wp_token_record record;
    struct wp_err err;

    if (wp_token_store_load(claim_id, &record, &err) != WP_OK) {
        ctl_note("(%s is not remembered)\n\n", claim_id);
        return;
    }
    ctl_note("(remembered: %s has %s until %lld, ", record.claim_id,
             record.sandbox, (long long)record.deadline_wall_ms);
    for (size_t i = 0; i < sizeof record.token; i++) {
        ctl_note("%02x", record.token[i]);
    }
    ctl_note(")\n\n");
}

static void
reply_released(bool was_held)
{
    const struct wp_wire_release_response response = {.was_held = was_held};

    CTL_REPLY(release_response, &response);
}

static void
test_release(void **state)
{
    char line[200];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(formats); i++) {
        remember("a", 0x20);
        remember("b", 0x21);
        remember("c", 0x22);
        (void)snprintf(line, sizeof line, "release a none b c -o %s",
                       formats[i]);
        reply_released(true);
        reply_released(false);
        ctl_answer(WP_UNAVAILABLE, "not now", 2 * WP_NS_PER_S);
        ctl_run(line);
        note_remembered("a");
        note_remembered("b");
        note_remembered("c");
    }
    reply_released(true);
    ctl_run("release a --token "
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"
            "2122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f4041"
            "4243");
    ctl_run("release a --token 00");
    ctl_run("release a --token-file missing");
    ctl_file("file", "nonsense");
    ctl_run("release a --token-file file");
    remember("a", 0x33);
    reply_released(true);
    ctl_run("release a --token-file state/warmpool/claims/a.json");
    note_remembered("a");
    ctl_file("state/warmpool/claims/bad.json", "{");
    ctl_run("release bad");
    ctl_rig.refused = "address 'x': that is none";
    remember("a", 0x20);
    ctl_run("release a");
    note_remembered("a");
    ctl_compare(GOLDEN("release"));
}

static void
test_renew(void **state)
{
    struct wp_wire_renew_response response = {
        .fence = 8, .deadline_wall_ms = CTL_NOW_MS + 3600 * 1000};
    struct rlimit limit;
    struct rlimit none;
    char line[200];

    (void)state;
    for (size_t i = 0; i < sizeof response.token; i++) {
        response.token[i] = (uint8_t)(0xa0 + i);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(formats); i++) {
        remember("a", 0x20);
        (void)snprintf(line, sizeof line, "renew a --ttl 1h -o %s", formats[i]);
        CTL_REPLY(renew_response, &response);
        ctl_run(line);
        note_remembered("a");
    }
    CTL_REPLY(renew_response, &response);
    ctl_run("renew a --hold");
    ctl_run("renew none");
    ctl_answer(WP_NOT_FOUND, "token: no such lease", 0);
    ctl_run("renew a");
    ctl_answer(WP_UNAVAILABLE, "later", 1);
    ctl_run("renew a");
    note_remembered("a");
    /* One whose token is given is not remembered for that. */
    ctl_file("token", "00");
    remember("b", 0x40);
    CTL_REPLY(renew_response, &response);
    ctl_run("renew c --token-file state/warmpool/claims/b.json");
    note_remembered("b");
    note_remembered("c");
    /* The new one cannot be written. */
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    none = (struct rlimit){0, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    CTL_REPLY(renew_response, &response);
    ctl_run("renew a");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    note_remembered("a");
    ctl_compare(GOLDEN("renew"));
}

static struct wp_claim_info
info_of(const char *id)
{
    struct wp_claim_info info = {
        .tenant = "ci",
        .pool_namespace = "default",
        .pool = "agents",
        .sandbox = "box-7",
        .endpoint = "10.0.0.7:80",
        .fence = 9,
        .granted_wall_ms = CTL_NOW_MS - 1000,
        .deadline_wall_ms = CTL_NOW_MS + 61 * 1000,
        .served = WP_SERVED_COLD,
    };

    (void)snprintf(info.claim_id, sizeof info.claim_id, "%s", id);
    return info;
}

static void
make_waiting(struct wp_claim_info *info)
{
    info->waiting = true;
    info->sandbox[0] = '\0';
    info->endpoint[0] = '\0';
    info->granted_wall_ms = 0;
    info->deadline_wall_ms = 0;
    info->fence = 0;
    info->served = (enum wp_served)0;
}

static void
test_get(void **state)
{
    char line[200];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(formats); i++) {
        struct wp_claim_info info = info_of("a");

        (void)snprintf(line, sizeof line, "get a -o %s", formats[i]);
        CTL_REPLY(claim_info, &info);
        ctl_run(line);
        info.lost = true;
        CTL_REPLY(claim_info, &info);
        ctl_run(line);
        (void)strcpy(info.lost_reason, "it died");
        info.deadline_wall_ms = INT64_MAX;
        CTL_REPLY(claim_info, &info);
        ctl_run(line);
        info = info_of("a");
        info.tenant[0] = '\0';
        info.deadline_wall_ms = WP_TIME_NEVER / WP_NS_PER_MS;
        CTL_REPLY(claim_info, &info);
        ctl_run(line);
        info.deadline_wall_ms = WP_TIME_NEVER / WP_NS_PER_MS + 1;
        info.granted_wall_ms = 1;
        CTL_REPLY(claim_info, &info);
        ctl_run(line);
        make_waiting(&info);
        CTL_REPLY(claim_info, &info);
        ctl_run(line);
    }
    ctl_answer(WP_NOT_FOUND, "claim_id: no such claim", 0);
    ctl_run("get a --tenant me --timeout 1s");
    ctl_compare(GOLDEN("get"));
}

static void
test_list(void **state)
{
    struct wp_claim_info claims[] = {info_of("a"), info_of("b"), info_of("c")};
    struct wp_claim_info last = info_of("z");
    struct wp_wire_list_claims_response page = {.claims = claims,
                                                .n_claims = 3,
                                                .next_page_token =
                                                    WP_STR(LONGEST_TOKEN)};
    struct wp_wire_list_claims_response end = {.claims = &last, .n_claims = 1};
    char line[200];

    (void)state;
    claims[1].lost = true;
    (void)strcpy(claims[1].lost_reason, "it died");
    make_waiting(&claims[2]);
    last.tenant[0] = '\0';
    for (size_t i = 0; i < WP_ARRAY_LEN(formats); i++) {
        (void)snprintf(line, sizeof line,
                       "list --pool n/agents --tenant ci -o %s", formats[i]);
        CTL_REPLY(list_claims_response, &page);
        CTL_REPLY(list_claims_response, &end);
        ctl_run(line);
        (void)snprintf(line, sizeof line, "list -o %s", formats[i]);
        CTL_REPLY(list_claims_response, &page);
        ctl_answer(WP_UNAVAILABLE, "leaving", WP_NS_PER_S);
        ctl_run(line);
        end.n_claims = 0;
        CTL_REPLY(list_claims_response, &end);
        ctl_run(line);
        end.n_claims = 1;
    }
    ctl_run("list --pool A");
    ctl_compare(GOLDEN("list"));
}

static void
test_tenants(void **state)
{
    struct wp_tenant_stats tenants[] = {
        {.tenant = "ci",
         .pool_namespace = "default",
         .pool = "agents",
         .quota = {.leases_max = 8, .waiters_max = 9, .claims_per_minute = 10},
         .leases = 1,
         .waiting = 2,
         .claims_total = 3,
         .refused_total = 4,
         .active = true},
        {.tenant = "",
         .pool_namespace = "n",
         .pool = "b",
         .quota = {.leases_max = WP_QUOTA_NONE,
                   .waiters_max = WP_QUOTA_NONE,
                   .claims_per_minute = WP_QUOTA_NONE}},
    };
    struct wp_wire_list_tenants_response page = {.tenants = tenants,
                                                 .n_tenants = 2,
                                                 .next_page_token =
                                                     WP_STR(LONGEST_TOKEN)};
    struct wp_wire_list_tenants_response end = {.tenants = tenants,
                                                .n_tenants = 1};
    char line[200];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(formats); i++) {
        (void)snprintf(line, sizeof line, "tenants n/b --tenant ci -o %s",
                       formats[i]);
        CTL_REPLY(list_tenants_response, &page);
        CTL_REPLY(list_tenants_response, &end);
        ctl_run(line);
        (void)snprintf(line, sizeof line, "tenants -o %s", formats[i]);
        CTL_REPLY(list_tenants_response, &page);
        ctl_answer(WP_PERMISSION_DENIED, "not yours", 0);
        ctl_run(line);
    }
    ctl_run("tenants A");
    ctl_compare(GOLDEN("tenants"));
}

/* A token alone names no sandbox, and what was there before is none. */
static void
test_nothing_stays_of_before(void **state)
{
    static struct wp_ctl ctl;
    static char arena[1 << 16];
    const uint8_t *bytes;
    struct wp_token_record record;
    char bearer[2 * WP_TOKEN_LEN + 1];
    struct wp_err err;

    (void)state;
    memset(arena, 'x', sizeof arena);
    wp_arena_init(&ctl.arena, arena, sizeof arena);
    bytes = wp_ctl_alloc(&ctl, 33);
    for (int i = 0; i < 33; i++) {
        assert_int_equal(bytes[i], 0);
    }
    memset(&record, 'x', sizeof record);
    memset(bearer, 'x', sizeof bearer);
    assert_int_equal(wp_ctl_find_sandbox(&ctl, "none", &record, bearer, &err),
                     WP_UNAVAILABLE);
    assert_string_equal(bearer, "");
    assert_string_equal(record.sandbox, "");
    memset(&record, 'x', sizeof record);
    ctl.options.token =
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"
        "2122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f4041"
        "4243";
    assert_int_equal(wp_ctl_find_sandbox(&ctl, "none", &record, bearer, &err),
                     WP_UNAVAILABLE);
    assert_string_equal(bearer, ctl.options.token);
    assert_string_equal(record.sandbox, "");
    assert_string_equal(record.claim_id, "");
    assert_int_equal(record.deadline_wall_ms, 0);
}

/* What every call has in common. */
static void
test_calls(void **state)
{
    uint8_t *bytes;

    (void)state;
    ctl_run("get a --address h:1 --tls-ca ca --tls-cert cert --tls-key key "
            "--tls-name name --access-token-file tok");
    ctl_rig.refused = "it is refused";
    ctl_run("get a");
    ctl_answer(WP_OK, NULL, 0);
    ctl_run("get a");
    ctl_answer(WP_OK, NULL, 0);
    bytes = ctl_answer_message(3);
    memcpy(bytes, "\xff\xff\xff", 3);
    ctl_run("get a");
    ctl_answer(WP_OK, NULL, 0);
    bytes = ctl_answer_message(1);
    memcpy(bytes, "\xff", 1);
    ctl_run("watch");
    ctl_answer(WP_OK, NULL, 0);
    bytes = ctl_answer_message(1);
    memcpy(bytes, "\xff", 1);
    ctl_run("advise p");
    /* A directory that others can write in is not asked. */
    assert_int_equal(mkdir("run", 0700), 0);
    ctl_run("get a");
    assert_int_equal(chmod("run", 0777), 0);
    ctl_run("get a");
    ctl_run("get a --address unix:/d.sock");
    ctl_run("get a --address unix:/d.sock --access-token-file tok");
    ctl_compare(GOLDEN("calls"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CTL_TEST(test_release),
        CTL_TEST(test_renew),
        CTL_TEST(test_get),
        CTL_TEST(test_list),
        CTL_TEST(test_tenants),
        CTL_TEST(test_calls),
        CTL_TEST(test_nothing_stays_of_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
