/* tests/support/k8s/api_memory.h - the objects of api_recorder's small server.
 *
 * Private to it; the verbs take a recorded call and give the answer's status
 * and object (a new reference). */
#ifndef WP_TESTS_SUPPORT_K8S_API_MEMORY_H
#define WP_TESTS_SUPPORT_K8S_API_MEMORY_H

#include "tests/support/k8s/api_recorder.h"

struct wp_api_memory;

struct wp_api_memory *wp_api_memory_create(void);
void wp_api_memory_destroy(struct wp_api_memory *memory); /* NULL is fine. */

enum wp_status wp_api_memory_get(struct wp_api_memory *memory,
                                 const struct wp_recorded *call,
                                 json_t **object);
enum wp_status wp_api_memory_list(struct wp_api_memory *memory,
                                  const struct wp_recorded *call,
                                  json_t **object);
enum wp_status wp_api_memory_post(struct wp_api_memory *memory,
                                  const struct wp_recorded *call,
                                  json_t **object);
/* PUT, PATCH. */
enum wp_status wp_api_memory_change(struct wp_api_memory *memory,
                                    const struct wp_recorded *call,
                                    json_t **object);
enum wp_status wp_api_memory_delete(struct wp_api_memory *memory,
                                    const struct wp_recorded *call,
                                    json_t **object);
/* Tells stores what they have not heard. */
void wp_api_memory_notify(struct wp_api_memory *memory);

struct wp_api_memory *wp_recorder_memory(const struct wp_api *api);

#endif
