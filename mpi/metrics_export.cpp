#include "mpi/metrics_export.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "mpi/background.h"
#include "msvis/error.h"
#include "table/metrics_csv.h"
#include "table/new_file.h"

namespace msvis {
namespace {

constexpr std::string_view hint = "writing the parameter table";
/// How the library reaches a file: by MPI-IO, all processes together, or without MPI. Construction and end are collective.
class FileAccess {
 public:
  FileAccess(bool parallel, const std::filesystem::path& file) {
    if (parallel) {
      MPI_Comm_dup(MPI_COMM_WORLD, &communicator_);
      MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
    }
    const auto lock = hdf5::lock();
    access_ = hdf5::Handle(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "preparing access", file);
    transfer_ = hdf5::Handle(H5Pcreate(H5P_DATASET_XFER), H5Pclose, "preparing access", file);
    if (parallel) {
      hdf5::check(H5Pset_fapl_mpio(access_.id(), communicator_, MPI_INFO_NULL), "preparing parallel access", file);
      hdf5::check(H5Pset_dxpl_mpio(transfer_.id(), H5FD_MPIO_COLLECTIVE), "preparing parallel access", file);
    }
  }
  ~FileAccess() {
    {
      const auto lock = hdf5::lock();
      access_ = hdf5::Handle();
      transfer_ = hdf5::Handle();
    }
    if (communicator_ != MPI_COMM_NULL) {
      MPI_Comm_free(&communicator_);
    }
  }
  FileAccess(const FileAccess&) = delete;
  FileAccess& operator=(const FileAccess&) = delete;

  [[nodiscard]] hid_t access() const { return access_.id(); }
  [[nodiscard]] hid_t transfer() const { return transfer_.id(); }

 private:
  MPI_Comm communicator_ = MPI_COMM_NULL;
  hdf5::Handle access_;
  hdf5::Handle transfer_;
};

class Export {
 public:
  Export(Transport& transport, const MetricsSpill* spill, std::filesystem::path file, const MetricsFileFacts& facts,
         const MetricsExportHooks& hooks, const MetricsExportLimits& limits)
      : transport_(transport), spill_(spill), file_(std::move(file)), facts_(facts), hooks_(hooks), limits_(limits) {}

  std::uint64_t run() {
    const bool csv = file_.extension() == ".csv";
    try {
      agree(transport_, capture_fault([&] { open(); }), hint);
      in_process_0([&] {
        begin();
        csv ? write_csv() : create_metrics_file(temporary_, rows_, columns_, *dictionary_, facts_);
      });
      if (!csv) {
        write_columns();
      }
      in_process_0([&] { new_file_->publish(); });
    } catch (const AgreedError&) {
      end();
      throw;
    }
    end();
    return rows_;
  }

 private:
  [[nodiscard]] bool leads() const { return transport_.process() == 0; }

  /// Collective. Work of process 0 that the others wait for.
  void in_process_0(const std::function<void()>& work) {
    std::optional<Fault> fault;
    if (leads()) {
      fault = in_background(work);
    }
    agree(transport_, fault, hint);
  }

  /// Process 0. Long work looks at check_stop() from time to time.
  std::optional<Fault> in_background(const std::function<void()>& work) {
    std::optional<Fault> stop;
    const auto fault = run_in_background(work, [&] {
      hooks_.idle();
      if (!stop) {
        stop = hooks_.stop_wanted();
        stopping_ = stop.has_value();
      }
    });
    return stop ? stop : fault;
  }

  void check_stop() const {
    if (stopping_) {
      throw Error(ErrorCategory::interrupted, "interrupted");
    }
  }

  void end() {
    new_file_.reset();
    if (leads()) {
      hooks_.writing({});
    }
  }

  /// In the main thread, as it tells the name.
  void open() {
    if (leads()) {
      new_file_.emplace(file_);
      temporary_ = new_file_->path();
      hooks_.writing(temporary_);
    }
  }

  void begin() {
    const auto frames = spill_->frames();
    // Each process has a piece of a round.
    pieces_ =
        cut_into_pieces(frames, std::min(limits_.piece_bytes, limits_.round_bytes / static_cast<std::uint64_t>(transport_.processes())));
    dictionary_.emplace(spill_->path().parent_path());
    for (const std::string_view text : result_texts) {
      dictionary_->add(TextKind::result, text);
    }
    for (const MetricsSpill::Frame& frame : frames) {
      check_stop();
      rows_ += frame.header.rows;
      columns_ |= frame.header.columns;
      const std::string bytes = spill_->read(frame);
      const MetricsBatch batch = unpack_metrics_batch(bytes);
      for (std::size_t kind = 0; kind < text_kinds; ++kind) {
        for (const std::string_view text : batch.texts[kind]) {
          dictionary_->add(static_cast<TextKind>(kind), text);
        }
      }
    }
    dictionary_->finish();
  }

