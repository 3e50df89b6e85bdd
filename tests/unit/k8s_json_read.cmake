wp_test(k8s_json_read_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/k8s_json_read_test.c
  LIBS wp_k8s_objects)
