wp_test(scale_plot_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/scale_plot_test.c
  LIBS wp_advice)
