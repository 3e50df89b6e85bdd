foreach(part doubt list trouble version watch)
  wp_test(k8s_reflector_${part}_test LABEL integration TIMEOUT 600
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/k8s_reflector_${part}_test.c
    LIBS wp_fake_api wp_k8s)
endforeach()
