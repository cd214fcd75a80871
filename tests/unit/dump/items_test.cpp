#include "msvis/items.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "dump/python_text.h"
#include "msvis/dump.h"
#include "msvis/error.h"

namespace msvis {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Items of one entry, with everything that they point into.
class Built {
 public:
  Built(std::string_view node, std::string_view json) : document_(JsonDocument::parse(json)) {
    build_items(node, document_.root(), pool_, lists);
  }
  ItemLists lists;

 private:
  JsonDocument document_;
  JsonPool pool_;
};

std::vector<std::string> keys(const std::vector<Item>& items) {
  std::vector<std::string> all;
  all.reserve(items.size());
  for (const Item& item : items) {
    all.emplace_back(item.key);
  }
  return all;
}

std::string members(const Item& item) {
  std::vector<JsonValue::Member> list;
  list_members(item, list);
  std::string text;
  for (const auto& [key, value] : list) {
    text += (text.empty() ? "" : " ") + std::string(key) + "=";
    append_display(text, value);
  }
  return text;
}

/// Members of the only item of an argument `leaf` at `node`.input.0 (list form) or .input.<name>.
std::string argument(std::string_view leaf, std::string_view name = "") {
  const std::string entry = name.empty() ? R"({"input_args":[)" + std::string(leaf) + "]}"
                                         : R"({"input_kwargs":{")" + std::string(name) + "\":" + std::string(leaf) + "}}";
  const Built built("Torch.f.0.forward", entry);
  EXPECT_EQ(built.lists.inputs.size(), 1U);
  EXPECT_THAT(built.lists.outputs, IsEmpty());
  return built.lists.inputs.empty() ? "" : members(built.lists.inputs.front());
}

TEST(Items, Tensor) {
  EXPECT_EQ(
      argument(R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[2,3],"Max":1.5,"Min":-2.0,"Mean":0.25,"Norm":3.123456789012,)"
               R"("requires_grad":true})"),
      "type=torch.Tensor dtype=torch.float32 shape=[2, 3] Max=1.5 Min=-2.0 Mean=0.25 Norm=3.123456789012 requires_grad=True "
      "data_name=-1 md5=00000000");
  EXPECT_EQ(
      argument(R"({"type":"torch.Tensor","dtype":"torch.bool","shape":[],"Max":true,"Min":false,"Mean":null,"Norm":null,)"
               R"("requires_grad":false,"md5":"00112233","data_name":null})"),
      "type=torch.Tensor dtype=torch.bool shape=[] Max=True Min=False Mean=null Norm=null requires_grad=False md5=00112233 data_name=-1");
  // An xor dump has no statistics; a MindSpore tensor no requires_grad.
  EXPECT_EQ(
      argument(R"({"type":"mindspore.Tensor","dtype":"Float32","shape":[2],"md5":"0x0011223344556677"})"),
      "type=mindspore.Tensor dtype=Float32 shape=[2] md5=0x0011223344556677 data_name=-1 requires_grad=null Max=null Min=null Mean=null "
      "Norm=null");
  EXPECT_EQ(argument(R"({"type":"t","dtype":"d"})"),
            "type=t dtype=d data_name=-1 requires_grad=null Max=null Min=null Mean=null Norm=null md5=00000000");
}

