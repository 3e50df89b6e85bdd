/* tests/unit/allocator/http/session_test.c - the session API: what each request
 * asks of the pools, in order, and what its client is told. golden/ has the
 * stories; tests/support/http/http_calls_rig.h says how they are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/http/session.h"
#include "tests/support/base/heard.h"
#include "tests/support/http/http_calls_rig.h"

#define SANDBOX " /api/sessions/s1/sandbox?user_id=ann"
#define MORE(query) SANDBOX "&" query " HTTP/1.1\r\n"
#define PLAIN SANDBOX " HTTP/1.1\r\n"
#define TOKEN "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define N9 "namespace"
#define N63 N9 N9 N9 N9 N9 N9 N9
#define P9 "pool-name"
#define P54 P9 P9 P9 P9 P9 P9
#define HOST "Host: pool.example:8443\r\n"

static struct wp_sessions_config config;
static struct wp_sessions *sessions;
static struct wp_claim_info there;
static const struct wp_http_ops *latest_ops;

static void
open_all(void)
{
    struct wp_err err;

    sessions = wp_sessions_create(&config, &err);
    assert_non_null(sessions);
}

static int
begin(void **state)
{
    (void)rig_begin(state);
    config = (struct wp_sessions_config){
        .pools = RIG_THE_POOLS,
        .loop = (struct wp_loop *)(void *)&rig,
        .pool = "things/python",
        .ttl_ns = 3600 * WP_NS_PER_S,
        .wait_ns = 20 * WP_NS_PER_S,
        .calls_max = 3,
        .url = "",
        .path = "/mcp",
    };
    memset(&there, 0, sizeof there);
    there.ref = (struct wp_slot_ref){9, 2};
    (void)snprintf(there.pool_namespace, sizeof there.pool_namespace, "kept");
    (void)snprintf(there.pool, sizeof there.pool, "ruby");
    (void)snprintf(there.sandbox, sizeof there.sandbox, "box-of-info");
    (void)snprintf(there.claim_id, sizeof there.claim_id, "of-info");
    (void)snprintf(there.endpoint, sizeof there.endpoint, "10.0.0.2:80");
    return 0;
}

/* A request comes, with its whole body unless it was answered. NULL: it was. */
static struct wp_http_req *
ask_as(const char *name, const char *head, const char *body, const char *tenant,
       bool is_tls)
{
    struct wp_http_req *req = rig_req(name, head, body);
    const struct wp_http_ops *ops =
        wp_sessions_open(sessions, req, tenant, is_tls);

    if (ops == NULL) {
        rig_say("%s: no ops", name);
        return NULL;
    }
    assert_int_equal(ops->body_max, 4096);
    assert_null(ops->begin);
    assert_null(ops->body);
    latest_ops = ops;
    ops->ready(req);
    return req;
}

static struct wp_http_req *
ask(const char *name, const char *head)
{
    return ask_as(name, head, "", "blue", false);
}

/* The server is done with it, answered or not. */
static void
leave(struct wp_http_req *req)
{
    rig_say("%s: leaves", req->name);
    latest_ops->gone(req);
}

static void
end(const char *file)
{
    char path[512];
    uint32_t naps = rig.naps;

    rig_say("the end");
    wp_sessions_destroy(sessions);
    assert_int_equal(rig.naps, naps);
    (void)snprintf(path, sizeof path, "%s/session_%s.txt", WP_TEST_GOLDEN,
                   file);
    rig_is(path);
}

/* The next of a test's requests takes the first's place. */
static void
again(const char *title)
{
    rig_say("# %s", title);
    memset(rig.reqs, 0, sizeof rig.reqs);
    memset(rig.claims, 0, sizeof rig.claims);
    rig.n_reqs = 0;
    rig.n_claims = 0;
    rig.replayed = false;
    rig.reason = NULL;
    rig.retry_after_ns = 0;
    rig.claim_status = WP_PENDING;
    rig.release_status = WP_PENDING;
    rig.cancels = false;
    rig.info = NULL;
    there.lost = false;
    there.waiting = false;
}

