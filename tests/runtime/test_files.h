// Files that tests make, in a folder that goes away with the test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "openclaw/core/status.h"

namespace oc::testing {

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "oc-test-XXXXXX").string();
    OC_CHECK(mkdtemp(name.data()) != nullptr, name);
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

  // Writes a file and returns its path.
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(File(name), std::ios::binary) << bytes;
    return File(name);
  }

 private:
  std::string path_;
};

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string Message(const Status& status) { return std::string(status.message()); }

// An IDX file's bytes.
inline std::string Idx(const std::vector<int64_t>& dims, const std::vector<uint8_t>& values,
                       char type = 0x08) {
  std::string out = {0, 0, type, static_cast<char>(dims.size())};
  for (int64_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(dim >> shift));
  }
  return out.append(values.begin(), values.end());
}

// The bytes of plain values, little-endian.
template <typename T>
std::string Raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

#define EXPECT_OK(expr)                                                             \
  do {                                                                              \
    const auto& expected_ok = (expr);                                               \
    EXPECT_TRUE(expected_ok.ok()) << oc::testing::ToStatus(expected_ok).ToString(); \
  } while (false)
#define ASSERT_OK(expr)                                                             \
  do {                                                                              \
    const auto& expected_ok = (expr);                                               \
    ASSERT_TRUE(expected_ok.ok()) << oc::testing::ToStatus(expected_ok).ToString(); \
  } while (false)

inline Status ToStatus(const Status& status) { return status; }
template <typename T>
Status ToStatus(const StatusOr<T>& result) {
  return result.status();
}

// That `result` failed with `code` and a message that holds `text`.
template <typename R>
void ExpectError(const R& result, absl::StatusCode code, const std::string& text) {
  const Status status = ToStatus(result);
  EXPECT_EQ(status.code(), code) << status.ToString();
  EXPECT_THAT(Message(status), ::testing::HasSubstr(text));
}

}  // namespace oc::testing
