/* tests/unit/allocator/grpc/grpc_reflection_test.c - what server reflection
 * answers: which file has a name or symbol, in a description of the test's own,
 * whole or cut anywhere. golden/ has the answers. The wire's messages are
 * fakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/grpc/internal.h"
#include "proto/wire/reflection.h"
#include "tests/support/base/golden.h"

#define WRAP(result, name, ...)                                                \
    result __wrap_##name(__VA_ARGS__);                                         \
    result __wrap_##name(__VA_ARGS__)

enum {
    SET_MAX = 4096,
    VARINT = 0,
    FIXED64 = 1,
    BYTES = 2,
    FIXED32 = 5,
};

/* In place of the build's (proto/wire/descriptor.h, where they are constant).
 */
extern uint8_t wp_descriptor_set[];
extern size_t wp_descriptor_set_len;
uint8_t wp_descriptor_set[SET_MAX];
size_t wp_descriptor_set_len;

static struct golden journal;
static struct wp_rpc_server server;
static struct wp_rpc_reflection *reflection;
static struct wp_wire_reflection_request asked;
static struct wp_wire_reflection_response answered;
static struct wp_str answered_entries[WP_WIRE_REFLECTION_ENTRIES_MAX];
static bool is_bad;
static bool no_memory;
static uint8_t room[8];

/* --- A description --- */

struct message {
    uint8_t bytes[SET_MAX];
    size_t len;
};

static void
put(struct message *to, uint8_t byte)
{
    assert_true(to->len < sizeof to->bytes);
    to->bytes[to->len++] = byte;
}

static void
put_varint(struct message *to, uint64_t n)
{
    for (; n >= 0x80; n >>= 7) {
        put(to, (uint8_t)(n | 0x80));
    }
    put(to, (uint8_t)n);
}

static void
put_bytes(struct message *to, uint32_t number, const void *bytes, size_t len)
{
    put_varint(to, number << 3 | BYTES);
    put_varint(to, len);
    for (size_t i = 0; i < len; i++) {
        put(to, ((const uint8_t *)bytes)[i]);
    }
}

static void
put_text(struct message *to, uint32_t number, const char *text)
{
    put_bytes(to, number, text, strlen(text));
}

static void
put_message(struct message *to, uint32_t number, const struct message *part)
{
    put_bytes(to, number, part->bytes, part->len);
}

/* A part that has only a name. */
static void
put_leaf(struct message *to, uint32_t number, const char *name)
{
    struct message leaf = {.len = 0};

    put_text(&leaf, 1, name);
    put_message(to, number, &leaf);
}

/* Fields of every other type, which are passed over. */
static void
put_others(struct message *to)
{
    put_varint(to, 9 << 3 | VARINT);
    put_varint(to, UINT64_MAX);
    put_varint(to, 10 << 3 | FIXED64);
    for (int i = 0; i < 8; i++) {
        put(to, 0x0a);
    }
    put_varint(to, 11 << 3 | FIXED32);
    for (int i = 0; i < 4; i++) {
        put(to, 0x0a);
    }
    put_varint(to, 1000 << 3 | BYTES);
    put_varint(to, 0);
}

static void
put_named(struct message *to, uint32_t number, const char *name,
          const uint32_t *fields, size_t n)
{
    struct message part = {.len = 0};
    char leaf[32];

    put_others(&part);
    put_text(&part, 1, name);
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(leaf, sizeof leaf, "%s_%u", name, fields[i]);
        put_leaf(&part, fields[i], leaf);
    }
    put_message(to, number, &part);
}

/* File `name`; package NULL: it has none. */
static void
put_file(struct message *set, const char *name, const char *package)
{
    static const uint32_t all[] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct message file = {.len = 0};
    struct message outer = {.len = 0};

    put_others(&file);
    put_text(&file, 1, name);
    if (package != NULL) {
        put_text(&file, 2, package);
    }
    put_text(&outer, 1, "Outer");
    put_named(&outer, 3, "Inner", all + 1, 7);
    put_named(&outer, 4, "InnerEnum", all + 1, 1);
    put_leaf(&outer, 8, "a_oneof");
    put_message(&file, 4, &outer);
    put_named(&file, 4, "Second", all + 1, 1);
    put_named(&file, 5, "Enum", all + 1, 7);
    put_named(&file, 6, "Service", all + 1, 7);
    put_leaf(&file, 7, "extension");
    put_leaf(&file, 8, "option");
    put_others(&file);
    put_message(set, 1, &file);
}

