#include "pack/pack_rank.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/pack_header.h"
#include "base/printable.h"
#include "msvis/error.h"
#include "msvis/tensor_pack.h"
#include "pack/pack_writer.h"
#include "pack/staging.h"
#include "pack/tensor_files.h"
#include "tensor/byte_source.h"
#include "tensor/checksum.h"
#include "tensor/pack_format.h"

namespace msvis {
namespace {

namespace fs = std::filesystem;

/// A view that shows its elements so much larger than its file is stays a file: an expanded number would become gigabytes.
constexpr std::uint64_t most_growth = 8;
constexpr std::uint64_t growth_that_never_matters = std::uint64_t{64} << 10;
constexpr std::uint64_t piece_bytes = std::uint64_t{4} << 20;

struct Names {
  fs::path rank;
  fs::path directory;
  fs::path pack;
  fs::path pack_in_work;
  fs::path directory_in_work;
  fs::path directory_to_remove;
  explicit Names(const fs::path& rank_directory)
      : rank(rank_directory),
        directory(rank / tensor_directory_name),
        pack(rank / pack_file_name),
        pack_in_work(rank / (std::string(pack_file_name) + ".partial")),
        directory_in_work(rank / (std::string(tensor_directory_name) + ".partial")),
        directory_to_remove(rank / (std::string(tensor_directory_name) + ".packed")) {}
};

bool there(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

bool is_a_directory(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::error_code fault;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(directory, fault), end; !fault && entry != end; entry.increment(fault)) {
    names.push_back(entry->path().filename().string());
  }
  if (fault) {
    throw Error(ErrorCategory::path, "can't be read: " + fault.message(), directory);
  }
  std::sort(names.begin(), names.end());
  return names;
}

enum class FileKind : std::uint8_t { regular, irregular, dangling };

struct FileFacts {
  FileKind kind = FileKind::regular;
  std::uint64_t bytes = 0;
};

/// Links are followed, as the readers follow them.
FileFacts facts_of(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ELOOP) {
      return {FileKind::dangling, 0};
    }
    fail_io("can't be examined", file);
  }
  return S_ISREG(status.st_mode) ? FileFacts{FileKind::regular, static_cast<std::uint64_t>(status.st_size)}
                                 : FileFacts{FileKind::irregular, 0};
}

/// The file names of a dump.json in the order in which it names them, which is about the order in which they are compared. Only for the
/// order of payloads: what can't be read or is odd gives fewer names, never an error.
std::vector<std::string> names_in_dump(const fs::path& dump_file) {
  constexpr std::string_view key = "\"data_name\"";
  constexpr std::string_view blanks = " \t\r\n";
  std::vector<std::string> names;
  std::error_code fault;
  if (!fs::is_regular_file(dump_file, fault)) {
    return names;
  }
  std::string text(fs::file_size(dump_file, fault), '\0');
  std::ifstream(dump_file, std::ios::binary).read(text.data(), static_cast<std::streamsize>(text.size()));
  for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at)) {
    at = text.find_first_not_of(blanks, at + key.size());
    if (at == std::string::npos || text[at] != ':') {
      continue;
    }
    at = text.find_first_not_of(blanks, at + 1);
    const std::size_t end = at == std::string::npos ? at : text.find('"', at + 1);
    if (end == std::string::npos || text[at] != '"') {
      continue;
    }
    names.push_back(text.substr(at + 1, end - at - 1));
  }
  return names;
}

/// Names of a directory, those first that dump.json has, in its order.
std::vector<std::string> in_order_of_dump(const std::vector<std::string>& names, const fs::path& dump_file) {
  std::vector<std::string> ordered;
  std::vector<bool> taken(names.size(), false);
  const auto take = [&](std::size_t place) {
    if (!taken[place]) {
      taken[place] = true;
      ordered.push_back(names[place]);
    }
  };
  for (const std::string& name : names_in_dump(dump_file)) {
    const auto found = std::lower_bound(names.begin(), names.end(), name);
    if (found != names.end() && *found == name) {
      take(static_cast<std::size_t>(found - names.begin()));
    }
  }
  for (std::size_t place = 0; place < names.size(); ++place) {
    take(place);
  }
  return ordered;
}

