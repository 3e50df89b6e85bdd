wp_test(duration_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/duration_test.c
  LIBS wp_base)
