wp_test(redis_message_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/redis_message_test.c
  LIBS wp_allocator)
