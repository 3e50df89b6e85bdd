foreach(part doubt lease life orders)
  wp_test(k8s_backend_${part}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/k8s_backend_${part}_test.c
            ${CMAKE_SOURCE_DIR}/tests/support/k8s/cluster_rig.c
    LIBS wp_test_api_recorder)
endforeach()
wp_test(k8s_backend_lead_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/backend/k8s_backend_lead_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/k8s/cluster_rig.c
          ${CMAKE_SOURCE_DIR}/tests/support/stores/model_store.c
  LIBS wp_test_api_recorder)
wp_test(k8s_sandbox_refs_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/objects/k8s_sandbox_refs_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/k8s/k8s_text.c
  LIBS wp_k8s_core)
