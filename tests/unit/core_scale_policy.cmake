wp_test(scale_policy_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/scale_policy_test.c
  LIBS wp_scale)
