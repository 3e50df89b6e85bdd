# Controllers against the recorder, with the core where they talk to it.
foreach(part events orphans rollout status)
  wp_test(k8s_pool_controller_${part}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/k8s_pool_controller_${part}_test.c
    LIBS wp_test_warm_pool_rig)
endforeach()
