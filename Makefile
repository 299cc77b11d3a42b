# A thin cover over the CMake presets. The two commands to know: make run, make test.
.PHONY: run test build setup debug asan tsan portable fuzz format format-check clean
JOBS ?= $(shell nproc)

run: build
	@./build/cheetah serve

test: build
	@ctest --preset release --output-on-failure -j $(JOBS)

build: setup
	@cmake --preset release $(CMAKE_ARGS) >build-configure.log || { cat build-configure.log; exit 1; }
	@rm -f build-configure.log
	@cmake --build --preset release -j $(JOBS)

setup:
	@scripts/setup.sh

# A binary for other distributions: only libhwy.so.1, which lies beside it, and glibc 2.36 or later are needed.
portable: setup
	@cmake --preset portable
	@cmake --build --preset portable -j $(JOBS) --target cheetah

debug asan tsan: setup
	@cmake --preset $@
	@cmake --build --preset $@ -j $(JOBS)

fuzz: setup
	@scripts/fuzz.sh

format:
	@git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i

format-check:
	@git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format --dry-run -Werror

clean:
	rm -rf build build-*
