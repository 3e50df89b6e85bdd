# Real sandboxes. Exit 77: this machine cannot make any, and says why.
wp_test(local_backend_test LABEL integration
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/local_backend_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/local_rig.c
  LIBS wp_local wp::jansson
  TIMEOUT 600)
# For an image without libraries; so static, and without sanitizers.
add_executable(static_server ${CMAKE_SOURCE_DIR}/tests/support/static_server.c)
target_compile_definitions(static_server PRIVATE _GNU_SOURCE)
target_link_options(static_server PRIVATE -static)
target_compile_definitions(local_backend_test PRIVATE
  WP_TEST_INIT="$<TARGET_FILE:warmpool-init>"
  WP_TEST_STATIC_SERVER="$<TARGET_FILE:static_server>"
  WP_TEST_RUNTIME="$<TARGET_FILE:warmpool-runtime>")
add_dependencies(local_backend_test warmpool-init warmpool-runtime
                 static_server)
set_tests_properties(integration/local_backend_test PROPERTIES
                     SKIP_RETURN_CODE 77)
# Exit 77 as well: runsc is not installed.
wp_test(local_gvisor_test LABEL integration
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/local_gvisor_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/local_rig.c
  LIBS wp_local wp::jansson
  TIMEOUT 600)
target_compile_definitions(local_gvisor_test PRIVATE
  WP_TEST_INIT="$<TARGET_FILE:warmpool-init>"
  WP_TEST_RUNTIME="$<TARGET_FILE:warmpool-runtime>")
add_dependencies(local_gvisor_test warmpool-init warmpool-runtime)
set_tests_properties(integration/local_gvisor_test PROPERTIES
                     SKIP_RETURN_CODE 77)
# Daemons that are killed, and what the next one finds.
wp_test(local_adopt_test LABEL integration
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/local_adopt_test.c
          ${CMAKE_SOURCE_DIR}/tests/support/local_rig.c
  LIBS wp_local wp::jansson
  TIMEOUT 600)
target_compile_definitions(local_adopt_test PRIVATE
  WP_TEST_INIT="$<TARGET_FILE:warmpool-init>"
  WP_TEST_RUNTIME="$<TARGET_FILE:warmpool-runtime>")
add_dependencies(local_adopt_test warmpool-init warmpool-runtime)
set_tests_properties(integration/local_adopt_test PROPERTIES
                     SKIP_RETURN_CODE 77)
