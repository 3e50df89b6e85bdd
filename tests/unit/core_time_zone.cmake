wp_test(time_zone_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool/policy/time_zone_test.c
  LIBS wp_policy)
