wp_test(k8s_quantity_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/objects/k8s_quantity_test.c
  LIBS wp_k8s_core)
