wp_test(scale_budget_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool/policy/scale_budget_test.c
  LIBS wp_advice)
