wp_fuzz(fuzz_scale_policy
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/pool/policy/fuzz_scale_policy.c
  LIBS wp_advice
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/scale_policy)
