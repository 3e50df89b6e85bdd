/* k8s/objects/view_read.h - reads an object's fields into one block of memory.
 *
 * Private to object.c and view_*.c. An object is read twice by the same code:
 * once to measure, with no block, then into a block of just that size. Only the
 * first field that is wrong is said in err; each reads as absent. */
#ifndef WP_K8S_OBJECTS_VIEW_READ_H
#define WP_K8S_OBJECTS_VIEW_READ_H

#include <jansson.h>
#include <stddef.h>

#include "k8s/objects/object.h"
#include "k8s/objects/view.h"

struct wp_view_reader {
    const json_t *root;
    const struct wp_object *about; /* For err: kind, and as much as is known. */
    struct wp_err *err;
    bool failed;
    char *block; /* NULL while measuring. */
    size_t used;
};

/* Room in the block; NULL while measuring. */
void *wp_view_room(struct wp_view_reader *reader, size_t size, size_t align);
/* A copy in the block; "" for NULL and while measuring. */
const char *wp_view_copy(struct wp_view_reader *reader, const char *text);
/* "Kind ns/name: path: expected what". Only the first counts. */
void wp_view_wrong(struct wp_view_reader *reader, const char *path,
                   const char *expected);

/* A path is field names with dots between them, from the root on. null is as
 * good as absent everywhere. */
/* Borrowed; NULL when absent. */
const json_t *wp_view_at(struct wp_view_reader *reader, const char *path);
/* The same, of that type or absent; expected says so in words. */
const json_t *wp_view_object(struct wp_view_reader *reader, const char *path);
const json_t *wp_view_array(struct wp_view_reader *reader, const char *path);
/* Copied; "" when absent. */
const char *wp_view_text(struct wp_view_reader *reader, const char *path);
/* Whole numbers from min to max; absent when there is none. */
int64_t wp_view_number(struct wp_view_reader *reader, const char *path,
                       int64_t min, int64_t max, int64_t absent);
bool wp_view_bool(struct wp_view_reader *reader, const char *path, bool absent);
/* RFC 3339, as milliseconds since 1970; 0 when absent. */
int64_t wp_view_time(struct wp_view_reader *reader, const char *path);
/* One of names, which ends with NULL: its index; absent when there is none or
 * it is "". */
int wp_view_choice(struct wp_view_reader *reader, const char *path,
                   const char *const *names, int absent);
/* An array of texts; ends with NULL. */
const char *const *wp_view_texts(struct wp_view_reader *reader,
                                 const char *path);
/* A map of texts, sorted by key as the server sends it or not. */
void wp_view_pairs(struct wp_view_reader *reader, const char *path,
                   const struct wp_pair **pairs, uint32_t *len);

/* status.conditions: those whose type is in wanted, the first of each. */
struct wp_view_condition {
    const char *type;
    struct wp_condition *out;
};
void wp_view_conditions(struct wp_view_reader *reader,
                        const struct wp_view_condition *wanted, size_t len);
/* Is there anything in the object or array there? */
bool wp_view_has_any(const json_t *value);
/* {ip: "..."} and so on: pod.status.podIPs. Texts under key of each element. */
const char *const *wp_view_texts_of(struct wp_view_reader *reader,
                                    const char *path, const char *key);

/* Each fills its view; out is zeroed before. */
void wp_view_read_sandbox(struct wp_view_reader *reader, void *out);
void wp_view_read_claim(struct wp_view_reader *reader, void *out);
void wp_view_read_warm_pool(struct wp_view_reader *reader, void *out);
void wp_view_read_template(struct wp_view_reader *reader, void *out);
void wp_view_read_pod(struct wp_view_reader *reader, void *out);

#endif
