#include "tests/unit/k8s/api/curl_fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/api/token.h"
#include "tests/support/base/journal.h"

#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

struct curl_fake fake;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *ptr, size_t size);
void *__wrap_realloc(void *ptr, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
int __wrap_access(const char *path, int mode);
bool __wrap_wp_token_refused(struct wp_token *token,
                             const struct wp_token_value *used);
CURLcode __wrap_curl_global_init(long flags);
CURL *__real_curl_easy_init(void);
CURL *__wrap_curl_easy_init(void);
void __real_curl_easy_cleanup(CURL *curl);
void __wrap_curl_easy_cleanup(CURL *curl);
CURLcode __wrap_curl_easy_setopt(CURL *curl, CURLoption option, ...);
CURLcode __wrap_curl_easy_getinfo(CURL *curl, CURLINFO info, ...);
const char *__wrap_curl_easy_strerror(CURLcode code);
struct curl_slist *__real_curl_slist_append(struct curl_slist *list,
                                            const char *text);
struct curl_slist *__wrap_curl_slist_append(struct curl_slist *list,
                                            const char *text);
CURLM *__wrap_curl_multi_init(void);
CURLMcode __wrap_curl_multi_cleanup(CURLM *multi);
CURLMcode __wrap_curl_multi_setopt(CURLM *multi, CURLMoption option, ...);
CURLMcode __wrap_curl_multi_add_handle(CURLM *multi, CURL *curl);
CURLMcode __wrap_curl_multi_remove_handle(CURLM *multi, CURL *curl);
CURLMcode __wrap_curl_multi_assign(CURLM *multi, curl_socket_t fd, void *ctx);
CURLMcode __wrap_curl_multi_socket_action(CURLM *multi, curl_socket_t fd,
                                          int what, int *running);
CURLMsg *__wrap_curl_multi_info_read(CURLM *multi, int *left);
struct event *__real_event_new(struct event_base *base, evutil_socket_t fd,
                               short what, event_callback_fn run, void *ctx);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd,
                               short what, event_callback_fn run, void *ctx);
int __wrap_event_add(struct event *event, const struct timeval *tv);
int __wrap_event_del(struct event *event);
void __real_event_free(struct event *event);
void __wrap_event_free(struct event *event);
void __wrap_event_active(struct event *event, int what, short n);

static bool
fails(void)
{
    return fake.fails != 0 && --fake.fails == 0;
}

/* --- The machine --- */

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *
__wrap_realloc(void *ptr, size_t size)
{
    return fails() ? NULL : __real_realloc(ptr, size);
}

char *
__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

int
__wrap_access(const char *path, int mode)
{
    journal("  may %s be read (%d)", path, mode);
    journal_line();
    errno = EACCES;
    return fake.unreadable != NULL && strcmp(path, fake.unreadable) == 0 ? -1
                                                                         : 0;
}

bool
__wrap_wp_token_refused(struct wp_token *token,
                        const struct wp_token_value *used)
{
    (void)token;
    journal("  refused: %s", used != NULL ? used->header : "nothing");
    journal_line();
    return fake.token_changes;
}

/* --- Handles --- */

static int
easy_of(const CURL *curl)
{
    for (int i = 0; i < fake.easies_len; i++) {
        if (fake.easies[i].curl == curl) {
            return i;
        }
    }
    fail();
    return -1;
}

CURLcode
__wrap_curl_global_init(long flags)
{
    assert_int_equal(flags, CURL_GLOBAL_DEFAULT);
    return fails() ? CURLE_FAILED_INIT : CURLE_OK;
}

CURL *
__wrap_curl_easy_init(void)
{
    struct fake_easy *easy = &fake.easies[fake.easies_len];

    if (fails()) {
        return NULL;
    }
    assert_true(fake.easies_len < FAKE_EASIES);
    *easy = (struct fake_easy){.curl = __real_curl_easy_init(), .multi = -1};
    assert_non_null(easy->curl);
    fake.easies_len++;
    return easy->curl;
}

