// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace cheetah {

// A read-only view of a dense row-major tensor; the bytes belong to a file mapping or a Buffer.
struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  const std::byte* data = nullptr;

  int64_t rows() const { return shape.back() == 0 ? 0 : shape.elements() / shape.back(); }
  int64_t cols() const { return shape.back(); }
  int64_t bytes() const { return rows() * row_bytes(dtype, cols()); }
  const std::byte* row(int64_t index) const { return data + index * row_bytes(dtype, cols()); }
};

// Owned bytes, zeroed, 64-byte aligned; large ones ask for huge pages, which read about a third faster when
// streamed.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t bytes);
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }
  int64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace cheetah
