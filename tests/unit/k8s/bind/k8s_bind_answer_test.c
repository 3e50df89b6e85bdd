/* What the server in a Pod answers to a binding: believed only when it says the
 * right thing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/bind/bind_answer.h"

#define FINGERPRINT "0123456789abcdef"
#define NONE "binding: the sandbox's server takes none"
#define NOT_ALL "binding: the sandbox did not take all of it"

static struct wp_bind_answer answer;

static bool
reads(const char *bytes, bool ended)
{
    const struct wp_bind_brought brought = {FINGERPRINT, false};

    memset(&answer, 0xa5, sizeof answer);
    return wp_bind_answer_read(wp_str_from(bytes), ended, &brought, &answer);
}

static void
what_it_says(void **state)
{
    static const struct {
        const char *bytes;
        enum wp_status status;
        bool lost;
        const char *reason;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nX-Warmpool-Binding: " FINGERPRINT
         "\r\nContent-Length: 9\r\n\r\n",
         WP_OK, false, ""},
        /* Some other server, which answers everything. */
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
         WP_FAILED_PRECONDITION, false, NONE},
        {"HTTP/1.1 200 OK\r\nX-Warmpool-Binding: 0123456789abcdee\r\n"
         "Content-Length: 0\r\n\r\n",
         WP_FAILED_PRECONDITION, false, NONE},
        {"HTTP/1.1 202 Accepted\r\nX-Warmpool-Binding: " FINGERPRINT
         "\r\nContent-Length: 0\r\n\r\n",
         WP_FAILED_PRECONDITION, false, NONE},
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 15\r\n\r\n"
         "{\"error\":\"none\"}",
         WP_FAILED_PRECONDITION, false, NONE},
        {"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
         WP_FAILED_PRECONDITION, false, NONE},
        {"HTTP/1.1 422 X\r\nContent-Length: 41\r\n\r\n"
         "{\"error\":\"file 'a\\n\xc3\xa9"
         "b': Is a directory\"}",
         WP_FAILED_PRECONDITION, true,
         "binding: file 'a??\?b': Is a directory"},
        {"HTTP/1.1 409 X\r\nTransfer-Encoding: chunked\r\n\r\n"
         "6\r\n{\"erro\r\n8\r\nr\":\"no\"}\r\n0\r\n\r\n",
         WP_FAILED_PRECONDITION, true, "binding: no"},
        {"HTTP/1.1 409 X\r\nContent-Length: 15\r\n\r\n{\"error\":\"~ \x7f\"}",
         WP_FAILED_PRECONDITION, true, "binding: ~ ?"},
        {"HTTP/1.1 422 X\r\nContent-Length: 3\r\n\r\nno!",
         WP_FAILED_PRECONDITION, true, NOT_ALL},
        {"HTTP/1.1 409 X\r\nContent-Length: 14\r\n\r\n{\"error\":[\"a\"]}",
         WP_FAILED_PRECONDITION, true, NOT_ALL},
        {"SSH-2.0-OpenSSH_9.2\r\n\r\n", WP_FAILED_PRECONDITION, false,
         "binding: the sandbox's server answered nonsense"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        assert_true(reads(cases[i].bytes, false));
        assert_int_equal(answer.status, cases[i].status);
        assert_int_equal(answer.lost, cases[i].lost);
        assert_int_equal(answer.other, strstr(cases[i].bytes, " 409 ") != NULL);
        assert_string_equal(answer.reason, cases[i].reason);
    }
}

/* Cut anywhere it is waited for, unless no more will come. */
static void
what_is_not_whole_is_waited_for(void **state)
{
    static const char *const texts[] = {
        "HTTP/1.1 409 X\r\nTransfer-Encoding: chunked\r\n\r\n"
        "6\r\n{\"erro\r\n8\r\nr\":\"no\"}\r\n0\r\n\r\n",
        "HTTP/1.1 422 X\r\nContent-Length: 14\r\n\r\n{\"error\":\"no\"}",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(texts); i++) {
        char part[128];
        size_t len = strlen(texts[i]);

        for (size_t n = 0; n < len; n++) {
            memcpy(part, texts[i], n);
            part[n] = '\0';
            assert_false(reads(part, false));
            assert_true(reads(part, true));
            assert_int_not_equal(answer.status, WP_OK);
        }
        assert_true(reads(texts[i], false));
        assert_string_equal(answer.reason, "binding: no");
    }
}

