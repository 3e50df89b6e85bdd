# The parts of the in-sandbox server.
foreach(module mcp multipart process routes shell_words workspace)
  wp_test(runtime_${module}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/runtime_${module}_test.c
    LIBS wp_runtime)
endforeach()
