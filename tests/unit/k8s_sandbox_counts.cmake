wp_test(k8s_sandbox_counts_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/cluster/k8s_sandbox_counts_test.c
  LIBS wp_k8s_core)
