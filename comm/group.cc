#include "openclaw/comm/group.h"

#include <algorithm>
#include <cstring>

#include "openclaw/comm/deadline.h"
#include "openclaw/comm/tag.h"

namespace oc {
namespace {

constexpr uint64_t kMagic = 0x6f63'6167'7265'6531;  // what is no agreement is data of another call

// What a member says about the collective that it begins; same machine order on all members.
struct Agreement {
  uint64_t magic = kMagic;
  char operation[32] = {};
  int64_t bytes = 0;
  int64_t dtype = 0;
  int64_t detail = 0;
  int64_t call = 0;
  int64_t state = kPresent;

  enum { kMissing = 0, kPresent = 1, kElsewhere = 2 };
};

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

uint64_t HashOf(const char* operation, int64_t bytes, DType dtype, int64_t detail) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char* c = operation; *c != 0; ++c)
    hash = (hash ^ static_cast<uint8_t>(*c)) * 0x100000001b3u;
  return Mix(Mix(Mix(hash, bytes), static_cast<uint64_t>(dtype)), detail);
}

std::string Describe(const Agreement& a) {
  return absl::StrCat(a.operation, " of ", a.bytes, " bytes ", Name(static_cast<DType>(a.dtype)),
                      ", detail ", a.detail, ", as call ", a.call);
}

bool Same(const Agreement& a, const Agreement& b) {
  return std::strncmp(a.operation, b.operation, sizeof(a.operation)) == 0 && a.bytes == b.bytes &&
         a.dtype == b.dtype && a.detail == b.detail && a.call == b.call;
}

template <typename T>
std::span<std::byte> BytesOf(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

// Member 0 hears all, then tells all what it heard: so every member names the same missing one. The
// messages bear the tag of the data: where a member is in another collective already, the sizes
// differ, or the magic number, and both learn it at once.
int64_t AgreementTag(const Group& group) {
  return GroupTag(group.options().epoch, group.options().id, 0);
}

// Member 0's part. On success (*all)[i].state tells of each.
Status HearAndTell(Group& group, std::vector<Agreement>* all) {
  Transport& transport = group.transport();
  const int64_t tag = AgreementTag(group);
  const auto deadline = DeadlineAfter(group.options().timeout_seconds);
  for (int i = 1; i < group.size(); ++i) {
    Agreement& theirs = (*all)[i];
    // Who came in time is heard, though another took all the time.
    const Status s = transport.Recv(group.member(i), tag, BytesOf(theirs),
                                    std::max(SecondsUntil(deadline), 0.05));
    OC_RETURN_IF_ERROR(transport.status());  // aborted: not about this member
    if (absl::IsDeadlineExceeded(s)) {
      theirs = {.state = Agreement::kMissing};
    } else if (absl::IsInvalidArgument(s) || (s.ok() && theirs.magic != kMagic)) {
      theirs = {.state = Agreement::kElsewhere};
    } else if (!s.ok()) {
      return s;
    }
  }
  const auto bytes = std::as_bytes(std::span(*all));
  for (int i = 1; i < group.size(); ++i) {
    if ((*all)[i].state != Agreement::kPresent) continue;
    OC_RETURN_IF_ERROR(
        transport.Send(group.member(i), tag, bytes, group.options().timeout_seconds));
  }
  return OkStatus();
}

// The other members' part.
Status TellAndHear(Group& group, std::vector<Agreement>* all) {
  constexpr double kGrace = 2;  // for member 0 to tell, after its own deadline
  Transport& transport = group.transport();
  const int64_t tag = AgreementTag(group);
  const double timeout = group.options().timeout_seconds + kGrace;
  const Agreement mine = (*all)[group.rank()];
  Status s = transport.Send(group.member(0), tag, std::as_bytes(std::span(&mine, 1)), timeout);
  if (s.ok()) {
    s = transport.Recv(group.member(0), tag, std::as_writable_bytes(std::span(*all)), timeout);
  }
  OC_RETURN_IF_ERROR(transport.status());
  const bool elsewhere = absl::IsInvalidArgument(s) || (s.ok() && (*all)[0].magic != kMagic);
  if (elsewhere || absl::IsDeadlineExceeded(s)) {
    all->assign(all->size(), mine);
    (*all)[0] = {.state = elsewhere ? Agreement::kElsewhere : Agreement::kMissing};
    return OkStatus();
  }
  return s;
}

}  // namespace

