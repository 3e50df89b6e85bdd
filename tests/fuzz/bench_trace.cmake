wp_fuzz(fuzz_trace_azure
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/bench/fuzz_trace_azure.c
          ${CMAKE_SOURCE_DIR}/bench/scaling/trace.c
          ${CMAKE_SOURCE_DIR}/bench/scaling/trace_azure.c
  LIBS wp_advice
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/trace_azure)
