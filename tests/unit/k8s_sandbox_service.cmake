wp_test(k8s_sandbox_service_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/controllers/sandbox/k8s_sandbox_service_test.c
  LIBS wp_k8s_core)
