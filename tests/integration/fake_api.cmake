# Nobody can trust a test whose server is wrong.
add_test(NAME integration/fake_api
  COMMAND ${WP_PYTHON} ${CMAKE_SOURCE_DIR}/tests/integration/k8s/fake_api_test.py
          $<TARGET_FILE:fake_api>)
set_tests_properties(integration/fake_api PROPERTIES LABELS integration
                     TIMEOUT 600)
# Nor one whose judge sees nothing.
add_test(NAME integration/k8s_judge
  COMMAND ${WP_PYTHON} ${CMAKE_SOURCE_DIR}/tests/integration/k8s/k8s_judge_test.py)
set_tests_properties(integration/k8s_judge PROPERTIES LABELS integration
                     TIMEOUT 600)