  void write_csv() {
    std::ofstream out(temporary_, std::ios::binary | std::ios::trunc);
    std::string text = csv_header();
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    for (const MetricsPiece& piece : pieces_) {
      check_stop();
      text.clear();
      append_csv_rows(text, decode_piece(encode_piece(*spill_, piece, *dictionary_)), *dictionary_);
      out.write(text.data(), static_cast<std::streamsize>(text.size()));
      if (!out) {
        break;
      }
    }
    out.close();
    if (!out) {
      throw Error(ErrorCategory::io, std::string("could not be written: ") + std::strerror(errno), temporary_);
    }
  }

  /// Collective. Round by round, each process writes the piece that process 0 sends it.
  void write_columns() {
    const auto processes = static_cast<std::size_t>(transport_.processes());
    ByteWriter out;
    out.put(temporary_.native());
    out.put(columns_);
    out.put(static_cast<std::uint64_t>((pieces_.size() + processes - 1) / processes));
    std::string plan = out.take();
    transport_.broadcast(plan, hint);
    ByteReader in(plan);
    const std::filesystem::path file = in.get_string();
    const auto columns = in.get<std::uint64_t>();
    const auto rounds = in.get<std::uint64_t>();
    if (rounds == 0) {
      return;
    }
    // Before the common opening, which would not come back from a file that one process can't see.
    agree(transport_, capture_fault([&] { check_visible(file); }), hint);
    const FileAccess access(transport_.processes() > 1, file);
    std::optional<MetricsColumns> table;
    agree(transport_, capture_fault([&] { table.emplace(file, access.access(), access.transfer()); }), hint);
    agree(transport_, capture_fault([&] { table->open_columns(columns); }), hint);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      agree(transport_, hooks_.stop_wanted(), hint);
      const std::string bytes = hand_out(round);
      PieceRows piece;
      const auto damage = capture_fault([&] { piece = bytes.empty() ? PieceRows{} : decode_piece(bytes); });
      const auto fault = capture_fault([&] { table->write(damage ? PieceRows{} : piece); });  // the others write in any case
      agree(transport_, damage ? damage : fault, hint);
    }
    agree(transport_, capture_fault([&] { table->close(); }), hint);
  }

  static void check_visible(const std::filesystem::path& file) {
    const auto lock = hdf5::lock();
    try {
      const hdf5::Handle opened = hdf5::open_file(file);
    } catch (const Error& error) {
      throw Error(ErrorCategory::path,
                  "can't be seen by every process; --metrics must name a file on storage that all nodes share (" + error.message() + ")",
                  file);
    }
  }

  /// Collective. The piece of this process; empty if there is none left for it.
  std::string hand_out(std::uint64_t round) {
    const auto processes = static_cast<std::size_t>(transport_.processes());
    std::vector<std::string> outgoing(processes);
    std::optional<Fault> fault;
    if (leads()) {
      fault = in_background([&] {
        for (std::size_t process = 0; process < processes && round * processes + process < pieces_.size(); ++process) {
          check_stop();
          outgoing[process] = encode_piece(*spill_, pieces_[round * processes + process], *dictionary_);
        }
      });
    }
    agree(transport_, fault, hint);
    return transport_.all_to_all(std::move(outgoing), limits_.round_bytes, hint).front();
  }

  Transport& transport_;
  const MetricsSpill* spill_;
  std::filesystem::path file_;
  const MetricsFileFacts& facts_;
  const MetricsExportHooks& hooks_;
  const MetricsExportLimits& limits_;
  std::filesystem::path temporary_;
  std::uint64_t rows_ = 0;
  std::uint64_t columns_ = 0;
  // Process 0 only.
  std::optional<NewFile> new_file_;
  std::vector<MetricsPiece> pieces_;
  std::optional<TextDictionary> dictionary_;
  std::atomic<bool> stopping_ = false;
};

}  // namespace

std::uint64_t export_metrics(Transport& transport, const MetricsSpill* spill, const std::filesystem::path& file,
                             const MetricsFileFacts& facts, const MetricsExportHooks& hooks, const MetricsExportLimits& limits) {
  return Export(transport, spill, file, facts, hooks, limits).run();
}

}  // namespace msvis
