set(WP_POOL_RIG ${CMAKE_SOURCE_DIR}/tests/support/pool/pool_rig.c
    ${CMAKE_SOURCE_DIR}/tests/support/pool/fake_backend.c)
foreach(part claim refill store wait)
  wp_test(pool_${part}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/pool_${part}_test.c ${WP_POOL_RIG}
    LIBS wp_pool)
endforeach()
# Sandboxes that others see too: the external events of pool/core/external.c.
foreach(event end found notice retire)
  wp_test(pool_foreign_${event}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/pool_foreign_${event}_test.c ${WP_POOL_RIG}
            ${CMAKE_SOURCE_DIR}/tests/support/stores/model_store.c
            ${CMAKE_SOURCE_DIR}/tests/support/pool/replica_rig.c
    LIBS wp_pool)
endforeach()
wp_test(pool_model_test LABEL unit TIMEOUT 600
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool/core/pool_model_test.c ${WP_POOL_RIG}
  LIBS wp_pool)
wp_test(pool_shape_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool/core/pool_shape_test.c ${WP_POOL_RIG}
  LIBS wp_pool)
