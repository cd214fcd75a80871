#include "match/record_scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "match/translation.h"
#include "msvis/error.h"

namespace msvis {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Records : public testing::Test {
 protected:
  struct Given {
    std::string name;
    std::string parent;
    std::vector<std::string> stack;
  };

  std::vector<RecordScope> scopes(const std::vector<Given>& given, Framework framework = Framework::pytorch,
                                  Compat compat = Compat::reference) {
    std::vector<RecordSource> sources;
    for (const Given& record : given) {
      RecordSource source;
      source.name = pool_.keep(record.name);
      source.parent = pool_.keep(record.parent);
      if (!record.stack.empty()) {
        source.stack = pool_.string_array(record.stack);
      }
      sources.push_back(source);
    }
    return record_scopes(sources, framework, compat, "dump");
  }

  std::vector<std::string> full_scopes(const std::vector<Given>& given, Framework framework = Framework::pytorch,
                                       Compat compat = Compat::reference) {
    std::vector<std::string> texts;
    for (const RecordScope& record : scopes(given, framework, compat)) {
      texts.push_back(record.full_scope);
    }
    return texts;
  }

  std::string scope(const Given& given, Framework framework = Framework::pytorch) { return full_scopes({given}, framework).front(); }

  std::string error_of(const Given& given) {
    try {
      (void)scopes({given});
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::format);
      return error.what();
    }
    return {};
  }

  /// Golden names of the target records, "N/A" without one.
  std::vector<std::string> translate(const std::vector<Given>& target, const std::vector<Given>& golden, std::string_view yaml,
                                     Compat compat = Compat::reference) {
    const auto target_records = scopes(target, Framework::pytorch, compat);
    const auto golden_records = scopes(golden, Framework::pytorch, compat);
    const ScopeTree target_tree(target_records);
    const ScopeTree golden_tree(golden_records);
    const LayerMapping mapping = LayerMapping::parse(yaml);
    const Translator translator(target_records, target_tree, golden_tree, mapping);
    std::vector<std::string> names;
    std::vector<Translator::Applied> applied;
    for (std::size_t record = 0; record < target_records.size(); ++record) {
      const std::uint32_t found = translator.translate(record, applied);
      names.push_back(found == no_node ? "N/A" : std::string(golden_records[found].name));
    }
    return names;
  }

  JsonPool pool_;
};

TEST_F(Records, KindsOfNames) {
  const auto records = scopes({{"Cell.network.lay.3.Lay.forward.0", "", {}},
                               {"Module.m.emb.Emb.parameters_grad", "", {}},
                               {"Module.m.emb.Emb.parameters_grad.0", "", {}},
                               {"Functional.relu.0.forward", "Module.a.b.B.forward.0", {}},
                               {"Torch.add.12.backward", "", {}},
                               {"Primitive.conv2d.Conv2d.0.forward", "optimizer", {}},
                               {"Module.N.forward.0", "", {}},
                               {"Module.m.parameters_grad.P.forward.0", "", {}}});
  std::vector<std::string> texts;
  for (const auto& record : records) {
    texts.push_back(record.full_scope + " " + std::string(record.type_name) + " " + std::string(record.state));
  }
  EXPECT_THAT(texts, ElementsAre("Cell.network.lay.3 Lay forward", "Module.m.emb Emb parameters_grad",
                                 "Module.m.emb.emb Emb parameters_grad", "Module.a.b.relu relu forward", "TopLayer.add add backward",
                                 ".Conv2d Conv2d forward", ".Module N forward", "Module.m.parameters_grad P forward"));
}

TEST_F(Records, NumberedGradientsStandWithTheirModuleInTheDefaultMode) {
  EXPECT_THAT(full_scopes({{"Module.m.emb.Emb.parameters_grad.0", "", {}}, {"Module.m.emb.Emb.parameters_grad", "", {}}},
                          Framework::pytorch, Compat::standard),
              ElementsAre("Module.m.emb", "Module.m.emb"));
}

TEST_F(Records, ShortNamesAreFaults) {
  EXPECT_THAT(error_of({"a.b.c", "", {}}), HasSubstr("dump/dump.json: record name 'a.b.c'"));
  EXPECT_EQ(error_of({"a.b.c.d", "", {}}), "");
  EXPECT_THAT(error_of({"Torch.add.0.forward", "x.y.z", {}}), HasSubstr("dump/construct.json: parent 'x.y.z' of 'Torch.add.0.forward'"));
}