ReadHints hints_for(Compat compat) {
  ReadHints hints;
  hints.compat = compat;
  return hints;
}

/// The elements of a tensor in logical order, in pieces.
class Elements {
 public:
  explicit Elements(TensorFile file) : element_(dtype_size(file.dtype())), streams_(file.can_stream()), file_(std::move(file)) {
    if (!streams_) {
      loaded_ = std::move(file_).load();
    }
  }

  std::span<const std::byte> operator()(std::uint64_t first, std::uint64_t count) {
    return streams_ ? file_.read(first / element_, count / element_) : loaded_->contiguous().subspan(first, count);
  }

 private:
  std::uint64_t element_;
  bool streams_;
  TensorFile file_;
  std::optional<Tensor> loaded_;
};

/// A file that is to be packed as a tensor: whatever reads it must find the same, under every reading rule.
struct Understood {
  TensorFormat format;
  DType dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes;
  Elements elements;
};

/// Nothing: the file has to be kept as it is. Throws TensorError only if it can't be read at all.
std::optional<Understood> understand(const fs::path& file, std::uint64_t file_bytes) {
  try {
    TensorFile opened = TensorFile::open(file, hints_for(Compat::standard));
    const std::uint64_t bytes = opened.byte_count();
    if (opened.shape().size() > max_packed_dimensions || (bytes > growth_that_never_matters && bytes / most_growth > file_bytes)) {
      return std::nullopt;
    }
    if (opened.format() == TensorFormat::pt && file_bytes < TensorLimits::reference_max_file_bytes) {
      static_cast<void>(TensorFile::open(file, hints_for(Compat::reference)));
    }
    const TensorFormat format = opened.format();
    const DType dtype = opened.dtype();
    std::vector<std::uint64_t> shape = opened.shape();
    return Understood{format, dtype, std::move(shape), bytes, Elements(std::move(opened))};
  } catch (const TensorError& error) {
    if (error.fault() == TensorFault::unreadable || error.fault() == TensorFault::missing) {
      throw;
    }
    return std::nullopt;
  }
}

/// The bytes of any file, in pieces.
class FileBytes {
 public:
  explicit FileBytes(const fs::path& file)
      : source_(file, BufferPool::shared(), std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max(), false) {}
  [[nodiscard]] std::uint64_t size() const { return source_.size(); }
  std::span<const std::byte> operator()(std::uint64_t first, std::uint64_t count) { return source_.view(first, count, piece_); }

 private:
  ByteSource source_;
  PooledBuffer piece_;
};

/// The uncompressed payload of a packed file, in pieces.
class PackedBytes {
 public:
  PackedBytes(const TensorPack& pack, const PackEntry& entry) : pack_(pack), entry_(entry) {}
  std::span<const std::byte> operator()(std::uint64_t first, std::uint64_t count) {
    if (piece_.capacity() < count) {
      piece_ = BufferPool::shared().acquire(count);
    }
    const std::span<std::byte> out(piece_.data(), count);
    pack_.read_payload(entry_, first, out, chunk_, BufferPool::shared());
    return out;
  }

 private:
  const TensorPack& pack_;
  const PackEntry& entry_;
  PooledBuffer piece_;
  TensorPack::ChunkBuffer chunk_;
};

class RankJob {
 public:
  RankJob(const fs::path& rank, const PackOptions& options) : names_(rank), options_(options) {}

  PackResult pack() {
    finish_removal();
    if (!is_a_directory(names_.directory)) {
      return check_packed();
    }
    if (options_.replace) {
      require_removable();
    }
    {
      StagedFile staged(names_.pack_in_work, read_write_mode(names_.directory));
      result_.packed_bytes = write(staged);
      sync_file(staged.descriptor(), staged.path());
      if (options_.verify || options_.replace) {
        verify(staged);
      }
      staged.publish(names_.pack);
    }
    if (options_.replace) {
      remove_directory();
    }
    result_.outcome = PackResult::Outcome::packed;
    return std::move(result_);
  }

