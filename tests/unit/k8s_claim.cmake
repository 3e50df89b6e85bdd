foreach(part warm)
  wp_test(claim_${part}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/claim_${part}_test.c
    LIBS wp_test_claim_rig)
endforeach()
