# The place of wp_k8s_api in tests of controllers.
wp_library(wp_test_api_recorder
  SOURCES
    ${CMAKE_SOURCE_DIR}/tests/support/k8s/api_memory.c
    ${CMAKE_SOURCE_DIR}/tests/support/k8s/api_recorder.c
  LIBS wp_k8s_core)
