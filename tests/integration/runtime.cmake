# The in-sandbox server as a process, spoken to over its sockets.
foreach(part mcp rest exec)
  add_test(NAME integration/runtime_${part}
           COMMAND ${WP_PYTHON}
                   ${CMAKE_SOURCE_DIR}/tests/integration/runtime/runtime_${part}_test.py)
  set_tests_properties(integration/runtime_${part} PROPERTIES
    LABELS integration TIMEOUT 600 SKIP_RETURN_CODE 77
    ENVIRONMENT "WP_RUNTIME_BINARY=$<TARGET_FILE:warmpool-runtime>;PYTHONDONTWRITEBYTECODE=1")
endforeach()
