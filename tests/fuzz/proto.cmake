wp_fuzz(fuzz_wire
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_wire.c
  LIBS wp_proto
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/wire)