static void
test_a_session_gets_a_sandbox(void **state)
{
    (void)state;
    open_all();
    again("it waits for one");
    assert_non_null(ask("a", "POST" PLAIN HOST));
    rig_claimed(rig.claim, WP_OK);
    rig_turn();
    again("one is ready; over TLS; no tenant");
    rig.claim_status = WP_OK;
    (void)ask_as("a", "POST" PLAIN HOST, "", "", true);
    again("the same claim was granted before");
    rig.claim_status = WP_OK;
    rig.replayed = true;
    (void)ask("a", "POST" PLAIN HOST);
    again("the loop's channel is full");
    rig.channel_full = true;
    (void)ask("a", "POST" PLAIN);
    rig_claimed(rig.claim, WP_OK);
    rig_run_tick();
    rig.channel_full = false;
    again("answers are looked for all the time");
    (void)ask("a", "POST" PLAIN);
    rig_run_tick();
    rig.reason = "it ends";
    rig.claim_status = WP_ABORTED;
    (void)ask("b", "POST" PLAIN);
    rig.claim_status = WP_OK;
    rig_run_tick();
    rig_run_tick();
    rig_claimed(rig.claims[0], WP_OK);
    rig_turn();
    again("hosts that are none");
    rig.claim_status = WP_OK;
    (void)ask("a", "POST" PLAIN "Host: a/b\r\n");
    (void)ask("b", "POST" PLAIN "Host: \r\n");
    (void)ask("c", "POST" PLAIN "Host: [::1]:8080\r\n");
    (void)ask("d", "POST" PLAIN "Host: AZaz09.-_:[]\r\n");
    end("gets");
}

static void
test_a_host_is_as_long_as_it_may_be(void **state)
{
    char head[512];

    (void)state;
    open_all();
    rig.claim_status = WP_OK;
    (void)snprintf(head, sizeof head, "POST%sHost: %0255d\r\n", PLAIN, 0);
    (void)ask("a", head);
    (void)snprintf(head, sizeof head, "POST%sHost: %0256d\r\n", PLAIN, 0);
    (void)ask("b", head);
    end("hosts");
}

static void
put_token(void *ctx, const struct wp_claim_info *info,
          char out[WP_SANDBOX_TOKEN_TEXT + 1])
{
    assert_ptr_equal(ctx, &config);
    rig_say("token of %s/%s %s at %s, slot %u.%u claim '%s'",
            info->pool_namespace, info->pool, info->sandbox, info->endpoint,
            info->ref.index, info->ref.generation, info->claim_id);
    (void)snprintf(out, WP_SANDBOX_TOKEN_TEXT + 1, "%s",
                   strcmp(info->sandbox, "box-of-grant") == 0 ? TOKEN : "");
}

static void
test_a_client_is_told_where_its_sandbox_is(void **state)
{
    /* With the path, as long as it may be. */
    char url[1024 - 4 + 1] = "";

    (void)state;
    rig.claim_status = WP_OK;
    config.url = "https://pools";
    open_all();
    (void)ask_as("a", "POST" PLAIN HOST, "", "blue", true);
    wp_sessions_destroy(sessions);
    config.url = "";
    config.direct = true;
    open_all();
    (void)ask("b", "POST" PLAIN HOST);
    wp_sessions_destroy(sessions);
    config.sandbox_token = put_token;
    config.ctx = &config;
    open_all();
    (void)ask("c", "POST" PLAIN HOST);
    rig.claim_status = WP_ALREADY_EXISTS;
    rig.info = &there;
    (void)ask("d", "GET" PLAIN HOST);
    rig.claim_status = WP_OK;
    rig.replayed = true;
    (void)ask("e", "GET" PLAIN HOST);
    there.waiting = true;
    (void)ask("f", "GET" PLAIN HOST);
    wp_sessions_destroy(sessions);
    there.waiting = false;
    memset(url, 'u', sizeof url - 1);
    config.url = url;
    config.direct = false;
    open_all();
    (void)ask("g", "GET" PLAIN HOST);
    end("where");
}