void
__wrap_curl_easy_cleanup(CURL *curl)
{
    if (curl == NULL) {
        return;
    }
    fake.easies[easy_of(curl)].curl = NULL;
    __real_curl_easy_cleanup(curl);
}

static void
show_list(const struct curl_slist *list)
{
    for (; list != NULL; list = list->next) {
        journal(" [%s]", list->data);
    }
}

static void
keep_pointer(struct fake_easy *easy, CURLoption option, void *ptr)
{
    switch ((int)option) {
    case CURLOPT_ERRORBUFFER:
        easy->error = ptr;
        break;
    case CURLOPT_WRITEDATA:
        easy->write_ctx = ptr;
        break;
    case CURLOPT_PREREQDATA:
        easy->before_ctx = ptr;
        break;
    case CURLOPT_PRIVATE:
        easy->private_ = ptr;
        break;
    case CURLOPT_POSTFIELDS:
        easy->fields = ptr;
        break;
    default:
        fail();
    }
}

static void
keep_text(struct fake_easy *easy, CURLoption option, const char *text)
{
    journal(" %s", text);
    if (option == CURLOPT_URL) {
        (void)snprintf(easy->url, sizeof easy->url, "%s", text);
    } else if (option == CURLOPT_CUSTOMREQUEST) {
        (void)snprintf(easy->method, sizeof easy->method, "%s", text);
    }
}

static void
keep_function(struct fake_easy *easy, CURLoption option, void (*function)(void))
{
    if (option == CURLOPT_WRITEFUNCTION) {
        memcpy(&easy->write, &function, sizeof function);
    } else if (option == CURLOPT_PREREQFUNCTION) {
        memcpy(&easy->before, &function, sizeof function);
    } else {
        assert_int_equal(option, CURLOPT_SOCKOPTFUNCTION);
        memcpy(&easy->socket_made, &function, sizeof function);
    }
}

static void
show_blob(const struct curl_blob *blob)
{
    journal(" %u ", blob->flags);
    journal_bytes(blob->data, blob->len);
}

CURLcode
__wrap_curl_easy_setopt(CURL *curl, CURLoption option, ...)
{
    const struct curl_easyoption *known = curl_easy_option_by_id(option);
    int n = easy_of(curl);
    struct fake_easy *easy = &fake.easies[n];
    curl_off_t size;
    va_list args;

    if (fails()) {
        return CURLE_OUT_OF_MEMORY;
    }
    assert_non_null(known);
    journal_mute(!fake.shows_options);
    journal("  h%d %s", n, known->name);
    va_start(args, option);
    switch (known->type) {
    case CURLOT_LONG:
    case CURLOT_VALUES:
        journal(" %ld", va_arg(args, long));
        break;
    case CURLOT_OFF_T:
        size = va_arg(args, curl_off_t);
        journal(" %ld ", (long)size);
        journal_bytes(easy->fields, (size_t)size);
        break;
    case CURLOT_STRING:
        keep_text(easy, option, va_arg(args, const char *));
        break;
    case CURLOT_SLIST:
        show_list(va_arg(args, const struct curl_slist *));
        break;
    case CURLOT_BLOB:
        show_blob(va_arg(args, const struct curl_blob *));
        break;
    case CURLOT_FUNCTION:
        keep_function(easy, option, va_arg(args, void (*)(void)));
        break;
    case CURLOT_OBJECT:
    case CURLOT_CBPTR:
        keep_pointer(easy, option, va_arg(args, void *));
        break;
    }
    va_end(args);
    journal_line();
    journal_mute(false);
    return CURLE_OK;
}

