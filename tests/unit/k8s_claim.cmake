foreach(part chaos life parts restart wait warm)
  wp_test(claim_${part}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/claim_${part}_test.c
    LIBS wp_test_claim_rig)
endforeach()
wp_test(fault_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/controllers/fault_test.c
  LIBS wp_k8s_core)
