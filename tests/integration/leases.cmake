# Lease stores in processes that die and on disks that run full.
wp_test(lease_sqlite_crash_test LABEL integration TIMEOUT 600
  SOURCES ${CMAKE_SOURCE_DIR}/tests/integration/stores/lease_sqlite_crash_test.c
          ${WP_STORE_CONFORMANCE}
  LIBS wp_lease_sqlite)
