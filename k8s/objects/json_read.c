#include "k8s/objects/json_read.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Of an object's metadata: in an object 1, in an event 2, in a list 3. */
    METADATA_DEPTH_MAX = 3,
    NUMBER_MAX = 64, /* Longer ones are read from the heap. */
};

/* A container that is not closed yet. */
struct open {
    json_t *node; /* Owned by its container; the first by the reader. */
    bool is_object;
    bool is_metadata; /* Its managedFields are left out. */
};

struct reader {
    const char *at;
    const char *begin;
    const char *end;
    struct open stack[WP_JSON_DEPTH_MAX];
    uint32_t depth;    /* Containers that are open. */
    struct wp_str key; /* Of the value that comes next. */
    bool key_is_plain; /* ASCII. */
    char *key_room;    /* Texts with escapes, decoded; owned. */
    char *text_room;
    enum wp_status status;
    const char *wrong;
};

/* A string's bytes, without escapes. */
struct text {
    struct wp_str bytes;
    bool is_plain; /* ASCII: it need not be checked. */
};

static bool
fail(struct reader *reader, const char *wrong)
{
    if (reader->status == WP_OK) {
        reader->status = WP_INVALID_ARGUMENT;
        reader->wrong = wrong;
    }
    return false;
}

static bool
no_memory(struct reader *reader)
{
    reader->status = WP_RESOURCE_EXHAUSTED;
    reader->wrong = "no memory";
    return false;
}

static void
skip_space(struct reader *reader)
{
    while (reader->at < reader->end &&
           (*reader->at == ' ' || *reader->at == '\n' || *reader->at == '\t' ||
            *reader->at == '\r')) {
        reader->at++;
    }
}

/* The next character that counts; '\0' at the end. */
static char
peek(struct reader *reader)
{
    skip_space(reader);
    if (reader->at == reader->end) {
        return '\0';
    }
    return *reader->at;
}

/* --- Texts --- */

static int
hex_digit(char c)
{
    static const char all[] = "0123456789abcdefABCDEF";
    const char *found = c != '\0' ? strchr(all, c) : NULL;
    int at;

    if (found == NULL) {
        return -1;
    }
    at = (int)(found - all);
    return at < 16 ? at : at - 6;
}

/* Four digits at from; -1: they are none. */
static int32_t
hex_unit(const char *from, const char *end)
{
    int32_t unit = 0;

    if (end - from < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(from[i]);

        if (digit < 0) {
            return -1;
        }
        unit = unit * 16 + digit;
    }
    return unit;
}

static char *
put_utf8(char *to, uint32_t code)
{
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *to++ = (char)(0xe0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    } else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
        *to++ = (char)(0x80 | (code & 0x3f));
    }
    return to;
}

/* What follows \u, at *from, which goes behind it; NULL: it makes no sense. */
static char *
put_unicode(const char **from, const char *end, char *to)
{
    int32_t unit = hex_unit(*from, end);
    int32_t low;

    if (unit < 0 || (unit >= 0xdc00 && unit <= 0xdfff)) {
        return NULL;
    }
    *from += 4;
    if (unit < 0xd800 || unit > 0xdbff) {
        return put_utf8(to, (uint32_t)unit);
    }
    low = end - *from >= 6 && (*from)[0] == '\\' && (*from)[1] == 'u'
              ? hex_unit(*from + 2, end)
              : -1;
    if (low < 0xdc00 || low > 0xdfff) {
        return NULL;
    }
    *from += 6;
    return put_utf8(to, 0x10000 + (((uint32_t)unit - 0xd800) << 10) +
                            ((uint32_t)low - 0xdc00));
}

/* The same for one character after a backslash. */
static char *
put_escape(const char **from, const char *end, char *to)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    const char *found;
    char name;

    if (*from == end) {
        return NULL;
    }
    name = *(*from)++;
    if (name == 'u') {
        return put_unicode(from, end, to);
    }
    found = name == '\0' ? NULL : strchr(names, name);
    if (found == NULL) {
        return NULL;
    }
    *to++ = values[found - names];
    return to;
}

/* Decodes raw, which has escapes, into *room, which grows. */
static bool
decode(struct reader *reader, struct wp_str raw, char **room, struct text *out)
{
    const char *from = raw.ptr;
    const char *end = raw.ptr + raw.len;
    char *grown = realloc(*room, raw.len);
    char *to = grown;

    if (grown == NULL) {
        return no_memory(reader);
    }
    *room = grown;
    while (from < end) {
        if (*from != '\\') {
            *to++ = *from++;
            continue;
        }
        from++;
        to = put_escape(&from, end, to);
        if (to == NULL) {
            return fail(reader, "an escape that is none");
        }
    }
    *out = (struct text){{grown, (size_t)(to - grown)}, false};
    return true;
}

