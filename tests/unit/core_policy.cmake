# The single-owner parts of the pool.
foreach(module wait_queue timing_wheel refill lease_memory)
  wp_test(${module}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/${module}_test.c
    LIBS wp_pool)
endforeach()
