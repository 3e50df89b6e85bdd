# What the lease stores read back.
wp_fuzz(fuzz_lease_file
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_lease_file.c
  LIBS wp_lease_sqlite
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/lease_file)
