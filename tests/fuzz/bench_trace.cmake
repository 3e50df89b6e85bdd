wp_fuzz(fuzz_trace_azure
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_trace_azure.c
          ${CMAKE_SOURCE_DIR}/bench/trace.c
          ${CMAKE_SOURCE_DIR}/bench/trace_azure.c
  LIBS wp_advice
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/trace_azure)
