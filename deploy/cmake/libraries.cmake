# The libraries of Debian 12 the product stands on, each as one imported target,
# marked SYSTEM so that the house warnings judge our code only.
find_package(PkgConfig REQUIRED)

function(wp_import name module)
  pkg_check_modules(${name} REQUIRED IMPORTED_TARGET GLOBAL ${module})
  add_library(wp::${name} ALIAS PkgConfig::${name})
endfunction()

# wp_import_either(NAME MODULE ARCHIVE): the archive for targets with the property
# WP_STATIC, and the shared library for all others.
function(wp_import_either name module archive)
  pkg_check_modules(${name} REQUIRED IMPORTED_TARGET GLOBAL ${module})
  find_library(WP_${name}_ARCHIVE lib${archive}.a REQUIRED)
  add_library(wp_${name}_either INTERFACE)
  target_link_libraries(wp_${name}_either INTERFACE
    $<IF:$<BOOL:$<TARGET_PROPERTY:WP_STATIC>>,${WP_${name}_ARCHIVE},PkgConfig::${name}>)
  add_library(wp::${name} ALIAS wp_${name}_either)
endfunction()

wp_import_either(event libevent event_core)
wp_import(event_pthreads libevent_pthreads)
wp_import(event_openssl libevent_openssl)
wp_import(cares libcares)
wp_import(curl libcurl)
wp_import_either(jansson jansson jansson)
wp_import_either(nettle nettle nettle)
wp_import(yaml yaml-0.1)
wp_import(seccomp libseccomp)
wp_import_either(protobuf_c libprotobuf-c protobuf-c)
wp_import(crypto libcrypto)
wp_import(ssl libssl)
wp_import_either(nghttp2 libnghttp2 nghttp2)
wp_import(hiredis hiredis)
wp_import(sqlite sqlite3)
wp_import(zlib zlib)

# pkg-config for grpc names some eighty absl libraries; C code needs two.
find_library(WP_GRPC_LIB grpc REQUIRED)
find_library(WP_GPR_LIB gpr REQUIRED)
add_library(wp_grpc INTERFACE)
target_link_libraries(wp_grpc INTERFACE ${WP_GRPC_LIB} ${WP_GPR_LIB})
add_library(wp::grpc ALIAS wp_grpc)

find_program(WP_PROTOC_C protoc-c REQUIRED)
find_program(WP_PROTOC protoc REQUIRED)

# No pkg-config file in Debian.
find_library(WP_HTTP_PARSER_LIB http_parser REQUIRED)
add_library(wp_http_parser INTERFACE)
find_library(WP_HTTP_PARSER_ARCHIVE libhttp_parser.a REQUIRED)
target_link_libraries(wp_http_parser INTERFACE
  $<IF:$<BOOL:$<TARGET_PROPERTY:WP_STATIC>>,${WP_HTTP_PARSER_ARCHIVE},${WP_HTTP_PARSER_LIB}>)
add_library(wp::http_parser ALIAS wp_http_parser)
