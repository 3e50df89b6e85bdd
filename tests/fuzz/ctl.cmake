wp_fuzz(fuzz_exec_stream
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/allocator/ctl/fuzz_exec_stream.c
  LIBS wp_ctl
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/exec_stream)