/* The opening quote is next. */
static bool
read_text(struct reader *reader, char **room, struct text *out)
{
    const char *begin = reader->at + 1;
    const char *at = begin;
    unsigned char seen = 0;
    bool escapes = false;

    while (at < reader->end && *at != '"') {
        if ((unsigned char)*at < 0x20) {
            return fail(reader, "a control character in a text");
        }
        if (*at == '\\') {
            escapes = true;
            at++;
        }
        if (at < reader->end) {
            seen |= (unsigned char)*at++;
        }
    }
    if (at >= reader->end) {
        return fail(reader, "a text without an end");
    }
    reader->at = at + 1;
    *out = (struct text){{begin, (size_t)(at - begin)}, seen < 0x80};
    return !escapes || decode(reader, out->bytes, room, out);
}

/* --- Values --- */

static size_t
digits(const char *at, const char *end)
{
    const char *begin = at;

    while (at < end && *at >= '0' && *at <= '9') {
        at++;
    }
    return (size_t)(at - begin);
}

/* As long as RFC 8259 allows; 0: it is no number. */
static size_t
number_len(const char *begin, const char *end, bool *is_whole)
{
    const char *at = begin;
    size_t len;

    *is_whole = true;
    at += at < end && *at == '-' ? 1 : 0;
    len = digits(at, end);
    if (len == 0 || (len > 1 && *at == '0')) {
        return 0;
    }
    at += len;
    if (at < end && *at == '.') {
        *is_whole = false;
        len = digits(at + 1, end);
        if (len == 0) {
            return 0;
        }
        at += 1 + len;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        *is_whole = false;
        at++;
        at += at < end && (*at == '+' || *at == '-') ? 1 : 0;
        len = digits(at, end);
        at += len;
        if (len == 0) {
            return 0;
        }
    }
    return (size_t)(at - begin);
}

static json_t *
number_value(struct reader *reader, const char *text, bool is_whole)
{
    long long whole;
    double real;

    if (is_whole) {
        errno = 0;
        whole = strtoll(text, NULL, 10);
        if (errno == 0) {
            return json_integer(whole);
        }
    }
    real = strtod(text, NULL);
    if (!isfinite(real)) {
        (void)fail(reader, "a number that is too large");
        return NULL;
    }
    return json_real(real);
}

static json_t *
read_number(struct reader *reader)
{
    char room[NUMBER_MAX];
    bool is_whole;
    size_t len = number_len(reader->at, reader->end, &is_whole);
    char *text = len < sizeof room ? room : malloc(len + 1);
    json_t *value;

    if (len == 0 || text == NULL) {
        (void)(len == 0 ? fail(reader, "no value") : no_memory(reader));
        return NULL;
    }
    memcpy(text, reader->at, len);
    text[len] = '\0';
    value = number_value(reader, text, is_whole);
    reader->at += len;
    if (text != room) {
        free(text);
    }
    return value;
}

static json_t *
read_string(struct reader *reader)
{
    struct text text = {{NULL, 0}, true};
    json_t *value;

    if (!read_text(reader, &reader->text_room, &text)) {
        return NULL;
    }
    if (text.is_plain) {
        return json_stringn_nocheck(text.bytes.ptr, text.bytes.len);
    }
    value = json_stringn(text.bytes.ptr, text.bytes.len);
    if (value == NULL) {
        (void)fail(reader, "a text that is not UTF-8");
    }
    return value;
}

static json_t *
read_word(struct reader *reader)
{
    static const struct {
        const char *text;
        json_t *(*make)(void);
    } words[] = {
        {"true", json_true},
        {"false", json_false},
        {"null", json_null},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(words); i++) {
        size_t len = strlen(words[i].text);

        if ((size_t)(reader->end - reader->at) >= len &&
            memcmp(reader->at, words[i].text, len) == 0) {
            reader->at += len;
            return words[i].make();
        }
    }
    return read_number(reader);
}

/* A value, or a container that is empty so far; NULL: reader says why. */
static json_t *
read_value(struct reader *reader, bool *opens)
{
    char first = peek(reader);
    json_t *value;

    *opens = first == '{' || first == '[';
    if (*opens) {
        reader->at++;
        value = first == '{' ? json_object() : json_array();
    } else if (first == '"') {
        value = read_string(reader);
    } else {
        value = read_word(reader);
    }
    if (value == NULL && reader->status == WP_OK) {
        (void)no_memory(reader);
    }
    return value;
}

/* --- What is left out --- */

/* Goes behind a text; its opening quote is next. */
static bool
skip_text(struct reader *reader)
{
    const char *at = reader->at + 1;

    while (at < reader->end && *at != '"') {
        at += *at == '\\' && at + 1 < reader->end ? 2 : 1;
    }
    if (at >= reader->end) {
        return fail(reader, "a text without an end");
    }
    reader->at = at + 1;
    return true;
}

