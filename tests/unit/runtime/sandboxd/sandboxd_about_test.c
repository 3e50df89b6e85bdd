/* What a sandbox says of itself: how long it is up, and what of its environment
 * is no secret. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "runtime/sandboxd/rest.h"
#include "tests/support/pool/manual_clock.h"
#include "tests/support/runtime/fake_http.h"

extern char **environ;

static struct wp_clock_manual hands;
static struct wp_runtime runtime;

const struct wp_clock *__wrap_wp_clock_system(void);

const struct wp_clock *
__wrap_wp_clock_system(void)
{
    return &hands.clock;
}

static void
ask(const struct wp_http_ops *ops)
{
    struct wp_http_req req = {.name = "about", .app = &runtime, .ops = ops};

    assert_int_equal(ops->body_max, 4096);
    ops->ready(&req);
}

static void
it_says_how_long_it_is_up(void **state)
{
    (void)state;
    wp_clock_manual_init(&hands, 5000000000, 0);
    runtime.started_ns = 3000000000;
    ask(&wp_sandboxd_health_ops);
    hands.now_mono_ns = 5999999999;
    ask(&wp_sandboxd_health_ops);
    hands.now_mono_ns = 3000000000;
    ask(&wp_sandboxd_health_ops);
    journal_is("about reply 200 application/json: "
               "{\"status\":\"ok\",\"uptime_seconds\":2}\n"
               "about reply 200 application/json: "
               "{\"status\":\"ok\",\"uptime_seconds\":2}\n"
               "about reply 200 application/json: "
               "{\"status\":\"ok\",\"uptime_seconds\":0}\n");
}

static void
what_is_named_like_a_secret_is_not_shown(void **state)
{
    static char words[][40] = {
        "SANDBOX_ID=7",        "SANDBOX_=nameless", "SANDBOX=x",
        "sandbox_ID=x",        "xSANDBOX_ID=x",     "SANDBOX_EMPTY=",
        "SANDBOX_NONE",        "SANDBOX_URL=a=b",   "SANDBOX_ODD=\xff",
        "SANDBOX_\xff=odd",    "SANDBOX_TOKEN=x",   "SANDBOX_MY_SECRETS=x",
        "SANDBOX_PassWord_=x", "SANDBOX_PASSWD=x",  "SANDBOX_CREDIT=x",
        "SANDBOX_MONKEY=x",    "SANDBOX_AUTHOR=x",  "SANDBOX_BEARER=x",
        "SANDBOX_PRIVATE=x",   "SANDBOX_CERT=x",    "SANDBOX_KE=Y",
        "SANDBOX_TOKE=N",      "SANDBOX_A=TOKEN",   "PATH=/bin",
    };
    char *list[sizeof words / sizeof(words[0]) + 1] = {NULL};
    char **before = environ;

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof(words[0]); i++) {
        list[i] = words[i];
    }
    environ = list;
    ask(&wp_sandboxd_metadata_ops);
    environ = list + sizeof words / sizeof(words[0]);
    ask(&wp_sandboxd_metadata_ops);
    environ = before;
    journal_is("about reply 200 application/json: {\"env\":{\"SANDBOX_ID\":"
               "\"7\",\"SANDBOX_\":\"nameless\",\"SANDBOX_EMPTY\":\"\","
               "\"SANDBOX_URL\":\"a=b\",\"SANDBOX_ODD\":\"\\EF\\BF\\BD\","
               "\"SANDBOX_KE\":\"Y\",\"SANDBOX_TOKE\":\"N\",\"SANDBOX_A\":"
               "\"TOKEN\"}}\n"
               "about reply 200 application/json: {\"env\":{}}\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_says_how_long_it_is_up),
        cmocka_unit_test(what_is_named_like_a_secret_is_not_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
