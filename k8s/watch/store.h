/* k8s/watch/store.h - the objects of one kind that are known now.
 *
 * A reflector fills it, controllers read it and are told of each change. What
 * our own writes answered may be put in as well (learn), so that a controller
 * sees what it has just done before the watch tells it. Loop thread only. */
#ifndef WP_K8S_WATCH_STORE_H
#define WP_K8S_WATCH_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "k8s/objects/object.h"

struct wp_store; /* Opaque. */

/* index_label: the label whose values can be asked for; NULL: none. The
 * controller's uid is always an index. NULL when memory lacks. */
struct wp_store *wp_store_create(enum wp_kind kind, const char *index_label);
void wp_store_destroy(struct wp_store *store); /* NULL is fine. */

/* before or after is NULL when it came or went; else they are versions of one:
 * an object of the same name and another uid comes after the old one went. Both
 * are valid during the call; take a reference to keep one. A listener may read
 * the store, and write others, but not this one. */
typedef void wp_store_listener(void *ctx, const struct wp_object *before,
                               const struct wp_object *after);
/* At most 12, before anything is put in, told in this order. */
void wp_store_listen(struct wp_store *store, wp_store_listener *listener,
                     void *ctx);

/* NULL when there is none; valid until this store changes next. Who calls put,
 * learn or remove in between keeps a reference. */
const struct wp_object *wp_store_find(const struct wp_store *store,
                                      const char *ns, const char *name);
/* By metadata.uid. */
const struct wp_object *wp_store_find_uid(const struct wp_store *store,
                                          const char *uid);
/* Calls each for those with this controller, or this value of the index label
 * (in namespace ns); false from it ends the walk. The order is by name. each
 * must not change the store. */
typedef bool wp_store_each(void *ctx, const struct wp_object *object);
void wp_store_owned_by(const struct wp_store *store, const char *owner_uid,
                       wp_store_each *each, void *ctx);
void wp_store_labelled(const struct wp_store *store, const char *ns,
                       const char *value, wp_store_each *each, void *ctx);
void wp_store_walk(const struct wp_store *store, wp_store_each *each,
                   void *ctx);
uint32_t wp_store_count(const struct wp_store *store);
uint64_t wp_store_bytes(const struct wp_store *store);

/* What the watch says: takes the reference. An older version than the one that
 * is known, or the same, is dropped. */
void wp_store_put(struct wp_store *store, struct wp_object *object);
/* Is it known in this version, or in a newer one? A write of ours may have
 * learned it; then to put it would change nothing. */
bool wp_store_knows(const struct wp_store *store, const char *ns,
                    const char *name, const char *uid, const char *version);
/* It is gone; a newer object of the same name, with another uid, stays. */
void wp_store_remove(struct wp_store *store, const struct wp_object *object);
/* What a write of ours was answered with; takes the reference, drops it when
 * the store knows a newer version, or knew that it is gone. */
void wp_store_learn(struct wp_store *store, struct wp_object *object);

/* Between begin and end everything is put in that a list had; at end the rest
 * is removed. version is the list's resourceVersion: what was learned to be
 * newer stays, since the watch that begins there will tell about it; NULL:
 * nothing stays. A begin without end begins again. */
void wp_store_replace_begin(struct wp_store *store);
void wp_store_replace_end(struct wp_store *store, const char *version);
/* Between the two, before anything is put in: the list's resourceVersion. What
 * is known at that version or an older one cannot be newer than what the list
 * has, whatever their versions say: after a backup was restored with versions
 * that go on higher, it is not. Without this call nothing older is taken. */
void wp_store_replace_from(struct wp_store *store, const char *version);
/* Since the last begin: was something like that put in? */
bool wp_store_overruled(const struct wp_store *store);
/* Between the two, before anything is put in: the server went back in time, as
 * after a backup was restored. What this list has is taken even where something
 * newer is known, and nothing else stays. */
void wp_store_replace_all(struct wp_store *store);

#endif
