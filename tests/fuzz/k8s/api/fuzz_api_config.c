/* tests/fuzz/k8s/api/fuzz_api_config.c - any bytes as a kubeconfig: read or refused,
 * within bounds, and what is read keeps its promises. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "k8s/api/api_config.h"
#include "pool/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_pair(const char *file, const char *pem)
{
    WP_ASSERT(file == NULL || pem == NULL);
    WP_ASSERT(file == NULL || file[0] == '/');
    WP_ASSERT(pem == NULL || strstr(pem, "-----BEGIN ") != NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_api_config config;
    struct wp_err err = {.status = WP_OK, .msg = ""};
    enum wp_status status = wp_api_config_parse(
        &config, (struct wp_str){(const char *)data, size}, "/dir", NULL, &err);

    if (status != WP_OK) {
        WP_ASSERT(err.status == status && err.msg[0] != '\0');
        WP_ASSERT(config.server == NULL && config.token == NULL);
        return 0;
    }
    WP_ASSERT(strncmp(config.server, "http", 4) == 0);
    WP_ASSERT(config.server[strlen(config.server) - 1] != '/');
    WP_ASSERT(config.own_namespace != NULL && config.user == NULL);
    check_pair(config.ca_file, config.ca_pem);
    check_pair(config.cert_file, config.cert_pem);
    check_pair(config.key_file, config.key_pem);
    WP_ASSERT(config.token_file == NULL || config.token == NULL);
    for (const char *c = config.token; c != NULL && *c != '\0'; c++) {
        WP_ASSERT(*c > ' ' && *c < 0x7f);
    }
    wp_api_config_fini(&config);
    return 0;
}
