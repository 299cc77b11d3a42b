# SPDX-License-Identifier: MIT
# Language level, warnings, sanitizers, ccache: everything that holds for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

# Paths relative to the checkout: objects of one checkout serve every other one. The sloppiness is what precompiled
# headers need; the inode cache spares hashing them again for every object.
find_program(CHEETAH_CCACHE ccache)
if(CHEETAH_CCACHE)
  set(CHEETAH_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_INODECACHE=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CHEETAH_LAUNCHER} ${CHEETAH_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CHEETAH_LAUNCHER} ${CHEETAH_CCACHE})
endif()

set(CMAKE_CUDA_RUNTIME_LIBRARY Static)  # a machine without CUDA can start the binary and use its CPU
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:SHELL:--expt-relaxed-constexpr -lineinfo -Xcompiler=-Wall,-Wextra>")
if(CHEETAH_WERROR)
  add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror=all-warnings -Xcompiler=-Werror>")
endif()

add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra> $<$<COMPILE_LANGUAGE:CXX>:-Wshadow>)
if(CHEETAH_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
# GCC 12 and 13 see overflows in inlined strings and vectors that are not there (GCC bugs 105329, 105651, 107852), in
# other places with every change; the sanitized tests look for real ones.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  foreach(warning array-bounds restrict stringop-overflow stringop-overread)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-${warning}>)
  endforeach()
endif()
# Results must not depend on what the compiler chooses to fuse: the batch-invariance tests compare bits.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)

if(CHEETAH_SANITIZE)
  add_compile_options(-fsanitize=${CHEETAH_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${CHEETAH_SANITIZE})
  add_compile_definitions(CHEETAH_SANITIZED=1)
  if(CHEETAH_SANITIZE MATCHES undefined)
    # A third of the build for what the address sanitizer or the processor reports anyway.
    add_compile_options(-fno-sanitize=null,vptr,object-size)
  endif()
endif()
if(CHEETAH_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(CHEETAH_PORTABLE)
  add_link_options(-static-libstdc++ -static-libgcc)
  # Debian ships Highway's run-time part only as a shared library: it travels beside the binary.
  set(CMAKE_BUILD_RPATH "$ORIGIN")
endif()
