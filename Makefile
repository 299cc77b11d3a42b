# SPDX-License-Identifier: MIT
# A thin cover over the CMake presets. The two commands to know: make run, make test.
.PHONY: help run test build build-all package install setup setup-test debug asan tsan portable fuzz format \
        format-check tidy clean
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local

help:
	@echo 'make run           build the program and serve the embedded model at http://127.0.0.1:8000'
	@echo 'make build         build build/cheetah with what running needs: no tests, no browser'
	@echo 'make test          build everything and run every test'
	@echo 'make install       build and install under PREFIX (/usr/local)'
	@echo 'make package       build a .deb in build/'
	@echo 'make portable      build a program for other distributions'
	@echo 'make debug|asan|tsan   build a debug or sanitized tree'
	@echo 'make fuzz          fuzz every parser of untrusted bytes'
	@echo 'make format|format-check|tidy   format the sources, check the format, lint changed sources'
	@echo 'make clean         remove every build'
	@echo
	@echo 'JOBS=n limits parallel jobs; CMAKE_ARGS=... goes to the configuration, e.g. CMAKE_ARGS=-DCHEETAH_CUDA=OFF'

run: build
	@./build/cheetah serve

test: build-all
	@ctest --preset release --output-on-failure -j $(JOBS)

build: setup
	@$(call configure,release)
	@cmake --build --preset release -j $(JOBS) --target cheetah

build-all: setup-test
	@$(call configure,release)
	@cmake --build --preset release -j $(JOBS)

package: build
	@cd build && cpack -G DEB

install: build
	@cmake --install build --prefix $(PREFIX) --strip

setup:
	@scripts/setup.sh run

setup-test:
	@scripts/setup.sh test

# A binary for other distributions: only libhwy.so.1, which lies beside it, and glibc 2.36 or later are needed.
portable: setup
	@cmake --preset portable
	@cmake --build --preset portable -j $(JOBS) --target cheetah

debug asan tsan: setup-test
	@cmake --preset $@
	@cmake --build --preset $@ -j $(JOBS)

fuzz: setup-test
	@scripts/fuzz.sh

format:
	@git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i

format-check:
	@git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format --dry-run -Werror

tidy: setup-test
	@scripts/tidy.sh

clean:
	rm -rf build build-*

# The configuration in full when it fails, else what it says about CUDA and tests.
define configure
mkdir -p build && { cmake --preset $(1) $(CMAKE_ARGS) >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }; } \
  && { grep -E '^-- (CUDA|Tests):' build/configure.log || true; }
endef