static void
test_a_claim_that_fails_is_refused(void **state)
{
    static const enum wp_status all[] = {
        WP_NOT_FOUND,           WP_INVALID_ARGUMENT,
        WP_CANCELLED,           WP_PERMISSION_DENIED,
        WP_RESOURCE_EXHAUSTED,  WP_UNAVAILABLE,
        WP_FAILED_PRECONDITION, WP_UNKNOWN_OUTCOME,
        WP_DEADLINE_EXCEEDED,   WP_INTERNAL,
    };

    (void)state;
    open_all();
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        again(wp_status_name(all[i]));
        rig.retry_after_ns = (int64_t)i * WP_NS_PER_S / 2;
        rig.reason = i % 3 == 0 ? NULL : "because of this";
        rig.claim_status = all[i];
        (void)ask("a", "POST" PLAIN);
    }
    again("seconds are whole");
    rig.claim_status = WP_UNAVAILABLE;
    rig.reason = "later";
    rig.retry_after_ns = WP_NS_PER_S + 1;
    (void)ask("a", "POST" PLAIN);
    rig.retry_after_ns = 1;
    (void)ask("b", "POST" PLAIN);
    end("refused");
}

static void
test_a_claim_in_the_way_is_waited_for(void **state)
{
    (void)state;
    open_all();
    again("its last lease is just ending");
    rig.reason = "the last one ends";
    rig.claim_status = WP_ABORTED;
    (void)ask("a", "POST" PLAIN);
    rig.claim_status = WP_ALREADY_EXISTS;
    rig.clock.now_mono_ns += 10 * WP_NS_PER_S;
    rig_run_tick();
    rig.clock.now_mono_ns += 1;
    rig_run_tick();
    again("its client leaves meanwhile");
    rig.claim_status = WP_ABORTED;
    leave(ask("a", "POST" PLAIN));
    rig_run_tick();
    again("its client has left before the answer");
    leave(ask("a", "POST" PLAIN));
    rig_claimed(rig.claim, WP_ABORTED);
    rig_turn();
    again("its client leaves before the next try");
    (void)ask("a", "POST" PLAIN);
    rig_claimed(rig.claim, WP_ABORTED);
    rig_turn();
    leave(&rig.reqs[0]);
    rig_run_tick();
    again("it is tried once each time");
    rig.claim_status = WP_ABORTED;
    (void)ask("a", "POST" PLAIN);
    rig.claim_status = WP_PENDING;
    rig_run_tick();
    rig_run_tick();
    rig_claimed(rig.claim, WP_OK);
    rig_turn();
    again("several at once");
    rig.claim_status = WP_ABORTED;
    (void)ask("a", "POST" PLAIN);
    (void)ask("b", "POST /api/sessions/s2/sandbox?user_id=ann HTTP/1.1\r\n");
    (void)ask("c", "POST /api/sessions/s3/sandbox?user_id=ann HTTP/1.1\r\n");
    rig_run_tick();
    rig.claim_status = WP_OK;
    rig_run_tick();
    assert_false(rig.tick_set);
    end("in_the_way");
}

static void
test_what_is_there_is_looked_at(void **state)
{
    static const enum wp_status all[] = {
        WP_ALREADY_EXISTS,      WP_INVALID_ARGUMENT,  WP_NOT_FOUND,
        WP_FAILED_PRECONDITION, WP_ABORTED,           WP_RESOURCE_EXHAUSTED,
        WP_UNAVAILABLE,         WP_PERMISSION_DENIED,
    };
    static const char *const heads[] = {"POST" PLAIN HOST, "GET" PLAIN HOST,
                                        "DELETE" PLAIN HOST};

    (void)state;
    open_all();
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        for (size_t h = 0; h < WP_ARRAY_LEN(heads); h++) {
            again(wp_status_name(all[i]));
            rig.info = &there;
            rig.reason = "so it is";
            rig.retry_after_ns = WP_NS_PER_S;
            rig.claim_status = all[i];
            (void)ask("a", heads[h]);
            if (rig.reqs[0].user != NULL) {
                rig.clock.now_mono_ns += 10 * WP_NS_PER_S + 1;
                rig_run_tick();
            }
        }
    }
    end("looks");
}

