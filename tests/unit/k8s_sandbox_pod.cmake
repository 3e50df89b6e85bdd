wp_test(k8s_sandbox_pod_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/controllers/sandbox/k8s_sandbox_pod_test.c
  LIBS wp_k8s_core)
