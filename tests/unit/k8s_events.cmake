wp_test(k8s_events_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/controllers/k8s_events_test.c
  LIBS wp_k8s_core)
