# The links of the Redis store, to a server of the test's own.
wp_test(redis_link_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/stores/redis/redis_link_test.c
  LIBS wp_allocator)
