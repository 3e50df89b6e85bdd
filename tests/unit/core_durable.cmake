# Pools on a store that outlives them.
wp_test(pool_durable_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/pool_durable_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/fake_backend.c
          ${CMAKE_SOURCE_DIR}/tests/support/model_store.c
          ${CMAKE_SOURCE_DIR}/tests/support/pool_rig.c
  LIBS wp_pool)
