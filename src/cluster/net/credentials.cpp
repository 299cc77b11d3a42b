// What a person names on the command line, as credentials.
#include <sys/stat.h>

#include <fstream>

#include "base/error.h"
#include "base/format.h"
#include "cluster/net/identity.h"

namespace cheetah::cluster {
namespace {

bool every_user_reads(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && (info.st_mode & (S_IROTH | S_IWOTH)) != 0;
}

}  // namespace

std::string read_secret_file(const std::string& path) {
  struct stat info = {};
  std::ifstream file(path, std::ios::binary);
  std::string secret;
  if (!file || stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || !std::getline(file, secret))
    throw Error(format("{}: cannot be read as a file with a secret", printable(path, 256)));
  if (every_user_reads(path))
    throw Error(
        format("{}: every user of this machine can read the secret: chmod 600 it", printable(path, 256)));
  if (!secret.empty() && secret.back() == '\r') secret.pop_back();
  if (secret.size() < 16)
    throw Error(format("{}: a secret of {} bytes: expected at least 16, e.g. from openssl rand -hex 32",
                       printable(path, 256), secret.size()));
  return secret;
}

Credentials read_credentials(const CredentialFiles& files) {
  Credentials credentials;
  const bool all = !files.certificate.empty() && !files.key.empty() && !files.authorities.empty();
  const bool any = !files.certificate.empty() || !files.key.empty() || !files.authorities.empty();
  if (any && !all)
    throw UsageError("--cluster-cert, --cluster-key and --cluster-ca: expected all three, or none");
  if (any && !files.secret.empty())
    throw UsageError("--secret-file and --cluster-cert: a cluster knows its nodes by one of them, not both");
  if (!files.secret.empty()) credentials.secret = read_secret_file(files.secret);
  if (!any) return credentials;
  if (every_user_reads(files.key))
    throw Error(
        format("{}: every user of this machine can read the key: chmod 600 it", printable(files.key, 256)));
  credentials.identity = std::make_shared<Identity>(
      IdentityFiles{.certificate = files.certificate, .key = files.key, .authorities = files.authorities});
  return credentials;
}

}  // namespace cheetah::cluster
