// Metrics of two tensor files (comparison rules, section 6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "compare/tensor_source.h"
#include "msvis/metrics.h"
#include "msvis/tensor.h"
#include "msvis/tensor_pack.h"

namespace msvis {

struct TensorFileOptions {
  Compat compat = Compat::standard;
  ReaderRule target_rule = ReaderRule::any;
  ReaderRule golden_rule = ReaderRule::any;
  bool drop_cache = false;  ///< gives the page cache back
  std::shared_ptr<TensorStores> stores = std::make_shared<TensorStores>();
};

/// A pair of files, where they are, and what dump.json says of their element types; or, of merged ranks, the parts of a side instead of its
/// file.
struct TensorPair {
  std::filesystem::path target;
  std::filesystem::path golden;
  std::shared_ptr<const TensorStore> target_store;  ///< null: files of their own
  std::shared_ptr<const TensorStore> golden_store;
  std::string_view target_dtype;
  std::string_view golden_dtype;
  std::shared_ptr<const TensorParts> target_parts;
  std::shared_ptr<const TensorParts> golden_parts;
};

/// What became of a pair.
struct TensorOutcome {
  TensorMetrics metrics;
  std::string reason;                ///< why there are no metrics, or what to know of them; names no directory; may be empty
  std::string skipped;               ///< short kind of the reason if there are no metrics (for counting); empty if there are
  std::vector<std::uint64_t> shape;  ///< of the target, if it could be read
  std::uint64_t elements = 0;        ///< of the target
  std::uint64_t bytes = 0;           ///< of the elements of both sides, if they were compared
};

/// What two files hold that can be compared: enough to finish their metrics elsewhere.
struct PairFacts {
  std::vector<std::uint64_t> shape;  ///< of the target
  std::uint64_t elements = 0;        ///< of either side
  DType target = DType::float32;
  DType golden = DType::float32;
};

/// In how far another rank's tensor, which should hold the same bits, does not.
struct ReplicaDifference {
  std::string name;            ///< of the rank's directory
  std::uint64_t elements = 0;  ///< with other bits
  double max_abs = 0;          ///< largest difference; infinite where only one side is NaN
  std::string fault;           ///< why it could not be read; empty if it could
};

/// What is known of some blocks of a pair.
struct PairFinding {
  PartialMetrics partial;
  std::vector<PartialMetrics> of_replicas;  ///< of diverged target replicas (in their order) against the golden
  std::vector<ReplicaDifference> target_replicas;
  std::vector<ReplicaDifference> golden_replicas;

  /// Adds other blocks of the same pair.
  void combine(const PairFinding& other);
};

/// The outcome of comparable files from what is known of all their blocks. Of diverged replicas the one that is worst.
TensorOutcome finish_pair(const PairFacts& facts, const PairFinding& finding, Compat compat);

/// For the way between processes.
void put(ByteWriter& out, const TensorMetrics& metrics);
TensorMetrics get_tensor_metrics(ByteReader& in);
void put(ByteWriter& out, const TensorOutcome& outcome);
TensorOutcome get_tensor_outcome(ByteReader& in);
void put(ByteWriter& out, const PairFacts& facts);
PairFacts get_pair_facts(ByteReader& in);
void put(ByteWriter& out, const PairFinding& finding);
PairFinding get_pair_finding(ByteReader& in);

/// An outcome without metrics: all six cells are `unsupported`.
TensorOutcome unsupported_tensor(std::string reason, std::string kind);

/// Two opened files. If they can't be compared, or that needs no pass over the data, the outcome is there at once.
class OpenTensorPair {
 public:
  OpenTensorPair(const TensorPair& pair, const TensorFileOptions& options);
  ~OpenTensorPair();
  OpenTensorPair(const OpenTensorPair&) = delete;
  OpenTensorPair& operator=(const OpenTensorPair&) = delete;

  [[nodiscard]] const std::optional<TensorOutcome>& decided() const { return decided_; }
  /// Blocks of metric_block_elements elements; only if not decided.
  [[nodiscard]] std::size_t blocks() const;
  /// Walks some blocks; nothing if a file fails while it is read (decided() then has the reason).
  std::optional<PairFinding> accumulate(std::size_t first_block, std::size_t block_count);
  /// Only if not decided.
  [[nodiscard]] const PairFacts& facts() const { return facts_; }

 private:
  /// One side: what is compared, and what should be the same.
  struct Side {
    std::unique_ptr<TensorSource> source;
    std::vector<std::unique_ptr<TensorSource>> replicas;  ///< null: can't be read
    std::vector<ReplicaDifference> found;                 ///< by replica
    TensorSpan read(std::uint64_t first, std::uint64_t count);
    /// Replica k instead; empty if it can't be read (which is noted).
    std::optional<TensorSpan> read_replica(std::size_t k, std::uint64_t first, std::uint64_t count);
    /// Notes what the replicas have else than `span`, elements from `first` on.
    void vote(const TensorSpan& span, std::uint64_t first);
  };

  void open_side(Side& side, const std::filesystem::path& file, const TensorStore* store, const TensorParts* parts, const ReadHints& hints,
                 TensorStores& stores, std::string_view name);
  void decide_unreadable(std::string_view side, const TensorError& error);
  void decide_from_shapes();
  void compare_scalars();
  /// The same elements of both sides; nothing if a file fails.
  std::optional<std::pair<TensorSpan, TensorSpan>> read(std::uint64_t first, std::uint64_t count);

  MetricOptions options_;
  std::optional<TensorOutcome> decided_;
  Side target_;
  Side golden_;
  bool merged_ = false;    ///< a side is made up from the files of several ranks: messages name the rank
  bool diverged_ = false;  ///< the target's replicas are
  PairFacts facts_;
};

/// Opens, walks and finishes a pair.
TensorOutcome compare_tensor_files(const TensorPair& pair, const TensorFileOptions& options);

}  // namespace msvis
