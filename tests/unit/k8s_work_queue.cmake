wp_test(k8s_work_queue_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/watch/k8s_work_queue_test.c
  LIBS wp_k8s_core)
