# Real threads over the shared containers; run under TSan as well. Arguments:
# operations per thread, threads, seed.
foreach(module slot ready_queue claim_table)
  wp_test(${module}_stress LABEL stress TIMEOUT 600
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/${module}_stress.c
    LIBS wp_pool)
endforeach()
wp_test(channel_stress LABEL stress TIMEOUT 600
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/channel_stress.c
  LIBS wp_base)