static void
test_a_session_is_found_again(void **state)
{
    (void)state;
    open_all();
    again("GET of a lease that repeats");
    rig.info = &there;
    rig.claim_status = WP_OK;
    rig.replayed = true;
    (void)ask("a", "GET" PLAIN HOST);
    again("POST of the same");
    rig.info = &there;
    (void)ask("a", "POST" PLAIN HOST);
    rig.replayed = true;
    rig_claimed(rig.claim, WP_OK);
    rig_turn();
    again("it was granted anew meanwhile");
    rig.info = &there;
    rig.claim_status = WP_OK;
    (void)ask("a", "GET" PLAIN HOST);
    rig.info = NULL;
    rig_run_tick();
    again("a lost one, for GET");
    rig.info = &there;
    there.lost = true;
    (void)ask("a", "GET" PLAIN);
    again("a lost one, for POST");
    rig.info = &there;
    there.lost = true;
    rig.claim_status = WP_NOT_FOUND;
    (void)ask("a", "POST" PLAIN);
    rig.info = NULL;
    rig.claim_status = WP_OK;
    rig_run_tick();
    again("a lost one, for DELETE");
    rig.info = &there;
    there.lost = true;
    rig.claim_status = WP_NOT_FOUND;
    (void)ask("a", "DELETE" PLAIN);
    again("none");
    (void)ask("a", "GET" PLAIN);
    again("one that waits");
    rig.info = &there;
    there.waiting = true;
    (void)ask("a", "GET" PLAIN HOST);
    (void)ask("b", "POST" PLAIN HOST);
    rig_claimed(rig.claim, WP_OK);
    rig_turn();
    again("its client leaves while it is looked at");
    rig.info = &there;
    leave(ask("a", "GET" PLAIN));
    rig_claimed(rig.claim, WP_OK);
    rig_turn();
    end("again");
}

static void
test_a_session_is_deleted(void **state)
{
    static const enum wp_status all[] = {WP_OK, WP_NOT_FOUND, WP_UNAVAILABLE};

    (void)state;
    config.ttl_ns = 0;
    open_all();
    again("there is none");
    (void)ask("a", "DELETE" PLAIN);
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        again(wp_status_name(all[i]));
        rig.info = &there;
        rig.claim_status = WP_OK;
        rig.replayed = true;
        rig.reason = "not now";
        (void)ask("a", "DELETE /api/sessions/s1?user_id=ann HTTP/1.1\r\n");
        rig_released(all[i]);
        rig_turn();
        again("at once");
        rig.info = &there;
        rig.claim_status = WP_OK;
        rig.replayed = true;
        rig.reason = "not now";
        rig.release_status = all[i];
        (void)ask("a", "DELETE" PLAIN);
    }
    again("its client leaves while it is released");
    rig.info = &there;
    rig.claim_status = WP_OK;
    rig.replayed = true;
    rig.cancels = true;
    leave(ask("a", "DELETE" PLAIN));
    rig_released(WP_OK);
    rig_turn();
    again("its client leaves, and the release fails");
    rig.info = &there;
    rig.claim_status = WP_OK;
    rig.replayed = true;
    leave(ask("a", "DELETE" PLAIN));
    rig_released(WP_UNAVAILABLE);
    rig_turn();
    end("deleted");
}

