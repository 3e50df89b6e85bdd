# The containers that many threads share, the token, and pool/base.
foreach(module slot ready_queue claim_table lease_token)
  wp_test(${module}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/${module}_test.c
    LIBS wp_pool)
endforeach()
wp_test(channel_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool/base/channel_test.c
  LIBS wp_base)
wp_test(base_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool/base/base_test.c
  LIBS wp_base)
