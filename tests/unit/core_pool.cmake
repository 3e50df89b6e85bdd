set(WP_POOL_RIG ${CMAKE_SOURCE_DIR}/tests/support/pool_rig.c
    ${CMAKE_SOURCE_DIR}/tests/support/fake_backend.c)
wp_test(pool_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool_test.c ${WP_POOL_RIG}
  LIBS wp_pool)
wp_test(pool_foreign_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool_foreign_test.c ${WP_POOL_RIG}
          ${CMAKE_SOURCE_DIR}/tests/support/model_store.c
          ${CMAKE_SOURCE_DIR}/tests/support/replica_rig.c
  LIBS wp_pool)
wp_test(pool_model_test LABEL unit TIMEOUT 600
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool_model_test.c ${WP_POOL_RIG}
  LIBS wp_pool)
wp_test(pool_shape_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool_shape_test.c ${WP_POOL_RIG}
  LIBS wp_pool)
