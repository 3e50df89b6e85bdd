# Real Redis servers. Exit 77: redis-server is not installed.
set(redis_rig
    ${CMAKE_SOURCE_DIR}/tests/support/stores/redis_rig.c
    ${CMAKE_SOURCE_DIR}/tests/support/stores/redis_rig_cluster.c)
wp_test(redis_rig_test LABEL integration
  SOURCES ${CMAKE_SOURCE_DIR}/tests/integration/stores/redis_rig_test.c ${redis_rig}
  LIBS wp_base wp::hiredis
  TIMEOUT 600)
set_tests_properties(integration/redis_rig_test PROPERTIES
                     SKIP_RETURN_CODE 77)
wp_test(redis_topology_test LABEL integration
  SOURCES ${CMAKE_SOURCE_DIR}/tests/integration/stores/redis_topology_test.c ${redis_rig}
  LIBS wp_allocator wp::hiredis
  TIMEOUT 600)
set_tests_properties(integration/redis_topology_test PROPERTIES
                     SKIP_RETURN_CODE 77)
foreach(name lease_redis_sentinel lease_redis_moves)
  wp_test(${name}_test LABEL integration TIMEOUT 600
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/${name}_test.c ${redis_rig}
            ${CMAKE_SOURCE_DIR}/tests/support/stores/redis_replica.c
            ${CMAKE_SOURCE_DIR}/tests/support/stores/redis_world.c
    LIBS wp_allocator)
  set_tests_properties(integration/${name}_test PROPERTIES
                       SKIP_RETURN_CODE 77)
endforeach()
# The whole daemon, on synthetic sandboxes.
add_test(NAME integration/daemon_redis_topology
  COMMAND ${WP_PYTHON}
          ${CMAKE_SOURCE_DIR}/tests/integration/allocator/daemon_redis_topology_test.py
          $<TARGET_FILE:warmpoold> ${CMAKE_CURRENT_BINARY_DIR}/python
          ${CMAKE_SOURCE_DIR}/deploy)
set_tests_properties(integration/daemon_redis_topology PROPERTIES
                     LABELS integration TIMEOUT 600 SKIP_RETURN_CODE 77)
