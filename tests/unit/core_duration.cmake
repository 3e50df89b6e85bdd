wp_test(duration_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool/base/duration_test.c
  LIBS wp_base)
