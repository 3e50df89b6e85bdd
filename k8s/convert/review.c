#include "k8s/convert/review.h"

#include <jansson.h>
#include <string.h>

#include "k8s/convert/convert.h"
#include "k8s/objects/json.h"

#define API_VERSION "apiextensions.k8s.io/v1"
#define KIND "ConversionReview"

/* The converted objects; NULL and err when one cannot be. */
static json_t *
convert_all(const json_t *request, struct wp_err *err)
{
    const json_t *objects = json_object_get(request, "objects");
    const char *desired = wp_json_text(request, "desiredAPIVersion", NULL);
    json_t *converted = json_array();
    json_t *object;
    size_t i;

    json_array_foreach(objects, i, object)
    {
        json_t *made = wp_convert(object, desired, err);

        if (made == NULL) {
            (void)wp_err_wrap(err, "objects");
            json_decref(converted);
            return NULL;
        }
        if (json_array_append_new(converted, made) != 0) {
            wp_json_no_memory();
        }
    }
    return converted;
}

static json_t *
response_to(const json_t *request)
{
    json_t *response = json_object();
    json_t *result = json_object();
    struct wp_err err;
    json_t *converted = convert_all(request, &err);

    (void)wp_json_set_text(response, "uid", wp_json_text(request, "uid", NULL));
    if (converted != NULL) {
        (void)wp_json_set(response, "convertedObjects", converted);
        (void)wp_json_set_text(result, "status", "Success");
    } else {
        (void)wp_json_set_text(result, "status", "Failure");
        (void)wp_json_set(result, "message", wp_json_words(err.msg));
    }
    return wp_json_set(response, "result", result);
}

static enum wp_status
check(const json_t *review, struct wp_err *err)
{
    const json_t *request = json_object_get(review, "request");

    if (strcmp(wp_json_text(review, "apiVersion", NULL), API_VERSION) != 0 ||
        strcmp(wp_json_text(review, "kind", NULL), KIND) != 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "apiVersion, kind: expected " API_VERSION " " KIND);
    }
    if (wp_json_text(request, "uid", NULL)[0] == '\0') {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "request.uid: expected a text");
    }
    if (!json_is_array(json_object_get(request, "objects"))) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "request.objects: expected a list");
    }
    return WP_OK;
}

char *
wp_review_answer(struct wp_str body, size_t *len, struct wp_err *err)
{
    json_error_t where;
    json_t *review;
    json_t *answer;
    char *text;

    if (body.len > WP_REVIEW_BYTES_MAX) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "expected a " KIND " of %d bytes at most",
                         WP_REVIEW_BYTES_MAX);
        return NULL;
    }
    review = body.len > 0
                 ? json_loadb(body.ptr, body.len, JSON_ALLOW_NUL, &where)
                 : NULL;
    if (review == NULL) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT, "expected JSON");
        return NULL;
    }
    if (check(review, err) != WP_OK) {
        json_decref(review);
        return NULL;
    }
    answer = json_object();
    (void)wp_json_set_text(answer, "apiVersion", API_VERSION);
    (void)wp_json_set_text(answer, "kind", KIND);
    (void)wp_json_set(answer, "response",
                      response_to(json_object_get(review, "request")));
    text = json_dumps(answer, JSON_COMPACT);
    json_decref(answer);
    json_decref(review);
    if (text == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    *len = strlen(text);
    return text;
}
