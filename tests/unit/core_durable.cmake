# Pools on a store that outlives them.
foreach(test pool_durable_test pool_history_test pool_replicas_test
             pool_retrace_test pool_scale_test)
  wp_test(${test} LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/${test}.c
            ${CMAKE_SOURCE_DIR}/tests/support/fake_backend.c
            ${CMAKE_SOURCE_DIR}/tests/support/model_store.c
            ${CMAKE_SOURCE_DIR}/tests/support/pool_rig.c
            ${CMAKE_SOURCE_DIR}/tests/support/replica_rig.c
    LIBS wp_pool)
endforeach()
