wp_test(k8s_json_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/objects/k8s_json_test.c
  LIBS wp_k8s_core)
wp_test(k8s_object_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/objects/k8s_object_test.c
  LIBS wp_k8s_core)