  PackResult unpack() {
    finish_removal();
    if (there(names_.directory)) {
      throw Error(ErrorCategory::path, "is there already; remove it or give it another name before unpacking", names_.directory);
    }
    const TensorPack pack(names_.pack);
    {
      file_mode_ = read_write_mode(names_.pack);
      StagedDirectory staged(names_.directory_in_work, file_mode_);
      for (std::size_t k = 0; k < pack.size(); ++k) {
        restore(pack, k, staged);
      }
      sync_file_system(staged.path());
      if (options_.verify || options_.replace) {
        compare(pack, staged.path());
      }
      staged.publish(names_.directory);
    }
    if (options_.replace) {
      require_nothing_irregular("the pack is not removed");
      if (result_.irregular == 0) {
        remove_pack();
      }
    }
    result_.packed_bytes = pack.file_bytes();
    result_.outcome = PackResult::Outcome::unpacked;
    return std::move(result_);
  }

 private:
  void go_on(std::uint64_t done) const {
    options_.progress(done);
    if (options_.interrupted()) {
      throw Error(ErrorCategory::io, "interrupted; nothing was changed", names_.rank);
    }
  }

  /// What a dead run had already replaced.
  void finish_removal() {
    std::error_code fault;
    if (there(names_.directory_to_remove) && options_.replace && !options_.unpack && there(names_.pack)) {
      static_cast<void>(TensorPack(names_.pack));  // throws if it can't be used
      fs::remove_all(names_.directory_to_remove, fault);
      note("the originals that an earlier run had replaced were removed (" + names_.directory_to_remove.filename().string() + ")");
    } else if (there(names_.directory_to_remove)) {
      note(names_.directory_to_remove.string() +
           " is what is left of originals that an earlier run had replaced; --replace removes it once there is a pack");
    }
    if (there(names_.pack_in_work)) {
      fs::remove(names_.pack_in_work, fault);
      note("an incomplete pack of an earlier run was removed");
    }
    if (there(names_.directory_in_work)) {
      fs::remove_all(names_.directory_in_work, fault);
      note("an incomplete directory of an earlier run was removed");
    }
  }

  void note(std::string text) { result_.notes.push_back(std::move(text)); }

  // ---- packing

  std::uint64_t write(const StagedFile& staged) {
    PackWriter writer(staged.path(), staged.descriptor(), {options_.compression, options_.threads});
    if (!staged.own()) {
      throw Error(ErrorCategory::io, "was taken away while it was created; does another msvis-pack work on this rank?", staged.path());
    }
    for (const std::string& name : in_order_of_dump(names_in(names_.directory), names_.rank / "dump.json")) {
      const fs::path file = names_.directory / name;
      const FileFacts facts = facts_of(file);
      if (facts.kind == FileKind::dangling) {
        ++result_.irregular;
        note(printable(name) + " is a symbolic link to nothing and is left out");
      } else if (facts.kind == FileKind::irregular) {
        ++result_.irregular;
        note(printable(name) + " is no regular file; only its name is kept");
        writer.add_irregular(name);
      } else {
        add(writer, file, name, facts.bytes);
      }
    }
    return writer.finish();
  }

  void add(PackWriter& writer, const fs::path& file, const std::string& name, std::uint64_t file_bytes) {
    result_.original_bytes += file_bytes;
    std::optional<Understood> tensor = understand(file, file_bytes);
    const auto told = [&](auto& source, std::uint64_t payload) {
      return [&, payload](std::uint64_t first, std::uint64_t count) {
        go_on(payload == 0 ? 0
                           : static_cast<std::uint64_t>(static_cast<double>(count) / static_cast<double>(payload) *
                                                        static_cast<double>(file_bytes)));
        return source(first, count);
      };
    };
    if (tensor) {
      ++result_.tensors;
      writer.add_tensor(name, file_bytes, tensor->format, tensor->dtype, tensor->shape, told(tensor->elements, tensor->bytes));
      return;
    }
    FileBytes bytes(file);
    if (bytes.size() != file_bytes) {
      throw Error(ErrorCategory::io, "was changed while it was packed; pack when the job is done", file);
    }
    ++result_.kept_as_bytes;
    writer.add_bytes(name, file_bytes, told(bytes, file_bytes));
  }

  void verify(const StagedFile& staged) {
    // So that what is compared comes from the disk.
    static_cast<void>(::posix_fadvise(staged.descriptor(), 0, 0, POSIX_FADV_DONTNEED));
    const TensorPack pack(staged.path());
    compare(pack, names_.directory);
  }

