#include "compare/tensor_source.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "tensor/convert.h"

namespace msvis {
namespace {

/// Runs of fewer elements are not read one by one: the rows that hold them are.
constexpr std::uint64_t short_run = 4096;

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text = "[";
  for (const std::uint64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

/// Product of sizes; throws if it is absurd.
std::uint64_t product(const std::vector<std::uint64_t>& shape, std::size_t from, std::size_t to) {
  std::uint64_t count = 1;
  for (std::size_t d = from; d < to; ++d) {
    if (__builtin_mul_overflow(count, shape[d], &count)) {
      throw TensorError(TensorFault::too_large, "the parts make up a tensor of absurd shape " + shape_text(shape));
    }
  }
  return count;
}

/// Read piece by piece if the elements stand in order in the file, else loaded as a whole.
class FileSource final : public TensorSource {
 public:
  explicit FileSource(TensorFile&& file) : file_(std::move(file)) {
    dtype_ = file_.dtype();
    shape_ = file_.shape();
    elements_ = file_.element_count();
  }

  std::span<const std::byte> read(std::uint64_t first, std::uint64_t count) override {
    if (!loaded_ && !file_.can_stream()) {
      loaded_ = std::move(file_).load();
    }
    if (!loaded_) {
      return file_.read(first, count);
    }
    const std::size_t size = dtype_size(dtype_);
    return loaded_->contiguous().subspan(first * size, count * size);
  }

 private:
  TensorFile file_;
  std::optional<Tensor> loaded_;
};

/// Parts one after the other along a dimension. As rows: a row is what stands below one place of the dimensions before; each run is one
/// piece of a row.
class JoinedSource final : public TensorSource {
 public:
  JoinedSource(const TensorParts& plan, const ReadHints& hints, TensorStores& stores) {
    for (const TensorParts& part : plan.parts) {
      parts_.push_back({open(part, hints, stores), 0});
    }
    const std::size_t d = plan.dimension;
    if (parts_.empty() || d >= parts_.front().source->shape().size()) {
      throw TensorError(TensorFault::damaged, parts_.empty() ? "there are no parts"
                                                             : "the parts can't be joined along dimension " + std::to_string(d) +
                                                                   ": their shape is " + shape_text(parts_.front().source->shape()));
    }
    dtype_ = parts_.front().source->dtype();
    shape_ = parts_.front().source->shape();
    for (const Part& part : parts_) {
      check_part(*part.source, d);
    }
    shape_[d] = 0;
    const std::uint64_t inner = product(shape_, d + 1, shape_.size());
    for (const TensorParts::Run& run : plan.runs) {
      std::uint64_t end = 0;
      if (run.part >= parts_.size() || __builtin_add_overflow(run.offset, run.length, &end) || end > parts_[run.part].source->shape()[d]) {
        throw TensorError(TensorFault::damaged, "dump.json tells other shapes than the files of the ranks have");
      }
      runs_.push_back({run.part, run.offset * inner, shape_[d] * inner, run.length * inner});
      if (__builtin_add_overflow(shape_[d], run.length, &shape_[d])) {
        throw TensorError(TensorFault::too_large, "the parts make up a tensor of absurd size");
      }
    }
    elements_ = product(shape_, 0, shape_.size());
    row_ = shape_[d] * inner;
    for (Part& part : parts_) {
      part.row = part.source->shape()[d] * inner;
    }
  }

  std::span<const std::byte> read(std::uint64_t first, std::uint64_t count) override {
    const std::size_t size = dtype_size(dtype_);
    buffer_.resize(count * size);
    if (count == 0) {
      return buffer_;
    }
    const std::uint64_t first_row = first / row_;
    const std::uint64_t last_row = (first + count - 1) / row_;
    for (const Run& run : runs_) {
      if (run.length >= short_run || first_row == last_row) {
        for (std::uint64_t row = first_row; row <= last_row; ++row) {
          copy_run(run, row, first, count);
        }
      } else {
        copy_rows(run, first_row, last_row, first, count);
      }
    }
    return buffer_;
  }

 private:
  struct Part {
    std::unique_ptr<TensorSource> source;
    std::uint64_t row;  ///< elements
  };
  /// Within a row, in elements.
  struct Run {
    std::uint32_t part;
    std::uint64_t from;  ///< in the row of the part
    std::uint64_t to;    ///< in the row of the whole
    std::uint64_t length;
  };

  void check_part(const TensorSource& part, std::size_t dimension) const {
    if (part.dtype() != dtype_) {
      throw TensorError(TensorFault::unsupported_dtype,
                        "the ranks hold " + std::string(dtype_name(dtype_)) + " and " + std::string(dtype_name(part.dtype())));
    }
    std::vector<std::uint64_t> shape = part.shape();
    if (shape.size() == shape_.size()) {
      shape[dimension] = shape_[dimension];
    }
    if (shape != shape_) {
      throw TensorError(TensorFault::damaged,
                        "the ranks hold shapes that do not fit together: " + shape_text(shape_) + " and " + shape_text(part.shape()));
    }
  }

  /// The piece of a run in one row that is asked for: elements [begin, end) of the whole.
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> wanted(const Run& run, std::uint64_t row, std::uint64_t first,
                                                               std::uint64_t count) const {
    const std::uint64_t begin = row * row_ + run.to;
    return {std::max(begin, first), std::min(begin + run.length, first + count)};
  }

  void copy_run(const Run& run, std::uint64_t row, std::uint64_t first, std::uint64_t count) {
    const auto [begin, end] = wanted(run, row, first, count);
    if (begin >= end) {
      return;
    }
    const Part& part = parts_[run.part];
    const std::uint64_t place = row * part.row + run.from + (begin - (row * row_ + run.to));
    const auto bytes = part.source->read(place, end - begin);
    std::memcpy(buffer_.data() + (begin - first) * dtype_size(dtype_), bytes.data(), bytes.size());
  }

  /// Several rows of a part in one read.
  void copy_rows(const Run& run, std::uint64_t first_row, std::uint64_t last_row, std::uint64_t first, std::uint64_t count) {
    const std::size_t size = dtype_size(dtype_);
    const Part& part = parts_[run.part];
    const std::uint64_t from = first_row * part.row + run.from;
    const std::uint64_t to = last_row * part.row + run.from + run.length;
    const auto bytes = part.source->read(from, to - from);
    for (std::uint64_t row = first_row; row <= last_row; ++row) {
      const auto [begin, end] = wanted(run, row, first, count);
      if (begin < end) {
        const std::uint64_t place = row * part.row + run.from + (begin - (row * row_ + run.to)) - from;
        std::memcpy(buffer_.data() + (begin - first) * size, bytes.data() + place * size, (end - begin) * size);
      }
    }
  }

  std::vector<Part> parts_;
  std::vector<Run> runs_;
  std::uint64_t row_ = 0;  ///< elements
  std::vector<std::byte> buffer_;
};

/// The sum of the parts, in the order of the parts in float64, as float32 (float64 if the parts are).
class SummedSource final : public TensorSource {
 public:
  SummedSource(const TensorParts& plan, const ReadHints& hints, TensorStores& stores) {
    for (const TensorParts& part : plan.parts) {
      parts_.push_back(open(part, hints, stores));
      const TensorSource& source = *parts_.back();
      if (!is_floating(source.dtype())) {
        throw TensorError(TensorFault::unsupported_dtype, "a sum over the ranks of " + std::string(dtype_name(source.dtype())));
      }
      if (source.shape() != parts_.front()->shape()) {
        throw TensorError(TensorFault::damaged, "the ranks hold shapes that can't be summed: " + shape_text(parts_.front()->shape()) +
                                                    " and " + shape_text(source.shape()));
      }
    }
    if (parts_.empty()) {
      throw TensorError(TensorFault::damaged, "there are no parts");
    }
    dtype_ = parts_.front()->dtype() == DType::float64 ? DType::float64 : DType::float32;
    shape_ = parts_.front()->shape();
    elements_ = parts_.front()->element_count();
  }

  std::span<const std::byte> read(std::uint64_t first, std::uint64_t count) override {
    sum_.assign(count, 0);
    part_.resize(count);
    for (const auto& source : parts_) {
      const auto bytes = source->read(first, count);
      cast_elements(bytes.data(), source->dtype(), reinterpret_cast<std::byte*>(part_.data()), DType::float64, count);
      for (std::uint64_t k = 0; k < count; ++k) {
        sum_[k] += part_[k];
      }
    }
    result_.resize(count * dtype_size(dtype_));
    cast_elements(reinterpret_cast<const std::byte*>(sum_.data()), DType::float64, result_.data(), dtype_, count);
    return result_;
  }

 private:
  std::vector<std::unique_ptr<TensorSource>> parts_;
  std::vector<double> sum_;
  std::vector<double> part_;
  std::vector<std::byte> result_;
};

}  // namespace

std::unique_ptr<TensorSource> TensorSource::open(TensorFile&& file) {
  return std::make_unique<FileSource>(std::move(file));
}

std::unique_ptr<TensorSource> TensorSource::open(const TensorParts& parts, const ReadHints& hints, TensorStores& stores) {
  switch (parts.kind) {
    case TensorParts::Kind::file: {
      ReadHints own = hints;
      own.dtype = parts.dtype;
      const auto store = stores.of(parts.directory);
      return open(store->open(store->resolve(parts.data_name, hints.compat), own));
    }
    case TensorParts::Kind::joined:
      return std::make_unique<JoinedSource>(parts, hints, stores);
    case TensorParts::Kind::summed:
      return std::make_unique<SummedSource>(parts, hints, stores);
    case TensorParts::Kind::none:
      break;
  }
  throw TensorError(TensorFault::missing, parts.reason);
}

}  // namespace msvis
