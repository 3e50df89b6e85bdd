# The claim controller in a world of its own.
wp_library(wp_test_claim_rig
  SOURCES
    ${CMAKE_SOURCE_DIR}/tests/support/k8s/claim_rig.c
  LIBS wp_test_api_recorder cmocka)
