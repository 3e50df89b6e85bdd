#include "runtime/exec/exec_result.h"

#include "pool/base/log.h"
#include "proto/formats/json_text.h"

static const char *const stream_names[] = {"stdout", "stderr"};

static json_t *
buffer_text(struct evbuffer *buffer)
{
    size_t len = evbuffer_get_length(buffer);

    return wp_json_from_str(
        (struct wp_str){(const char *)evbuffer_pullup(buffer, -1), len});
}

void
wp_exec_result_note(const struct wp_process_result *result)
{
    for (int i = 0; i < 2; i++) {
        if (result->dropped[i] > 0) {
            evbuffer_add_printf(
                result->output[1],
                "\n[warmpool-runtime: %llu more bytes of %s were dropped]\n",
                (unsigned long long)result->dropped[i], stream_names[i]);
        }
    }
}

json_t *
wp_exec_result_json(const struct wp_process_result *result, int exit_code)
{
    wp_exec_result_note(result);
    return json_pack("{s:o, s:o, s:i}", "stdout",
                     buffer_text(result->output[0]), "stderr",
                     buffer_text(result->output[1]), "exit_code", exit_code);
}

void
wp_exec_result_log(const char *how, const struct wp_process_result *result)
{
    wp_log_info("command ended", wp_kv_str("by", how),
                wp_kv_int("exit_code", result->exit_code),
                wp_kv_int("signal", result->signal),
                wp_kv_int("timed_out", result->timed_out),
                wp_kv_int("stdout_bytes",
                          (int64_t)(evbuffer_get_length(result->output[0]) +
                                    result->dropped[0])),
                wp_kv_int("stderr_bytes",
                          (int64_t)(evbuffer_get_length(result->output[1]) +
                                    result->dropped[1])),
                wp_kv_ms("took_ms", result->duration_ns));
}