TEST(Items, Arguments) {
  EXPECT_EQ(argument(R"({"type":"int","value":3})"),
            "type=int value=3 data_name=-1 requires_grad=null Max=3 Min=3 Mean=3 Norm=3 dtype=<class int> shape=[] md5=6dd28e9b");
  EXPECT_EQ(argument(R"({"type":"float","value":1e-05})"),
            "type=float value=1e-05 data_name=-1 requires_grad=null Max=1e-05 Min=1e-05 Mean=1e-05 Norm=1e-05 dtype=<class float> shape=[] "
            "md5=effb4679");
  EXPECT_EQ(argument(R"({"type":"bool","value":false})"),
            "type=bool value=False data_name=-1 requires_grad=null Max=False Min=False Mean=False Norm=False dtype=<class bool> shape=[] "
            "md5=ea0c4734");
  EXPECT_EQ(
      argument(R"({"type":"str","value":"it's None"})"),
      "type=str value=its null data_name=-1 requires_grad=null Max=its null Min=its null Mean=its null Norm=its null dtype=<class str> "
      "shape=[] md5=" +
          crc32_hex("it's None"));
  EXPECT_EQ(
      argument(R"({"type":"NoneType","value":null})"),
      "type=nullType value=null data_name=-1 requires_grad=null Max=null Min=null Mean=null Norm=null dtype=<class nullType> shape=[] "
      "md5=dfa2aff1");
  EXPECT_EQ(argument(R"({"type":"torch.memory_format","format":"contiguous_format"})"),
            "type=torch.memory_format format=contiguous_format data_name=-1 requires_grad=null Max=null Min=null Mean=null Norm=null "
            "dtype=<class nullType> shape=[] md5=00000000");
  EXPECT_EQ(argument(R"({"type":"torch.Size","value":[2,3]})"),
            "type=torch.Size value=[2, 3] data_name=-1 requires_grad=null Max=null Min=null Mean=null Norm=null dtype=torch.Size "
            "shape=[2, 3] md5=3f72ac6e");
  EXPECT_EQ(argument(R"({"type":"slice","value":[null,2,null]})"),
            "type=slice value=[None, 2, None] data_name=-1 requires_grad=null Max=null Min=null Mean=null Norm=null dtype=slice shape=(3,) "
            "md5=10a95f82");
  EXPECT_EQ(argument(R"({"type":"ellipsis","value":"..."})"),
            "type=ellipsis value=... data_name=-1 requires_grad=null Max=... Min=... Mean=... Norm=... dtype=ellipsis shape=[] md5=" +
                crc32_hex("..."));
  EXPECT_EQ(argument(R"({"type":"torch.dtype","value":"torch.float32"})"),
            "type=torch.dtype value=torch.float32 data_name=-1 requires_grad=null Max=torch.float32 Min=torch.float32 Mean=torch.float32 "
            "Norm=torch.float32 dtype=<class str> shape=[] md5=d8ca9648");
  EXPECT_EQ(
      argument(R"({"type":"torch.ProcessGroup","group_ranks":[0,1],"group_id":"77849d8c"})"),
      "type=torch.ProcessGroup group_ranks=[0, 1] group_id=77849d8c data_name=-1 requires_grad=null Max=[0, 1] Min=[0, 1] Mean=[0, 1] "
      "Norm=[0, 1] dtype=torch.ProcessGroup shape=[] md5=[0, 1]");
  EXPECT_EQ(argument(R"({"type":"list","value":[1]})"),
            "type=list value=[1] data_name=-1 requires_grad=null Max=[1] Min=[1] Mean=[1] Norm=[1] dtype=<class list> shape=[] md5=" +
                crc32_hex("[1]"));
  EXPECT_EQ(argument(R"({"type":"dict","value":{"a":1}})", "x"),
            "type=dict value={'a': 1} data_name=-1 requires_grad=null Max={'a': 1} Min={'a': 1} Mean={'a': 1} Norm={'a': 1} "
            "dtype=<class dict> shape=[] md5=" +
                crc32_hex("{'a': 1}"));
}

TEST(Items, PeersByKeyword) {
  for (const std::string_view name : {"src", "dst", "group_src", "group_dst"}) {
    const Built built("Distributed.broadcast.0.forward", R"({"input_kwargs":{")" + std::string(name) + R"(":{"type":"int","value":0}}})");
    ASSERT_EQ(built.lists.inputs.size(), 1U);
    EXPECT_EQ(members(built.lists.inputs[0]),
              "type=int value=0 data_name=-1 requires_grad=null Max=0 Min=0 Mean=0 Norm=0 dtype=int shape=[] md5=0");
    EXPECT_TRUE(built.lists.inputs[0].stats[stat_max].is_string());
  }
  EXPECT_TRUE(Built("A.0.forward", R"({"input_kwargs":{"source":{"type":"int","value":0}}})").lists.inputs[0].stats[stat_max].is_number());
}

TEST(Items, BooleanArgumentStaysBoolean) {
  const Built built("A.0.forward",
                    R"({"input_args":[{"type":"bool","value":true},{"type":"torch.Tensor","dtype":"torch.bool","Max":true}]})");
  EXPECT_TRUE(built.lists.inputs[0].stats[stat_max].is(JsonKind::boolean));
  EXPECT_TRUE(built.lists.inputs[1].stats[stat_max].is_string());
}

TEST(Items, SliceShapes) {
  const auto shape = [](std::string_view value) {
    const Built built("A.0.forward", R"({"input_args":[{"type":"slice","value":)" + std::string(value) + "}]}");
    return std::string(built.lists.inputs.at(0).shape.text());
  };
  EXPECT_EQ(shape("[null,2,null]"), "(3,)");
  EXPECT_EQ(shape("[]"), "(0,)");
  EXPECT_EQ(shape("3"), "()");
  EXPECT_EQ(shape("[[1,2],[3,4],[5,6]]"), "(3, 2)");
  EXPECT_EQ(shape("[[1,2],[3]]"), "(2,)");
}

TEST(Items, NullItem) {
  const Built built("Torch.f.0.forward", R"({"input_args":[null],"output":null})");
  ASSERT_THAT(keys(built.lists.inputs), ElementsAre("Torch.f.0.forward.input.0", "Torch.f.0.forward.output"));
  EXPECT_EQ(members(built.lists.inputs[0]),
            "type=null Max=null Min=null Mean=null Norm=null dtype=null shape=null md5=null value=null data_name=-1 requires_grad=null");
  EXPECT_FALSE(built.lists.inputs[0].leaf);
  EXPECT_EQ(built.lists.inputs[1].state, ItemState::output);
}

TEST(Items, NamesOfATensorDump) {
  const std::string node = "Module.a.A.forward.0";
  const auto tensor = [&node](const std::string& name) {
    return R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[1],"data_name":")" + node + "." + name + R"(.pt"})";
  };
  const Built built(node, R"({"input_args":[)" + tensor("input.0") + R"(],"input_kwargs":{"x":)" + tensor("kwargs.x") +
                              R"(,"n":{"type":"int","value":1}},"output":[{"out":)" + tensor("output.0.out") +
                              R"(}],"parameters":{"weight":)" + tensor("parameters.weight") + R"(,"bias":)" + tensor("parameters.bias") +
                              "}}");
  EXPECT_THAT(keys(built.lists.inputs), ElementsAre(node + ".input.0", node + ".kwargs.x", node + ".input.n", node + ".parameters.weight",
                                                    node + ".parameters.bias"));
  EXPECT_THAT(keys(built.lists.outputs), ElementsAre(node + ".output.0.out"));
  EXPECT_EQ(built.lists.inputs[0].state, ItemState::input);
  EXPECT_EQ(built.lists.inputs[3].state, ItemState::parameters);
  EXPECT_EQ(built.lists.outputs[0].state, ItemState::output);
  EXPECT_EQ(built.lists.inputs[0].data_name.text(), node + ".input.0.pt");
  EXPECT_EQ(built.lists.inputs[2].data_name.text(), "-1");
}

