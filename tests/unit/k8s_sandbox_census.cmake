wp_test(k8s_sandbox_census_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/k8s_sandbox_census_test.c
  LIBS wp_k8s_core)
