wp_fuzz(fuzz_k8s_sandbox
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_k8s_sandbox.c
  LIBS wp_k8s_core
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/k8s_sandbox)
