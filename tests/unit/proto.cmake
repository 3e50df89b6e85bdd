foreach(name wire_admin_request wire_admin_round_trip wire_advise
             wire_claim_request wire_claim_round_trip wire_grpc wire_malformed)
  wp_test(${name}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/${name}_test.c
            ${CMAKE_SOURCE_DIR}/tests/support/services/wire_rig.c
    LIBS wp_proto)
endforeach()
