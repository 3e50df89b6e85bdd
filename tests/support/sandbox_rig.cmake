wp_library(wp_test_sandbox_rig
  SOURCES ${CMAKE_SOURCE_DIR}/tests/support/k8s/sandbox_rig.c
  LIBS wp_k8s_core wp_test_api_recorder cmocka)