/* Three requests wait; one of them is of another tenant or session. */
static void
test_a_delete_takes_back_what_waits(void **state)
{
    (void)state;
    config.calls_max = 8;
    open_all();
    for (int cancels = 0; cancels < 2; cancels++) {
        again(cancels != 0 ? "it is withdrawn" : "it is being granted");
        (void)ask("a", "POST" PLAIN);
        (void)ask_as("b", "POST" PLAIN, "", "red", false);
        (void)ask("c",
                  "POST /api/sessions/s2/sandbox?user_id=ann HTTP/1.1\r\n");
        (void)ask("d", "POST" PLAIN);
        rig.info = &there;
        (void)ask("e", "GET" PLAIN);
        rig.info = NULL;
        rig.cancels = cancels != 0;
        (void)ask("f", "DELETE" PLAIN);
        for (uint32_t i = cancels != 0 ? 1 : 0; i < 5; i++) {
            if (cancels == 0 || i != 3) {
                rig_claimed(rig.claims[i], i == 4 ? WP_UNAVAILABLE : WP_OK);
            }
        }
        rig_turn();
    }
    again("one that is to be tried again is not withdrawn");
    rig.reason = "it ends";
    rig.claim_status = WP_ABORTED;
    (void)ask("a", "POST" PLAIN);
    rig.claim_status = WP_PENDING;
    rig.cancels = true;
    (void)ask("b", "DELETE" PLAIN);
    rig.claim_status = WP_OK;
    rig_run_tick();
    end("takes_back");
}

static void
test_who_leaves_gets_nothing(void **state)
{
    struct wp_http_req *req;

    (void)state;
    open_all();
    again("it can be withdrawn");
    req = ask("a", "POST" PLAIN);
    rig.cancels = true;
    leave(req);
    again("it is just being granted");
    leave(ask("a", "POST" PLAIN));
    rig_claimed(rig.claim, WP_OK);
    rig_turn();
    again("it is just being refused");
    leave(ask("a", "POST" PLAIN));
    rig_claimed(rig.claim, WP_UNAVAILABLE);
    rig_turn();
    again("it was answered before");
    rig.claim_status = WP_OK;
    leave(ask("a", "POST" PLAIN));
    again("a pool, then nobody");
    rig.claim_status = WP_ABORTED;
    leave(ask("a", "GET" PLAIN));
    end("leaves");
}

static void
test_requests_that_are_none_are_refused(void **state)
{
    _Atomic(bool) serves = false;

    (void)state;
    config.serves = &serves;
    open_all();
    (void)ask("a", "POST" PLAIN);
    (void)ask("b", "PUT" PLAIN);
    (void)ask("c", "GET /api/sessions/s1?user_id=ann HTTP/1.1\r\n");
    (void)ask("d", "POST /api/sessions/s1?user_id=ann HTTP/1.1\r\n");
    (void)ask("e", "GET /api/sessions/s1/box?user_id=ann HTTP/1.1\r\n");
    (void)ask("f", "GET /api/sessions/s1/sandbox HTTP/1.1\r\n");
    serves = true;
    (void)ask_as("g", "POST" PLAIN, "[1]", "", false);
    again("one too many");
    (void)ask("a", "POST" PLAIN);
    (void)ask("b", "POST" PLAIN);
    (void)ask("c", "POST" PLAIN);
    (void)ask("d", "POST" PLAIN);
    rig.cancels = true;
    (void)ask("e", "DELETE" PLAIN);
    rig_claimed(rig.claims[0], WP_UNAVAILABLE);
    rig_turn();
    (void)ask("f", "DELETE" PLAIN);
    for (uint32_t i = 1; i < 3; i++) {
        rig_say("%u: %s", i, rig.reqs[i].user != NULL ? "waits" : "is over");
    }
    again("no memory");
    rig.callocs = 0;
    (void)ask("a", "POST" PLAIN);
    rig.callocs = -1;
    rig.terse = true;
    rig.texts = 0;
    for (int texts = 0; rig.texts == 0; texts++) {
        memset(rig.reqs, 0, sizeof rig.reqs);
        rig.n_reqs = 0;
        rig.claim_status = WP_OK;
        rig.texts = texts;
        (void)ask("a", "POST" PLAIN);
    }
    rig.terse = false;
    end("none");
}