/* Goes behind an array; its bracket is next. */
static bool
skip_array(struct reader *reader)
{
    uint64_t depth = 0;

    while (reader->at < reader->end) {
        char c = *reader->at;

        if (c == '"') {
            if (!skip_text(reader)) {
                return false;
            }
            continue;
        }
        reader->at++;
        if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return true;
        }
    }
    return fail(reader, "an array without an end");
}

/* --- The whole --- */

static struct open *
top(struct reader *reader)
{
    return &reader->stack[reader->depth - 1];
}

/* Puts value into the container that is open; takes it. */
static bool
put(struct reader *reader, json_t *value)
{
    struct open *open = top(reader);
    int failed;

    if (!open->is_object) {
        failed = json_array_append_new(open->node, value);
    } else if (reader->key_is_plain) {
        failed = json_object_setn_new_nocheck(open->node, reader->key.ptr,
                                              reader->key.len, value);
    } else {
        failed = json_object_setn_new(open->node, reader->key.ptr,
                                      reader->key.len, value);
    }
    /* jansson does not say which of the two it was. */
    return failed == 0 || fail(reader, "a key that is not UTF-8, or no memory");
}

static bool
push(struct reader *reader, json_t *node)
{
    bool is_object = json_is_object(node);

    if (reader->depth == WP_JSON_DEPTH_MAX) {
        return fail(reader, "nested too deep");
    }
    reader->stack[reader->depth] = (struct open){
        .node = node,
        .is_object = is_object,
        .is_metadata = is_object && reader->depth > 0 &&
                       reader->depth <= METADATA_DEPTH_MAX &&
                       top(reader)->is_object &&
                       wp_str_eq(reader->key, WP_STR("metadata")),
    };
    reader->depth++;
    return true;
}

/* The key of the next member, and its colon. Sets skipped when it was left
 * out, and its value with it. */
static bool
read_key(struct reader *reader, bool *skipped)
{
    struct text key = {{NULL, 0}, true};

    if (peek(reader) != '"') {
        return fail(reader, "no key");
    }
    if (!read_text(reader, &reader->key_room, &key)) {
        return false;
    }
    reader->key = key.bytes;
    reader->key_is_plain = key.is_plain;
    if (peek(reader) != ':') {
        return fail(reader, "no colon after a key");
    }
    reader->at++;
    if (top(reader)->is_metadata &&
        wp_str_eq(key.bytes, WP_STR("managedFields")) && peek(reader) == '[') {
        *skipped = true;
        return skip_array(reader);
    }
    return true;
}

/* One member of the container that is open, or its first. */
static bool
read_member(struct reader *reader)
{
    bool skipped = false;
    bool opens;
    json_t *value;

    if (top(reader)->is_object && !read_key(reader, &skipped)) {
        return false;
    }
    if (skipped) {
        return true;
    }
    value = read_value(reader, &opens);
    return value != NULL && put(reader, value) &&
           (!opens || push(reader, value));
}

/* Closes the container that is open, if its bracket is next. */
static bool
closes(struct reader *reader)
{
    if (peek(reader) != (top(reader)->is_object ? '}' : ']')) {
        return false;
    }
    reader->at++;
    reader->depth--;
    return true;
}

static bool
read_all(struct reader *reader)
{
    /* Nothing is in the container yet. */
    bool fresh = true;

    while (reader->depth > 0) {
        uint32_t depth = reader->depth;

        if (closes(reader)) {
            fresh = false;
            continue;
        }
        if (!fresh) {
            if (peek(reader) != ',') {
                return fail(reader, "no comma between members");
            }
            reader->at++;
        }
        if (!read_member(reader)) {
            return false;
        }
        fresh = reader->depth > depth;
    }
    return true;
}

json_t *
wp_json_read(struct wp_str text, struct wp_err *err)
{
    struct reader reader; /* Its stack stays as it is: it is large. */
    json_t *root;
    bool opens;
    bool good;

    reader.at = text.len > 0 ? text.ptr : "";
    reader.begin = reader.at;
    reader.end = reader.at + text.len;
    reader.depth = 0;
    reader.key = WP_STR("");
    reader.key_is_plain = true;
    reader.key_room = NULL;
    reader.text_room = NULL;
    reader.status = WP_OK;
    reader.wrong = "";
    root = read_value(&reader, &opens);
    good =
        root != NULL && (!opens || (push(&reader, root) && read_all(&reader)));
    if (good) {
        skip_space(&reader);
        good = reader.at == reader.end || fail(&reader, "more after the value");
    }
    if (!good) {
        (void)wp_err_set(err, reader.status, "no JSON: %s near byte %zu",
                         reader.wrong, (size_t)(reader.at - reader.begin));
        json_decref(root);
        root = NULL;
    }
    free(reader.key_room);
    free(reader.text_room);
    return root;
}
