wp_fuzz(fuzz_wire
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/proto/wire/fuzz_wire.c
  LIBS wp_proto
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/wire)
