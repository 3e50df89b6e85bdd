wp_test(redis_message_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/stores/redis/redis_message_test.c
  LIBS wp_allocator)
