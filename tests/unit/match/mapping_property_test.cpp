// Random records and rules: the translation against a slow one that follows the rules word by word.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "match/layer_mapping.h"
#include "match/record_scope.h"
#include "match/translation.h"

namespace msvis {
namespace {

using Fields = std::vector<std::string>;

Fields split(const std::string& text) {
  Fields fields;
  std::string field;
  for (const char c : text) {
    if (c == '.') {
      fields.push_back(field);
      field.clear();
    } else {
      field += c;
    }
  }
  fields.push_back(field);
  return fields;
}

std::string join(const Fields& fields, std::size_t count) {
  std::string text;
  for (std::size_t index = 0; index < count; ++index) {
    text += (index == 0 ? "" : ".") + fields[index];
  }
  return text;
}

struct Record {
  std::string name;
  std::string parent;
  std::string frame;  ///< function that the stack shows; empty: no stack
};

struct SlowRecord {
  std::string name;
  std::string type;
  std::string state;
  std::string scope;
};

std::vector<SlowRecord> slow_scopes(const std::vector<Record>& records) {
  std::vector<SlowRecord> result;
  for (const Record& record : records) {
    const Fields parts = split(record.name);
    const std::size_t n = parts.size();
    SlowRecord slow;
    slow.name = record.name;
    std::string api;
    std::string layer;
    bool frame = true;
    if (parts[n - 1] == "parameters_grad") {
      api = parts[n - 3];
      slow.type = parts[n - 2];
      slow.state = "parameters_grad";
      layer = join(parts, n - 3);
    } else if (parts[n - 2] == "parameters_grad" && std::regex_match(parts[n - 1], std::regex("[0-9]+"))) {
      api = parts[n - 4];
      slow.type = parts[n - 3];
      slow.state = "parameters_grad";
      layer = join(parts, n - 3);
    } else if (parts[0] == "Module" || parts[0] == "Cell") {
      api = parts[n - 4];
      slow.type = parts[n - 3];
      slow.state = parts[n - 2];
      layer = join(parts, n - 4);
      frame = false;
    } else {
      api = slow.type = parts[n - 3];
      slow.state = parts[n - 1];
      const Fields above = split(record.parent);
      layer = record.parent.empty() ? "TopLayer" : join(above, above.size() > 3 ? above.size() - 3 : 0);
      frame = parts[0] != "Primitive" && parts[0] != "Jit";
    }
    slow.scope = layer + (frame && !record.frame.empty() ? "." + record.frame : "") + "." + api;
    result.push_back(slow);
  }
  std::vector<std::string> changed(result.size());
  for (std::size_t index = 0; index < result.size(); ++index) {
    Fields parts = split(result[index].name);
    bool backward = false;
    for (std::size_t last = parts.size() - 2; last < parts.size(); ++last) {
      backward = backward || parts[last].find("backward") != std::string::npos;
      parts[last] = std::regex_replace(parts[last], std::regex("backward"), "forward");
    }
    if (backward) {
      for (const SlowRecord& other : result) {
        if (other.name == join(parts, parts.size())) {
          changed[index] = other.scope;
        }
      }
    }
  }
  for (std::size_t index = 0; index < result.size(); ++index) {
    if (!changed[index].empty()) {
      result[index].scope = changed[index];
    }
  }
  std::vector<std::string> prefixes;
  for (const SlowRecord& record : result) {
    if (record.type == "ParallelTransformer" && std::find(prefixes.begin(), prefixes.end(), record.scope + ".layers") == prefixes.end()) {
      prefixes.push_back(record.scope + ".layers");
    }
  }
  for (const std::string& prefix : prefixes) {
    const std::size_t field = split(prefix).size();
    const auto number = [&](const SlowRecord& record) -> std::optional<int> {
      std::smatch found;
      if (record.scope.rfind(prefix + ".", 0) != 0) {
        return std::nullopt;
      }
      const std::string text = split(record.scope)[field];
      return std::regex_search(text, found, std::regex("([0-9]+)[^0-9]*$")) ? std::optional(std::stoi(found[1])) : std::nullopt;
    };
    std::optional<int> least;
    for (const SlowRecord& record : result) {
      if (const auto found = number(record); found && (!least || *found < *least)) {
        least = found;
      }
    }
    for (SlowRecord& record : result) {
      if (const auto found = number(record)) {
        Fields fields = split(record.scope);
        fields[field] = std::to_string(*found - *least);
        record.scope = join(fields, fields.size());
      }
    }
  }
  return result;
}

/// By scope without its first field.
struct SlowTree {
  std::map<std::string, std::string> types;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> names;  ///< by scope and state