static void
use(const struct message *set)
{
    memcpy(wp_descriptor_set, set->bytes, set->len);
    wp_descriptor_set_len = set->len;
}

/* --- The wire and the transport --- */

WRAP(enum wp_status, wp_wire_unpack_reflection_request, struct wp_arena *arena,
     const uint8_t *bytes, size_t len, struct wp_wire_reflection_request *out,
     struct wp_err *err)
{
    (void)arena;
    assert_ptr_equal(bytes, room);
    assert_int_equal(len, sizeof room);
    *out = asked;
    return is_bad ? wp_err_set(err, WP_INVALID_ARGUMENT, "it is no message")
                  : WP_OK;
}

WRAP(size_t, wp_wire_size_reflection_response,
     const struct wp_wire_reflection_response *of)
{
    answered = *of;
    memcpy(answered_entries, of->entries,
           of->n_entries * sizeof answered_entries[0]);
    return 5;
}

WRAP(size_t, wp_wire_pack_reflection_response,
     const struct wp_wire_reflection_response *of, uint8_t *out)
{
    assert_int_equal(of->n_entries, answered.n_entries);
    out[0] = 'p';
    return 5;
}

static uint8_t *
reserve(struct wp_call *call, size_t len)
{
    (void)call;
    assert_int_equal(len, 5);
    room[0] = 0;
    return no_memory ? NULL : room;
}

static void
finish_call(struct wp_call *call, enum wp_status status, const char *message,
            int64_t retry_after_ns)
{
    (void)call;
    golden_add(&journal, "  finished: %s '%s' %lld\n", wp_status_name(status),
               message, (long long)retry_after_ns);
}

static bool
send_message(struct wp_call *call)
{
    (void)call;
    assert_int_equal(room[0], 'p');
    golden_add(&journal, "  sent");
    return false;
}

static void
ask_str(enum wp_wire_reflection_kind kind, struct wp_str name)
{
    static const struct wp_call_ops ops = {
        .reserve = reserve, .finish = finish_call, .send = send_message};
    const struct wp_service *service = wp_rpc_reflection_service(reflection, 0);
    struct wp_call call;

    memset(&call, 0, sizeof call);
    memset(&answered, 0, sizeof answered);
    call.ops = &ops;
    call.service = service->self;
    asked = (struct wp_wire_reflection_request){.host = WP_STR("host"),
                                                .kind = kind,
                                                .name = name,
                                                .extension_number = 3};
    golden_add(&journal, "%d '%.*s'\n", (int)kind, (int)name.len, name.ptr);
    service->methods[0].start(&call, room, sizeof room);
}

static void
ask(enum wp_wire_reflection_kind kind, const char *name)
{
    ask_str(kind, wp_str_from(name));
}

static void
show(void)
{
    assert_true(wp_str_eq(answered.host, WP_STR("host")));
    assert_int_equal(answered.original.kind, asked.kind);
    assert_ptr_equal(answered.original.name.ptr, asked.name.ptr);
    assert_int_equal(answered.original.extension_number, 3);
    if (answered.kind == WP_WIRE_REFLECTION_ERROR) {
        golden_add(&journal, ": error %d '%.*s', %u entries\n",
                   answered.error_code, (int)answered.error_message.len,
                   answered.error_message.ptr, answered.n_entries);
        return;
    }
    golden_add(&journal, ": kind %d", (int)answered.kind);
    for (uint32_t i = 0; i < answered.n_entries; i++) {
        if (answered.kind == WP_WIRE_REFLECTION_SERVICES) {
            golden_add(&journal, " %.*s", (int)answered_entries[i].len,
                       answered_entries[i].ptr);
        } else {
            golden_add(&journal, " %zu bytes from %td", answered_entries[i].len,
                       (const uint8_t *)answered_entries[i].ptr -
                           wp_descriptor_set);
        }
    }
    golden_add(&journal, "\n");
}

static int
begin(void **state)
{
    (void)state;
    journal.len = 0;
    journal.text[0] = '\0';
    is_bad = false;
    no_memory = false;
    server.n_services = 0;
    reflection = wp_rpc_reflection_create(&server);
    return reflection != NULL ? 0 : -1;
}

static int
end(void **state)
{
    (void)state;
    wp_rpc_reflection_destroy(reflection);
    return 0;
}

