# SPDX-License-Identifier: MIT
# cmake "-DFILES=a;b" -DHEADER=serve/web_files.h -DFUNCTION=embedded_web_files -DOUTPUT=web_files.cpp -P Embed.cmake:
# writes files as byte arrays behind the function that the header declares. The build runs it whenever one changes.
set(arrays "")
set(rows "")
set(index 0)
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} hex HEX)
  file(SHA256 ${file} hash)
  string(SUBSTRING ${hash} 0 16 hash)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(APPEND arrays "constexpr unsigned char kFile${index}[] = {${bytes}0};\n")
  string(APPEND rows "    {\"${name}\", {reinterpret_cast<const char*>(kFile${index}), sizeof kFile${index} - 1}, \"\\\"${hash}\\\"\"},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include \"${HEADER}\"\n
namespace cheetah {\nnamespace {\n
${arrays}
const EmbeddedFile kFiles[] = {\n${rows}};\n
}  // namespace\n
std::span<const EmbeddedFile> ${FUNCTION}() { return kFiles; }\n
}  // namespace cheetah\n")
