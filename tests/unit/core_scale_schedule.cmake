wp_test(scale_schedule_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool/policy/scale_schedule_test.c
  LIBS wp_advice)
