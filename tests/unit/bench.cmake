# The benchmarks' own parts. bench/ itself is not built with sanitizers; its
# plain C parts are, through these tests.
set(bench ${CMAKE_SOURCE_DIR}/bench)
wp_test(bench_baselines_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/bench/bench_baselines_test.c
          ${bench}/baseline_mutex_array.c ${bench}/baseline_slice.c
          ${bench}/baseline_sorted_list.c
  LIBS wp_base)
wp_test(bench_parts_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/bench/bench_parts_test.c
          ${bench}/hist.c ${bench}/seen.c ${bench}/claim_codec.c
  LIBS wp_base m)