static void
compare(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/%s.txt", WP_TEST_GOLDEN, name);
    golden_compare(journal.text, path);
}

static void
test_symbols_are_found_in_their_files(void **state)
{
    static const char *const packages[] = {"", "a.", "a.b.", "c."};
    static const char *const symbols[] = {"Outer",
                                          "Outer.Inner",
                                          "Outer.Inner.Inner_2",
                                          "Outer.Inner.Inner_3",
                                          "Outer.Inner.Inner_4",
                                          "Outer.Inner.Inner_5",
                                          "Outer.Inner.Inner_6",
                                          "Outer.Inner.Inner_7",
                                          "Outer.Inner.Inner_8",
                                          "Outer.InnerEnum",
                                          "Outer.InnerEnum.InnerEnum_2",
                                          "Outer.a_oneof",
                                          "Outer.a_oneof.x",
                                          "Second",
                                          "Second.Second_2",
                                          "Enum",
                                          "Enum.Enum_2",
                                          "Enum.Enum_3",
                                          "Enum.Enum_4",
                                          "Enum.Enum_8",
                                          "Service",
                                          "Service.Service_2",
                                          "Service.Service_3",
                                          "Service.Service_4",
                                          "Service.Service_8",
                                          "extension",
                                          "option",
                                          "Oute",
                                          "Outer.",
                                          ".Outer",
                                          "Outer..Inner",
                                          "Outer.Second",
                                          "",
                                          "."};
    struct message set = {.len = 0};
    char name[64];

    (void)state;
    put_file(&set, "a.proto", "a");
    put_file(&set, "b.proto", "a.b");
    put_others(&set);
    use(&set);
    for (size_t p = 0; p < WP_ARRAY_LEN(packages); p++) {
        for (size_t i = 0; i < WP_ARRAY_LEN(symbols); i++) {
            (void)snprintf(name, sizeof name, "%s%s", packages[p], symbols[i]);
            ask(WP_WIRE_REFLECTION_FILE_BY_SYMBOL, name);
            show();
        }
    }
    ask(WP_WIRE_REFLECTION_FILE_BY_SYMBOL, "axOuter");
    show();
    /* What is behind the symbol is none of it. */
    ask_str(WP_WIRE_REFLECTION_FILE_BY_SYMBOL, (struct wp_str){"a.Outer", 1});
    show();
    ask_str(WP_WIRE_REFLECTION_FILE_BY_SYMBOL, (struct wp_str){"a.Outer", 2});
    show();
    golden_add(&journal, "# without a package\n");
    set.len = 0;
    put_file(&set, "c.proto", NULL);
    use(&set);
    ask(WP_WIRE_REFLECTION_FILE_BY_SYMBOL, "Outer.Inner");
    show();
    ask(WP_WIRE_REFLECTION_FILE_BY_SYMBOL, "a.Outer");
    show();
    compare("reflection_symbols");
}

static void
test_each_kind_has_its_answer(void **state)
{
    static struct wp_service services[66];
    static char names[66][8];
    struct message set = {.len = 0};

    (void)state;
    put_file(&set, "a.proto", "a");
    put_file(&set, "b.proto", "b");
    use(&set);
    ask(WP_WIRE_REFLECTION_FILE_BY_NAME, "a.proto");
    show();
    ask(WP_WIRE_REFLECTION_FILE_BY_NAME, "b.proto");
    show();
    ask(WP_WIRE_REFLECTION_FILE_BY_NAME, "c.proto");
    show();
    ask(WP_WIRE_REFLECTION_FILE_BY_NAME, "a.Outer");
    show();
    ask(WP_WIRE_REFLECTION_FILE_BY_EXTENSION, "a.Outer");
    show();
    ask(WP_WIRE_REFLECTION_EXTENSION_NUMBERS, "a.Outer");
    show();
    ask(WP_WIRE_REFLECTION_NONE, "");
    show();
    ask(WP_WIRE_REFLECTION_LIST_SERVICES, "");
    show();
    for (uint32_t i = 0; i < WP_ARRAY_LEN(services); i++) {
        (void)snprintf(names[i], sizeof names[i], "s%u", i);
        services[i].name = names[i];
        if (i < WP_RPC_METHODS_MAX) {
            server.services[i] = &services[i];
            server.n_services = i + 1;
        }
    }
    ask(WP_WIRE_REFLECTION_LIST_SERVICES, "");
    show();
    is_bad = true;
    ask(WP_WIRE_REFLECTION_LIST_SERVICES, "");
    is_bad = false;
    no_memory = true;
    ask(WP_WIRE_REFLECTION_LIST_SERVICES, "");
    for (int i = 0; i < WP_RPC_REFLECTION_VERSIONS; i++) {
        const struct wp_service *service =
            wp_rpc_reflection_service(reflection, i);

        golden_add(
            &journal, "%s: %zu, %s %d%d%d\n", service->name, service->n_methods,
            service->methods[0].path, service->methods[0].server_streaming,
            service->methods[0].bidirectional, service->methods[0].admin_only);
        assert_ptr_equal(service->self, reflection);
        assert_ptr_equal(
            service->methods[0].start,
            wp_rpc_reflection_service(reflection, 0)->methods[0].start);
    }
    compare("reflection_kinds");
}

