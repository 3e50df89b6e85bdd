# What the in-sandbox server reads from others.
foreach(part mcp multipart words http)
  wp_fuzz(fuzz_runtime_${part}
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_runtime_${part}.c
    LIBS wp_runtime
    CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/runtime_${part})
endforeach()
