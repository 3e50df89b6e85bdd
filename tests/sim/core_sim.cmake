# The whole core in a simulated world, on a simulated clock.
set(WP_SIM ${CMAKE_SOURCE_DIR}/tests/sim)
wp_test(sim_test LABEL sim TIMEOUT 300
  SOURCES ${WP_SIM}/sim_test.c ${WP_SIM}/sim.c ${WP_SIM}/sim_replica.c
          ${WP_SIM}/sim_store.c ${WP_SIM}/sim_feed.c ${WP_SIM}/sim_backend.c ${WP_SIM}/sim_client.c
          ${WP_SIM}/sim_nemesis.c ${WP_SIM}/sim_oracle.c
  LIBS wp_pool)
