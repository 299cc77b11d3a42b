// SPDX-License-Identifier: MIT
#pragma once
// One connection of the TCP mesh, from the first byte to the last. Lives on the mesh's thread.
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "cluster/net/session.h"
#include "cluster/net/tcp_mesh.h"

namespace cheetah::cluster {

class Link;

// What a link tells the mesh. on_closed comes exactly once, nothing after it.
class LinkOwner {
 public:
  virtual ~LinkOwner() = default;
  // To a peer that has said who it is; "": none.
  virtual std::string objection(const Link& link, WorkerId peer) = 0;
  virtual void on_established(Link& link) = 0;
  // It will never be established: one of the two does not want it. `news`: worth a log line.
  virtual void on_refused(Link& link, const std::string& why, bool news) = 0;
  virtual void on_message(Link& link, std::string&& message) = 0;
  virtual void on_pressure(Link& link, bool pressed) = 0;
  virtual void on_closed(Link& link, const std::string& why) = 0;
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using ErrorCode = boost::system::error_code;

  Link(Socket socket, SessionSetup setup, const TcpMeshConfig& config, LinkOwner& owner);

  void start();
  void send(std::string_view message);
  void close(const std::string& why);
  void finish();        // no more is sent; closes when everything was
  void tick(Time now);  // pings and time-outs

  bool dials() const { return dials_; }
  Time start_time() const { return start_; }
  bool refused() const { return refused_at_.has_value(); }
  const std::string& remote() const { return remote_; }  // address
  std::optional<WorkerId> peer() const { return session_.peer(); }
  const Digest& peer_key() const { return session_.peer_key(); }
  bool established() const { return announced_; }

 private:
  SessionSetup with_objection(SessionSetup setup);
  void read();
  void take(std::string_view bytes);
  void take_packets(std::vector<Packet>& packets);
  void enqueue(std::string bytes);
  void write();
  void on_written(size_t bytes);
  void refuse(const std::string& why, bool news, bool tell = true);
  void end(const std::string& why);  // the socket's end, or its error

  Socket socket_;
  Session session_;
  const TcpMeshConfig& config_;
  LinkOwner& owner_;
  bool dials_;
  bool closed_ = false;
  bool finishing_ = false;
  bool announced_ = false;  // the owner has been told that the link is open
  bool pressed_ = false;
  std::string remote_;
  std::optional<Time> refused_at_;
  Time start_, last_received_, last_progress_, last_ping_;
  std::array<char, 65536> buffer_;
  std::deque<std::string> queue_;  // whole frames; the first ones are being written
  size_t queue_bytes_ = 0;
  size_t num_writing_ = 0;
};

}  // namespace cheetah::cluster
