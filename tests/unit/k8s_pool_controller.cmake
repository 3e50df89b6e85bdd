# Controllers against the recorder, with the core where they talk to it.
wp_test(k8s_pool_controller_test LABEL unit
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/k8s_pool_controller_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/fake_backend.c
          ${CMAKE_SOURCE_DIR}/tests/support/k8s_text.c
          ${CMAKE_SOURCE_DIR}/tests/support/pool_rig.c
  LIBS wp_test_api_recorder)
