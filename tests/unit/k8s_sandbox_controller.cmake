wp_test(k8s_sandbox_controller_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/controllers/sandbox/k8s_sandbox_controller_test.c
  LIBS wp_test_sandbox_rig)
wp_test(k8s_sandbox_faults_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/k8s/controllers/sandbox/k8s_sandbox_faults_test.c
  LIBS wp_test_sandbox_rig)
