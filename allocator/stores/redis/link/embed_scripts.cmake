# cmake -DDIR=scripts -DOUT=scripts.c "-DNAMES=offer;grant;..."
#       -P embed_scripts.cmake
set(names ${NAMES})
set(bodies)
set(table)
foreach(name IN LISTS names)
  set(whole ${OUT}.${name}.lua)
  file(REMOVE ${whole})
  foreach(part common ${name})
    file(READ ${DIR}/${part}.lua text)
    file(APPEND ${whole} "${text}")
  endforeach()
  file(SHA1 ${whole} sha)
  file(READ ${whole} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "((0x..,){12})" "    \\1\n" bytes "${bytes}")
  string(APPEND bodies "static const char ${name}[] = {\n${bytes}\n};\n")
  string(APPEND table "    {{${name}, sizeof ${name}}, {\"${sha}\", 40}},\n")
endforeach()
file(WRITE ${OUT} "#include \"allocator/stores/redis/link/scripts.h\"

${bodies}
const struct wp_redis_script wp_redis_scripts[WP_SCRIPT_COUNT] = {
${table}};
")
