wp_test(scale_replay_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/advice/scale_replay_test.c
  LIBS wp_advice m)
