foreach(module network_policy sandbox_build staleness)
  wp_test(k8s_${module}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/k8s_${module}_test.c
            ${CMAKE_SOURCE_DIR}/tests/support/k8s/k8s_text.c
    LIBS wp_k8s_core)
endforeach()
