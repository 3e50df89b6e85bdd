foreach(name k8s_election k8s_election_faults)
  wp_test(${name}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/${name}_test.c
            ${CMAKE_SOURCE_DIR}/tests/support/k8s/election_rig.c
    LIBS wp_k8s_core)
endforeach()
