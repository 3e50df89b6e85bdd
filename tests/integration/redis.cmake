# The Redis store against a redis-server of the test's own.
wp_test(lease_redis_test LABEL integration TIMEOUT 240
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/lease_redis_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/redis_rig.c
  LIBS wp_allocator)
set_tests_properties(integration/lease_redis_test PROPERTIES
                     SKIP_RETURN_CODE 77)
