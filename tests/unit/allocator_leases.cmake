# The lease stores; the rules themselves are in core_leases.cmake.
wp_test(lease_conformance_sqlite_test LABEL unit TIMEOUT 120
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/lease_conformance_sqlite_test.c
          ${WP_STORE_CONFORMANCE}
  LIBS wp_lease_sqlite)
