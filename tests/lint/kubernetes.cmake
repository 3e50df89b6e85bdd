add_test(NAME lint/kubernetes
         COMMAND ${WP_PYTHON} ${CMAKE_SOURCE_DIR}/tests/lint/kubernetes.py
                 $<TARGET_FILE:warmpoold>)
set_tests_properties(lint/kubernetes PROPERTIES LABELS lint TIMEOUT 300
                     SKIP_RETURN_CODE 77)
