# The way of commits to a store's thread.
wp_test(commit_queue_stress LABEL stress TIMEOUT 600
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/commit_queue_stress.c
  LIBS wp_pool)
