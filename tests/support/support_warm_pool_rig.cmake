# The pool controller in a world of its own.
wp_library(wp_test_warm_pool_rig
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/fake_backend.c
    ${CMAKE_CURRENT_LIST_DIR}/k8s_text.c
    ${CMAKE_CURRENT_LIST_DIR}/pool_rig.c
    ${CMAKE_CURRENT_LIST_DIR}/warm_pool_rig.c
  LIBS wp_test_api_recorder cmocka)
