wp_test(scale_schedule_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/scale_schedule_test.c
  LIBS wp_advice)
