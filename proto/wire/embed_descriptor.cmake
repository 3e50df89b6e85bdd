# cmake -DIN=set.bin -DOUT=descriptor.c -P embed_descriptor.cmake
file(READ ${IN} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "((0x..,){12})" "    \\1\n" bytes "${bytes}")
file(WRITE ${OUT} "#include \"proto/wire/descriptor.h\"

const uint8_t wp_descriptor_set[] = {
${bytes}
};
const size_t wp_descriptor_set_len = sizeof wp_descriptor_set;
")
