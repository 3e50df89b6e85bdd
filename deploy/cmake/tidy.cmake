# cmake --build --preset tidy: clang-tidy on all that the product is made of. It
# needs the headers that are generated, and nothing compiled.
add_custom_target(tidy
  COMMAND ${CMAKE_SOURCE_DIR}/tests/lint/tidy.py ${CMAKE_BINARY_DIR}
  DEPENDS wp_process_gen wp_proto_gen wp_proto_descriptor
  USES_TERMINAL VERBATIM)
