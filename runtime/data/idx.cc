#include "openclaw/runtime/data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

namespace oc {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;
constexpr int kMaxRank = 4;

const char* IdxTypeName(uint8_t code) {
  switch (code) {
    case 0x09:
      return "signed bytes";
    case 0x0B:
      return "16-bit integers";
    case 0x0C:
      return "32-bit integers";
    case 0x0D:
      return "floats";
    case 0x0E:
      return "doubles";
    default:
      return nullptr;
  }
}

// zlib reads plain files as they are, so one reader serves both.
class GzReader {
 public:
  explicit GzReader(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {}
  ~GzReader() {
    if (file_ != nullptr) gzclose(file_);
  }
  GzReader(const GzReader&) = delete;
  GzReader& operator=(const GzReader&) = delete;

  bool is_open() const { return file_ != nullptr; }
  bool plain() { return gzdirect(file_) != 0; }
  // Up to `size` bytes; fewer only at the end of the file. kDataLoss for a damaged stream.
  StatusOr<int64_t> Read(uint8_t* out, int64_t size) {
    int64_t done = 0;
    while (done < size) {
      const auto chunk = static_cast<unsigned>(std::min<int64_t>(size - done, 1 << 20));
      const int got = gzread(file_, out + done, chunk);
      int code = Z_OK;
      const char* message = gzerror(file_, &code);
      if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
        const bool cut = code == Z_BUF_ERROR;
        return DataLoss("read ", path_, ": ", cut ? "the gzip stream is cut off" : message,
                        " after ", position_ + std::max(got, 0), " uncompressed bytes");
      }
      if (got == 0) break;
      done += got;
      position_ += got;
    }
    return done;
  }

 private:
  std::string path_;
  gzFile file_;
  int64_t position_ = 0;
};

StatusOr<std::vector<int64_t>> ReadIdxHeader(GzReader& file, const std::string& path) {
  uint8_t magic[4] = {};
  OC_ASSIGN_OR_RETURN(int64_t got, file.Read(magic, 4));
  if (got < 4) return DataLoss("read ", path, ": only ", got, " bytes, too short for an IDX file");
  if (magic[0] != 0 || magic[1] != 0 || magic[3] == 0 || magic[3] > kMaxRank ||
      (magic[2] != kUnsignedByte && IdxTypeName(magic[2]) == nullptr)) {
    return InvalidArgument("read ", path, ": not an IDX file: it begins with bytes ", magic[0], " ",
                           magic[1], " ", magic[2], " ", magic[3],
                           " (expected 0 0 8 and the number of dimensions)");
  }
  if (magic[2] != kUnsignedByte) {
    return InvalidArgument("read ", path, ": holds ", IdxTypeName(magic[2]),
                           ", only unsigned bytes are read");
  }
  std::vector<int64_t> dims(magic[3]);
  for (int64_t& dim : dims) {
    uint8_t b[4] = {};
    OC_ASSIGN_OR_RETURN(got, file.Read(b, 4));
    if (got < 4) return DataLoss("read ", path, ": cut off in its header");
    dim = int64_t{b[0]} << 24 | int64_t{b[1]} << 16 | int64_t{b[2]} << 8 | b[3];
  }
  return dims;
}

std::string DimsText(const std::vector<int64_t>& dims) { return Shape::Of(dims).ToString(); }

Normalisation Measure(const std::vector<uint8_t>& pixels) {
  std::array<int64_t, 256> counts = {};
  for (uint8_t pixel : pixels) ++counts[pixel];
  double sum = 0, squares = 0;
  for (int value = 0; value < 256; ++value) {
    const double x = value / 255.0;
    sum += x * static_cast<double>(counts[value]);
    squares += x * x * static_cast<double>(counts[value]);
  }
  const auto n = static_cast<double>(pixels.size());
  const double variance = std::max(0.0, squares / n - sum / n * (sum / n));
  // A constant picture has no deviation to divide by.
  return {.mean = sum / n, .stddev = variance > 0 ? std::sqrt(variance) : 1.0};
}

Status CheckPair(const IdxArray& images, const std::string& images_path, const IdxArray& labels,
                 const std::string& labels_path) {
  const bool swapped = images.dims.size() == 1 && labels.dims.size() >= 3;
  if (images.dims.size() < 3) {
    return InvalidArgument("read images ", images_path, ": holds ", DimsText(images.dims),
                           ", expected [count, height, width] or [count, height, width, channels]",
                           swapped ? "; are images and labels swapped?" : "");
  }
  if (labels.dims.size() != 1) {
    return InvalidArgument("read labels ", labels_path, ": holds ", DimsText(labels.dims),
                           ", expected [count]");
  }
  if (images.dims[0] != labels.dims[0]) {
    return InvalidArgument("read images and labels: ", images.dims[0], " images in ", images_path,
                           " but ", labels.dims[0], " labels in ", labels_path);
  }
  if (images.values.empty()) return InvalidArgument("read images ", images_path, ": none in it");
  return OkStatus();
}

}  // namespace

