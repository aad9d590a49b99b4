#include "openclaw/comm/heartbeat.h"

#include <utility>  // Boost 1.74's Asio needs it first

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio.hpp>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <sstream>
#include <thread>

#include "openclaw/comm/deadline.h"
#include "openclaw/core/logging.h"

namespace oc {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using ErrorCode = boost::system::error_code;

constexpr uint64_t kMagic = 0x6f63'6265'6174'3031;
constexpr int kFullMesh = 8;
constexpr double kGoodbyeSeconds = 0.5;

// The first message on a connection, both ways: connections of strangers are dropped.
struct Hello {
  uint64_t magic = kMagic;
  uint64_t token = 0;  // of the process that listens
  int64_t rank = 0;
};

enum class Kind : uint8_t { kBeat = 1, kGoodbye = 2, kDeath = 3, kLeave = 4 };

struct Header {
  Kind kind = Kind::kBeat;
  uint8_t zero = 0;
  uint16_t length = 0;  // of the text that follows
  int32_t rank = 0;     // whom kDeath is about
};
static_assert(sizeof(Header) == 8);

std::string Frame(Kind kind, int rank, const std::string& text) {
  const std::string cut = text.substr(0, 2000);
  const Header header{kind, 0, static_cast<uint16_t>(cut.size()), rank};
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + cut;
}

// Children of this process must not hold connections open after its death.
template <typename Socket>
void CloseOnExec(Socket& socket) {
  fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
}

std::vector<std::string> OwnAddresses() {
  std::vector<std::string> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    if ((i->ifa_flags & IFF_LOOPBACK) != 0 || (i->ifa_flags & IFF_UP) == 0) continue;
    char text[INET_ADDRSTRLEN];
    const auto* address = reinterpret_cast<const sockaddr_in*>(i->ifa_addr);
    if (inet_ntop(AF_INET, &address->sin_addr, text, sizeof(text)) != nullptr)
      found.push_back(text);
  }
  freeifaddrs(list);
  return found;
}

// Where a process listens, as text for the exchange: "port token pid host address...".
struct Place {
  int port = 0;
  uint64_t token = 0;
  int64_t pid = 0;
  std::string host;
  std::vector<std::string> addresses;

  std::string ToText() const {
    std::string text = absl::StrCat(port, " ", token, " ", pid, " ", host);
    for (const std::string& a : addresses) absl::StrAppend(&text, " ", a);
    return text;
  }
  static StatusOr<Place> Parse(const std::string& text) {
    Place p;
    std::istringstream in(text);
    if (!(in >> p.port >> p.token >> p.pid >> p.host)) {
      return DataLoss("heartbeat: bad address '", text, "'");
    }
    for (std::string a; in >> a;) p.addresses.push_back(a);
    return p;
  }
};

struct Peer {
  Peer(asio::io_context& io, int r) : rank(r), socket(io) {}

  enum State { kConnecting, kUp, kLeft, kFailed };
  const int rank;
  State state = kConnecting;
  tcp::socket socket;
  Hello hello;
  size_t next_address = 0;
  Clock::time_point heard;
  Header header;
  std::string text;             // of the frame being read
  std::string writing, queued;  // frames under way, frames after them
};

// Thread safety: everything but `mutex_`'s own members is touched by the io thread alone once it
// runs.
class HeartbeatImpl : public Heartbeat {
 public:
  HeartbeatImpl(const Job& job, const HeartbeatOptions& options, OnFailure on_failure)
      : rank_(job.rank()),
        world_size_(job.world_size()),
        all_local_(job.local_size() == job.world_size()),
        options_(options),
        on_failure_(std::move(on_failure)),
        acceptor_(io_),
        timer_(io_),
        goodbye_timer_(io_) {
    mine_.host = job.host();
  }
  ~HeartbeatImpl() override { Stop(); }

  Status Listen();
  Status Connect(Job& job);
  void Stop() override { End(Kind::kGoodbye, ""); }
  void Leave(const Status& reason) override { End(Kind::kLeave, reason.ToString()); }
  std::vector<int> failed() const override {
    std::lock_guard lock(mutex_);
    return failed_;
  }

 private:
  void Run();
  void End(Kind kind, const std::string& text);
  void Accept();
  void Dial(Peer& peer);
  void Greet(Peer& peer);
  void Up(Peer& peer);
  void ReadHeader(Peer& peer);
  void Handle(Peer& peer);
  void Queue(Peer& peer, const std::string& frame);
  void Write(Peer& peer);
  void Tick();
  void Lost(Peer& peer, const ErrorCode& error);
  void Declare(int rank, const std::string& what);
  void FinishIfAlone();
  Peer* Find(int rank) {
    for (auto& p : peers_) {
      if (p->rank == rank) return p.get();
    }
    return nullptr;
  }
  std::string NameOf(int rank) const {
    return absl::StrCat("rank ", rank, " (host ", places_[rank].host, ", process ",
                        places_[rank].pid, ")");
  }

