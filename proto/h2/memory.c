#include "proto/h2/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALLEST = 64,
    KEPT_MAX = 4 << 20,
};

/* Before each piece; keeps what follows aligned for any object. */
struct head {
    _Alignas(16) size_t size; /* Of the whole piece. */
    uint32_t class;           /* WP_H2_MEMORY_CLASSES: malloc's own. */
};

static uint32_t
class_of(size_t size)
{
    uint32_t class = 0;

    while (class < WP_H2_MEMORY_CLASSES && ((size_t)SMALLEST << class) < size) {
        class ++;
    }
    return class;
}

static void *
take(size_t wanted, void *user)
{
    struct wp_h2_holding *holding = user;
    struct wp_h2_memory *memory = holding->memory;
    size_t size = wanted + sizeof(struct head);
    uint32_t class = class_of(size);
    struct head *piece = NULL;

    if (wanted > SIZE_MAX / 2) {
        return NULL;
    }
    if (class < WP_H2_MEMORY_CLASSES) {
        size = (size_t)SMALLEST << class;
        piece = memory->free[class];
    }
    if (size > holding->max - holding->bytes) {
        return NULL;
    }
    if (piece != NULL) {
        memcpy(&memory->free[class], piece + 1, sizeof(void *));
        memory->kept -= size;
    } else {
        piece = malloc(size);
        if (piece == NULL) {
            return NULL;
        }
    }
    piece->size = size;
    piece->class = class;
    holding->bytes += size;
    return piece + 1;
}

static void
give(void *ptr, void *user)
{
    struct wp_h2_holding *holding = user;
    struct wp_h2_memory *memory = holding->memory;
    struct head *piece;

    if (ptr == NULL) {
        return;
    }
    piece = (struct head *)ptr - 1;
    holding->bytes -= piece->size;
    if (piece->class == WP_H2_MEMORY_CLASSES ||
        memory->kept + piece->size > KEPT_MAX) {
        free(piece);
        return;
    }
    memory->kept += piece->size;
    memcpy(piece + 1, &memory->free[piece->class], sizeof(void *));
    memory->free[piece->class] = piece;
}

static void *
take_zeroed(size_t n, size_t size, void *user)
{
    void *ptr;

    if (size > 0 && n > SIZE_MAX / 2 / size) {
        return NULL;
    }
    ptr = take(n * size, user);
    if (ptr != NULL) {
        memset(ptr, 0, n * size);
    }
    return ptr;
}

static void *
resize(void *ptr, size_t wanted, void *user)
{
    size_t has =
        ptr != NULL ? ((struct head *)ptr - 1)->size - sizeof(struct head) : 0;
    void *grown;

    if (ptr != NULL && wanted <= has) {
        return ptr;
    }
    grown = take(wanted, user);
    if (grown != NULL && ptr != NULL) {
        memcpy(grown, ptr, has);
        give(ptr, user);
    }
    return grown;
}

void
wp_h2_memory_for(struct wp_h2_holding *holding, nghttp2_mem *out)
{
    *out = (nghttp2_mem){.mem_user_data = holding,
                         .malloc = take,
                         .free = give,
                         .calloc = take_zeroed,
                         .realloc = resize};
}

void
wp_h2_memory_free(struct wp_h2_memory *memory)
{
    for (int i = 0; i < WP_H2_MEMORY_CLASSES; i++) {
        while (memory->free[i] != NULL) {
            struct head *piece = memory->free[i];

            memcpy(&memory->free[i], piece + 1, sizeof(void *));
            free(piece);
        }
    }
}
