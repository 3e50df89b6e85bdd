wp_test(k8s_pool_policy_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/k8s_pool_policy_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/cluster_rig.c
          ${CMAKE_SOURCE_DIR}/tests/support/k8s_text.c
          ${CMAKE_SOURCE_DIR}/tests/support/model_store.c
  LIBS wp_test_api_recorder)
