# The parts of the autoscaler's figures.
set(bench ${CMAKE_SOURCE_DIR}/bench)
wp_test(bench_trace_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/bench/bench_trace_test.c
          ${bench}/trace.c ${bench}/trace_azure.c ${bench}/trace_recipe.c
  LIBS wp_advice m)
wp_test(bench_figure_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/bench/bench_figure_test.c
          ${bench}/figure.c ${bench}/figure_search.c ${bench}/lead_regime.c
          ${bench}/trace.c ${bench}/trace_azure.c ${bench}/trace_recipe.c
  LIBS wp_advice m)
