wp_test(k8s_pool_policy_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/objects/k8s_pool_policy_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/k8s/cluster_rig.c
          ${CMAKE_SOURCE_DIR}/tests/support/k8s/k8s_text.c
          ${CMAKE_SOURCE_DIR}/tests/support/stores/model_store.c
  LIBS wp_test_api_recorder)