CURLcode
__wrap_curl_easy_getinfo(CURL *curl, CURLINFO info, ...)
{
    const struct fake_easy *easy = &fake.easies[easy_of(curl)];
    va_list args;

    va_start(args, info);
    switch ((int)info) {
    case CURLINFO_RESPONSE_CODE:
        *va_arg(args, long *) = easy->code;
        break;
    case CURLINFO_REQUEST_SIZE:
        *va_arg(args, long *) = easy->sent;
        break;
    case CURLINFO_HTTP_VERSION:
        *va_arg(args, long *) = easy->version;
        break;
    case CURLINFO_RETRY_AFTER:
        *va_arg(args, curl_off_t *) = easy->retry_after_s;
        break;
    case CURLINFO_PRIVATE:
        *va_arg(args, void **) = easy->private_;
        break;
    default:
        fail();
    }
    va_end(args);
    return CURLE_OK;
}

/* curl's own words change from one version to the next. */
const char *
__wrap_curl_easy_strerror(CURLcode code)
{
    static char text[32];

    (void)snprintf(text, sizeof text, "curl's code %d", (int)code);
    return text;
}

struct curl_slist *
__wrap_curl_slist_append(struct curl_slist *list, const char *text)
{
    return fails() ? NULL : __real_curl_slist_append(list, text);
}

/* --- Sets of connections --- */

static int
multi_of(CURLM *multi)
{
    int n = (int)((struct fake_multi *)multi - fake.multis);

    assert_in_range(n, 0, fake.multis_len - 1);
    assert_true(fake.multis[n].alive);
    return n;
}

CURLM *
__wrap_curl_multi_init(void)
{
    if (fails()) {
        return NULL;
    }
    assert_true(fake.multis_len < FAKE_MULTIS);
    fake.multis[fake.multis_len].alive = true;
    return &fake.multis[fake.multis_len++];
}

CURLMcode
__wrap_curl_multi_cleanup(CURLM *multi)
{
    int n = multi_of(multi);

    journal("  m%d ends", n);
    journal_line();
    fake.multis[n].alive = false;
    return CURLM_OK;
}

CURLMcode
__wrap_curl_multi_setopt(CURLM *multi, CURLMoption option, ...)
{
    int n = multi_of(multi);
    struct fake_multi *of = &fake.multis[n];
    va_list args;

    if (fails()) {
        return CURLM_OUT_OF_MEMORY;
    }
    va_start(args, option);
    switch ((int)option) {
    case CURLMOPT_SOCKETFUNCTION:
        of->socket = va_arg(args, curl_socket_callback);
        break;
    case CURLMOPT_SOCKETDATA:
        of->socket_ctx = va_arg(args, void *);
        break;
    case CURLMOPT_TIMERFUNCTION:
        of->timer = va_arg(args, curl_multi_timer_callback);
        break;
    case CURLMOPT_TIMERDATA:
        of->timer_ctx = va_arg(args, void *);
        break;
    default:
        journal("  m%d option %d %ld", n, (int)option, va_arg(args, long));
        journal_line();
    }
    va_end(args);
    return CURLM_OK;
}

CURLMcode
__wrap_curl_multi_add_handle(CURLM *multi, CURL *curl)
{
    int n = easy_of(curl);
    struct fake_easy *easy = &fake.easies[n];

    if (fails()) {
        return CURLM_OUT_OF_MEMORY;
    }
    assert_int_equal(easy->multi, -1);
    easy->multi = multi_of(multi);
    journal("  m%d begins h%d %s %s", easy->multi, n, easy->method, easy->url);
    journal_line();
    return CURLM_OK;
}

CURLMcode
__wrap_curl_multi_remove_handle(CURLM *multi, CURL *curl)
{
    int n = easy_of(curl);

    assert_int_equal(fake.easies[n].multi, multi_of(multi));
    fake.easies[n].multi = -1;
    journal("  h%d is out", n);
    journal_line();
    return CURLM_OK;
}

static int
event_of(const struct event *event)
{
    for (int i = 0; i < fake.events_len; i++) {
        if (fake.events[i].event == event) {
            return i;
        }
    }
    fail();
    return -1;
}

CURLMcode
__wrap_curl_multi_assign(CURLM *multi, curl_socket_t fd, void *ctx)
{
    journal("  m%d keeps for %d ", multi_of(multi), (int)fd);
    if (ctx != NULL) {
        journal("e%d", event_of(ctx));
    } else {
        journal("nothing");
    }
    journal_line();
    return CURLM_OK;
}

