wp_test(k8s_reflector_test LABEL integration TIMEOUT 600
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/k8s_reflector_test.c
  LIBS wp_fake_api wp_k8s)
set_tests_properties(integration/k8s_reflector_test PROPERTIES COST 50)
wp_test(k8s_reflector_doubt_test LABEL integration TIMEOUT 600
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/k8s_reflector_doubt_test.c
  LIBS wp_fake_api wp_k8s)
