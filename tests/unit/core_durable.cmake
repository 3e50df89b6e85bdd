# Pools on a store that outlives them.
foreach(part durable history replicas replicas_keeper replicas_news
             replicas_recovery retrace scale)
  wp_test(pool_${part}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/pool_${part}_test.c
            ${CMAKE_SOURCE_DIR}/tests/support/pool/fake_backend.c
            ${CMAKE_SOURCE_DIR}/tests/support/stores/model_store.c
            ${CMAKE_SOURCE_DIR}/tests/support/pool/pool_rig.c
            ${CMAKE_SOURCE_DIR}/tests/support/pool/replica_rig.c
            ${CMAKE_SOURCE_DIR}/tests/support/pool/retrace.c
    LIBS wp_pool)
endforeach()
