wp_test(scale_advice_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/advice/scale_advice_test.c
  LIBS wp_advice)
