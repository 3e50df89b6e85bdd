# warmpoolctl against the whole daemon with real sandboxes.
add_test(NAME integration/ctl
  COMMAND ${WP_PYTHON} ${CMAKE_SOURCE_DIR}/tests/integration/allocator/ctl_test.py
          $<TARGET_FILE:warmpoold> $<TARGET_FILE:warmpoolctl>
          $<TARGET_FILE:warmpool-runtime> $<TARGET_FILE:warmpool-init>
          ${CMAKE_SOURCE_DIR}/deploy/examples/quickstart.yaml)
set_tests_properties(integration/ctl PROPERTIES LABELS integration TIMEOUT 600
                     SKIP_RETURN_CODE 77)
