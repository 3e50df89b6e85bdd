foreach(name ahead lead_time learn reservation scaler scaler_state stock)
  wp_test(scale_${name}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/scale_${name}_test.c
    LIBS wp_advice m)
endforeach()
