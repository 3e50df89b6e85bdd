foreach(name wire wire_round_trip)
  wp_test(${name}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/${name}_test.c
    LIBS wp_proto)
endforeach()