  /// Whether the files of a directory are those of a pack, tensor by tensor, and no others.
  void compare(const TensorPack& pack, const fs::path& directory) const {
    std::size_t found = 0;
    for (const std::string& name : names_in(directory)) {
      const fs::path file = directory / name;
      const FileFacts facts = facts_of(file);
      if (facts.kind == FileKind::dangling) {
        continue;
      }
      const std::optional<std::size_t> index = pack.find(name);
      if (!index) {
        throw Error(ErrorCategory::format, "is not in the pack; pack again when the job is done", file);
      }
      ++found;
      const PackEntry& entry = pack.entry(*index);
      if (facts.kind == FileKind::irregular && entry.kind == PackKind::irregular) {
        continue;
      }
      compare_file(pack, entry, file);
    }
    std::size_t expected = 0;
    for (std::size_t k = 0; k < pack.size(); ++k) {
      expected += pack.entry(k).kind == PackKind::irregular && options_.unpack ? 0U : 1U;  // those are not restored
    }
    if (found != expected) {
      throw Error(ErrorCategory::format, "does not hold all files of the pack; was it changed meanwhile?", directory);
    }
  }

  void compare_file(const TensorPack& pack, const PackEntry& entry, const fs::path& file) const {
    const auto differ = [&](const std::string& what) {
      throw Error(ErrorCategory::format, "differs from the pack in its " + what + "; was it changed while it was packed?", file);
    };
    PackedBytes packed(pack, entry);
    std::uint32_t crc = 0;
    const auto same = [&](auto& source) {
      for (std::uint64_t at = 0; at < entry.bytes; at += piece_bytes) {
        const std::uint64_t count = std::min(piece_bytes, entry.bytes - at);
        const std::span<const std::byte> ours = packed(at, count);
        const std::span<const std::byte> original = source(at, count);
        if (std::memcmp(ours.data(), original.data(), count) != 0) {
          differ("content");
        }
        crc = continue_crc(crc, ours);
        go_on(static_cast<std::uint64_t>(static_cast<double>(count) / static_cast<double>(entry.bytes) *
                                         static_cast<double>(entry.file_bytes)));
      }
    };
    if (entry.kind == PackKind::bytes) {
      FileBytes source(file);
      if (source.size() != entry.bytes) {
        differ("size");
      }
      same(source);
    } else {
      TensorFile opened = TensorFile::open(file);
      const std::span<const std::uint64_t> shape = pack.shape(entry);
      if (static_cast<std::uint8_t>(opened.dtype()) != entry.dtype ||
          !std::equal(shape.begin(), shape.end(), opened.shape().begin(), opened.shape().end())) {
        differ("element type or shape");
      }
      Elements source(std::move(opened));
      same(source);
    }
    if (crc != entry.crc) {
      differ("checksum");
    }
  }

  /// Before any work: a pack that can't keep everything must not replace it.
  void require_removable() const {
    if (fs::is_symlink(names_.directory)) {
      throw Error(ErrorCategory::path, "is a symbolic link, so its files are not removed; pack where it points to, or without --replace",
                  names_.directory);
    }
    for (const std::string& name : names_in(names_.directory)) {
      if (facts_of(names_.directory / name).kind != FileKind::regular) {
        throw Error(ErrorCategory::path,
                    "is a directory, a link to nothing or another thing that a pack can't keep; remove it or pack without --replace",
                    names_.directory / name);
      }
    }
  }

  void require_nothing_irregular(const std::string& consequence) {
    if (result_.irregular > 0) {
      note(std::to_string(result_.irregular) + " things of the pack were no regular files and are not restored; " + consequence);
    }
  }

  /// In one step for readers; the rest may be interrupted.
  void remove_directory() {
    std::error_code fault;
    fs::remove_all(names_.directory_to_remove, fault);
    if (::rename(names_.directory.c_str(), names_.directory_to_remove.c_str()) != 0) {
      fail_io("can't be removed", names_.directory);
    }
    sync_directory(names_.rank);
    fs::remove_all(names_.directory_to_remove, fault);
    if (fault) {
      note(names_.directory_to_remove.string() + " can't be removed: " + fault.message());
    }
    result_.removed = !fault;
  }