Group::Group(Transport& transport, std::vector<int> members, const GroupOptions& options)
    : transport_(transport), members_(std::move(members)), options_(options) {
  rank_ = -1;
  for (int i = 0; i < size(); ++i) {
    OC_CHECK(members_[i] >= 0 && members_[i] < transport_.size(), "group ", options_.id, ": rank ",
             members_[i], " of ", transport_.size());
    OC_CHECK(std::count(members_.begin(), members_.end(), members_[i]) == 1, "group ", options_.id,
             ": rank ", members_[i], " twice");
    if (members_[i] == transport_.rank()) rank_ = i;
  }
  OC_CHECK(rank_ >= 0, "group ", options_.id, ": rank ", transport_.rank(), " is no member");
}

int64_t Group::Tag(int64_t step) const { return GroupTag(options_.epoch, options_.id, step); }

Status Group::Send(int to, int64_t step, std::span<const std::byte> bytes) {
  return transport_.Send(members_[to], Tag(step), bytes, options_.timeout_seconds);
}

Status Group::Recv(int from, int64_t step, std::span<std::byte> bytes) {
  return transport_.Recv(members_[from], Tag(step), bytes, options_.timeout_seconds);
}

Status Group::SendRecv(int to, std::span<const std::byte> send_bytes, int from,
                       std::span<std::byte> recv_bytes, int64_t step) {
  return transport_.SendRecv(members_[to], send_bytes, members_[from], recv_bytes, Tag(step),
                             options_.timeout_seconds);
}

Status Group::Begin(const char* operation, int64_t bytes, DType dtype, int64_t detail) {
  ++calls_;
  if (size() == 1) return transport_.status();
  const uint64_t hash = HashOf(operation, bytes, dtype, detail);
  const auto at = std::lower_bound(agreed_.begin(), agreed_.end(), hash);
  if (at != agreed_.end() && *at == hash) return OkStatus();
  OC_RETURN_IF_ERROR(Annotate(Agree(operation, bytes, dtype, detail),
                              absl::StrCat("group ", options_.id, " (", size(), " ranks), ",
                                           operation, " at rank ", transport_.rank())));
  agreed_.insert(std::lower_bound(agreed_.begin(), agreed_.end(), hash), hash);
  return OkStatus();
}

Status Group::Agree(const char* operation, int64_t bytes, DType dtype, int64_t detail) {
  Agreement mine;
  std::strncpy(mine.operation, operation, sizeof(mine.operation) - 1);
  mine.bytes = bytes;
  mine.dtype = static_cast<int64_t>(dtype);
  mine.detail = detail;
  mine.call = calls_;
  std::vector<Agreement> all(members_.size(), mine);
  OC_RETURN_IF_ERROR(rank_ == 0 ? HearAndTell(*this, &all) : TellAndHear(*this, &all));
  for (int i = 0; i < size(); ++i) {
    if (all[i].state == Agreement::kMissing) {
      return absl::DeadlineExceededError(absl::StrCat("rank ", members_[i], " did not come to ",
                                                      Describe(mine), ", within ",
                                                      options_.timeout_seconds, " seconds"));
    }
    if (all[i].state == Agreement::kElsewhere) {
      return InvalidArgument("rank ", members_[i], " is in another collective of this group; rank ",
                             transport_.rank(), " begins ", Describe(mine));
    }
  }
  for (int i = 0; i < size(); ++i) {
    if (!Same(all[i], all[0])) {
      return InvalidArgument("rank ", members_[i], " calls ", Describe(all[i]), ", but rank ",
                             members_[0], " calls ", Describe(all[0]));
    }
  }
  return OkStatus();
}

}  // namespace oc
