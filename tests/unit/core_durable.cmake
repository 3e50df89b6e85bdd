# Pools on a store that outlives them.
foreach(part durable history replicas replicas_keeper replicas_news
             replicas_recovery retrace scale)
  wp_test(pool_${part}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/pool_${part}_test.c
            ${CMAKE_SOURCE_DIR}/tests/support/fake_backend.c
            ${CMAKE_SOURCE_DIR}/tests/support/model_store.c
            ${CMAKE_SOURCE_DIR}/tests/support/pool_rig.c
            ${CMAKE_SOURCE_DIR}/tests/support/replica_rig.c
    LIBS wp_pool wp_advice)
endforeach()