  explicit SlowTree(const std::vector<SlowRecord>& records) {
    types[""] = "TopLayer";
    for (const SlowRecord& record : records) {
      const Fields fields = split(record.scope);
      std::string path;
      for (std::size_t index = 1; index < fields.size(); ++index) {
        path += "/" + fields[index];
        types.emplace(path, fields[index]);
      }
      types[path] = record.type;
      names[{path, record.state}].push_back(record.name);
    }
  }
};

using SlowRules = std::map<std::string, std::vector<std::pair<Fields, Fields>>>;

std::string slow_translate(const SlowRecord& record, const SlowTree& target, const SlowTree& golden, const SlowRules& rules) {
  const Fields fields = split(record.scope);
  std::string at;
  std::string out;
  for (std::size_t index = 1; index < fields.size();) {
    Fields from = {fields[index]};
    Fields to = {fields[index]};
    if (const auto found = rules.find(target.types.at(at)); found != rules.end()) {
      auto sorted = found->second;
      std::stable_sort(sorted.begin(), sorted.end(),
                       [](const auto& left, const auto& right) { return left.first.size() > right.first.size(); });
      for (const auto& [key, value] : sorted) {
        if (key.size() <= fields.size() - index &&
            std::equal(key.begin(), key.end(), fields.begin() + static_cast<std::ptrdiff_t>(index))) {
          from = key;
          to = value;
          break;
        }
      }
    }
    for (const std::string& field : from) {
      at += "/" + field;
    }
    for (const std::string& field : to) {
      out += "/" + field;
    }
    index += from.size();
  }
  const auto& here = target.names.at({at, record.state});
  const auto position = static_cast<std::size_t>(std::find(here.begin(), here.end(), record.name) - here.begin());
  const auto there = golden.names.find({out, record.state});
  return there != golden.names.end() && position < there->second.size() ? there->second[position] : "N/A";
}

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t limit) { return random_() % limit; }

  std::string any(const Fields& of) { return of[below(of.size())]; }

  std::string path(std::size_t longest) {
    std::string text = field();
    for (std::size_t length = below(longest); length > 0; --length) {
      text += "." + field();
    }
    return text;
  }

  std::vector<Record> records() {
    std::set<std::string> known;
    Fields modules;
    std::vector<Record> records;
    const auto add = [&](Record record) {
      if (known.insert(record.name).second) {
        records.push_back(std::move(record));
      }
    };
    for (std::size_t count = 5 + below(25); count > 0; --count) {
      const std::string number = std::to_string(below(3));
      const std::string direction = any({"forward", "backward"});
      std::string base = any({"Module", "Cell", "Module"}) + ".";
      base += (below(3) == 0 ? "m.e.layers." + any({"3", "4", "x5", "norm", "12"}) + (below(2) == 0 ? "" : "." + field()) : path(4)) + ".";
      base += any(classes_);
      switch (below(5)) {
        case 0:
          add({base + ".parameters_grad" + (below(2) == 0 ? "" : "." + number), "", below(4) == 0 ? "fn" : ""});
          break;
        case 1:
          add({any({"Torch", "Functional", "Primitive", "Jit"}) + "." + any({"add", "a", "relu"}) + "." + number + "." + direction,
               modules.empty() || below(4) == 0 ? any({"", "optimizer"}) : any(modules), below(3) == 0 ? any({"fn", "a", "linear7"}) : ""});
          break;
        default:
          add({base + "." + direction + "." + number, "", ""});
          modules.push_back(base + "." + direction + "." + number);
      }
    }
    if (below(2) == 0) {
      add({"Module.m.e.ParallelTransformer.forward.0", "", ""});
    }
    return records;
  }

