wp_test(k8s_store_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/watch/k8s_store_test.c
  LIBS wp_k8s_core)
wp_test(k8s_recorder_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/api/k8s_recorder_test.c
  LIBS wp_test_api_recorder)
