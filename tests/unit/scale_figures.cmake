# The figures in small: not how good they are, but what may never be: more than
# the target, a breaker that does not hold, a rival that is better at both.
if(TARGET scale_figures OR (WP_BUILD_BENCH AND NOT WP_SANITIZE))
  add_test(NAME unit/scale_figures_quick
           COMMAND scale_figures --quick --jobs 2)
  set_tests_properties(unit/scale_figures_quick PROPERTIES
                       LABELS unit TIMEOUT 300)
endif()
