wp_test(scale_season_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/scale_season_test.c
  LIBS wp_scale m)
