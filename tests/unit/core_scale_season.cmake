foreach(name season season_replay season_scaler)
  wp_test(scale_${name}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/scale_${name}_test.c
    LIBS wp_advice m)
endforeach()
