/* tests/support/k8s/story.h - what was said to the API server, as a text that can
 * be compared whole with a file (golden.h).
 *
 * Keys are sorted, and a rig's clock and numbers are its own, so that a story is
 * told the same each time. */
#ifndef WP_TESTS_SUPPORT_K8S_STORY_H
#define WP_TESTS_SUPPORT_K8S_STORY_H

#include <jansson.h>
#include <stdio.h>

#include "tests/support/k8s/api_recorder.h"

/* A line for each call from the from-th on, whose body is "again" where the last
 * one like it had the same; returns how many there are. */
uint32_t wp_story_calls(FILE *story, const struct wp_api *api, uint32_t from);
/* A line: the name and the JSON; "none" for NULL. */
void wp_story_json(FILE *story, const char *name, const json_t *json);

struct wp_story_life {
    const char *name;
    void (*run)(void); /* Writes to *story. */
};

/* Tells them one after the other, and compares all with the file at path. */
void wp_story_tell(FILE **story, const struct wp_story_life *lives, size_t n,
                   const char *path);

#endif
