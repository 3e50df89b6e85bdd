wp_test(time_zone_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/time_zone_test.c
  LIBS wp_policy)
