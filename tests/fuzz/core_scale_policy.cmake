wp_fuzz(fuzz_scale_policy
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_scale_policy.c
  LIBS wp_scale
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/scale_policy)
