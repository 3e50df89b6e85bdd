# Test programs are linked by the hundred: by lld, where it is installed. What is
# shipped is linked by the system's own linker.
find_program(WP_LLD ld.lld)
if(WP_LLD AND NOT (CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT WP_SANITIZE))
  add_link_options(-fuse-ld=lld)
endif()
