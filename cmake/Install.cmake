# SPDX-License-Identifier: MIT
# cmake --install and CPack: the program, completions and manual pages that it writes itself, the models, the examples of
# deploy/ and the licence. The page is inside the program.
include(GNUInstallDirs)

install(TARGETS cheetah RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY models/cub-7m DESTINATION ${CMAKE_INSTALL_DATADIR}/cheetah/models)
install(DIRECTORY deploy/ DESTINATION ${CMAKE_INSTALL_DATADIR}/cheetah/deploy PATTERN debian EXCLUDE)
install(FILES deploy/systemd/cheetah@.service deploy/systemd/cheetah.target DESTINATION lib/systemd/system)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(FILES README.md CHANGELOG.md NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

# Written by the program that was just built.
set(generated ${CMAKE_BINARY_DIR}/generated)
install(CODE "
  file(MAKE_DIRECTORY ${generated}/man)
  foreach(shell bash zsh fish)
    execute_process(COMMAND $<TARGET_FILE:cheetah> completion \${shell}
      OUTPUT_FILE ${generated}/cheetah.\${shell} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  execute_process(COMMAND $<TARGET_FILE:cheetah> man --dir ${generated}/man COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB pages ${generated}/man/*.1)
  foreach(page \${pages})
    execute_process(COMMAND gzip -9nf \${page} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
")
install(FILES ${generated}/cheetah.bash RENAME cheetah DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${generated}/cheetah.zsh RENAME _cheetah DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${generated}/cheetah.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(DIRECTORY ${generated}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cheetah)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The Cheetah authors <cheetah@example.com>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "serve, measure and examine large language models")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "One program that serves models over the OpenAI and Anthropic APIs on CPUs and
NVIDIA GPUs, in one process or a cluster, benchmarks servers and engines, and
examines the machine they run on. A small model is included.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/deploy/debian/postinst ${CMAKE_SOURCE_DIR}/deploy/debian/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # tests are not part of the package: `all` need not be built
include(CPack)