  SlowRules rules() {
    SlowRules rules;
    for (std::size_t count = below(6); count > 0; --count) {
      auto& of_class = rules[any({"TopLayer", "A", "B", "Net", "a", "m", "ParallelTransformer", "layers"})];
      std::set<std::string> keys;
      for (const auto& [from, to] : of_class) {
        keys.insert(join(from, from.size()));
      }
      for (std::size_t rule = 1 + below(4); rule > 0; --rule) {
        const std::string key = path(3);
        if (keys.insert(key).second) {
          of_class.emplace_back(split(key), split(path(3)));
        }
      }
    }
    return rules;
  }

 private:
  std::string field() { return any({"a", "b", "m", "e", "0", "layers", "fn"}); }

  std::mt19937 random_;
  Fields classes_ = {"A", "B", "Net", "ParallelTransformer"};
};

std::string yaml_of(const SlowRules& rules) {
  std::ostringstream text;
  for (const auto& [class_name, of_class] : rules) {
    text << '"' << class_name << "\":\n";
    for (const auto& [from, to] : of_class) {
      text << "  \"" << join(from, from.size()) << "\": \"" << join(to, to.size()) << "(Class)\"\n";
    }
  }
  return rules.empty() ? "{}" : text.str();
}

TEST(MappingProperty, EqualsTheSlowTranslation) {
  std::size_t found = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Generator generator(seed);
    const std::vector<Record> target = generator.records();
    const std::vector<Record> golden = generator.records();
    const SlowRules rules = generator.rules();
    JsonPool pool;
    const auto scopes = [&](const std::vector<Record>& records) {
      std::vector<RecordSource> sources;
      for (const Record& record : records) {
        RecordSource& source = sources.emplace_back();
        source.name = record.name;
        source.parent = record.parent;
        if (!record.frame.empty()) {
          source.stack = pool.string_array(std::vector{"File /site-packages/torch/x.py, line 1, in " + record.frame + ", \n x"});
        }
      }
      return record_scopes(sources, Framework::pytorch, Compat::reference, "");
    };
    const auto target_scopes = scopes(target);
    const auto golden_scopes = scopes(golden);
    const auto slow_target = slow_scopes(target);
    const auto slow_golden = slow_scopes(golden);
    for (std::size_t record = 0; record < target.size(); ++record) {
      ASSERT_EQ(target_scopes[record].full_scope, slow_target[record].scope) << target[record].name << " seed " << seed;
    }
    const ScopeTree target_tree(target_scopes);
    const ScopeTree golden_tree(golden_scopes);
    const SlowTree slow_target_tree(slow_target);
    const SlowTree slow_golden_tree(slow_golden);
    const LayerMapping mapping = LayerMapping::parse(yaml_of(rules));
    const Translator translator(target_scopes, target_tree, golden_tree, mapping);
    std::vector<Translator::Applied> applied;
    for (std::size_t record = 0; record < target.size(); ++record) {
      const std::uint32_t partner = translator.translate(record, applied);
      const std::string name = partner == no_node ? "N/A" : golden[partner].name;
      found += partner == no_node ? 0 : 1;
      ASSERT_EQ(name, slow_translate(slow_target[record], slow_target_tree, slow_golden_tree, rules))
          << target[record].name << " seed " << seed << "\n"
          << yaml_of(rules);
    }
  }
  EXPECT_GT(found, 300U);
}

}  // namespace
}  // namespace msvis
