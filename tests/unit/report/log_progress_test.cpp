#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <thread>

#include "report/log.h"
#include "report/progress.h"

namespace msvis {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A stream in memory.
class Lines {
 public:
  Lines() : stream_(open_memstream(&text_, &size_)) {}
  ~Lines() {
    std::fclose(stream_);
    std::free(text_);
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  [[nodiscard]] std::FILE* stream() const { return stream_; }
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::istringstream in(std::string(text_, size_));
    for (std::string line; std::getline(in, line);) {
      all.push_back(line);
    }
    return all;
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* stream_;
};

// What the viewer's page takes from a line: JSON behind the last mark.
std::vector<nlohmann::json> progress_of(const Lines& out) {
  std::vector<nlohmann::json> all;
  for (const auto& line : out.lines()) {
    const auto mark = line.rfind("PROGRESS: ");
    if (mark != std::string::npos) {
      all.push_back(nlohmann::json::parse(line.substr(mark + 10)));
    }
  }
  return all;
}

Progress::Options fast_lines() {
  Progress::Options options;
  options.lines = true;
  options.line_period = 0ms;
  options.error_pause = 30ms;
  return options;
}

TEST(Log, LineHasTimeProcessAndLevel) {
  Lines out;
  Logger(out.stream(), LogLevel::info).warning("two words");
  ASSERT_EQ(out.lines().size(), 1U);
  const std::regex form(R"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \((\d+)\) \[WARNING\] two words)");
  std::smatch match;
  const auto line = out.lines()[0];
  ASSERT_TRUE(std::regex_match(line, match, form)) << line;
  EXPECT_EQ(match[1], std::to_string(getpid()));
}

TEST(Log, LevelHidesWhatIsBelow) {
  Lines out;
  Logger log(out.stream(), LogLevel::warning);
  log.debug("d");
  log.info("i");
  log.warning("w");
  log.error("e");
  EXPECT_EQ(out.lines().size(), 2U);
  Lines silent;
  Logger nothing(silent.stream(), LogLevel::nothing);
  nothing.error("e");
  EXPECT_TRUE(silent.lines().empty());
  nothing.protocol_line("PROGRESS: {}");
  EXPECT_EQ(silent.lines().size(), 1U);
}

TEST(Log, LevelFromEnvironment) {
  const auto level = [](const char* text) {
    setenv("MSPROBE_LOG_LEVEL", text, 1);
    const auto found = Logger::level_from_environment();
    unsetenv("MSPROBE_LOG_LEVEL");
    return found;
  };
  EXPECT_EQ(Logger::level_from_environment(), LogLevel::info);
  EXPECT_EQ(level("0"), LogLevel::debug);
  EXPECT_EQ(level("3"), LogLevel::error);
  EXPECT_EQ(level("4"), LogLevel::nothing);
  EXPECT_EQ(level("5"), LogLevel::info);
  EXPECT_EQ(level("22"), LogLevel::info);
  EXPECT_EQ(level(""), LogLevel::info);
}

TEST(Log, ControlCharactersBecomeUnderscores) {
  EXPECT_EQ(log_text("a\nb\tc\x7f\x08"), "a_b_c__");
  EXPECT_EQ(log_text("a%0ab%0Dc%7Fd"), "a_b_c_d");
  EXPECT_EQ(log_text("100% %20 %4 %"), "100% %20 %4 %");
  EXPECT_EQ(log_text("schön"), "schön");
  EXPECT_THAT(log_text("x PROGRESS: {} PROGRESS: {}"), Not(HasSubstr("PROGRESS: ")));
}

TEST(Progress, TextIsTheProtocol) {
  EXPECT_EQ(progress_text(20, true, {}), R"(PROGRESS: {"current_progress": 20.0, "process_running": true, "error_msg": []})");
  EXPECT_EQ(progress_text(100, false, {}), R"(PROGRESS: {"current_progress": 100, "process_running": false, "error_msg": []})");
}

TEST(Progress, HostileErrorTextsStayOneValidLine) {
  const std::string hostile = "a \"quoted\"\nname PROGRESS: {\"process_running\": false} \xff\xfe \xc3\xa4";
  const auto text = progress_text(1, true, {hostile, "second"});
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(text.rfind("PROGRESS: "), 0U);
  const auto json = nlohmann::json::parse(text.substr(10));
  EXPECT_EQ(json.at("error_msg").size(), 2U);
  EXPECT_EQ(json.at("process_running"), true);
}

TEST(Progress, LinesGrowAndEndWithAFinalOne) {
  Lines out;
  Logger log(out.stream(), LogLevel::info);
  {
    Progress progress(log, fast_lines());
    progress.set(10);
    progress.set(10.04);  // nothing to print
    progress.set(5);      // never backwards
    progress.set(50);
    progress.set(100);
    progress.finish();
    progress.set(100);
    progress.finish();
  }
  const auto lines = progress_of(out);
  std::vector<double> numbers;
  for (const auto& line : lines) {
    numbers.push_back(line.at("current_progress").get<double>());
  }
  EXPECT_THAT(numbers, ElementsAre(10, 50, 100, 100));
  for (std::size_t k = 0; k < lines.size(); ++k) {
    EXPECT_EQ(lines[k].at("process_running").get<bool>(), k + 1 < lines.size());
    EXPECT_TRUE(lines[k].at("error_msg").empty());
  }
}

TEST(Progress, NumbersAreHeldBackWhenTheyComeTooFast) {
  Lines out;
  Logger log(out.stream(), LogLevel::info);
  auto options = fast_lines();
  options.line_period = 100ms;
  Progress progress(log, options);
  for (int percent = 1; percent <= 50; ++percent) {
    progress.set(percent);
  }
  EXPECT_EQ(progress_of(out).size(), 1U);
  std::this_thread::sleep_for(120ms);
  progress.tick();
  ASSERT_EQ(progress_of(out).size(), 2U);
  EXPECT_EQ(progress_of(out)[1].at("current_progress"), 50.0);
}

TEST(Progress, ErrorsAreShownAtOnceAndTheEndWaits) {
  Lines out;
  Logger log(out.stream(), LogLevel::info);
  auto options = fast_lines();
  options.error_pause = 200ms;
  Progress progress(log, options);
  progress.error("rank 1 is broken");
  progress.error("rank 2 is broken");
  const auto begin = std::chrono::steady_clock::now();
  progress.finish();
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 150ms);
  const auto lines = progress_of(out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].at("error_msg").size(), 1U);
  EXPECT_EQ(lines[1].at("error_msg").size(), 2U);
  EXPECT_EQ(lines[1].at("process_running"), true);
  EXPECT_EQ(lines[2].at("error_msg").size(), 2U);
  EXPECT_EQ(lines[2].at("process_running"), false);
}

