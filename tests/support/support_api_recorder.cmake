# The place of wp_k8s_api in tests of controllers.
wp_library(wp_test_api_recorder
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/api_memory.c
    ${CMAKE_CURRENT_LIST_DIR}/api_recorder.c
  LIBS wp_k8s_core)
