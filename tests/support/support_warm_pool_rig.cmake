# The pool controller in a world of its own.
wp_library(wp_test_warm_pool_rig
  SOURCES
    ${CMAKE_SOURCE_DIR}/tests/support/pool/fake_backend.c
    ${CMAKE_SOURCE_DIR}/tests/support/k8s/k8s_text.c
    ${CMAKE_SOURCE_DIR}/tests/support/pool/pool_rig.c
    ${CMAKE_SOURCE_DIR}/tests/support/k8s/warm_pool_rig.c
  LIBS wp_test_api_recorder cmocka)