constexpr const char* torch_line = "File /env/site-packages/torch/nn/functional.py, line 10, in linear, \n return x";

TEST_F(Records, FrameFunction) {
  const std::string api = "Functional.linear.0.forward";
  EXPECT_EQ(scope({api, "", {torch_line}}), "TopLayer.linear.linear");
  EXPECT_EQ(scope({api, "Module.a.B.forward.0", {torch_line}}), "Module.a.linear.linear");
  // The last line of the leading run counts.
  EXPECT_EQ(scope({api,
                   "",
                   {torch_line, "File /x/package/torch/f.py, line 1, in outer, \n y", "File /u/m.py, line 2, in f, \n",
                    "File /x/package/torch/f.py, line 1, in late, \n y"}}),
            "TopLayer.outer.linear");
  EXPECT_EQ(scope({api, "", {"File /u/m.py, line 2, in f, \n", torch_line}}), "TopLayer.linear");
  // Text behind the first comma does not make a framework line.
  EXPECT_EQ(scope({api, "", {"File /u/m.py, site-packages/torch, in f, \n"}}), "TopLayer.linear");
  EXPECT_EQ(scope({api, "", {"File /env/site-packages/torch/msprobe/x.py, line 1, in f, \n"}}), "TopLayer.linear");
  EXPECT_EQ(scope({api, "", {"File /MindSpeed/site-packages/torch/x.py, line 1, in f, \n"}}), "TopLayer.linear");
  EXPECT_EQ(scope({api, "", {"File /site-packages/torch/x.py, line 1, in __call__, \n"}}), "TopLayer.linear");
  EXPECT_EQ(scope({api, "", {"File /site-packages/mindspore/x.py, line 1, in _construct, \n"}}), "TopLayer.linear");
}

TEST_F(Records, FrameFunctionBetweenTemplateAndForward) {
  const std::string api = "Functional.linear.0.forward";
  const std::string wrapper = "File /w/site-packages/torch/w.py, line 1, in wrapped, \n";
  const std::string start = "File /w/Template.py, line 3, in t, \n";
  const std::string forward = "File /u/m.py, line 9, in forward, \n";
  EXPECT_EQ(scope({api, "", {wrapper, start, torch_line, forward, wrapper}}), "TopLayer.linear.linear");
  EXPECT_EQ(scope({api, "", {wrapper, start, forward, torch_line}}), "TopLayer.linear");
  // The last start before the end counts; a line of the end before any start does not.
  EXPECT_EQ(scope({api, "", {forward, start, wrapper, start, torch_line, forward, start, wrapper}}), "TopLayer.linear.linear");
  const std::string construct = "File /u/m.py, line 9, in construct, \n";
  EXPECT_EQ(scope({api, "", {start, construct, torch_line}}, Framework::mindspore), "TopLayer.linear");
  EXPECT_EQ(scope({api, "", {start, torch_line, construct}}, Framework::mindspore), "TopLayer.linear.linear");
}

TEST_F(Records, WhoHasNoFrameFunction) {
  EXPECT_EQ(scope({"Module.a.b.B.forward.0", "", {torch_line}}), "Module.a.b");
  EXPECT_EQ(scope({"Primitive.linear.0.forward", "", {torch_line}}), "TopLayer.linear");
  EXPECT_EQ(scope({"Jit.linear.0.forward", "", {torch_line}}), "TopLayer.linear");
  EXPECT_EQ(scope({"Module.a.b.B.parameters_grad", "", {torch_line}}), "Module.a.linear.b");
}

TEST_F(Records, StackFaults) {
  const std::string api = "Functional.linear.0.forward";
  EXPECT_THAT(error_of({api, "", {"File /site-packages/torch/x.py, line 1"}}), HasSubstr("dump/stack.json: the stack of"));
  EXPECT_THAT(error_of({api, "", {"File /site-packages/torch/x.py, line 1, in"}}), HasSubstr("function name"));
  RecordSource source;
  source.name = api;
  source.stack = pool_.string("text");
  EXPECT_THROW((void)record_scopes(std::vector{source}, Framework::pytorch, Compat::reference, ""), Error);
  source.stack = pool_.null();
  EXPECT_EQ(record_scopes(std::vector{source}, Framework::pytorch, Compat::reference, "").front().full_scope, "TopLayer.linear");
}

