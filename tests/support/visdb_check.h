// The conformance rules of a result file: what the viewer needs to be true of it.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace msvis::test {

/// A rule that a file breaks.
struct Violation {
  std::string rule;    ///< S01 to S07, N01 to N24, C01 to C06; "open" if the file can't be read at all
  std::string detail;  ///< what was found
};

std::ostream& operator<<(std::ostream& out, const Violation& violation);

struct VisDbCheckOptions {
  /// N12 (links are mutual) does not hold under fuzzy matching and layer mapping, where several nodes may share one partner.
  bool mutual_links = true;
  /// S06 looks at the directory of the file, too; tests that use a directory of their own kind can leave that out.
  bool check_directory = true;
};

/// Applies every rule to a file, which is opened read-only, and returns what it breaks.
std::vector<Violation> check_visdb(const std::filesystem::path& file, const VisDbCheckOptions& options = {});

/// The violations, one a line; empty if there are none. For use in an expectation: EXPECT_EQ(visdb_violations(file), "").
std::string visdb_violations(const std::filesystem::path& file, const VisDbCheckOptions& options = {});

/// One row of a result; NULL is nullopt, numbers are text.
using TextRow = std::vector<std::optional<std::string>>;

/// Rows of a query on a result file, which is opened read-only. Throws std::runtime_error.
std::vector<TextRow> query_visdb(const std::filesystem::path& file, const std::string& sql);

/// The only value of a query; "NULL" for NULL, "no row" if there is none.
std::string single_value(const std::filesystem::path& file, const std::string& sql);

}  // namespace msvis::test
