# The Redis store against a redis-server of the test's own. Exit 77: none is
# installed.
set(lease_redis_rig
    ${CMAKE_SOURCE_DIR}/tests/support/stores/redis_rig.c
    ${CMAKE_SOURCE_DIR}/tests/support/stores/redis_rig_cluster.c)
foreach(name lease_redis lease_redis_batch lease_redis_recovery
        lease_redis_feed lease_redis_faults lease_redis_cluster)
  wp_test(${name}_test LABEL integration TIMEOUT 600
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/${name}_test.c ${lease_redis_rig}
            ${CMAKE_SOURCE_DIR}/tests/support/stores/redis_world.c
    LIBS wp_allocator)
  set_tests_properties(integration/${name}_test PROPERTIES
                       SKIP_RETURN_CODE 77)
endforeach()
wp_test(lease_conformance_redis_test LABEL integration TIMEOUT 600
  SOURCES ${CMAKE_SOURCE_DIR}/tests/integration/stores/lease_conformance_redis_test.c
          ${lease_redis_rig} ${WP_STORE_CONFORMANCE}
  LIBS wp_allocator)
set_tests_properties(integration/lease_conformance_redis_test PROPERTIES
                     SKIP_RETURN_CODE 77)
