#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "msvis/dump.h"
#include "msvis/error.h"

namespace msvis {
namespace {

using testing::HasSubstr;

class DumpRead : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "msvis-dump-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = std::filesystem::canonical(name);
    write("dump.json", R"({"task":"statistics","level":"mix","framework":"pytorch","dump_data_dir":null,"data":{}})");
    write("stack.json", "{}");
    write("construct.json", R"({"a":null})");
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  void write(const std::string& name, std::string_view text) const { std::ofstream(directory_ / name, std::ios::binary) << text; }
  [[nodiscard]] Dump read() const { return Dump::read(directory_); }
  void expect_refused(const std::string& file, ErrorCategory category, const std::string& message) const {
    try {
      const Dump dump = read();
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), category) << error.what();
      EXPECT_EQ(error.file(), directory_ / file) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
  std::filesystem::path directory_;
};

TEST_F(DumpRead, Members) {
  write("dump.json", R"({"task":"tensor","level":"L0","framework":"mindspore","data":{"x":{"input_args":[]},"y":{"output":[1]}}})");
  const Dump dump = read();
  EXPECT_EQ(dump.task, "tensor");
  EXPECT_EQ(dump.level, "L0");
  EXPECT_EQ(dump.framework, "mindspore");
  EXPECT_EQ(dump.data.size(), 2U);
  EXPECT_TRUE(dump.entry("y").find("output"));
  EXPECT_FALSE(dump.entry("z"));
  EXPECT_EQ(dump.directory, directory_);
  EXPECT_GT(dump.bytes(), 90U);
  EXPECT_EQ(dump.construct.size(), 1U);
  EXPECT_EQ(dump.construct_index("a"), 0U);
  EXPECT_FALSE(dump.construct_index("b"));
}

TEST_F(DumpRead, WrongTypesCountAsMissing) {
  write("dump.json", R"({"task":1,"level":null,"framework":["pytorch"]})");
  const Dump dump = read();
  EXPECT_EQ(dump.task, "");
  EXPECT_EQ(dump.level, "");
  EXPECT_EQ(dump.framework, "");
  EXPECT_FALSE(dump.data);
  EXPECT_FALSE(dump.entry("x"));
  EXPECT_EQ(dump.detected_framework(), Framework::unknown);
  EXPECT_FALSE(dump.has_md5());
  write("dump.json", R"({"data":[1,2]})");
  EXPECT_TRUE(read().data.is_array());
}

TEST_F(DumpRead, EmptyDump) {
  const Dump dump;
  EXPECT_FALSE(dump.entry("x"));
  EXPECT_FALSE(dump.stack("x"));
  EXPECT_FALSE(dump.construct_index("x"));
  EXPECT_EQ(dump.bytes(), 0U);
  EXPECT_EQ(dump.detected_framework(), Framework::unknown);
}

TEST_F(DumpRead, MovedDumpKeepsItsValues) {
  Dump dump = read();
  const JsonValue data = dump.data;
  const Dump other = std::move(dump);
  EXPECT_TRUE(other.data.same_as(data));
  EXPECT_EQ(other.construct[0].child, "a");
}

TEST_F(DumpRead, DataDirectory) {
  EXPECT_EQ(read().dump_data_dir, std::nullopt);
  write("dump.json", "{}");
  EXPECT_EQ(read().dump_data_dir, "");
  const std::string here = directory_.string();
  const std::string fallback = here + "/dump_tensor_data";
  write("dump.json", R"({"dump_data_dir":"/elsewhere/dump_tensor_data"})");
  EXPECT_EQ(read().dump_data_dir, fallback);
  write("dump.json", R"({"dump_data_dir":")" + here + R"(/tensors"})");
  EXPECT_EQ(read().dump_data_dir, here + "/tensors");
  write("dump.json", R"({"dump_data_dir":")" + here + R"(/a/tensors"})");
  EXPECT_EQ(read().dump_data_dir, fallback);
  write("dump.json", R"({"dump_data_dir":"./dump_tensor_data"})");
  EXPECT_EQ(read().dump_data_dir, fallback);
  write("dump.json", R"({"dump_data_dir":5})");
  EXPECT_EQ(read().dump_data_dir, fallback);
}

TEST_F(DumpRead, LinksAreResolved) {
  const std::filesystem::path link = directory_.string() + "-link";
  std::filesystem::create_directory_symlink(directory_, link);
  const Dump dump = Dump::read(link);
  std::filesystem::remove(link);
  EXPECT_EQ(dump.directory, directory_);
}

TEST_F(DumpRead, StackInGroups) {
  write("stack.json", R"({"0":[["a","b"],["f1"]],"1":[["c",3,"b"],["f2","f3"]],"2":"x","3":[["d"]],"4":["d",["f"]],"5":[["e"],"text"]})");
  const Dump dump = read();
  EXPECT_EQ(dump.stack("a").size(), 1U);
  EXPECT_EQ(dump.stack("b").size(), 2U);  // the later group wins
  EXPECT_EQ(dump.stack("c").size(), 2U);
  EXPECT_FALSE(dump.stack("d"));
  EXPECT_TRUE(dump.stack("e").is_string());
  EXPECT_FALSE(dump.stack("0"));
}

TEST_F(DumpRead, StackByName) {
  write("stack.json", R"({"a":["f1","f2"],"1":[["x"],["y"]]})");
  EXPECT_EQ(read().stack("a").size(), 2U);
  EXPECT_FALSE(read().stack("x"));
  write("stack.json", R"({"0":[],"a":["f1"]})");
  EXPECT_EQ(read().stack("a").size(), 1U);
  EXPECT_TRUE(read().stack("0"));
}

TEST_F(DumpRead, Construct) {
  write("construct.json", R"({"c":"b","b":null,"a":"","c":"z"})");
  const Dump dump = read();
  ASSERT_EQ(dump.construct.size(), 3U);
  EXPECT_EQ(dump.construct[0].child, "c");
  EXPECT_EQ(dump.construct[0].parent, "z");
  EXPECT_EQ(dump.construct[1].parent, "");
  EXPECT_EQ(dump.construct[2].parent, "");
  EXPECT_EQ(dump.construct_index("a"), 2U);
  EXPECT_FALSE(dump.megatron_micro_steps);
}

TEST_F(DumpRead, MegatronConstruct) {
  write("construct.json", R"({"megatron_micro_step_number":1,"a":[null,0],"f":["a",1],"g":"a"})");
  const Dump dump = read();
  ASSERT_EQ(dump.construct.size(), 3U);
  EXPECT_EQ(dump.megatron_micro_steps, 1);
  EXPECT_EQ(dump.construct[0].parent, "");
  EXPECT_EQ(dump.construct[1].parent, "a");
  EXPECT_EQ(dump.construct[1].micro_step, 1);
  EXPECT_EQ(dump.construct[2].micro_step, 0);
  EXPECT_FALSE(dump.construct_index("megatron_micro_step_number"));
  write("construct.json", R"({"f":["a",1]})");
  EXPECT_EQ(read().construct[0].micro_step, 1);
}

TEST_F(DumpRead, LargeFiles) {
  // Large objects are asked through an index: repeated keys, the Megatron member in between, a key of another level.
  std::string construct = "{";
  std::string data = R"({"data":{)";
  std::string stack = "{";
  for (int k = 0; k < 3000; ++k) {
    const std::string name = "node." + std::to_string(k);
    construct += "\"" + name + "\":[null," + std::to_string(k) + "],";
    data += "\"" + name + "\":{\"output\":[" + std::to_string(k) + "]},";
    stack += "\"" + name + "\":[" + std::to_string(k) + "],";
    if (k == 1000) {
      construct += R"("megatron_micro_step_number":7,)";
      data += R"("\u006eode.5":"first",)";
    }
  }
  write("construct.json", construct + R"("node.10":["x",99]})");
  write("dump.json", data + R"("node.5":"last"}})");
  write("stack.json", stack + R"("z":[]})");
  const Dump dump = read();
  ASSERT_EQ(dump.construct.size(), 3000U);
  EXPECT_EQ(dump.data.size(), 3000U);
  for (std::uint32_t k = 0; k < 3000; ++k) {
    const std::string name = "node." + std::to_string(k);
    EXPECT_EQ(dump.construct_index(name), k);
    EXPECT_EQ(dump.construct[k].child, name);
    EXPECT_EQ(dump.construct[k].micro_step, k == 10 ? 99 : k);
    EXPECT_EQ((*dump.stack(name).elements().begin()).text(), std::to_string(k));
    if (k == 5) {
      EXPECT_EQ(dump.entry(name).text(), "last");
    } else {
      EXPECT_EQ((*dump.entry(name).find("output").elements().begin()).text(), std::to_string(k));
    }
  }
  EXPECT_FALSE(dump.construct_index("node.3000"));
  EXPECT_FALSE(dump.construct_index("megatron_micro_step_number"));
  EXPECT_FALSE(dump.entry("data"));
  EXPECT_FALSE(dump.entry("output"));
  EXPECT_FALSE(dump.stack("node.3000"));
}

TEST_F(DumpRead, ConstructRefused) {
  const auto refuse = [this](std::string_view text, const std::string& message) {
    write("construct.json", text);
    expect_refused("construct.json", ErrorCategory::format, message);
  };
  refuse("{}", "level L0 or mix");
  refuse(R"({"megatron_micro_step_number":1})", "level L0 or mix");
  refuse("[]", "level L0 or mix");
  refuse(R"(["a"])", "level L0 or mix");
  refuse("3", "an object was expected");
  refuse(R"({"node":[null]})", "\"node\"");
  refuse(R"({"node":["a",1,2]})", "\"node\"");
  refuse(R"({"node":[]})", "\"node\"");
  refuse(R"({"node":5})", "\"node\"");
  refuse(R"({"node":{}})", "\"node\"");
  refuse(R"({"node":[5,0]})", "\"node\"");
  refuse(R"({"node":["a","b"]})", "\"node\"");
  refuse(R"({"node":["a",1.5]})", "\"node\"");
  refuse(R"({"node":["a",99999999999999999999]})", "\"node\"");
  refuse(R"({"megatron_micro_step_number":"x","a":null})", "megatron_micro_step_number");
}

TEST_F(DumpRead, FilesRefused) {
  for (const std::string file : {"dump.json", "stack.json"}) {
    const std::string good = file == "stack.json" ? "{}" : R"({"data":{}})";
    write(file, "[1]");
    expect_refused(file, ErrorCategory::format, "an object was expected");
    write(file, "{\"a\":");
    expect_refused(file, ErrorCategory::format, "cut short");
    std::filesystem::remove(directory_ / file);
    expect_refused(file, ErrorCategory::path, "does not exist");
    ASSERT_EQ(mkfifo((directory_ / file).c_str(), 0600), 0);
    expect_refused(file, ErrorCategory::path, "no regular file");
    std::filesystem::remove(directory_ / file);
    std::filesystem::create_directory(directory_ / file);
    expect_refused(file, ErrorCategory::path, "is a directory");
    std::filesystem::remove(directory_ / file);
    write(file, good);
  }
  EXPECT_THROW(Dump::read(directory_ / "absent"), Error);
}

TEST_F(DumpRead, DetectedFramework) {
  const auto detect = [this](std::string_view text) {
    write("dump.json", text);
    return read().detected_framework();
  };
  EXPECT_EQ(detect(R"({"framework":"pytorch","data":{"x":{"type":"mindspore.Tensor"}}})"), Framework::pytorch);
  EXPECT_EQ(detect(R"({"framework":"mindspore"})"), Framework::mindspore);
  EXPECT_EQ(detect(R"({"framework":"mindtorch"})"), Framework::unknown);
  EXPECT_EQ(detect(R"({"x":{"type":"torch.Tensor"}})"), Framework::pytorch);
  EXPECT_EQ(detect(R"({"x":{"type":"mindspore.Tensor"}})"), Framework::mindspore);
  EXPECT_EQ(detect(R"({"x":{"type":   "mindspore.Tensor"}})"), Framework::mindspore);
  // In one line mindspore counts first, over lines the first line.
  EXPECT_EQ(detect(R"({"x":{"type":"torch.Tensor"},"y":{"type":"mindspore.Tensor"}})"), Framework::mindspore);
  EXPECT_EQ(detect("{\"x\":{\"type\": \"torch.Tensor\"},\n\"y\":{\"type\": \"mindspore.Tensor\"}}"), Framework::pytorch);
  EXPECT_EQ(detect("{\"x\":{\"type\": \"int\"},\n\"y\":{\"type\": \"mindspore.Tensor\"},\n\"z\":{\"type\":\"torch.Tensor\"}}"),
            Framework::mindspore);
  EXPECT_EQ(detect("{\"type\":\n\"torch\"}"), Framework::unknown);
  EXPECT_EQ(detect(R"({"s":"\"type\": \"torch\""})"), Framework::unknown);
}

TEST_F(DumpRead, HasMd5) {
  const auto has = [this](const std::string& record) {
    write("dump.json", R"({"data":{"first":{"input_args":[]},"r":)" + record + "}}");
    return read().has_md5();
  };
  EXPECT_TRUE(has(R"({"input_args":[{"type":"t","md5":"x"}]})"));
  EXPECT_TRUE(has(R"({"input_args":[{"type":"t"},null,0,{"md5":null}]})"));
  EXPECT_TRUE(has(R"({"weight":[{"md5":""}]})"));
  EXPECT_TRUE(has(R"({"output":["an md5 text"]})"));
  EXPECT_TRUE(has(R"({"output":[["md5"]]})"));
  EXPECT_TRUE(has(R"({"md5":{"md5":1}})"));
  EXPECT_TRUE(has(R"({"x":"md5"})"));
  EXPECT_FALSE(has(R"({"md5":true})"));
  EXPECT_FALSE(has(R"({"input_kwargs":{"x":{"md5":"x"}}})"));
  EXPECT_FALSE(has(R"({"input_args":[[{"md5":"x"}]]})"));
  EXPECT_FALSE(has(R"({"parameters":{"w":{"md5":"x"}}})"));
  EXPECT_FALSE(has(R"({"output":[["md5 "],5,true,{"xor":1}]})"));
  EXPECT_FALSE(has("{}"));
  EXPECT_FALSE(has("5"));
}

}  // namespace
}  // namespace msvis
