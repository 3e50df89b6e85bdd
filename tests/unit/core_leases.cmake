# What becomes of leases: the rules that every store obeys.
wp_test(lease_rules_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool/leases/lease_rules_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/stores/rule_cells.c
  LIBS wp_pool)
# The suite of all stores; link it with a factory (see store_conformance.h).
set(WP_STORE_CONFORMANCE ${CMAKE_SOURCE_DIR}/tests/support/stores/rule_cells.c)
foreach(part conform conform_model conform_note conform_threads store_conformance)
  list(APPEND WP_STORE_CONFORMANCE ${CMAKE_SOURCE_DIR}/tests/support/${part}.c)
endforeach()
wp_test(lease_conformance_memory_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool/leases/lease_conformance_memory_test.c
          ${WP_STORE_CONFORMANCE}
  LIBS wp_pool)
