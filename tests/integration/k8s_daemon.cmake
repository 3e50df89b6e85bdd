# Whole daemons with the Kubernetes backend, without a cluster.
add_test(NAME integration/k8s_daemon
  COMMAND ${WP_PYTHON} ${CMAKE_SOURCE_DIR}/tests/integration/k8s_daemon_test.py
          $<TARGET_FILE:warmpoold> $<TARGET_FILE:fake_api>)
set_tests_properties(integration/k8s_daemon PROPERTIES LABELS integration
                     TIMEOUT 600)
