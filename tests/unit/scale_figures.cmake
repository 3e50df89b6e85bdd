# The figures in small: not how good they are, but what may never be: more than
# the target, a breaker that does not hold, a rival that is better at both.
# With optimisation only: it is a minute of two cores even so.
if(WP_BUILD_BENCH AND CMAKE_BUILD_TYPE STREQUAL "Release")
  add_test(NAME unit/scale_figures_quick
           COMMAND scale_figures --quick --jobs 2)
  set_tests_properties(unit/scale_figures_quick PROPERTIES
                       LABELS unit TIMEOUT 900 PROCESSORS 2)
endif()
