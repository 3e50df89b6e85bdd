wp_fuzz(fuzz_k8s_claim
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/k8s/controllers/fuzz_k8s_claim.c
  LIBS wp_k8s_core
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/k8s_claim)
