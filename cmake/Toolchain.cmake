# Language level, warnings, sanitizers, ccache: everything that holds for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

find_program(CHEETAH_CCACHE ccache)
if(CHEETAH_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CHEETAH_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CHEETAH_CCACHE})
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