TEST_F(Records, BackwardFollowsForward) {
  EXPECT_THAT(full_scopes({{"Functional.relu.0.backward", "", {}},
                           {"Functional.relu.0.forward", "Module.a.b.B.forward.0", {}},
                           {"Functional.relu.1.backward", "Module.q.C.backward.0", {}},
                           {"Module.a.b.B.backward.0", "", {}}}),
              ElementsAre("Module.a.b.relu", "Module.a.b.relu", "Module.q.relu", "Module.a.b"));
}

TEST_F(Records, LayersOfAPipelineStageCountFromZero) {
  EXPECT_THAT(full_scopes({{"Module.m.enc.ParallelTransformer.forward.0", "", {}},
                           {"Module.m.enc.layers.4.L.forward.0", "", {}},
                           {"Module.m.enc.layers.5.attn.A.forward.0", "", {}},
                           {"Module.m.enc.layers.x10y.L.forward.0", "", {}},
                           {"Module.m.enc.layers.norm.N.forward.0", "", {}},
                           {"Module.m.enc.layersx.7.L.forward.0", "", {}},
                           {"Module.m.dec.layers.7.L.forward.0", "", {}},
                           {"Torch.add.0.forward", "Module.m.enc.layers.5.L.forward.0", {}}}),
              ElementsAre("Module.m.enc", "Module.m.enc.layers.0", "Module.m.enc.layers.1.attn", "Module.m.enc.layers.6",
                          "Module.m.enc.layers.norm", "Module.m.enc.layersx.7", "Module.m.dec.layers.7", "Module.m.enc.layers.1.add"));
}

TEST_F(Records, LayersWithoutNumbersStay) {
  EXPECT_THAT(full_scopes({{"Module.m.enc.ParallelTransformer.forward.0", "", {}}, {"Module.m.enc.layers.norm.N.forward.0", "", {}}}),
              ElementsAre("Module.m.enc", "Module.m.enc.layers.norm"));
}

TEST_F(Records, WorkedExample) {
  const std::string stage = "Module.module.language_model.encoder.layers.";
  EXPECT_THAT(translate({{"Module.module.language_model.emb.Emb.forward.0", "", {}},
                         {stage + "4.L.forward.0", "", {}},
                         {"Torch.add.0.forward", stage + "5.L.forward.0", {}},
                         {stage + "5.L.forward.0", "", {}},
                         {"Module.module.language_model.encoder.ParallelTransformer.forward.0", "", {}},
                         {"Module.module.language_model.LM.forward.0", "", {}},
                         {"Module.module.GPT.forward.0", "", {}},
                         {"Module.module.language_model.emb.Emb.parameters_grad.0", "", {}}},
                        {{"Module.model.embedding.E.forward.0", "", {}},
                         {"Module.model.decoder.layers.0.L.forward.0", "", {}},
                         {"Torch.add.3.forward", "Module.model.decoder.layers.1.L.forward.0", {}},
                         {"Module.model.decoder.layers.1.L.forward.0", "", {}},
                         {"Module.model.GPT2.forward.0", "", {}},
                         {"Module.model.embedding.E.parameters_grad.0", "", {}}},
                        "TopLayer: {module: model}\n"
                        "GPT: {language_model.emb: embedding, language_model.encoder: decoder, language_model: nothing}\n"),
              ElementsAre("Module.model.embedding.E.forward.0", "Module.model.decoder.layers.0.L.forward.0", "Torch.add.3.forward",
                          "Module.model.decoder.layers.1.L.forward.0", "N/A", "N/A", "Module.model.GPT2.forward.0", "N/A"));
}