/* However little memory lacks: a client that may use a sandbox is told how. */
static void
test_no_answer_lacks_the_token(void **state)
{
    (void)state;
    rig.claim_status = WP_OK;
    config.sandbox_token = put_token;
    config.ctx = &config;
    for (int direct = 0; direct < 2; direct++) {
        config.direct = direct != 0;
        open_all();
        rig.terse = true;
        for (int n = 0; rig.text_fails < 0; n++) {
            memset(rig.reqs, 0, sizeof rig.reqs);
            rig.n_reqs = 0;
            rig.text_fails = n;
            (void)ask("a", "POST" PLAIN);
        }
        rig.text_fails = -1;
        wp_sessions_destroy(sessions);
        assert_non_null(strstr(rig.journal.text, "out of memory"));
        assert_non_null(strstr(rig.journal.text, "\"headers\":{\""));
        assert_null(strstr(rig.journal.text, "\"ready\":true}"));
    }
}

static void
name_pool(uint32_t i, const char *ns, const char *name, const char *tmpl,
          uint32_t ready)
{
    struct wp_pool_stats *pool = &rig.pools[i];

    memset(pool, 0, sizeof *pool);
    (void)snprintf(pool->spec.pool_namespace, sizeof pool->spec.pool_namespace,
                   "%s", ns);
    (void)snprintf(pool->spec.name, sizeof pool->spec.name, "%s", name);
    (void)snprintf(pool->spec.template_name, sizeof pool->spec.template_name,
                   "%s", tmpl);
    pool->ready = ready;
    rig.n_pools = i + 1;
}

static void
ask_of(const char *head, const char *body)
{
    memset(rig.reqs, 0, sizeof rig.reqs);
    rig.n_reqs = 0;
    (void)ask_as("a", head, body, "blue", false);
}

static void
test_a_session_chooses_its_pool(void **state)
{
    static const char *const pools[] = {"things/python", "python", "", "/"};

    (void)state;
    name_pool(0, "default", "one", "t1", 0);
    name_pool(1, "things", "two", "t1", 0);
    name_pool(2, "things", P54, "t1", 2);
    name_pool(3, "things", "four", "t1", 3);
    name_pool(4, "things", "five", "coder-sandbox", 0);
    name_pool(5, "default", "six", "coder-sandbox", 0);
    rig.claim_status = WP_OK;
    for (size_t i = 0; i < WP_ARRAY_LEN(pools); i++) {
        config.pool = pools[i];
        open_all();
        rig_say("# the default is '%s'", pools[i]);
        ask_of("POST" PLAIN, "");
        ask_of("POST" MORE("pool=mine"), "");
        ask_of("POST" MORE("pool=mine&namespace=ours"), "");
        ask_of("POST" MORE("namespace=ours"), "");
        ask_of("POST" MORE("template=t1"), "");
        ask_of("POST" MORE("template=t1&namespace=things"), "");
        ask_of("POST" MORE("template=t2"), "");
        ask_of("POST" PLAIN, "{\"pool\": \"mine\", \"namespace\": \"n\"}");
        ask_of("POST" PLAIN "X-Agent-Name: things/coder\r\n", "");
        ask_of("POST" PLAIN "X-Agent-Name: coder\r\n", "");
        ask_of("POST" PLAIN "X-Agent-Name: others/coder\r\n", "");
        wp_sessions_destroy(sessions);
    }
    config.pool = N63 "/" P54;
    open_all();
    rig_say("# names as long as they may be");
    ask_of("POST" PLAIN, "");
    wp_sessions_destroy(sessions);
    config.pool = N63 "n/" P54;
    open_all();
    rig_say("# a namespace that is too long");
    ask_of("POST" PLAIN, "");
    wp_sessions_destroy(sessions);
    rig_say("# pools that are gone, or have nothing ready");
    open_all();
    rig.pools[2].removed = true;
    ask_of("POST" MORE("template=t1&namespace=things"), "");
    rig.pools[3].gone = true;
    ask_of("POST" MORE("template=t1&namespace=things"), "");
    rig.pools[1].gone = true;
    ask_of("POST" MORE("template=t1&namespace=things"), "");
    rig.claim_status = WP_NOT_FOUND;
    ask_of("POST" MORE("pool=mine&namespace=ours"), "");
    end("chooses");
}

