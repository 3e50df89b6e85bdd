wp_test(scale_policy_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool/policy/scale_policy_test.c
  LIBS wp_advice)
target_compile_definitions(scale_policy_test PRIVATE
  WP_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
