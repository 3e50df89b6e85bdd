wp_test(scale_rival_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/scale_rival_test.c
  LIBS wp_advice m)