TEST_F(Records, NumberedGradientsAreFoundInTheDefaultMode) {
  const std::vector<Given> target = {{"Module.module.emb.Emb.forward.0", "", {}}, {"Module.module.emb.Emb.parameters_grad.0", "", {}}};
  const std::vector<Given> golden = {{"Module.module.embedding.E.forward.0", "", {}},
                                     {"Module.module.embedding.E.parameters_grad.0", "", {}}};
  constexpr const char* rules = "TopLayer: {module.emb: module.embedding}";
  EXPECT_THAT(translate(target, golden, rules), ElementsAre("Module.module.embedding.E.forward.0", "N/A"));
  EXPECT_THAT(translate(target, golden, rules, Compat::standard),
              ElementsAre("Module.module.embedding.E.forward.0", "Module.module.embedding.E.parameters_grad.0"));
}

TEST_F(Records, GradientsOfTheOldForm) {
  EXPECT_THAT(translate({{"Cell.network.emb.Embedding.parameters_grad", "", {}}}, {{"Module.module.emb.Emb2.parameters_grad", "", {}}},
                        "TopLayer: {network: module}"),
              ElementsAre("Module.module.emb.Emb2.parameters_grad"));
}

TEST_F(Records, CallsOfOneScopePairInDumpOrderByState) {
  EXPECT_THAT(translate({{"Torch.add.5.forward", "", {}},
                         {"Torch.add.2.backward", "", {}},
                         {"Torch.add.9.forward", "", {}},
                         {"Torch.add.7.forward", "", {}}},
                        {{"Torch.add.0.backward", "", {}}, {"Torch.add.1.forward", "", {}}, {"Torch.add.0.forward", "", {}}}, "{}"),
              ElementsAre("Torch.add.1.forward", "Torch.add.0.backward", "Torch.add.0.forward", "N/A"));
}

TEST_F(Records, EmptyMappingToleratesClassesAndPrefixOnly) {
  EXPECT_THAT(translate({{"Cell.net.fc.Dense.forward.0", "", {}}, {"Cell.net.fc1.Dense.forward.0", "", {}}},
                        {{"Module.net.fc.Linear.forward.0", "", {}}, {"Module.net.fc2.Linear.forward.0", "", {}}}, "{}"),
              ElementsAre("Module.net.fc.Linear.forward.0", "N/A"));
}

TEST_F(Records, LastClassOfAScopeWins) {
  const std::vector<Given> target = {
      {"Module.a.b.Old.forward.0", "", {}}, {"Module.a.b.New.forward.0", "", {}}, {"Module.a.b.x.X.forward.0", "", {}}};
  const std::vector<Given> golden = {{"Module.a.b.y.Y.forward.0", "", {}}};
  EXPECT_EQ(translate(target, golden, "New: {x: y}").back(), "Module.a.b.y.Y.forward.0");
  EXPECT_EQ(translate(target, golden, "Old: {x: y}").back(), "N/A");
  // A scope without a record of its own has its own field for a class.
  EXPECT_EQ(translate(target, golden, "a: {b.x: b.y}").back(), "Module.a.b.y.Y.forward.0");
}

TEST_F(Records, LongestKeyWinsOverShorterAndIdentity) {
  const std::vector<Given> target = {
      {"Module.a.b.c.C.forward.0", "", {}}, {"Module.a.b.d.D.forward.0", "", {}}, {"Module.a.e.E.forward.0", "", {}}};
  const std::vector<Given> golden = {
      {"Module.long.C.forward.0", "", {}}, {"Module.mid.d.D.forward.0", "", {}}, {"Module.short.e.E.forward.0", "", {}}};
  EXPECT_THAT(translate(target, golden, "TopLayer: {a: short, a.b: mid, a.b.c: long}"),
              ElementsAre("Module.long.C.forward.0", "Module.mid.d.D.forward.0", "Module.short.e.E.forward.0"));
}

TEST_F(Records, ManyRecordsTakeLittleTime) {
  std::vector<Given> records;
  for (int number = 0; number < 20'000; ++number) {
    // Each is a prefix of its own.
    records.push_back({"Module.m" + std::to_string(number) + ".ParallelTransformer.forward.0", "", {}});
    records.push_back({"Module.m" + std::to_string(number) + ".layers.7.L.forward.0", "", {}});
  }
  const auto texts = full_scopes(records);
  EXPECT_EQ(texts.back(), "Module.m19999.layers.0");
}

}  // namespace
}  // namespace msvis
