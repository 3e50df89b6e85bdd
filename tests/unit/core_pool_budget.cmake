wp_test(pool_budget_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool/core/pool_budget_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/pool/fake_backend.c
  LIBS wp_pool)
