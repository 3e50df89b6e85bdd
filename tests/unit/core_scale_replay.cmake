wp_test(scale_replay_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/scale_replay_test.c
  LIBS wp_advice m)
