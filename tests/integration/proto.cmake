# Our wire code against Google's own (protoc --encode and --decode).
wp_program(wire_repack
  SOURCES ${CMAKE_SOURCE_DIR}/tests/support/services/wire_repack.c
  LIBS wp_proto)
add_test(NAME integration/wire_interop
         COMMAND ${WP_PYTHON}
                 ${CMAKE_SOURCE_DIR}/tests/integration/proto/wire_interop_test.py
                 ${WP_PROTOC} $<TARGET_FILE:wire_repack>
                 ${CMAKE_SOURCE_DIR}/proto)
set_tests_properties(integration/wire_interop PROPERTIES
                     LABELS integration TIMEOUT 600)
