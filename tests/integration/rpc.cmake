# The gRPC transport against clients of another stack (python3-grpcio).

wp_program(rpc_fixture
  SOURCES ${CMAKE_SOURCE_DIR}/tests/support/services/rpc_fixture.c
  LIBS wp_allocator)

# The messages in Python, for the test's client side.
set(rpc_py ${CMAKE_CURRENT_BINARY_DIR}/python)
set(rpc_protos warmpool/v1/allocator.proto grpc/health/v1/health.proto
    grpc/reflection/v1alpha/reflection.proto)
list(TRANSFORM rpc_protos PREPEND ${CMAKE_SOURCE_DIR}/proto/
     OUTPUT_VARIABLE rpc_proto_files)
file(MAKE_DIRECTORY ${rpc_py})
add_custom_command(
  OUTPUT ${rpc_py}/stamp
  COMMAND ${WP_PROTOC} --proto_path=${CMAKE_SOURCE_DIR}/proto
          --python_out=${rpc_py} ${rpc_protos}
  COMMAND ${CMAKE_COMMAND} -E touch ${rpc_py}/stamp
  DEPENDS ${rpc_proto_files} VERBATIM)
add_custom_target(rpc_python ALL DEPENDS ${rpc_py}/stamp)

add_test(NAME integration/rpc
  COMMAND ${WP_PYTHON} ${CMAKE_SOURCE_DIR}/tests/integration/allocator/rpc_test.py
          $<TARGET_FILE:rpc_fixture> ${rpc_py})
set_tests_properties(integration/rpc PROPERTIES LABELS integration TIMEOUT 600 COST 40
                     ENVIRONMENT "WP_SANITIZE=${WP_SANITIZE}")
