# The local backend's parts that need no sandbox.
wp_test(manifest_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/local/manifest/manifest_test.c
  LIBS wp_local)
target_compile_definitions(manifest_test PRIVATE
  WP_TEST_QUICKSTART="${CMAKE_SOURCE_DIR}/deploy/examples/quickstart.yaml")

wp_test(local_bridge_test LABEL unit
  SOURCES ${CMAKE_SOURCE_DIR}/tests/unit/local/init/local_bridge_test.c
          ${CMAKE_SOURCE_DIR}/local/init/bridge.c
  LIBS wp_local)
foreach(name local_cgroup_test local_confine_test local_record_test
             )
  wp_test(${name} LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/${name}.c LIBS wp_local)
endforeach()
if(WP_TEST_TOOLS)
  wp_test(synthetic_backend_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/synthetic_backend_test.c
    LIBS wp_local_synthetic)
endif()
