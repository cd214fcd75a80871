#include "table/text_dictionary.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <system_error>

#include "msvis/error.h"

namespace msvis {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 18U;
/// About what a hash table needs for a text beyond its bytes.
constexpr std::size_t bytes_per_entry = 64;
constexpr std::size_t known_limit = std::size_t{64} << 20U;

}  // namespace

/// A temporary file without a name, written from front to back.
class TextDictionary::Scratch {
 public:
  explicit Scratch(const std::filesystem::path& directory) : directory_(directory) {
    descriptor_ = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (descriptor_ < 0) {  // not every file system can
      std::string name = (directory / ".msvis-texts-XXXXXX").string();
      descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
      if (descriptor_ >= 0) {
        ::unlink(name.c_str());
      }
    }
    if (descriptor_ < 0) {
      fail("no temporary file can be made");
    }
  }
  ~Scratch() { ::close(descriptor_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void append(const void* bytes, std::size_t size) {
    buffer_.append(static_cast<const char*>(bytes), size);
    size_ += size;
    if (buffer_.size() >= buffer_bytes) {
      flush();
    }
  }
  void flush() {
    std::string_view rest = buffer_;
    while (!rest.empty()) {
      const ssize_t put = ::write(descriptor_, rest.data(), rest.size());
      if (put < 0 && errno != EINTR) {
        fail("a temporary file can't be written");
      }
      rest.remove_prefix(put < 0 ? 0 : static_cast<std::size_t>(put));
    }
    buffer_.clear();
  }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[noreturn]] void fail(const char* what) const {
    throw Error(ErrorCategory::io, std::string(what) + ": " + std::generic_category().message(errno), directory_);
  }

 private:
  std::filesystem::path directory_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::string buffer_;
};

/// Reads a sorted piece from front to back.
class TextDictionary::RunReader {
 public:
  explicit RunReader(const Scratch& file) : file_(&file) {}
  explicit RunReader(const std::vector<Entry>& entries) : entries_(&entries) {}

  bool next() {
    if (entries_ != nullptr) {
      if (at_ == entries_->size()) {
        return false;
      }
      current_ = (*entries_)[at_++];
      return true;
    }
    constexpr std::size_t head = 1 + sizeof(std::uint32_t);
    if (!have(head)) {
      return false;
    }
    std::uint32_t size = 0;
    std::memcpy(&size, buffer_.data() + start_ + 1, sizeof size);
    if (!have(head + size)) {
      return false;
    }
    current_ = {static_cast<TextKind>(buffer_[start_]), std::string_view(buffer_).substr(start_ + head, size)};
    start_ += head + size;
    return true;
  }
  /// Good until the next call of next().
  [[nodiscard]] const Entry& current() const { return current_; }

 private:
  /// Whether that many bytes are left; brings them into the buffer.
  bool have(std::size_t bytes) {
    if (buffer_.size() - start_ >= bytes) {
      return true;
    }
    buffer_.erase(0, start_);
    start_ = 0;
    const std::size_t known = buffer_.size();
    buffer_.resize(std::max(bytes, buffer_bytes));
    std::size_t filled = known;
    while (filled < buffer_.size()) {
      const ssize_t got =
          ::pread(file_->descriptor(), buffer_.data() + filled, buffer_.size() - filled, static_cast<off_t>(offset_ + (filled - known)));
      if (got < 0 && errno != EINTR) {
        file_->fail("a temporary file can't be read");
      }
      if (got == 0) {
        break;
      }
      filled += got < 0 ? 0 : static_cast<std::size_t>(got);
    }
    offset_ += filled - known;
    buffer_.resize(filled);
    return filled >= bytes;
  }

  const Scratch* file_ = nullptr;
  const std::vector<Entry>* entries_ = nullptr;
  std::size_t at_ = 0;
  std::uint64_t offset_ = 0;
  std::string buffer_;
  std::size_t start_ = 0;
  Entry current_;
};

struct TextDictionary::Mapped {
  struct View {
    View() = default;
    explicit View(const Scratch& file) : size(file.size()) {
      if (size == 0) {
        return;
      }
      void* place = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor(), 0);
      if (place == MAP_FAILED) {
        file.fail("a temporary file can't be mapped");
      }
      data = static_cast<const char*>(place);
    }
    ~View() {
      if (data != nullptr) {
        ::munmap(const_cast<char*>(data), size);  // NOLINT(cppcoreguidelines-pro-type-const-cast): the type of the system call
      }
    }
    View(const View&) = delete;
    View& operator=(const View&) = delete;
    const char* data = nullptr;
    std::size_t size = 0;
  };

  explicit Mapped(const Scratch& text_file, const Scratch& end_file) : texts(text_file), ends(end_file) {}
  [[nodiscard]] std::uint64_t end(std::uint64_t entry) const {
    std::uint64_t value = 0;
    std::memcpy(&value, ends.data + entry * sizeof value, sizeof value);
    return value;
  }
  [[nodiscard]] std::string_view text(std::uint64_t entry) const {
    const std::uint64_t begin = entry == 0 ? 0 : end(entry - 1);
    return texts.data == nullptr ? std::string_view() : std::string_view(texts.data + begin, end(entry) - begin);
  }

