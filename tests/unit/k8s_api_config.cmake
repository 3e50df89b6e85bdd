wp_test(k8s_api_config_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/k8s_api_config_test.c
  LIBS wp_k8s_core)
