/* k8s/api/api_answer.h - what an answer of the API server means. */
#ifndef WP_K8S_API_API_ANSWER_H
#define WP_K8S_API_API_ANSWER_H

#include "k8s/api/api.h"

/* Room for a message that the server did not write. */
struct wp_api_words {
    char text[80];
};

/* result borrows from answer and words, but its object is the caller's, to be
 * given back with json_decref. Of other answers than 2xx it is the Status. */
void wp_api_answer_read(const struct wp_http_answer *answer,
                        struct wp_api_result *result,
                        struct wp_api_words *words);

#endif
