wp_fuzz(fuzz_k8s_json_read
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/k8s/objects/fuzz_k8s_json_read.c
  LIBS wp_k8s_objects
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/k8s_json_read)
