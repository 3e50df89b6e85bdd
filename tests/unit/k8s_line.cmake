wp_test(k8s_line_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/watch/k8s_line_test.c
  LIBS wp_k8s_core)
