# The instruction guard counts what is shipped, so only a release build runs it.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND WP_BUILD_BENCH AND NOT WP_SANITIZE)
  add_test(NAME bench-guard/instructions
           COMMAND ${CMAKE_SOURCE_DIR}/bench/instructions.sh ${CMAKE_BINARY_DIR})
  set_tests_properties(bench-guard/instructions PROPERTIES
                       LABELS bench-guard TIMEOUT 600 RUN_SERIAL TRUE)
  add_test(NAME bench-guard/memory COMMAND bench_memory)
  set_tests_properties(bench-guard/memory PROPERTIES
                       LABELS bench-guard TIMEOUT 600)
endif()
