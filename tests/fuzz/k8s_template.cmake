wp_fuzz(fuzz_k8s_template
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/k8s/controllers/fuzz_k8s_template.c
  LIBS wp_k8s_core
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/k8s_template)