CURLMcode
__wrap_curl_multi_socket_action(CURLM *multi, curl_socket_t fd, int what,
                                int *running)
{
    journal("  m%d acts on %d for %d", multi_of(multi), (int)fd, what);
    journal_line();
    *running = 0;
    if (fake.within != NULL) {
        fake.within();
    }
    return CURLM_OK;
}

CURLMsg *
__wrap_curl_multi_info_read(CURLM *multi, int *left)
{
    static CURLMsg message;
    struct fake_multi *of = &fake.multis[multi_of(multi)];

    if (of->ended_len == 0) {
        return NULL;
    }
    message = of->ended[0];
    of->ended_len--;
    memmove(of->ended, of->ended + 1,
            (size_t)of->ended_len * sizeof of->ended[0]);
    *left = of->ended_len;
    return &message;
}

/* --- Events --- */

struct event *
__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
                 event_callback_fn run, void *ctx)
{
    struct fake_event *event = &fake.events[fake.events_len];

    if (fails()) {
        return NULL;
    }
    assert_true(fake.events_len < FAKE_EVENTS);
    *event = (struct fake_event){__real_event_new(base, fd, what, run, ctx), fd,
                                 run, ctx};
    assert_non_null(event->event);
    if (fd >= 0) {
        journal("  e%d for %d of %d", fake.events_len, (int)fd, (int)what);
        journal_line();
    }
    fake.events_len++;
    return event->event;
}

int
__wrap_event_add(struct event *event, const struct timeval *tv)
{
    if (fake.adds_fail != 0 && --fake.adds_fail == 0) {
        return -1;
    }
    if (tv != NULL) {
        journal("  e%d in %ld.%06ld", event_of(event), (long)tv->tv_sec,
                (long)tv->tv_usec);
    } else {
        journal("  e%d waits", event_of(event));
    }
    journal_line();
    return 0;
}

int
__wrap_event_del(struct event *event)
{
    journal("  e%d waits for nothing", event_of(event));
    journal_line();
    return 0;
}

void
__wrap_event_free(struct event *event)
{
    int n = event_of(event);

    if (fake.events[n].fd >= 0) {
        journal("  e%d is gone", n);
        journal_line();
    }
    fake.events[n].event = NULL;
    __real_event_free(event);
}

void
__wrap_event_active(struct event *event, int what, short n)
{
    assert_int_equal(event_of(event), 0);
    assert_int_equal(what, EV_TIMEOUT);
    (void)n;
    fake.kicked = true;
}

/* --- What the test does --- */

void
fake_fire(int event, short what)
{
    const struct fake_event *of = &fake.events[event];

    assert_true(event < fake.events_len);
    assert_non_null(of->event);
    of->run(of->fd, what, of->ctx);
}

void
fake_turn(void)
{
    while (fake.kicked) {
        fake.kicked = false;
        fake_fire(0, EV_TIMEOUT);
    }
}

void
fake_end(int easy, CURLcode result)
{
    struct fake_multi *of;

    assert_true(easy < fake.easies_len && fake.easies[easy].multi >= 0);
    of = &fake.multis[fake.easies[easy].multi];
    of->ended[of->ended_len++] =
        (CURLMsg){.msg = CURLMSG_DONE,
                  .easy_handle = fake.easies[easy].curl,
                  .data.result = result};
    for (int i = 0; i < fake.events_len; i++) {
        if (fake.events[i].event != NULL && fake.events[i].fd < 0 &&
            fake.events[i].ctx == of->timer_ctx) {
            fake_fire(i, EV_TIMEOUT);
            return;
        }
    }
    fail();
}

size_t
fake_bytes(int easy, const char *bytes, size_t len)
{
    const struct fake_easy *of = &fake.easies[easy];

    assert_non_null(of->write);
    return of->write((char *)(uintptr_t)bytes, 1, len, of->write_ctx);
}
