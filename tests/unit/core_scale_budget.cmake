wp_test(scale_budget_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/scale_budget_test.c
  LIBS wp_advice)
