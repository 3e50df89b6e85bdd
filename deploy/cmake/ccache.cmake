# Objects that were compiled before come from ccache, where it is installed.
find_program(WP_CCACHE ccache)
foreach(language C CXX)
  # A compiler that is a link to ccache needs no other.
  file(REAL_PATH ${CMAKE_${language}_COMPILER} compiler)
  if(WP_CCACHE AND NOT compiler MATCHES "/ccache$"
     AND NOT CMAKE_${language}_COMPILER_LAUNCHER)
    set(CMAKE_${language}_COMPILER_LAUNCHER ${WP_CCACHE})
  endif()
endforeach()