TEST(Items, Traversal) {
  // Empty values give nothing but are counted, a missing member is passed over, the order is fixed.
  const Built built(
      "N.f.0.forward",
      R"({"output":[[{"type":"a"}],{"k":{"type":"b"},"l":[null]}],"input_args":[{},[],"",0,false,5,"text",{"type":"c"},{"d":{"type":7}}]})");
  EXPECT_THAT(keys(built.lists.inputs), ElementsAre("N.f.0.forward.input.7"));
  EXPECT_THAT(keys(built.lists.outputs), ElementsAre("N.f.0.forward.output.0.0", "N.f.0.forward.output.1.k", "N.f.0.forward.output.1.l.0"));
  const Built backward("N.f.0.backward", R"({"input":[{"type":"a"}],"output":[{"type":"b"}],"other":[{"type":"c"}]})");
  EXPECT_THAT(keys(backward.lists.inputs), ElementsAre("N.f.0.backward.input.0"));
  EXPECT_THAT(keys(backward.lists.outputs), ElementsAre("N.f.0.backward.output.0"));
}

TEST(Items, NoEntry) {
  JsonPool pool;
  ItemLists lists;
  lists.inputs.resize(3);
  build_items("A.0.forward", JsonValue(), pool, lists);
  EXPECT_THAT(lists.inputs, IsEmpty());
  for (const std::string_view entry : {"null", "3", "[]", "[{\"type\":\"a\"}]", "\"x\"", "{}"}) {
    const Built built("A.0.forward", entry);
    EXPECT_THAT(built.lists.inputs, IsEmpty()) << entry;
    EXPECT_THAT(built.lists.outputs, IsEmpty()) << entry;
  }
}

TEST(Items, ParametersGrad) {
  const std::string_view entry = R"({"weight":[{"type":"torch.Tensor","dtype":"d"}],"bias":[null]})";
  for (const std::string node : {"Module.a.A.parameters_grad", "Module.a.A.parameters_grad.0"}) {
    const Built built(node, entry);
    EXPECT_THAT(keys(built.lists.inputs), ElementsAre(node + ".weight", node + ".bias"));
    EXPECT_EQ(built.lists.inputs[0].state, ItemState::parameters_grad);
  }
  // The segment in a module's path is no gradient entry, but its lists lose their numbers too.
  const Built path("Module.parameters_grad.x.A.forward.0", R"({"input_args":[{"type":"a"},{"type":"b"}],"weight":[{"type":"c"}]})");
  ASSERT_THAT(keys(path.lists.inputs), ElementsAre("Module.parameters_grad.x.A.forward.0.input"));
  EXPECT_EQ(path.lists.inputs[0].leaf.find("type").text(), "b");
  const Built key("A.0.forward", R"({"input_kwargs":{"my_parameters_grad":[{"type":"a"}],"parameters_grad":[{"type":"a"}]}})");
  EXPECT_THAT(keys(key.lists.inputs), ElementsAre("A.0.forward.input.my_parameters_grad.0", "A.0.forward.input.parameters_grad"));
}