  void remove_pack() {
    if (::unlink(names_.pack.c_str()) != 0) {
      fail_io("can't be removed", names_.pack);
    }
    sync_directory(names_.rank);
    result_.removed = true;
  }

  /// A rank that has only the pack.
  PackResult check_packed() {
    if (!there(names_.pack)) {
      throw Error(ErrorCategory::path, "holds no dump_tensor_data; only dumps of the task \"tensor\" have tensors to pack", names_.rank);
    }
    const TensorPack pack(names_.pack);
    result_.packed_bytes = pack.file_bytes();
    for (std::size_t k = 0; k < pack.size(); ++k) {
      const PackEntry& entry = pack.entry(k);
      count(entry);
      if (options_.verify && pack.payload_crc(entry, BufferPool::shared()) != entry.crc) {
        throw Error(ErrorCategory::format, "has a damaged content: the checksum of " + printable(pack.name(k)) + " is wrong", names_.pack);
      }
      go_on(entry.file_bytes);
    }
    result_.outcome = PackResult::Outcome::checked;
    return std::move(result_);
  }

  void count(const PackEntry& entry) {
    result_.original_bytes += entry.file_bytes;
    result_.tensors += entry.kind == PackKind::pt || entry.kind == PackKind::npy ? 1 : 0;
    result_.kept_as_bytes += entry.kind == PackKind::bytes ? 1 : 0;
    result_.irregular += entry.kind == PackKind::irregular ? 1 : 0;
  }

  // ---- unpacking

  void restore(const TensorPack& pack, std::size_t index, const StagedDirectory& staged) {
    const PackEntry& entry = pack.entry(index);
    const std::string name(pack.name(index));
    count(entry);
    if (entry.kind == PackKind::irregular) {
      return;
    }
    TensorFileFrame frame;
    if (entry.kind == PackKind::pt) {
      frame = pt_frame(static_cast<DType>(entry.dtype), pack.shape(entry), entry.bytes, entry.crc);
    } else if (entry.kind == PackKind::npy) {
      frame = npy_frame(static_cast<DType>(entry.dtype), pack.shape(entry));
    }
    const Descriptor file = create_exclusively(name, file_mode_, staged.descriptor());
    const fs::path path = staged.path() / name;
    write_exactly(file.number(), 0, std::as_bytes(std::span(frame.before)), path);
    PackedBytes source(pack, entry);
    std::uint32_t crc = 0;
    for (std::uint64_t at = 0; at < entry.bytes; at += piece_bytes) {
      const std::span<const std::byte> piece = source(at, std::min(piece_bytes, entry.bytes - at));
      crc = continue_crc(crc, piece);
      write_exactly(file.number(), frame.before.size() + at, piece, path);
      go_on(piece.size());
    }
    if (crc != entry.crc) {
      throw Error(ErrorCategory::format, "has a damaged content: the checksum of " + printable(name) + " is wrong; nothing was restored",
                  names_.pack);
    }
    write_exactly(file.number(), frame.before.size() + entry.bytes, std::as_bytes(std::span(frame.behind)), path);
  }

  Names names_;
  const PackOptions& options_;
  PackResult result_;
  unsigned file_mode_ = 0;  ///< of restored files
};

}  // namespace

std::uint64_t pack_cost(const fs::path& rank_directory, const PackOptions& options) {
  const Names names(rank_directory);
  std::uint64_t bytes = 0;
  if (is_a_directory(names.directory) && !options.unpack) {
    std::error_code fault;
    for (fs::directory_iterator entry(names.directory, fault), end; !fault && entry != end; entry.increment(fault)) {
      std::error_code ignored;
      const std::uint64_t size = entry->is_regular_file(ignored) ? entry->file_size(ignored) : 0;
      bytes += ignored ? 0 : size;
    }
  } else {
    std::error_code ignored;
    const std::uint64_t size = fs::file_size(names.pack, ignored);
    bytes = ignored ? 0 : size;
  }
  return options.verify || options.replace ? 2 * bytes : bytes;
}

PackResult pack_rank(const fs::path& rank_directory, const PackOptions& options) {
  RankJob job(rank_directory, options);
  return options.unpack ? job.unpack() : job.pack();
}

}  // namespace msvis