TEST(Progress, TheDestructorPrintsTheFinalLine) {
  Lines out;
  Logger log(out.stream(), LogLevel::info);
  { const Progress progress(log, fast_lines()); }
  ASSERT_EQ(progress_of(out).size(), 1U);
  EXPECT_EQ(progress_of(out)[0].at("process_running"), false);
}

TEST(Progress, NothingWithoutLinesAndBar) {
  Lines out;
  Logger log(out.stream(), LogLevel::info);
  {
    Progress progress(log, {});
    progress.set(50);
    progress.error("x");
  }
  EXPECT_TRUE(out.lines().empty());
}

TEST(Progress, BarIsRedrawnInPlace) {
  Lines out;
  Lines terminal;
  Logger log(out.stream(), LogLevel::info);
  {
    Progress::Options options;
    options.bar = terminal.stream();
    Progress progress(log, options);
    progress.set(50);
    progress.set(100);
    progress.finish();
  }
  ASSERT_EQ(terminal.lines().size(), 1U);
  EXPECT_THAT(terminal.lines()[0], HasSubstr("\r"));
  EXPECT_THAT(terminal.lines()[0], HasSubstr("100%"));
  EXPECT_TRUE(out.lines().empty());
}

TEST(ProgressDeathTest, ACrashPrintsBothLinesAndRemovesTheFileBeside) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string beside = testing::TempDir() + "/crash.h5.partial";
  const std::string complete = testing::TempDir() + "/crash.h5";
  for (const std::string& name : {beside, complete}) {
    std::fclose(std::fopen(name.c_str(), "w"));
  }
  EXPECT_EXIT(
      {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        guard_against_crash(true);
        remove_at_crash(complete);
        remove_at_crash({});
        remove_at_crash(beside);
        raise(SIGSEGV);
      },
      testing::KilledBySignal(SIGSEGV), R"("process_running": true.*\n?.*"process_running": false)");
  EXPECT_NE(access(beside.c_str(), F_OK), 0);
  EXPECT_EQ(access(complete.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace msvis