static void
test_a_session_keeps_its_pool(void **state)
{
    (void)state;
    open_all();
    name_pool(0, "kept", "ruby", "t1", 0);
    rig.claim_status = WP_OK;
    rig.replayed = true;
    rig.info = &there;
    ask_of("POST" MORE("pool=ruby&namespace=kept"), "");
    ask_of("POST" MORE("pool=rubys"), "");
    ask_of("POST" MORE("namespace=other"), "");
    ask_of("POST" MORE("template=t1"), "");
    ask_of("POST" MORE("template=t2"), "");
    ask_of("GET" MORE("template=t2"), "");
    ask_of("DELETE" MORE("pool=rubys"), "");
    rig_released(WP_OK);
    rig_turn();
    rig_say("# its pool is gone");
    rig.n_pools = 0;
    ask_of("POST" MORE("template=t2"), "");
    end("keeps");
}

static void
answer_late(void)
{
    if (rig.naps == 3) {
        rig_claimed(rig.claim, WP_OK);
    }
}

static void
test_the_end_waits_for_the_pools(void **state)
{
    struct heard heard;
    const char *text;
    struct wp_err err;

    (void)state;
    open_all();
    leave(ask("a", "POST" PLAIN));
    rig.nap = answer_late;
    wp_sessions_destroy(sessions);
    assert_int_equal(rig.naps, 3);
    wp_sessions_destroy(NULL);

    again("they have just answered");
    rig.nap = NULL;
    rig.naps = 0;
    open_all();
    leave(ask("a", "POST" PLAIN));
    rig.channel_full = true;
    rig_claimed(rig.claim, WP_OK);
    rig.channel_full = false;
    wp_sessions_destroy(sessions);
    assert_int_equal(rig.naps, 0);

    again("they never answer");
    rig.nap = NULL;
    rig.naps = 0;
    open_all();
    leave(ask("a", "POST" PLAIN));
    heard_begin(&heard);
    wp_sessions_destroy(sessions);
    text = heard_end(&heard);
    assert_string_equal(text, "WARN requests of HTTP clients are not answered "
                              "yet; their memory stays\n");
    assert_int_equal(rig.naps, 30000);
    /* Which is given back here. */
    free(rig.claim->ctx);
    free(sessions);

    again("it cannot begin");
    for (int i = 0; i < 2; i++) {
        rig.callocs = i == 0 ? 0 : -1;
        rig.no_timer = i == 1;
        memset(&err, 0, sizeof err);
        assert_null(wp_sessions_create(&config, &err));
        rig_say("%s: %s", wp_status_name(err.status), err.msg);
    }
    rig.no_timer = false;
    open_all();
    end("ends");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_session_gets_a_sandbox, begin),
        cmocka_unit_test_setup(test_a_host_is_as_long_as_it_may_be, begin),
        cmocka_unit_test_setup(test_a_client_is_told_where_its_sandbox_is,
                               begin),
        cmocka_unit_test_setup(test_a_claim_that_fails_is_refused, begin),
        cmocka_unit_test_setup(test_a_claim_in_the_way_is_waited_for, begin),
        cmocka_unit_test_setup(test_what_is_there_is_looked_at, begin),
        cmocka_unit_test_setup(test_a_session_is_found_again, begin),
        cmocka_unit_test_setup(test_a_session_is_deleted, begin),
        cmocka_unit_test_setup(test_a_delete_takes_back_what_waits, begin),
        cmocka_unit_test_setup(test_who_leaves_gets_nothing, begin),
        cmocka_unit_test_setup(test_requests_that_are_none_are_refused, begin),
        cmocka_unit_test_setup(test_no_answer_lacks_the_token, begin),
        cmocka_unit_test_setup(test_a_session_chooses_its_pool, begin),
        cmocka_unit_test_setup(test_a_session_keeps_its_pool, begin),
        cmocka_unit_test_setup(test_the_end_waits_for_the_pools, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
