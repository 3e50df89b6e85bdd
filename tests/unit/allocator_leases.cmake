# The lease stores; the rules themselves are in core_leases.cmake.
set(WP_STORE_CONFORMANCE
    ${CMAKE_SOURCE_DIR}/tests/support/rule_cells.c
    ${CMAKE_SOURCE_DIR}/tests/support/store_conformance.c)
wp_test(lease_conformance_sqlite_test LABEL unit TIMEOUT 120
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/lease_conformance_sqlite_test.c
          ${WP_STORE_CONFORMANCE}
  LIBS wp_lease_sqlite)
