# The lease stores; the rules themselves are in core_leases.cmake.
wp_test(lease_conformance_sqlite_test LABEL unit TIMEOUT 600
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/stores/sqlite/lease_conformance_sqlite_test.c
          ${WP_STORE_CONFORMANCE}
  LIBS wp_lease_sqlite)
foreach(part commit damage layout open)
  wp_test(lease_sqlite_${part}_test LABEL unit TIMEOUT 600
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/lease_sqlite_${part}_test.c
            ${CMAKE_SOURCE_DIR}/tests/support/stores/sqlite_rig.c
            ${WP_STORE_CONFORMANCE}
    LIBS wp_lease_sqlite wp::sqlite)
endforeach()
wp_test(lease_sqlite_fault_test LABEL unit TIMEOUT 600
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/stores/sqlite/lease_sqlite_fault_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/stores/fault_vfs.c ${WP_STORE_CONFORMANCE}
  LIBS wp_lease_sqlite wp::sqlite)
wp_test(lease_sqlite_path_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/stores/sqlite/lease_sqlite_path_test.c
  LIBS wp_lease_sqlite)
wp_count_calls(lease_sqlite_path_test)
