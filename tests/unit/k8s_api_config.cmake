wp_test(k8s_api_config_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/api/k8s_api_config_test.c
  LIBS wp_k8s_core)
