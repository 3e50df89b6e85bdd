wp_test(scale_history_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/scale_history_test.c
  LIBS wp_advice)
