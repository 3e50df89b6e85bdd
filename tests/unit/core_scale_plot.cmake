wp_test(scale_plot_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/allocator/advice/scale_plot_test.c
  LIBS wp_advice)
