// bench/micro/gbench.cc - the only C++ of the project: a C border in front of Google
// Benchmark, which has none.
#include "bench/micro/gbench.h"

#include <benchmark/benchmark.h>

// The opaque state of a run, on the stack of the thread that runs it.
struct wp_bench_state {
    benchmark::State &google;
    const void *ctx;
    bool has_arg;
};

void
wp_bench_register(const struct wp_bench *bench)
{
    wp_bench_fn fn = bench->fn;
    const void *ctx = bench->ctx;
    const bool has_arg = bench->n_args > 0;
    auto *registered = benchmark::RegisterBenchmark(
        bench->name, [fn, ctx, has_arg](benchmark::State &google) {
            wp_bench_state state{google, ctx, has_arg};
            fn(&state);
        });

    for (size_t i = 0; i < bench->n_args; i++) {
        registered->Arg(bench->args[i]);
    }
    for (size_t i = 0; i < bench->n_threads; i++) {
        registered->Threads(bench->threads[i]);
    }
    if (bench->manual_time) {
        registered->UseManualTime();
    } else {
        registered->UseRealTime();
    }
}

bool
wp_bench_keep(struct wp_bench_state *state, uint32_t batch)
{
    return state->google.KeepRunningBatch(batch);
}

void
wp_bench_add_time(struct wp_bench_state *state, int64_t duration_ns)
{
    state->google.SetIterationTime(static_cast<double>(duration_ns) * 1e-9);
}

int64_t
wp_bench_arg(const struct wp_bench_state *state)
{
    // Google Benchmark aborts when a run without arguments is asked for one.
    return state->has_arg ? state->google.range(0) : 0;
}

const void *
wp_bench_ctx(const struct wp_bench_state *state)
{
    return state->ctx;
}

unsigned
wp_bench_thread(const struct wp_bench_state *state)
{
    return static_cast<unsigned>(state->google.thread_index());
}

unsigned
wp_bench_threads(const struct wp_bench_state *state)
{
    return static_cast<unsigned>(state->google.threads());
}

void
wp_bench_count(struct wp_bench_state *state, const char *name, double value,
               enum wp_bench_counter kind)
{
    benchmark::Counter::Flags flags = benchmark::Counter::kDefaults;

    if (kind == WP_BENCH_COUNTER_AVG) {
        flags = benchmark::Counter::kAvgThreads;
    } else if (kind == WP_BENCH_COUNTER_RATE) {
        flags = benchmark::Counter::kIsRate;
    }
    state->google.counters[name] = benchmark::Counter(value, flags);
}

void
wp_bench_label(struct wp_bench_state *state, const char *label)
{
    state->google.SetLabel(label);
}

void
wp_bench_fail(struct wp_bench_state *state, const char *why)
{
    state->google.SkipWithError(why);
}

int
wp_bench_run(int argc, char **argv)
{
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
        return 2;
    }
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}
