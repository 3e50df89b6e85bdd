# What becomes of leases: the rules that every store obeys.
wp_test(lease_rules_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/lease_rules_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/rule_cells.c
  LIBS wp_pool)
wp_test(lease_conformance_memory_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/lease_conformance_memory_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/rule_cells.c
          ${CMAKE_SOURCE_DIR}/tests/support/store_conformance.c
  LIBS wp_pool)
