/* The headless Service of a Sandbox. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "k8s/controllers/sandbox/service.h"
#include "tests/support/k8s/object_text.h"

#define SELECTOR "'selector':{'agents.x-k8s.io/sandbox-name-hash':'0a1b2c3d'}"
#define LABELS "'labels':{'agents.x-k8s.io/sandbox-name-hash':'0a1b2c3d'}"

static json_t *
sandbox_json(const char *containers)
{
    char text[4096];

    (void)snprintf(text, sizeof text,
                   "{'metadata':{'name':'s','namespace':'n','uid':'su'},"
                   "'spec':{'podTemplate':{'spec':{%s}}}}",
                   containers);
    return json_of(text);
}

static void
whole(void **state)
{
    json_t *json = sandbox_json("'containers':[{'name':'main'}]");
    struct wp_object *sandbox = object_of_json(WP_KIND_SANDBOX, json);

    (void)state;
    assert_json(wp_sandbox_service_build(sandbox, json, "0a1b2c3d"),
                "{'apiVersion':'v1','kind':'Service','metadata':{'name':'s',"
                "'namespace':'n'," LABELS ",'ownerReferences':[{'apiVersion':"
                "'agents.x-k8s.io/v1beta1','kind':'Sandbox','name':'s','uid':"
                "'su','controller':true,'blockOwnerDeletion':true}]},"
                "'spec':{'clusterIP':'None'," SELECTOR "}}");
    wp_object_unref(sandbox);
    json_decref(json);
}

#define PORT(name, protocol, port)                                             \
    "{'name':'" name "','protocol':'" protocol "','port':" port                \
    ",'targetPort':" port "}"

static const struct port_row {
    const char *name;
    const char *containers;
    const char *ports;
} port_rows[] = {
    {"sorted, each port and protocol once, first name stays",
     "'containers':[{'ports':[{'containerPort':90},{'containerPort':80,"
     "'name':'http'},{'containerPort':80,'name':'other'}]},{'ports':["
     "{'containerPort':80,'protocol':'UDP'},{'containerPort':90,"
     "'name':'late'}]}]",
     "[" PORT("http", "TCP", "80") "," PORT("p-80-udp", "UDP", "80") "," PORT(
         "late", "TCP", "90") "]"},
    {"a name twice stays with the first",
     "'containers':[{'ports':[{'containerPort':1,'name':'a'},"
     "{'containerPort':2,'name':'a'}]}]",
     "[" PORT("a", "TCP", "1") "," PORT("p-2-tcp", "TCP", "2") "]"},
    {"made names give way to given ones",
     "'containers':[{'ports':[{'containerPort':7},{'containerPort':8,"
     "'name':'p-7-tcp'},{'containerPort':9,'name':'p-7-tcp-2'}]}]",
     "[" PORT("p-7-tcp-3", "TCP", "7") "," PORT("p-7-tcp", "TCP", "8") "," PORT(
         "p-7-tcp-2", "TCP", "9") "]"},
    {"init containers that stay count, others do not",
     "'containers':[],'initContainers':[{'restartPolicy':'Always','ports':"
     "[{'containerPort':5}]},{'ports':[{'containerPort':6}]}]",
     "[" PORT("p-5-tcp", "TCP", "5") "]"},
    {"the same port of several protocols, by name",
     "'containers':[{'ports':[{'containerPort':80,'protocol':'UDP'},"
     "{'containerPort':80,'protocol':'SCTP'},{'containerPort':79},"
     "{'containerPort':80}]}]",
     "[" PORT("p-79-tcp", "TCP", "79") "," PORT(
         "p-80-sctp", "SCTP", "80") "," PORT("p-80-tcp", "TCP",
                                             "80") "," PORT("p-80-udp", "UDP",
                                                            "80") "]"},
    {"letters at the ends of the alphabet, and what is beside them",
     "'containers':[{'ports':[{'containerPort':1,'protocol':'@AZ[az`{'}]}]",
     "[" PORT("p-1-@az[az`{", "@AZ[az`{", "1") "]"},
    {"fifteen letters of a protocol are its name",
     "'containers':[{'ports':[{'containerPort':1,'protocol':'ABCDEFGHIJKLMNO'},"
     "{'containerPort':2,'protocol':'ABCDEFGHIJKLMNOP'},"
     "{'containerPort':3,'protocol':'ABCDEFGHIJKLMNOPQ'}]}]",
     "[" PORT("p-1-abcdefghijklmno", "ABCDEFGHIJKLMNO", "1") "," PORT(
         "p-2-abcdefghijklmno", "ABCDEFGHIJKLMNOP",
         "2") "," PORT("p-3-abcdefghijklmno", "ABCDEFGHIJKLMNOPQ", "3") "]"},
    {"more than eight, and more than sixteen",
     "'containers':[{'ports':[{'containerPort':17},{'containerPort':16},"
     "{'containerPort':15},{'containerPort':14},{'containerPort':13},"
     "{'containerPort':12},{'containerPort':11},{'containerPort':10},"
     "{'containerPort':9}]},{'ports':[{'containerPort':8},"
     "{'containerPort':7},{'containerPort':6},{'containerPort':5},"
     "{'containerPort':4},{'containerPort':3},{'containerPort':2},"
     "{'containerPort':1}]}]",
     "[" PORT("p-1-tcp", "TCP", "1") "," PORT(
         "p-2-tcp",
         "TCP", "2") "," PORT("p-3-tcp", "TCP",
                              "3") "," PORT("p-4-tcp", "TCP",
                                            "4") "," PORT("p-5-tcp",
                                                          "TCP", "5") "," PORT("p-6-"
                                                                               "tcp",
                                                                               "TCP", "6") "," PORT("p-7-tcp", "TCP", "7") "," PORT("p-8-tcp", "TCP", "8") "," PORT("p-9-tcp", "TCP", "9") "," PORT("p-10-tcp", "TCP", "10") "," PORT("p-11-tcp", "TCP", "11") "," PORT("p-12-tcp", "TCP", "12") "," PORT("p-13-tcp", "TCP", "13") "," PORT("p-14-tcp",
                                                                                                                                                                                                                                                                                                                                            "TCP",
                                                                                                                                                                                                                                                                                                                                            "14") "," PORT("p-15-tcp", "TCP", "15") "," PORT("p-16-tcp",
                                                                                                                                                                                                                                                                                                                                                                                             "TCP",
                                                                                                                                                                                                                                                                                                                                                                                             "16") "," PORT("p-17-tcp",
                                                                                                                                                                                                                                                                                                                                                                                                            "TCP",
                                                                                                                                                                                                                                                                                                                                                                                                            "17") "]"},
    {"nonsense is passed over",
     "'containers':[{'ports':[{'containerPort':'x'},{}]},7]", "null"},
};

static void
ports(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(port_rows); i++) {
        json_t *json = sandbox_json(port_rows[i].containers);
        struct wp_object *sandbox = object_of_json(WP_KIND_SANDBOX, json);
        json_t *service = wp_sandbox_service_build(sandbox, json, "0a1b2c3d");
        json_t *got = wp_json_at(service, "spec", "ports", NULL);
        char text[2048];

        print_message("  %s\n", port_rows[i].name);
        (void)snprintf(text, sizeof text, "{'ports':%s}", port_rows[i].ports);
        assert_json(
            json_pack("{s:O?}", "ports", got == NULL ? json_null() : got),
            text);
        json_decref(service);
        wp_object_unref(sandbox);
        json_decref(json);
    }
}

static const struct drift_row {
    const char *name;
    const char *service;
    bool with_ports;
    const char *patch; /* NULL: none. */
} drift_rows[] = {
    {"right",
     "{'metadata':{" LABELS "},'spec':{" SELECTOR
     ",'ports':[" PORT("p-5-tcp", "TCP", "5") "],'clusterIP':'None','x':1}}",
     true, NULL},
    {"label, selector with a stranger in it, ports",
     "{'metadata':{},'spec':{'selector':{'app':'x'},'ports':[" PORT(
         "p-6-tcp", "TCP", "6") "]}}",
     true,
     "{'metadata':{" LABELS "},'spec':{'selector':{'app':null,"
     "'agents.x-k8s.io/sandbox-name-hash':'0a1b2c3d'},'ports':[" PORT(
         "p-5-tcp", "TCP", "5") "]}}"},
    {"ports of a Service that nobody asked for stay",
     "{'metadata':{" LABELS "},'spec':{" SELECTOR
     ",'ports':[" PORT("p-6-tcp", "TCP", "6") "]}}",
     false, NULL},
    {"only the label", "{'metadata':{},'spec':{" SELECTOR "}}", false,
     "{'metadata':{" LABELS "}}"},
    {"another label",
     "{'metadata':{'labels':{'agents.x-k8s.io/sandbox-name-hash':'x'}},"
     "'spec':{" SELECTOR "}}",
     false, "{'metadata':{" LABELS "}}"},
    {"only a stranger in the selector",
     "{'metadata':{" LABELS "},'spec':{'selector':{'app':'x',"
     "'agents.x-k8s.io/sandbox-name-hash':'0a1b2c3d'}}}",
     false, "{'metadata':{},'spec':{'selector':{'app':null}}}"},
    {"another hash in the selector",
     "{'metadata':{" LABELS "},'spec':{'selector':{"
     "'agents.x-k8s.io/sandbox-name-hash':'x'}}}",
     false, "{'metadata':{},'spec':{" SELECTOR "}}"},
    {"no ports", "{'metadata':{" LABELS "},'spec':{" SELECTOR "}}", true,
     "{'metadata':{},'spec':{'ports':[" PORT("p-5-tcp", "TCP", "5") "]}}"},
    {"one port more",
     "{'metadata':{" LABELS "},'spec':{" SELECTOR ",'ports':[" PORT(
         "p-5-tcp", "TCP", "5") "," PORT("p-6-tcp", "TCP", "6") "]}}",
     true,
     "{'metadata':{},'spec':{'ports':[" PORT("p-5-tcp", "TCP", "5") "]}}"},
    {"a port of another name",
     "{'metadata':{" LABELS "},'spec':{" SELECTOR
     ",'ports':[" PORT("x", "TCP", "5") "]}}",
     true,
     "{'metadata':{},'spec':{'ports':[" PORT("p-5-tcp", "TCP", "5") "]}}"},
    {"a port of another protocol",
     "{'metadata':{" LABELS "},'spec':{" SELECTOR
     ",'ports':[" PORT("p-5-tcp", "UDP", "5") "]}}",
     true,
     "{'metadata':{},'spec':{'ports':[" PORT("p-5-tcp", "TCP", "5") "]}}"},
    {"a port that leads to another",
     "{'metadata':{" LABELS "},'spec':{" SELECTOR
     ",'ports':[{'name':'p-5-tcp','protocol':'TCP','port':5,"
     "'targetPort':6}]}}",
     true,
     "{'metadata':{},'spec':{'ports':[" PORT("p-5-tcp", "TCP", "5") "]}}"},
    {"a port with more to it",
     "{'metadata':{" LABELS "},'spec':{" SELECTOR
     ",'ports':[{'name':'p-5-tcp','protocol':'TCP','port':5,"
     "'targetPort':5,'nodePort':7}]}}",
     true, NULL},
};

static void
drift(void **state)
{
    json_t *json =
        sandbox_json("'containers':[{'ports':[{'containerPort':5}]}]");

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(drift_rows); i++) {
        const struct drift_row *row = &drift_rows[i];
        json_t *service = json_of(row->service);
        json_t *patch = json_of("{'metadata':{}}");

        print_message("  %s\n", row->name);
        assert_int_equal(wp_sandbox_service_drift(json, "0a1b2c3d", service,
                                                  row->with_ports, patch),
                         row->patch != NULL);
        assert_json(patch, row->patch != NULL ? row->patch : "{'metadata':{}}");
        json_decref(service);
    }
    json_decref(json);
}

static void
headless(void **state)
{
    static const struct {
        const char *service;
        bool is;
    } rows[] = {{"{'spec':{'clusterIP':'None'}}", true},
                {"{'spec':{}}", true},
                {"{'spec':{'clusterIP':'10.0.0.1'}}", false}};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        json_t *service = json_of(rows[i].service);

        assert_int_equal(wp_sandbox_service_headless(service), rows[i].is);
        json_decref(service);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),
        cmocka_unit_test(ports),
        cmocka_unit_test(drift),
        cmocka_unit_test(headless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
