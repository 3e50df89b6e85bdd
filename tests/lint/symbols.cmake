add_test(NAME lint/symbols
         COMMAND ${WP_PYTHON} ${CMAKE_SOURCE_DIR}/tests/lint/symbols.py
                 ${CMAKE_BINARY_DIR})
set_tests_properties(lint/symbols PROPERTIES LABELS lint TIMEOUT 300
                     SKIP_RETURN_CODE 77)
