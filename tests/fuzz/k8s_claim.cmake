wp_fuzz(fuzz_k8s_claim
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_k8s_claim.c
  LIBS wp_k8s_core
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/k8s_claim)
