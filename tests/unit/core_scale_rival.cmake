wp_test(scale_rival_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/advice/scale_rival_test.c
  LIBS wp_advice m)