TEST(Items, Debug) {
  const Built built("Module.a.A.debug", R"({"x":{"type":"a"}})");
  ASSERT_THAT(keys(built.lists.inputs), ElementsAre("Module.a.A.debug.x"));
  EXPECT_EQ(built.lists.inputs[0].state, ItemState::debug);
}

TEST(Items, PointToPoint) {
  const std::string node = "Distributed.batch_isend_irecv.0.forward";
  const std::string_view tensor = R"({"type":"torch.Tensor","dtype":"torch.float32","shape":[1],"Max":1.0,"op":"own"})";
  const Built built(
      node,
      R"({"input_args":[[{"class_type":"torch.distributed.P2POp","tensor":)" + std::string(tensor) +
          R"(,"op":"isend","peer":1,"tag":0,"group_id":"77849d8c"},{"class_type":"torch.distributed.P2POp","tensor":null,"op":"irecv"}]]})");
  ASSERT_THAT(keys(built.lists.inputs), ElementsAre(node + ".input.0.0", node + ".input.0.1"));
  EXPECT_EQ(members(built.lists.inputs[0]),
            "type=torch.Tensor dtype=torch.float32 shape=[1] Max=1.0 op=isend data_name=-1 requires_grad=null Min=null Mean=null Norm=null "
            "md5=00000000 class_type=torch.distributed.P2POp peer=1 tag=0 group_id=77849d8c");
  EXPECT_EQ(members(built.lists.inputs[1]),
            "type=null Max=null Min=null Mean=null Norm=null dtype=null shape=null md5=null value=null data_name=-1 requires_grad=null "
            "class_type=torch.distributed.P2POp op=irecv peer=null tag=null group_id=null");
  const Built other(
      node,
      R"({"input_args":[[{"class_type":"mindspore.mint.distributed.P2POp","tensor":{"type":"mindspore.Tensor"},"op":"isend","group_id":null}]]})");
  EXPECT_THAT(keys(other.lists.inputs), ElementsAre(node + ".input.0.0.tensor", node + ".input.0.0.group_id"));
}

TEST(Items, RepeatedKeysKeepTheirPlace) {
  const Built built("A.0.forward", R"({"input_args":[{"type":"a"},{"type":"b"}],"input_kwargs":{"0":{"type":"c"}}})");
  ASSERT_THAT(keys(built.lists.inputs), ElementsAre("A.0.forward.input.0", "A.0.forward.input.1"));
  EXPECT_EQ(built.lists.inputs[0].leaf.find("type").text(), "c");
  // The same in a long list.
  std::string entry = R"({"input_args":[)";
  for (int k = 0; k < 1000; ++k) {
    entry += R"({"type":"int","value":)" + std::to_string(k) + "},";
  }
  const Built long_list("A.0.forward", entry + R"(null],"input_kwargs":{"7":{"type":"c"},"999":{"type":"d"},"x":null}})");
  ASSERT_EQ(long_list.lists.inputs.size(), 1002U);
  EXPECT_EQ(long_list.lists.inputs[7].leaf.find("type").text(), "c");
  EXPECT_EQ(long_list.lists.inputs[999].leaf.find("type").text(), "d");
  EXPECT_EQ(long_list.lists.inputs[1001].key, "A.0.forward.input.x");
}

TEST(Items, StoredNamesOfALeafAreOurs) {
  EXPECT_EQ(argument(R"({"type":"int","state":"x","full_op_name":"y","value":3,"Max":7})"),
            "type=int value=3 Max=3 data_name=-1 requires_grad=null Min=3 Mean=3 Norm=3 dtype=<class int> shape=[] md5=6dd28e9b");
}

TEST(Items, DeepNestingAndLongLists) {
  const std::size_t depth = 900;
  const Built deep("A.0.forward", R"({"input_args":)" + std::string(depth, '[') + R"({"type":"a"})" + std::string(depth, ']') + "}");
  ASSERT_EQ(deep.lists.inputs.size(), 1U);
  EXPECT_EQ(deep.lists.inputs[0].key.size(), std::string_view("A.0.forward.input").size() + 2 * depth);
  std::string entry = R"({"output":[null)";
  for (int k = 0; k < 100000; ++k) {
    entry += ",null";
  }
  const Built wide("A.0.forward", entry + "]}");
  EXPECT_EQ(wide.lists.outputs.size(), 100001U);
}

TEST(Items, NamesThatExplode) {
  // 500 levels of long keys above 20,000 values: the names would take the square of the file's size.
  std::string entry = R"({"input_args":)";
  for (int k = 0; k < 500; ++k) {
    entry += "{\"" + std::string(1000, 'k') + "\":";
  }
  entry += "[null";
  for (int k = 0; k < 20000; ++k) {
    entry += ",null";
  }
  entry += "]" + std::string(500, '}') + "}";
  try {
    const Built built("A.0.forward", entry);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::limit);
  }
}

}  // namespace
}  // namespace msvis
