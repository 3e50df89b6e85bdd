wp_test(quantity_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/pool/base/quantity_test.c
  LIBS wp_base)
