wp_test(k8s_competitor_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/lead/k8s_competitor_test.c
  LIBS wp_k8s_core)
