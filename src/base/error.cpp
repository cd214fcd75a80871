#include "msvis/error.h"

namespace msvis {
namespace {

std::string compose(const std::string& message, const std::filesystem::path& file, std::optional<std::uint64_t> offset) {
  std::string text;
  if (!file.empty()) {
    text += file.string();
    if (offset) {
      text += " (byte " + std::to_string(*offset) + ")";
    }
    text += ": ";
  }
  return text + message;
}

}  // namespace

Error::Error(ErrorCategory category, const std::string& message, std::filesystem::path file, std::optional<std::uint64_t> offset)
    : std::runtime_error(compose(message, file, offset)), category_(category), message_(message), file_(std::move(file)), offset_(offset) {}

}  // namespace msvis
