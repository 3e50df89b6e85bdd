wp_test(scale_advice_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/scale_advice_test.c
  LIBS wp_advice)
