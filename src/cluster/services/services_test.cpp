// SPDX-License-Identifier: MIT
#include "cluster/services/services.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "base/run_tool.h"
#include "base/text.h"
#include "cluster/queue/queue_backends.h"
#include "cluster/registry/registry_backends.h"
#include "cluster/services/in_process_services.h"
#include "cluster/services/nats_services.h"
#include "cluster/services/service_fixture.h"

namespace cheetah::cluster {
namespace {

TEST(Services, InOneProcessTheNodesShareThem) {
  const auto shared = std::make_shared<InProcessServices>();
  const Services a = connect_services(parse_cluster_url("inproc:"), shared);
  const Services b = connect_services(parse_cluster_url("inproc:"), shared);
  a.registry->announce("k", "v");
  EXPECT_TRUE(eventually([&] { return b.registry->list("").size() == 1; }));
  EXPECT_TRUE(b.jobs->state().up && b.events->state().up);
}

TEST(Services, WithoutAQueueItIsDownAndSaysWhy) {
  const TempDir folder;
  const std::string file = folder.path("peers");
  std::ofstream(file) << "decode 127.0.0.1:7100\n";
  const Services services = connect_services(parse_cluster_url("peers:" + file));
  EXPECT_TRUE(eventually([&] { return services.registry->list("peers/").size() == 1; }));
  EXPECT_FALSE(services.jobs->state().up || services.events->state().up);
  EXPECT_TRUE(contains(services.jobs->state().why, "no nats://"));
  services.jobs->push({"id", "x", 0}, [](PushResult result) { EXPECT_EQ(result, PushResult::kUnavailable); });
  EXPECT_FALSE(services.events->publish("kv.a", "x"));
  services.jobs->wake();
  EXPECT_FALSE(services.jobs->pull(std::chrono::minutes(1)));
}

TEST(Services, OneUrlNamesEtcdAndNats) {
  using Kind = ServiceProcess::Kind;
  if (!nats_is_built_in() || !ServiceProcess::is_installed(Kind::kEtcd) ||
      !ServiceProcess::is_installed(Kind::kNats))
    GTEST_SKIP() << "etcd or nats-server is not installed here";
  const auto url = parse_cluster_url(format(
      "etcd://127.0.0.1:{},nats://127.0.0.1:{}?cluster=by-url", shared_etcd().port(), shared_nats().port()));
  const Services a = connect_services(url), b = connect_services(url);
  EXPECT_TRUE(
      eventually([&] { return a.registry->state().up && a.jobs->state().up && a.events->state().up; }));
  a.registry->announce("k", "v");
  EXPECT_TRUE(eventually([&] { return b.registry->list("").size() == 1; }));
}

// The certificates of a test: one that signs itself and stands for everybody.
struct Certificate {
  TempDir folder;
  std::string certificate = folder.path("cert.pem"), key = folder.path("key.pem");
  bool made =
      run_tool({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                   "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost",
                   "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"},
          {.time = std::chrono::seconds(60)})
          .exit_code == 0;
};

TEST(Services, TlsProvesBothSides) {
  using Kind = ServiceProcess::Kind;
  const Certificate ours, strange;
  if (!ours.made || !strange.made || !nats_is_built_in() || !ServiceProcess::is_installed(Kind::kEtcd) ||
      !ServiceProcess::is_installed(Kind::kNats))
    GTEST_SKIP() << "openssl, etcd or nats-server is not installed here";
  const ServiceProcess etcd(Kind::kEtcd, {ours.certificate, ours.key}),
      nats(Kind::kNats, {ours.certificate, ours.key});
  const auto url_with = [&](const Certificate& trusted, const Certificate& own) {
    return parse_cluster_url(format("etcd+tls://127.0.0.1:{},nats+tls://127.0.0.1:{}?ca={}&cert={}&key={}",
        etcd.port(), nats.port(), trusted.certificate, own.certificate, own.key));
  };
  const Services right = connect_services(url_with(ours, ours));
  const Services distrusting = connect_services(url_with(strange, ours));
  const Services unknown = connect_services(url_with(ours, strange));
  EXPECT_TRUE(eventually([&] { return right.registry->state().up && right.jobs->state().up; }))
      << right.registry->state().why << " " << right.jobs->state().why;
  for (const Services* refused : {&distrusting, &unknown}) {
    EXPECT_FALSE(refused->registry->state().up || refused->jobs->state().up);
    EXPECT_FALSE(refused->registry->state().why.empty());
  }
  EXPECT_THROW(connect_services(parse_cluster_url("etcd+tls://127.0.0.1?ca=/no/such/file")), Error);
}

TEST(Services, TheUrlsOfTheDeploymentsAreRead) {
  int found = 0;
  for (const char* path : {"deploy/kubernetes/kustomization.yaml", "deploy/systemd/router.toml",
           "deploy/systemd/prefill.toml", "deploy/systemd/decode.toml"}) {
    std::ifstream file(std::string(CHEETAH_SOURCE_DIR "/") + path);
    for (std::string line; std::getline(file, line);) {
      const size_t begin = line.find("etcd+tls://");
      if (begin == std::string::npos) continue;
      const ClusterUrl url = parse_cluster_url(line.substr(begin, line.find_first_of("\" ", begin) - begin));
      EXPECT_EQ(url.etcd.size(), 3u);
      EXPECT_EQ(url.nats.size(), 3u);
      EXPECT_TRUE(url.nats_login.tls && !url.nats_login.user.empty() && !url.etcd_login.user.empty());
      ++found;
    }
  }
  EXPECT_EQ(found, 4);
}

}  // namespace
}  // namespace cheetah::cluster