  View texts;
  View ends;                                          ///< for each text, uint64
  std::array<std::uint64_t, text_kinds + 1> first{};  ///< entry of each kind
};

TextDictionary::TextDictionary(std::filesystem::path directory, std::size_t memory) : directory_(std::move(directory)), memory_(memory) {
  for (std::size_t kind = 0; kind < text_kinds; ++kind) {
    add(static_cast<TextKind>(kind), {});
  }
}

TextDictionary::~TextDictionary() = default;

void TextDictionary::add(TextKind kind, std::string_view text) {
  if (texts_[static_cast<std::size_t>(kind)].emplace(text).second) {
    bytes_ += text.size() + bytes_per_entry;
    if (bytes_ > memory_) {
      spill();
    }
  }
}

std::vector<TextDictionary::Entry> TextDictionary::sorted_entries() const {
  std::vector<Entry> entries;
  for (std::size_t kind = 0; kind < text_kinds; ++kind) {
    const auto start = static_cast<std::ptrdiff_t>(entries.size());
    for (const std::string& text : texts_[kind]) {
      entries.emplace_back(static_cast<TextKind>(kind), text);
    }
    std::sort(entries.begin() + start, entries.end());
  }
  return entries;
}

void TextDictionary::forget_texts() {
  for (auto& texts : texts_) {
    texts.clear();
  }
  bytes_ = 0;
}

void TextDictionary::spill() {
  auto file = std::make_unique<Scratch>(directory_);
  for (const auto& [kind, text] : sorted_entries()) {
    if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
      throw Error(ErrorCategory::limit, "a text of the parameter table (--metrics) has more than 4 GiB");
    }
    const auto size = static_cast<std::uint32_t>(text.size());
    file->append(&kind, 1);
    file->append(&size, sizeof size);
    file->append(text.data(), text.size());
  }
  file->flush();
  runs_.push_back(std::move(file));
  forget_texts();
}

void TextDictionary::finish() {
  const std::vector<Entry> last = sorted_entries();
  std::vector<RunReader> readers;
  for (const auto& run : runs_) {
    readers.emplace_back(*run);
  }
  readers.emplace_back(last);
  const auto later = [&readers](std::size_t left, std::size_t right) { return readers[left].current() > readers[right].current(); };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> queue(later);
  for (std::size_t reader = 0; reader < readers.size(); ++reader) {
    if (readers[reader].next()) {
      queue.push(reader);
    }
  }
  Scratch texts(directory_);
  Scratch ends(directory_);
  std::array<std::uint64_t, text_kinds> counts{};
  std::optional<std::pair<TextKind, std::string>> before;
  while (!queue.empty()) {
    const std::size_t reader = queue.top();
    queue.pop();
    const Entry& entry = readers[reader].current();
    if (!before || before->first != entry.first || before->second != entry.second) {
      texts.append(entry.second.data(), entry.second.size());
      const std::uint64_t end = texts.size();
      ends.append(&end, sizeof end);
      ++counts[static_cast<std::size_t>(entry.first)];
      before.emplace(entry.first, entry.second);
    }
    if (readers[reader].next()) {
      queue.push(reader);
    }
  }
  texts.flush();
  ends.flush();
  mapped_ = std::make_unique<Mapped>(texts, ends);
  for (std::size_t kind = 0; kind < text_kinds; ++kind) {
    if (counts[kind] > std::numeric_limits<std::uint32_t>::max()) {
      throw Error(ErrorCategory::limit,
                  "the parameter table (--metrics) has more than 2^32 different texts of one kind; select fewer steps");
    }
    mapped_->first[kind + 1] = mapped_->first[kind] + counts[kind];
  }
  readers.clear();
  runs_.clear();
  forget_texts();
}

std::uint64_t TextDictionary::size(TextKind kind) const {
  const auto at = static_cast<std::size_t>(kind);
  return mapped_->first[at + 1] - mapped_->first[at];
}

std::string_view TextDictionary::text(TextKind kind, std::uint64_t number) const {
  return mapped_->text(mapped_->first[static_cast<std::size_t>(kind)] + number);
}

std::uint32_t TextDictionary::number(TextKind kind, std::string_view text) {
  auto& known = known_[static_cast<std::size_t>(kind)];
  std::string key(text);
  const auto found = known.find(key);
  if (found != known.end()) {
    return found->second;
  }
  std::uint64_t low = 0;
  std::uint64_t high = size(kind);
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (this->text(kind, middle) < text) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == size(kind) || this->text(kind, low) != text) {
    throw Error(ErrorCategory::internal, "a text of the parameter table is in no dictionary");
  }
  known_bytes_ += key.size() + bytes_per_entry;
  if (known_bytes_ > known_limit) {
    for (auto& numbers : known_) {
      numbers.clear();
    }
    known_bytes_ = 0;
  }
  const auto number = static_cast<std::uint32_t>(low);
  known.emplace(std::move(key), number);
  return number;
}

}  // namespace msvis