/* What is behind the cut is not looked at, and a file that is cut is none. */
static void
test_a_description_may_end_anywhere(void **state)
{
    struct message set = {.len = 0};
    size_t first;

    (void)state;
    put_file(&set, "a.proto", "a");
    first = set.len;
    put_file(&set, "b.proto", "b");
    for (size_t len = 0; len <= set.len; len++) {
        journal.len = 0;
        use(&set);
        wp_descriptor_set_len = len;
        ask(WP_WIRE_REFLECTION_FILE_BY_NAME, "a.proto");
        assert_int_equal(answered.kind, len < first ? WP_WIRE_REFLECTION_ERROR
                                                    : WP_WIRE_REFLECTION_FILES);
        ask(WP_WIRE_REFLECTION_FILE_BY_SYMBOL, "b.Second");
        assert_int_equal(answered.kind, len < set.len
                                            ? WP_WIRE_REFLECTION_ERROR
                                            : WP_WIRE_REFLECTION_FILES);
    }
}

/* Bytes that are no field end what is looked at. */
static void
test_what_is_no_field_ends_a_message(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        bool found; /* The file behind them. */
    } all[] = {
        {"", 0, true},
        {"\x48\x05", 2, true}, /* A varint. */
        {"\x48\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, true},
        {"\x48\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x01", 12, false},
        {"\x4a\x00", 2, true},     /* No bytes. */
        {"\x4a\x01\x0b", 3, true}, /* One. */
        {"\x49zzzzzzzz", 9, true}, /* 64 bits. */
        {"\x4dzzzz", 5, true},     /* 32 bits. */
        {"\x4b", 1, false},        /* A group. */
        {"\x4c", 1, false},
        {"\x4e", 1, false},
        {"\x4f", 1, false},
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11, false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        struct message set = {.len = 0};

        for (size_t k = 0; k < all[i].len; k++) {
            put(&set, (uint8_t)all[i].bytes[k]);
        }
        put_file(&set, "a.proto", "a");
        use(&set);
        ask(WP_WIRE_REFLECTION_FILE_BY_NAME, "a.proto");
        if (answered.kind != (all[i].found ? WP_WIRE_REFLECTION_FILES
                                           : WP_WIRE_REFLECTION_ERROR)) {
            fail_msg("row %zu", i);
        }
    }
}

/* A number is no name, whatever bytes came before it; and what is inside of a
 * file that is cut is not a file. */
static void
test_nothing_is_found_by_chance(void **state)
{
    struct message set = {.len = 0};
    struct message outer = {.len = 0};
    struct message file = {.len = 0};

    (void)state;
    put_text(&file, 9, "x.proto");
    put_varint(&file, 1 << 3 | VARINT);
    put_varint(&file, 5);
    put_message(&set, 1, &file);
    use(&set);
    ask(WP_WIRE_REFLECTION_FILE_BY_NAME, "x.proto");
    assert_int_equal(answered.kind, WP_WIRE_REFLECTION_ERROR);

    set.len = 0;
    put_file(&outer, "inner.proto", "a");
    put_leaf(&outer, 9, "more");
    put_message(&set, 1, &outer);
    use(&set);
    wp_descriptor_set_len--;
    ask(WP_WIRE_REFLECTION_FILE_BY_NAME, "inner.proto");
    assert_int_equal(answered.kind, WP_WIRE_REFLECTION_ERROR);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_symbols_are_found_in_their_files),
        TEST(test_each_kind_has_its_answer),
        TEST(test_a_description_may_end_anywhere),
        TEST(test_what_is_no_field_ends_a_message),
        TEST(test_nothing_is_found_by_chance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
