# The fake API server: a library for tests in C, a program for those in Python.
wp_library(wp_fake_api
  SOURCES
    ${CMAKE_SOURCE_DIR}/tests/support/fake_api/fake_api.c
    ${CMAKE_SOURCE_DIR}/tests/support/fake_api/fake_api_client.c
    ${CMAKE_SOURCE_DIR}/tests/support/fake_api/fake_api_conn.c
    ${CMAKE_SOURCE_DIR}/tests/support/fake_api/fake_api_control.c
    ${CMAKE_SOURCE_DIR}/tests/support/fake_api/fake_api_route.c
    ${CMAKE_SOURCE_DIR}/tests/support/fake_api/fake_api_select.c
    ${CMAKE_SOURCE_DIR}/tests/support/fake_api/fake_api_store.c
    ${CMAKE_SOURCE_DIR}/tests/support/fake_api/fake_api_verbs.c
    ${CMAKE_SOURCE_DIR}/tests/support/fake_api/fake_api_watch.c
    ${CMAKE_SOURCE_DIR}/tests/support/fake_api/fake_api_world.c
  LIBS wp_k8s_core wp_pool wp::event wp::jansson)
wp_program(fake_api
  SOURCES ${CMAKE_SOURCE_DIR}/tests/support/fake_api/fake_api_main.c
  LIBS wp_fake_api)
