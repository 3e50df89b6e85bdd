wp_test(k8s_json_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/k8s_json_test.c
  LIBS wp_k8s_core)
wp_test(k8s_object_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/k8s_object_test.c
  LIBS wp_k8s_core)
