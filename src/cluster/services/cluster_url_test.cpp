// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/error.h"
#include "base/text.h"
#include "cluster/services/services.h"

namespace cheetah::cluster {
namespace {

std::string refusal(std::string_view text) {
  try {
    parse_cluster_url(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

TEST(ClusterUrl, EveryFormIsRead) {
  EXPECT_EQ(parse_cluster_url("inproc:").kind, ClusterUrl::Kind::kInProcess);

  const ClusterUrl peers = parse_cluster_url("peers:/etc/cheetah/peers,nats://q1");
  EXPECT_EQ(peers.kind, ClusterUrl::Kind::kPeers);
  EXPECT_EQ(peers.peers_file, "/etc/cheetah/peers");
  EXPECT_EQ(peers.nats, (std::vector<ServiceHost>{{"q1", 4222}}));

  const ClusterUrl etcd =
      parse_cluster_url("etcd://e1,e2:2380,[::1]:7,nats://q1:4223,q2?cluster=prod&lease_s=5");
  EXPECT_EQ(etcd.kind, ClusterUrl::Kind::kEtcd);
  EXPECT_EQ(etcd.etcd, (std::vector<ServiceHost>{{"e1", 2379}, {"e2", 2380}, {"::1", 7}}));
  EXPECT_EQ(etcd.nats, (std::vector<ServiceHost>{{"q1", 4223}, {"q2", 4222}}));
  EXPECT_EQ(etcd.cluster, "prod");
  EXPECT_EQ(etcd.lease_s, 5);

  const ClusterUrl secured = parse_cluster_url(
      "etcd+tls://me@e1,nats+tls://q?ca=/c.pem&cert=/a.pem&key=/k.pem&password_file=/p&nats_creds=/n");
  EXPECT_TRUE(secured.etcd_login.tls && secured.nats_login.tls);
  EXPECT_EQ(secured.etcd_login.user, "me");
  EXPECT_EQ(secured.nats_login.ca_file, "/c.pem");
  EXPECT_EQ(secured.nats_login.credentials_file, "/n");
  const ClusterUrl users =
      parse_cluster_url("etcd://me@e1,nats://you@q?password_file=/p&nats_password_file=/n");
  EXPECT_EQ(users.etcd_login.user + users.etcd_login.password_file, "me/p");
  EXPECT_EQ(users.nats_login.user + users.nats_login.password_file, "you/n");
}

TEST(ClusterUrl, WhatCannotBeUsedIsRefusedWithAFormThatWorks) {
  for (const char* text : {"", "inproc", "inproc:x", "peers:", "http://e1", "e1:2379", "etcd://",
           "etcd://e1,", "etcd://e1:0", "etcd://e1:65536", "etcd://e1:x", "etcd://e 1", "etcd://[::1",
           "nats://q1", "peers:f,nats://q,etcd://e", "etcd://me:secret@e1", "etcd://me@e1",
           "nats://a@q,etcd://e", "etcd://e1?cluster=", "etcd://e1?cluster=a/b", "etcd://e1?lease_s=0",
           "etcd://e1?queue_replicas=2", "etcd://e1,nats://a@q?nats_creds=/c&nats_password_file=/p",
           "etcd://e1,nats://q?nats_password_file=/p", "etcd://e1?what=1", "etcd://e1?lease_s",
           "etcd://e1?ca=/c", "etcd+tls://e1?cert=/c"}) {
    const std::string why = refusal(text);
    EXPECT_TRUE(contains(why, "expected inproc:, peers:FILE or etcd://")) << text << " -> " << why;
  }
  EXPECT_TRUE(contains(refusal("etcd://me:secret@e1"), "password_file"));
  EXPECT_FALSE(contains(refusal("etcd://me:secret@e1"), "secret@"));
}

TEST(ClusterUrl, ItsTextIsReadAsTheSame) {
  for (const char* text : {"inproc:", "peers:/a/b", "peers:a,nats://q1,q2:9", "etcd://[::1]:5,h?lease_s=3",
           "etcd://h,nats+tls://u@q?nats_password_file=/p&ca=/c",
           "etcd+tls://u@h,nats://q?password_file=/p&ca=/c&cluster=x&visibility_s=7&queue_replicas=3"}) {
    const ClusterUrl url = parse_cluster_url(text);
    EXPECT_EQ(parse_cluster_url(to_string(url)), url) << to_string(url);
  }
}

TEST(ClusterUrl, AnyTextIsReadOrRefused) {
  EXPECT_TRUE(rc::check([](const std::vector<std::string>& words) {
    std::string text = "etcd://";
    for (const std::string& word : words) text += word + ",";
    refusal(text);
    refusal(text.substr(3));
  }));
}

}  // namespace
}  // namespace cheetah::cluster
