# With sanitizers programs need libraries that no image has.
if(NOT WP_SANITIZE AND NOT WP_FUZZ)
  add_test(NAME lint/images
           COMMAND ${WP_PYTHON} ${CMAKE_SOURCE_DIR}/tests/lint/images.py
                   ${CMAKE_BINARY_DIR})
  set_tests_properties(lint/images PROPERTIES LABELS lint TIMEOUT 300
                       SKIP_RETURN_CODE 77)
endif()