StatusOr<IdxArray> ReadIdx(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return InvalidArgument("read ", path, ": no such file");
  }
  const auto file_size = static_cast<int64_t>(std::filesystem::file_size(path, error));
  GzReader file(path);
  if (error || !file.is_open()) return InvalidArgument("read ", path, ": cannot open it");
  IdxArray array;
  OC_ASSIGN_OR_RETURN(array.dims, ReadIdxHeader(file, path));

  // Deflate shrinks at most 1032-fold: a size that the file cannot hold is refused before memory is
  // taken for it.
  const int64_t most = file.plain() ? file_size : file_size * 1032;
  int64_t total = 1;
  for (int64_t dim : array.dims) {
    if (dim != 0 && total > most / dim) {
      return DataLoss("read ", path, ": cut off: its header says ", DimsText(array.dims), ", its ",
                      file_size, " bytes cannot hold that");
    }
    total *= dim;
  }
  array.values.resize(total);
  OC_ASSIGN_OR_RETURN(int64_t got, file.Read(array.values.data(), total));
  if (got < total) {
    return DataLoss("read ", path, ": cut off: its header says ", DimsText(array.dims), ", ", total,
                    " bytes of data, but only ", got, " are there");
  }
  uint8_t extra = 0;
  OC_ASSIGN_OR_RETURN(got, file.Read(&extra, 1));  // also checks a gzip stream's own checksum
  if (got != 0) {
    return DataLoss("read ", path, ": longer than its header ", DimsText(array.dims), " says");
  }
  return array;
}

StatusOr<std::unique_ptr<IdxDataset>> IdxDataset::Open(const std::string& images_path,
                                                       const std::string& labels_path,
                                                       const IdxOptions& options) {
  OC_ASSIGN_OR_RETURN(IdxArray images, ReadIdx(images_path));
  OC_ASSIGN_OR_RETURN(IdxArray labels, ReadIdx(labels_path));
  OC_RETURN_IF_ERROR(CheckPair(images, images_path, labels, labels_path));

  const int64_t largest = *std::max_element(labels.values.begin(), labels.values.end());
  const int64_t classes = options.classes.value_or(largest + 1);
  if (largest >= classes) {
    const auto first = std::find_if(labels.values.begin(), labels.values.end(),
                                    [&](uint8_t label) { return label >= classes; });
    return InvalidArgument("read labels ", labels_path, ": label ", *first, " of sample ",
                           first - labels.values.begin(), " is beyond the ", classes,
                           " classes (0..", classes - 1, ")");
  }
  const int64_t channels = images.dims.size() == 4 ? images.dims[3] : 1;
  Shape image = {Dim(images.dims[1]), Dim(images.dims[2]), Dim(channels)};
  const Normalisation normalisation = options.normalisation.value_or(Measure(images.values));
  if (!(normalisation.stddev > 0)) {
    return InvalidArgument("read images ", images_path, ": a standard deviation of ",
                           normalisation.stddev, " was given");
  }
  return std::unique_ptr<IdxDataset>(new IdxDataset(std::move(image), std::move(images),
                                                    std::move(labels), classes, normalisation));
}

IdxDataset::IdxDataset(Shape image, IdxArray images, IdxArray labels, int64_t classes,
                       const Normalisation& normalisation)
    : Dataset({{"images", {DType::kF32, std::move(image)}}, {"labels", {DType::kI32, {}}}}),
      pixels_(std::move(images.values)),
      labels_(std::move(labels.values)),
      classes_(classes),
      normalisation_(normalisation) {
  for (int value = 0; value < 256; ++value) {
    values_[value] =
        static_cast<float>((value / 255.0 - normalisation.mean) / normalisation.stddev);
  }
}

Status IdxDataset::Read(int64_t index, Sample& sample) const {
  std::span<float> image = sample.row<float>(0);
  const uint8_t* pixels = pixels_.data() + index * static_cast<int64_t>(image.size());
  for (size_t i = 0; i < image.size(); ++i) image[i] = values_[pixels[i]];
  sample.row<int32_t>(1)[0] = labels_[index];
  return OkStatus();
}

}  // namespace oc
