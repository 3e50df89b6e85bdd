wp_test(k8s_pool_progress_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/controllers/pool/k8s_pool_progress_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/k8s/k8s_text.c
  LIBS wp_test_api_recorder)
