wp_fuzz(fuzz_k8s_json_read
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_k8s_json_read.c
  LIBS wp_k8s_objects
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/k8s_json_read)