/* An older server binds, and says nothing of the identity. */
static void
an_identity_is_confirmed(void **state)
{
    static const struct {
        const char *bytes;
        const char *fingerprint;
        enum wp_status status;
        bool lost;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nX-Warmpool-Binding: " FINGERPRINT
         "\r\nX-Warmpool-Identity: taken\r\nContent-Length: 0\r\n\r\n",
         FINGERPRINT, WP_OK, false},
        {"HTTP/1.1 200 OK\r\nX-Warmpool-Binding: " FINGERPRINT
         "\r\nContent-Length: 0\r\n\r\n",
         FINGERPRINT, WP_FAILED_PRECONDITION, true},
        {"HTTP/1.1 200 OK\r\nX-Warmpool-Identity: taken\r\n"
         "Content-Length: 0\r\n\r\n",
         NULL, WP_OK, false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", NULL,
         WP_FAILED_PRECONDITION, true},
        {"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n", NULL,
         WP_FAILED_PRECONDITION, false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        const struct wp_bind_brought brought = {cases[i].fingerprint, true};

        assert_true(wp_bind_answer_read(wp_str_from(cases[i].bytes), true,
                                        &brought, &answer));
        assert_int_equal(answer.status, cases[i].status);
        assert_int_equal(answer.lost, cases[i].lost);
    }
}

static void
in_pieces(void **state)
{
    static const char whole[] =
        "HTTP/1.1 422 X\r\nContent-Length: 18\r\n\r\n{\"error\":\"not it\"}";
    char part[sizeof whole] = "";

    (void)state;
    for (size_t len = 0; len < sizeof whole - 1; len++) {
        memcpy(part, whole, len);
        assert_false(reads(part, false));
    }
    /* What ends early. */
    assert_true(reads(part, true));
    assert_true(answer.lost);
    assert_string_equal(answer.reason, NOT_ALL);
    for (size_t i = 0; i < 2; i++) {
        assert_true(reads(i == 0 ? "" : "HTTP/1.1 200 OK\r\n", true));
        assert_int_equal(answer.status, WP_UNAVAILABLE);
        assert_false(answer.lost);
        assert_string_equal(answer.reason,
                            "binding: the sandbox's server did not answer");
    }
}

static void
without_end(void **state)
{
    static const char head[] = "HTTP/1.1 422 X\r\n\r\n";
    static char bytes[WP_BIND_ANSWER_MAX + 1];

    (void)state;
    memset(bytes, 'a', sizeof bytes - 1);
    assert_true(reads(bytes, false)); /* A head of nothing but that. */
    assert_int_equal(answer.status, WP_FAILED_PRECONDITION);
    memcpy(bytes, head, sizeof head - 1);
    assert_true(reads(bytes, false));
    assert_string_equal(answer.reason, NOT_ALL);
    wp_bind_answer_set(&answer, WP_UNAVAILABLE, false, wp_str_from(bytes));
    assert_int_equal(strlen(answer.reason), WP_BIND_REASON_MAX);
}

/* Of a body without end as much is looked at as tells a reason, and no more. */
static void
long_bodies(void **state)
{
    static const char head[] = "HTTP/1.1 409 X\r\n\r\n{\"error\":\"no\"}";
    enum {
        LOOKED_AT = 4096,
    };
    static char bytes[WP_BIND_ANSWER_MAX];
    size_t whole = strlen("HTTP/1.1 409 X\r\n\r\n") + LOOKED_AT;

    (void)state;
    memset(bytes, ' ', sizeof bytes - 1);
    memcpy(bytes, head, sizeof head - 1);
    bytes[whole - 1] = '\0';
    assert_false(reads(bytes, false));
    bytes[whole - 1] = ' ';
    bytes[whole] = '\0';
    assert_true(reads(bytes, false));
    assert_string_equal(answer.reason, "binding: no");
    bytes[whole] = '!';
    bytes[whole + 1] = '\0';
    assert_true(reads(bytes, false));
    assert_string_equal(answer.reason, "binding: no");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_says),
        cmocka_unit_test(what_is_not_whole_is_waited_for),
        cmocka_unit_test(an_identity_is_confirmed),
        cmocka_unit_test(in_pieces),
        cmocka_unit_test(without_end),
        cmocka_unit_test(long_bodies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
