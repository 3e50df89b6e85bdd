# Whole daemons with the Kubernetes backend, without a cluster.
add_test(NAME integration/k8s_daemon
  COMMAND ${WP_PYTHON} ${CMAKE_SOURCE_DIR}/tests/integration/k8s/k8s_daemon_test.py
          $<TARGET_FILE:warmpoold> $<TARGET_FILE:fake_api>)
# COST: what takes longest begins first, where several run at a time.
set_tests_properties(integration/k8s_daemon PROPERTIES LABELS integration
                     TIMEOUT 1200 COST 100)
add_test(NAME integration/k8s_grpc
  COMMAND ${WP_PYTHON} ${CMAKE_SOURCE_DIR}/tests/integration/k8s/k8s_grpc_test.py
          $<TARGET_FILE:warmpoold> $<TARGET_FILE:fake_api>
          ${CMAKE_CURRENT_BINARY_DIR}/python)
set_tests_properties(integration/k8s_grpc PROPERTIES LABELS integration
                     TIMEOUT 600)
