wp_test(redis_cluster_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/stores/redis/redis_cluster_test.c
  LIBS wp_allocator wp::hiredis)
wp_test(redis_sentinel_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/stores/redis/redis_sentinel_test.c
  LIBS wp_allocator wp::hiredis)
