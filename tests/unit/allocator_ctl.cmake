# warmpoolctl's parts; the program as a whole is in tests/integration.
foreach(module ctl_options ctl_print ctl_exec_stream ctl_token_store)
  wp_test(${module}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/${module}_test.c
    LIBS wp_ctl)
endforeach()
