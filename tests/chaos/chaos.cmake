# Proof with real processes: clients that write down what they see while daemons
# are killed, a checker that judges it, and a test of the checker itself.
set(chaos ${CMAKE_CURRENT_LIST_DIR})
wp_test(chaos_checker_test LABEL unit
  SOURCES ${chaos}/checker_test.c ${chaos}/checker.c
  LIBS wp_base)
wp_program(chaos_check SOURCES ${chaos}/check_main.c ${chaos}/checker.c
  LIBS wp_base)
if(WP_BUILD_BENCH AND NOT WP_SANITIZE)
  wp_program(chaos_client
    SOURCES ${chaos}/client.c ${chaos}/link.c ${chaos}/history.c
    LIBS wp_bench_load wp_proto)
endif()
