wp_fuzz(fuzz_conf
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/allocator/conf/fuzz_conf.c
  LIBS wp_allocator
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/conf)
wp_fuzz(fuzz_known_pools
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/allocator/daemon/fuzz_known_pools.c
  LIBS wp_allocator
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/known_pools)
wp_fuzz(fuzz_redis_url
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/allocator/conf/fuzz_redis_url.c
  LIBS wp_allocator
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/redis_url)
wp_fuzz(fuzz_redis_cluster
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/allocator/stores/fuzz_redis_cluster.c
  LIBS wp_allocator wp::hiredis
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/redis_cluster)
wp_fuzz(fuzz_http_head
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/allocator/http/fuzz_http_head.c
  LIBS wp_allocator
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/http_head)
wp_fuzz(fuzz_lease_codec
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/allocator/stores/fuzz_lease_codec.c
  LIBS wp_allocator
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/lease_codec)
wp_fuzz(fuzz_redis_message
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/allocator/stores/fuzz_redis_message.c
  LIBS wp_allocator
  CORPUS ${CMAKE_CURRENT_LIST_DIR}/corpus/redis_message)
