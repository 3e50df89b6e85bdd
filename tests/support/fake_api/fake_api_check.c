/* A POST with dryRun=All: what an API server says of a Pod that it would not
 * take, in its words, as far as tests ask. */
#include <stdio.h>
#include <string.h>

#include "tests/support/fake_api/fake_api_impl.h"

static const char *const container_keys[] = {"name",
                                             "image",
                                             "command",
                                             "args",
                                             "env",
                                             "envFrom",
                                             "ports",
                                             "resources",
                                             "volumeMounts",
                                             "volumeDevices",
                                             "securityContext",
                                             "readinessProbe",
                                             "livenessProbe",
                                             "startupProbe",
                                             "lifecycle",
                                             "imagePullPolicy",
                                             "workingDir",
                                             "stdin",
                                             "stdinOnce",
                                             "tty",
                                             "restartPolicy",
                                             "resizePolicy",
                                             "terminationMessagePath",
                                             "terminationMessagePolicy"};

static bool
is_known(const char *key)
{
    for (size_t i = 0; i < sizeof container_keys / sizeof container_keys[0];
         i++) {
        if (strcmp(container_keys[i], key) == 0) {
            return true;
        }
    }
    return false;
}

static struct fake_answer
not_a_pod(const char *why)
{
    char message[512];

    (void)snprintf(message, sizeof message,
                   "Pod in version \"v1\" cannot be handled as a Pod: %s", why);
    return fake_status(400, "BadRequest", message);
}

static struct fake_answer
invalid(const struct fake_request *request, const char *field)
{
    char message[512];
    struct fake_answer answer;

    (void)snprintf(message, sizeof message,
                   "Pod \"%s%s\" is invalid: %s: Required value",
                   fake_meta(request->body, "name"),
                   fake_meta(request->body, "generateName"), field);
    answer = fake_status(422, "Invalid", message);
    (void)json_object_set_new(answer.object, "details",
                              json_pack("{s:[{s:s,s:s,s:s}]}", "causes",
                                        "reason", "FieldValueRequired",
                                        "message", "Required value", "field",
                                        field));
    return answer;
}

/* Types come before unknown fields, and these before what must be there. */
static struct fake_answer
check_types(const json_t *containers)
{
    size_t i;
    size_t j;
    json_t *container;
    json_t *port;

    json_array_foreach(containers, i, container)
    {
        json_array_foreach(json_object_get(container, "ports"), j, port)
        {
            if (json_is_string(json_object_get(port, "containerPort"))) {
                return not_a_pod(
                    "json: cannot unmarshal string into Go struct field "
                    "ContainerPort.spec.containers.ports.containerPort of "
                    "type int32");
            }
        }
    }
    return (struct fake_answer){0};
}

static struct fake_answer
check_known(json_t *containers)
{
    size_t i;
    json_t *container;
    const char *key;
    json_t *value;
    char why[256];

    json_array_foreach(containers, i, container)
    {
        json_object_foreach(container, key, value)
        {
            (void)value;
            if (!is_known(key)) {
                (void)snprintf(why, sizeof why,
                               "strict decoding error: unknown field "
                               "\"spec.containers[%zu].%s\"",
                               i, key);
                return not_a_pod(why);
            }
        }
    }
    return (struct fake_answer){0};
}

static struct fake_answer
check_present(const struct fake_request *request, const json_t *containers)
{
    size_t i;
    json_t *container;
    char field[64];

    if (json_array_size(containers) == 0) {
        return invalid(request, "spec.containers");
    }
    json_array_foreach(containers, i, container)
    {
        if (!json_is_string(json_object_get(container, "image"))) {
            (void)snprintf(field, sizeof field, "spec.containers[%zu].image",
                           i);
            return invalid(request, field);
        }
    }
    return (struct fake_answer){0};
}

struct fake_answer
fake_check(struct fake_api *api, struct fake_request *request)
{
    json_t *containers =
        json_object_get(json_object_get(request->body, "spec"), "containers");
    char validation[16];
    struct fake_answer wrong = check_types(containers);

    (void)api;
    (void)fake_query(request, "fieldValidation", validation, sizeof validation);
    if (wrong.code == 0 && strcmp(validation, "Strict") == 0) {
        wrong = check_known(containers);
    }
    if (wrong.code == 0) {
        wrong = check_present(request, containers);
    }
    if (wrong.code != 0) {
        return wrong;
    }
    return (struct fake_answer){201, json_deep_copy(request->body), -1};
}
