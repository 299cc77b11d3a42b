// SPDX-License-Identifier: MIT
// OpenSSL is not built with the race detector, which therefore does not see its locks.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "race:libssl.so\nrace:libcrypto.so\n"; }
#endif
#endif
