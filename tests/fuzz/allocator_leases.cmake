# What the lease stores read back.
wp_fuzz(fuzz_lease_file
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/allocator/stores/fuzz_lease_file.c
  LIBS wp_lease_sqlite
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/lease_file)
