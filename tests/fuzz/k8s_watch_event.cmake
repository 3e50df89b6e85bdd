wp_fuzz(fuzz_k8s_watch_event
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/k8s/watch/fuzz_k8s_watch_event.c
  LIBS wp_k8s_core
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/k8s_watch_event)
