# The whole daemon with real sandboxes; 77 where the host cannot make them.
add_test(NAME integration/daemon
  COMMAND ${WP_PYTHON} ${CMAKE_SOURCE_DIR}/tests/integration/allocator/daemon_test.py
          $<TARGET_FILE:warmpoold> ${CMAKE_CURRENT_BINARY_DIR}/python
          ${CMAKE_SOURCE_DIR}/deploy)
set_tests_properties(integration/daemon PROPERTIES LABELS integration
                     TIMEOUT 600 SKIP_RETURN_CODE 77)

add_test(NAME integration/api
  COMMAND ${WP_PYTHON} ${CMAKE_SOURCE_DIR}/tests/integration/allocator/api_test.py
          $<TARGET_FILE:warmpoold> ${CMAKE_CURRENT_BINARY_DIR}/python
          ${CMAKE_SOURCE_DIR}/deploy)
set_tests_properties(integration/api PROPERTIES LABELS integration
                     TIMEOUT 600 SKIP_RETURN_CODE 77)

add_test(NAME integration/daemon_lease
  COMMAND ${WP_PYTHON} ${CMAKE_SOURCE_DIR}/tests/integration/allocator/daemon_lease_test.py
          $<TARGET_FILE:warmpoold> ${CMAKE_CURRENT_BINARY_DIR}/python
          ${CMAKE_SOURCE_DIR}/deploy)
set_tests_properties(integration/daemon_lease PROPERTIES LABELS integration
                     TIMEOUT 600 SKIP_RETURN_CODE 77)

add_test(NAME integration/daemon_redis
  COMMAND ${WP_PYTHON} ${CMAKE_SOURCE_DIR}/tests/integration/allocator/daemon_redis_test.py
          $<TARGET_FILE:warmpoold> ${CMAKE_CURRENT_BINARY_DIR}/python
          ${CMAKE_SOURCE_DIR}/deploy)
set_tests_properties(integration/daemon_redis PROPERTIES LABELS integration
                     TIMEOUT 600 SKIP_RETURN_CODE 77)

# Its sandboxes are files.
wp_program(scale_retrace
  SOURCES ${CMAKE_SOURCE_DIR}/tests/integration/allocator/scale_retrace.c
          ${CMAKE_SOURCE_DIR}/tests/support/pool/retrace.c
  LIBS wp_history wp_scale)
add_test(NAME integration/daemon_scale
  COMMAND ${WP_PYTHON} ${CMAKE_SOURCE_DIR}/tests/integration/allocator/daemon_scale_test.py
          $<TARGET_FILE:warmpoold> ${CMAKE_CURRENT_BINARY_DIR}/python
          ${CMAKE_SOURCE_DIR}/deploy $<TARGET_FILE:warmpoolctl>
          $<TARGET_FILE:scale_retrace>)
set_tests_properties(integration/daemon_scale PROPERTIES LABELS integration
                     TIMEOUT 600 SKIP_RETURN_CODE 77)
