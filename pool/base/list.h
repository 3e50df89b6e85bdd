/* pool/base/list.h - an intrusive, doubly linked, circular list.
 *
 * Not thread-safe: the owner's lock or thread guards it. A node that is in no
 * list points at itself after wp_list_init. */
#ifndef WP_BASE_LIST_H
#define WP_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct wp_list {
    struct wp_list *next;
    struct wp_list *prev;
};

static inline void
wp_list_init(struct wp_list *node)
{
    node->next = node;
    node->prev = node;
}

static inline bool
wp_list_empty(const struct wp_list *head)
{
    return head->next == head;
}

static inline void
wp_list_push_back(struct wp_list *head, struct wp_list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

/* Leaves node in no list; harmless when it already was in none. */
static inline void
wp_list_remove(struct wp_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    wp_list_init(node);
}

/* The first node, taken out; NULL when empty. */
static inline struct wp_list *
wp_list_pop_front(struct wp_list *head)
{
    struct wp_list *node = head->next;

    if (node == head) {
        return NULL;
    }
    /* The analyzer does not see that a node freed after this is off the ring.
     * NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    wp_list_remove(node);
    return node;
}

/* node is declared here: NOLINTBEGIN(bugprone-macro-parentheses) */
#define WP_LIST_FOREACH(node, head)                                            \
    for (struct wp_list *node = (head)->next; node != (head); node = node->next)
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
