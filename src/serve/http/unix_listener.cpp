// SPDX-License-Identifier: MIT
#include "serve/http/unix_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    throw Error(format("--uds {}: a socket's path has 1 to {} bytes, this one {}", printable(path, 300),
        sizeof(address.sun_path) - 1, path.size()));
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

UniqueFd new_socket(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) throw Error(format("--uds {}: {}", printable(path), std::strerror(errno)));
  return fd;
}

// A server that was killed leaves its socket's file behind.
void remove_stale(const std::string& path, const sockaddr_un& address) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return;
  if (!S_ISSOCK(status.st_mode))
    throw Error(
        format("--uds {}: is there and is not a socket; choose another path or remove it", printable(path)));
  const UniqueFd probe = new_socket(path);
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
      errno != ECONNREFUSED)
    throw Error(
        format("--uds {}: another server listens there; stop it or choose another path", printable(path)));
  unlink(path.c_str());
}

}  // namespace

UnixListener::UnixListener(const std::string& path, mode_t mode) : path_(path) {
  const sockaddr_un address = address_of(path);
  remove_stale(path, address);
  socket_ = new_socket(path);
  fchmod(socket_.get(), mode);  // the file gets no more than this from the start, whatever the umask
  if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    throw Error(format("--uds {}: {}", printable(path), std::strerror(errno)));
  struct stat status {};
  if (chmod(path.c_str(), mode) != 0 || lstat(path.c_str(), &status) != 0 ||
      listen(socket_.get(), SOMAXCONN) != 0) {
    const int why = errno;
    unlink(path.c_str());
    throw Error(format("--uds {}: {}", printable(path), std::strerror(why)));
  }
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

UnixListener::~UnixListener() {
  struct stat status {};
  if (lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_)
    unlink(path_.c_str());
}

}  // namespace cheetah
