wp_test(k8s_sandbox_status_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/controllers/sandbox/k8s_sandbox_status_test.c
  LIBS wp_k8s_core)
