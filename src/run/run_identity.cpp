#include "run/run_identity.h"

#include <sys/stat.h>

#include <array>
#include <ctime>
#include <filesystem>
#include <set>

#include "base/bytes.h"
#include "base/printable.h"

namespace msvis {
namespace {

constexpr std::size_t most_differences = 5;

std::string file_text(const std::filesystem::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) {
    return "not there";
  }
  std::tm utc{};
  gmtime_r(&status.st_mtim.tv_sec, &utc);
  std::array<char, 32> time{};
  const std::size_t size = std::strftime(time.data(), time.size(), "%Y-%m-%d %H:%M:%S", &utc);
  return std::to_string(status.st_size) + " bytes of " + std::string(time.data(), size) + "." + std::to_string(status.st_mtim.tv_nsec) +
         " UTC";
}

std::string path_text(const std::filesystem::path& path) {
  if (path.empty()) {
    return "none";
  }
  std::error_code error;
  const auto full = std::filesystem::weakly_canonical(path, error);
  return (error ? path : full).string();
}

std::string path_and_file_text(const std::filesystem::path& path) {
  return path.empty() ? "none" : path_text(path) + ", " + file_text(path);
}

std::string selection_text(const Selection& selection) {
  std::string text;
  for (const auto& [first, last] : selection.ranges) {
    text += (text.empty() ? "" : ",") + std::to_string(first) + "-" + std::to_string(last);
  }
  return text.empty() ? "all" : text;
}

const char* yes_or_no(bool value) {
  return value ? "yes" : "no";
}

std::string merging_text(const MergeOptions& merge) {
  std::string text = merge.as_json ? "as json" : "as db";
  for (const MergeSide* side : {&merge.target, &merge.golden}) {
    for (const std::int64_t size : {side->rank_size, side->tp, side->pp, side->vpp, side->cp, side->ep}) {
      text += " " + std::to_string(size);
    }
    text += " " + side->order;
  }
  return text;
}

using Texts = std::map<std::string, std::string>;

void put_texts(ByteWriter& out, const Texts& texts) {
  out.put_all(texts, [](ByteWriter& to, const auto& entry) {
    to.put(entry.first);
    to.put(entry.second);
  });
}

Texts get_texts(ByteReader& in) {
  const auto all = in.get_all([](ByteReader& from) {
    std::string name = from.get_string();
    std::string value = from.get_string();
    return std::pair(std::move(name), std::move(value));
  });
  return {all.begin(), all.end()};
}

void compare(const std::string& prefix, const Texts& before, const Texts& now, std::vector<std::string>& found) {
  std::set<std::string> names;
  for (const auto& texts : {before, now}) {
    for (const auto& [name, value] : texts) {
      names.insert(name);
    }
  }
  const auto value_in = [](const Texts& texts, const std::string& name) {
    const auto entry = texts.find(name);
    return entry == texts.end() ? std::string("not known") : printable(entry->second);
  };
  for (const auto& name : names) {
    if (value_in(before, name) != value_in(now, name)) {
      found.push_back(prefix + name + " was " + value_in(before, name) + ", now " + value_in(now, name));
    }
  }
}

void add_files(Texts& files, const std::string& prefix, const std::filesystem::path& directory) {
  if (directory.empty()) {
    return;
  }
  for (const char* name : {"dump.json", "stack.json", "construct.json"}) {
    files[prefix + name] = file_text(directory / name);
  }
}

}  // namespace

RunIdentity identity_of(const RunOptions& options, const std::string& version, const std::vector<WorkItem>& items) {
  RunIdentity identity;
  auto& settings = identity.settings;
  settings["the version"] = version;
  settings["-tp"] = path_text(options.target);
  settings["-gp"] = path_text(options.golden);
  settings["-lm"] = options.layer_mapping ? path_and_file_text(options.layer_mapping_file) : "off";
  settings["-oc"] = yes_or_no(options.overflow_check);
  settings["-fm"] = yes_or_no(options.fuzzy_match);
  settings["--compat"] = options.compat == Compat::reference ? "reference" : "standard";
  settings["--links"] = options.links == LinkMode::extended ? "extended" : "standard";
  settings["--steps"] = selection_text(options.steps);
  settings["--ranks"] = selection_text(options.ranks);
  settings["--ignore-rules"] = options.overflow_check ? path_and_file_text(options.ignore_rules) : "none";
  // They ask for more to be found of each item.
  settings["--suggest-mapping or --summary-json"] = yes_or_no(!options.suggest_mapping.empty() || !options.summary_json.empty());
  settings["the split (--rank_size, --tp, --pp, --vpp, --cp, --ep, --order)"] = options.merge ? merging_text(*options.merge) : "off";
  for (const WorkItem& item : items) {
    Texts& files = identity.items[{item.step, item.rank}];
    if (item.replicas.empty()) {
      add_files(files, "target ", item.target);
      add_files(files, "golden ", item.golden);
    }
    for (std::size_t side = 0; side < item.replicas.size(); ++side) {
      for (const std::string& name : item.replicas[side].names) {
        add_files(files, (side == 0 ? "target " : "golden ") + name + "/", item.replicas[side].directory / name);
      }
    }
  }
  return identity;
}

std::string pack(const RunIdentity& identity) {
  ByteWriter out;
  put_texts(out, identity.settings);
  out.put_all(identity.items, [](ByteWriter& to, const auto& item) {
    to.put(item.first.first);
    to.put(item.first.second);
    put_texts(to, item.second);
  });
  return out.take();
}

RunIdentity unpack_run_identity(std::string_view bytes) {
  ByteReader in(bytes);
  RunIdentity identity;
  identity.settings = get_texts(in);
  const auto items = in.get_all([](ByteReader& from) {
    const auto step = from.get<std::int64_t>();
    const auto rank = from.get<std::int64_t>();
    return std::pair(std::pair(step, rank), get_texts(from));
  });
  identity.items.insert(items.begin(), items.end());
  return identity;
}

std::vector<std::string> differences(const RunIdentity& unfinished, const RunIdentity& now,
                                     const std::function<bool(std::int64_t step, std::int64_t rank)>& counts, bool more_items) {
  std::vector<std::string> found;
  compare("", unfinished.settings, now.settings, found);
  const auto name_of = [](const std::pair<std::int64_t, std::int64_t>& item) {
    return "step " + std::to_string(item.first) + " rank " + std::to_string(item.second);
  };
  for (const auto& [item, files] : unfinished.items) {
    if (const auto there = now.items.find(item); there == now.items.end()) {
      found.push_back(name_of(item) + " is no longer part of the run");
    } else if (counts(item.first, item.second)) {
      compare(name_of(item) + ": ", files, there->second, found);
    }
  }
  for (const auto& [item, files] : now.items) {
    if (!more_items && !unfinished.items.contains(item)) {
      found.push_back(name_of(item) + " is new");
    }
  }
  if (found.size() > most_differences) {
    const std::size_t more = found.size() - most_differences;
    found.resize(most_differences);
    found.push_back("and " + std::to_string(more) + " more");
  }
  return found;
}

}  // namespace msvis