  const int rank_, world_size_;
  const bool all_local_;
  const HeartbeatOptions options_;
  const OnFailure on_failure_;
  Place mine_;
  std::vector<Place> places_;

  asio::io_context io_;
  tcp::acceptor acceptor_;
  asio::steady_timer timer_, goodbye_timer_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<bool> known_failed_;
  bool ending_ = false;
  Clock::time_point last_tick_;
  std::thread thread_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> connecting_;  // ranks
  std::vector<int> failed_;
  std::mutex end_mutex_;  // one End at a time
};

Status HeartbeatImpl::Listen() {
  ErrorCode error;
  const tcp::endpoint where(
      all_local_ ? asio::ip::address_v4::loopback() : asio::ip::address_v4::any(), 0);
  acceptor_.open(where.protocol(), error);
  if (!error) CloseOnExec(acceptor_);
  if (!error) acceptor_.bind(where, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (!error) mine_.port = acceptor_.local_endpoint(error).port();
  if (error) {
    return FailedPrecondition("heartbeat of rank ", rank_, ": listen on TCP: ", error.message());
  }
  std::random_device random;
  mine_.token = static_cast<uint64_t>(random()) << 32 | random();
  mine_.pid = getpid();
  mine_.addresses = options_.address.empty() ? OwnAddresses() : std::vector{options_.address};
  return OkStatus();
}

Status HeartbeatImpl::Connect(Job& job) {
  OC_ASSIGN_OR_RETURN(
      const std::vector<std::string> texts,
      job.AllGather(mine_.ToText(), "heartbeat addresses", options_.connect_seconds));
  for (const std::string& text : texts) {
    OC_ASSIGN_OR_RETURN(Place place, Place::Parse(text));
    // The network between processes of one host is the loopback.
    if (place.host == mine_.host) place.addresses.insert(place.addresses.begin(), "127.0.0.1");
    places_.push_back(std::move(place));
  }
  known_failed_.resize(world_size_);
  connecting_ = Neighbours(rank_, world_size_);
  for (const int r : connecting_) peers_.push_back(std::make_unique<Peer>(io_, r));
  thread_ = std::thread([this] { Run(); });

  std::unique_lock lock(mutex_);
  // Where a rank fails meanwhile, on_failure has told.
  if (changed_.wait_until(lock, DeadlineAfter(options_.connect_seconds),
                          [this] { return connecting_.empty() || !failed_.empty(); })) {
    return OkStatus();
  }
  std::string missing;
  for (const int r : connecting_) absl::StrAppend(&missing, missing.empty() ? "" : ", ", NameOf(r));
  return absl::DeadlineExceededError(
      absl::StrCat("heartbeat of rank ", rank_, ": no connection with ", missing, " within ",
                   options_.connect_seconds, " seconds: is TCP between the hosts open?"));
}

void HeartbeatImpl::Run() {
  // The process's signals belong to its other threads.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), "oc-heartbeat");
  const auto guard = asio::make_work_guard(io_);
  Accept();
  for (auto& p : peers_) {
    if (p->rank < rank_) Dial(*p);  // of a pair, the higher rank calls
  }
  last_tick_ = Clock::now();
  Tick();
  try {
    io_.run();
  } catch (const std::exception& e) {
    OC_LOG_ERROR("heartbeat of rank ", rank_, " ended: ", e.what());
  }
}

void HeartbeatImpl::Accept() {
  auto socket = std::make_shared<tcp::socket>(io_);
  acceptor_.async_accept(*socket, [this, socket](const ErrorCode& error) {
    if (error == asio::error::operation_aborted || ending_) return;
    if (error) {  // such as too many open files: not in a tight loop
      OC_LOG_WARNING("heartbeat of rank ", rank_, ": accept: ", error.message());
      auto wait = std::make_shared<asio::steady_timer>(io_, std::chrono::milliseconds(200));
      return wait->async_wait([this, wait](const ErrorCode&) {
        if (!ending_) Accept();
      });
    }
    CloseOnExec(*socket);
    auto hello = std::make_shared<Hello>();
    asio::async_read(
        *socket, asio::buffer(hello.get(), sizeof(Hello)),
        [this, socket, hello](const ErrorCode& read_error, size_t) {
          if (read_error || ending_ || hello->magic != kMagic || hello->token != mine_.token) {
            return;  // a stranger: the socket closes with the last reference
          }
          Peer* peer = Find(static_cast<int>(hello->rank));
          if (peer == nullptr || peer->state != Peer::kConnecting) return;
          peer->socket = std::move(*socket);
          peer->hello = {kMagic, mine_.token, rank_};
          peer->writing.assign(reinterpret_cast<const char*>(&peer->hello), sizeof(Hello));
          Up(*peer);
          Write(*peer);
        });
    Accept();
  });
}

void HeartbeatImpl::Dial(Peer& peer) {
  const Place& place = places_[peer.rank];
  ErrorCode error;
  const size_t at = peer.next_address++ % std::max<size_t>(place.addresses.size(), 1);
  const auto address =
      asio::ip::make_address(place.addresses.empty() ? "127.0.0.1" : place.addresses[at], error);
  peer.socket = tcp::socket(io_);
  peer.socket.open(tcp::v4(), error);
  if (!error) CloseOnExec(peer.socket);
  peer.socket.async_connect(tcp::endpoint(address, place.port), [this, &peer](const ErrorCode& e) {
    if (ending_ || peer.state != Peer::kConnecting) return;
    if (!e) return Greet(peer);
    auto wait = std::make_shared<asio::steady_timer>(io_, std::chrono::milliseconds(50));
    wait->async_wait([this, &peer, wait](const ErrorCode&) {
      if (!ending_ && peer.state == Peer::kConnecting) Dial(peer);
    });
  });
}

void HeartbeatImpl::Greet(Peer& peer) {
  peer.hello = {kMagic, places_[peer.rank].token, rank_};
  asio::async_write(peer.socket, asio::buffer(&peer.hello, sizeof(Hello)),
                    [this, &peer](const ErrorCode& e, size_t) {
                      if (ending_ || peer.state != Peer::kConnecting) return;
                      if (e) return Dial(peer);
                      asio::async_read(peer.socket, asio::buffer(&peer.hello, sizeof(Hello)),
                                       [this, &peer](const ErrorCode& read_error, size_t) {
                                         if (ending_ || peer.state != Peer::kConnecting) return;
                                         if (read_error || peer.hello.magic != kMagic ||
                                             peer.hello.rank != peer.rank) {
                                           return Dial(peer);
                                         }
                                         Up(peer);
                                       });
                    });
}

void HeartbeatImpl::Up(Peer& peer) {
  ErrorCode ignored;
  peer.socket.set_option(tcp::no_delay(true), ignored);
  peer.state = Peer::kUp;
  peer.heard = Clock::now();
  ReadHeader(peer);
  std::lock_guard lock(mutex_);
  std::erase(connecting_, peer.rank);
  changed_.notify_all();
}

void HeartbeatImpl::ReadHeader(Peer& peer) {
  asio::async_read(peer.socket, asio::buffer(&peer.header, sizeof(Header)),
                   [this, &peer](const ErrorCode& e, size_t) {
                     if (e) return Lost(peer, e);
                     peer.heard = Clock::now();
                     peer.text.resize(peer.header.length);
                     asio::async_read(peer.socket, asio::buffer(peer.text),
                                      [this, &peer](const ErrorCode& text_error, size_t) {
                                        if (text_error) return Lost(peer, text_error);
                                        Handle(peer);
                                      });
                   });
}

void HeartbeatImpl::Handle(Peer& peer) {
  if (peer.state != Peer::kUp) return;  // what a failed one says of others counts no more
  switch (peer.header.kind) {
    case Kind::kBeat:
      break;
    case Kind::kGoodbye: {
      peer.state = Peer::kLeft;
      ErrorCode ignored;
      peer.socket.close(ignored);
      return FinishIfAlone();
    }
    case Kind::kLeave:
      return Declare(peer.rank, absl::StrCat("gave up: ", peer.text));
    case Kind::kDeath:
      if (peer.header.rank >= 0 && peer.header.rank < world_size_) {
        Declare(peer.header.rank, absl::StrCat(peer.text, " (told by rank ", peer.rank, ")"));
      }
      break;
    default:
      return Declare(peer.rank, "sent a heartbeat message of no known kind");
  }
  if (peer.state == Peer::kUp) ReadHeader(peer);
}

void HeartbeatImpl::Queue(Peer& peer, const std::string& frame) {
  peer.queued += frame;
  if (peer.writing.empty()) {
    peer.writing.swap(peer.queued);
    Write(peer);
  }
}

void HeartbeatImpl::Write(Peer& peer) {
  asio::async_write(peer.socket, asio::buffer(peer.writing),
                    [this, &peer](const ErrorCode& e, size_t) {
                      peer.writing.clear();
                      if (e) return;  // the pending read tells
                      if (!peer.queued.empty()) {
                        peer.writing.swap(peer.queued);
                        Write(peer);
                      }
                    });
}

void HeartbeatImpl::Tick() {
  if (ending_) return;
  const auto now = Clock::now();
  const double gap = std::chrono::duration<double>(now - last_tick_).count();
  // Where this process was stopped itself, the silence was its own.
  const bool stalled = gap > options_.period_seconds + options_.timeout_seconds / 2;
  last_tick_ = now;
  for (auto& p : peers_) {
    if (p->state != Peer::kUp) continue;
    if (stalled) p->heard = now;
    const double silent = std::chrono::duration<double>(now - p->heard).count();
    if (silent > options_.timeout_seconds) {
      Declare(p->rank,
              absl::StrCat("gave no sign of life for ", static_cast<int>(silent * 10) / 10.0,
                           " seconds: it is stopped, hangs, or the network is cut"));
    } else if (p->writing.empty()) {
      Queue(*p, Frame(Kind::kBeat, rank_, ""));
    }
  }
  timer_.expires_after(
      std::chrono::nanoseconds(static_cast<int64_t>(options_.period_seconds * 1e9)));
  timer_.async_wait([this](const ErrorCode& e) {
    if (!e) Tick();
  });
}

void HeartbeatImpl::Lost(Peer& peer, const ErrorCode& error) {
  if (peer.state != Peer::kUp) return;
  if (ending_) {
    peer.state = Peer::kLeft;
    return FinishIfAlone();
  }
  Declare(peer.rank,
          absl::StrCat("died: its connection closed without goodbye (", error.message(), ")"));
}

void HeartbeatImpl::Declare(int rank, const std::string& what) {
  Peer* peer = Find(rank);
  // Once declared dead by the others, this process sees them close; that is no death of theirs.
  if (known_failed_[rank_]) return;
  if (ending_ || known_failed_[rank] || (peer != nullptr && peer->state == Peer::kLeft)) return;
  known_failed_[rank] = true;
  // The rank itself hears it too, in case that it lives.
  for (auto& p : peers_) {
    if (p->state == Peer::kUp) Queue(*p, Frame(Kind::kDeath, rank, what));
  }
  if (peer != nullptr) {
    peer->state = Peer::kFailed;
    ErrorCode ignored;
    peer->socket.shutdown(tcp::socket::shutdown_send, ignored);
  }
  {
    std::lock_guard lock(mutex_);
    std::erase(connecting_, rank);
    failed_.push_back(rank);
    changed_.notify_all();
  }
  const std::string name =
      rank == rank_ ? absl::StrCat("this process, rank ", rank, ", was declared dead: it")
                    : NameOf(rank);
  on_failure_(rank, absl::AbortedError(absl::StrCat(name, " ", what)));
}

void HeartbeatImpl::FinishIfAlone() {
  if (!ending_) return;
  for (auto& p : peers_) {
    if (p->state == Peer::kUp) return;
  }
  io_.stop();
}

void HeartbeatImpl::End(Kind kind, const std::string& text) {
  std::lock_guard end_lock(end_mutex_);
  if (!thread_.joinable()) return;
  asio::post(io_, [this, kind, text] {
    ending_ = true;
    ErrorCode ignored;
    acceptor_.close(ignored);
    timer_.cancel(ignored);
    for (auto& p : peers_) {
      if (p->state == Peer::kUp) Queue(*p, Frame(kind, rank_, text));
    }
    // A peer closes its end when it has read the goodbye; closing first could reset the connection
    // before it did.
    goodbye_timer_.expires_after(
        std::chrono::milliseconds(static_cast<int>(kGoodbyeSeconds * 1000)));
    goodbye_timer_.async_wait([this](const ErrorCode&) { io_.stop(); });
    FinishIfAlone();
  });
  thread_.join();
}

}  // namespace

std::vector<int> Heartbeat::Neighbours(int rank, int world_size) {
  std::vector<int> found;
  for (int other = 0; other < world_size; ++other) {
    const int distance = std::abs(other - rank);
    const int around = std::min(distance, world_size - distance);
    const bool power = around > 0 && (around & (around - 1)) == 0;
    if (other != rank && (world_size <= kFullMesh || power)) found.push_back(other);
  }
  return found;
}

StatusOr<std::unique_ptr<Heartbeat>> Heartbeat::Start(Job& job, const HeartbeatOptions& options,
                                                      OnFailure on_failure) {
  if (options.period_seconds <= 0 || options.timeout_seconds < 2 * options.period_seconds) {
    return InvalidArgument("heartbeat: a timeout of ", options.timeout_seconds,
                           " seconds for beats each ", options.period_seconds,
                           ": it must be two periods or more");
  }
  auto heartbeat = std::make_unique<HeartbeatImpl>(job, options, std::move(on_failure));
  OC_RETURN_IF_ERROR(heartbeat->Listen());
  OC_RETURN_IF_ERROR(heartbeat->Connect(job));
  return heartbeat;
}

}  // namespace oc
