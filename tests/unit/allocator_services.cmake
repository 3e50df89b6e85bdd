set(WP_SERVICE_WORLD
    ${CMAKE_SOURCE_DIR}/tests/support/pool/fake_backend.c
    ${CMAKE_SOURCE_DIR}/tests/support/services/fake_call.c
    ${CMAKE_SOURCE_DIR}/tests/support/pool/pool_rig.c
    ${CMAKE_SOURCE_DIR}/tests/support/services/service_world.c)
foreach(name service_admin service_advise service_allocator service_batch service_watch)
  wp_test(${name}_test LABEL unit
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/${name}_test.c ${WP_SERVICE_WORLD}
    LIBS wp_allocator)
endforeach()
