wp_fuzz(fuzz_time_zone
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/pool/policy/fuzz_time_zone.c
  LIBS wp_policy
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/time_zone)
