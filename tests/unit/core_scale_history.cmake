wp_test(scale_history_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool/history/scale_history_test.c
  LIBS wp_advice)
