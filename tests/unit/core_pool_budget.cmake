wp_test(pool_budget_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/pool_budget_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/fake_backend.c
  LIBS wp_pool)
