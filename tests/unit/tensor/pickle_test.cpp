// What a pickle may and may not do.
#include "unit/tensor/tensor_matchers.h"

namespace msvis::test {
namespace {

using testing::ElementsAre;

std::string file_of(PickleWriter& out) {
  return torch_zip_of(out.take(), {{"data/0", bytes_of<float>({1, 2})}});
}

PickleWriter& call(PickleWriter& out, std::string_view module, std::string_view name) {
  return out.global(module, name).mark().text("echo pwned").tuple().reduce();
}

TEST(Pickle, ForeignGlobalsAreRefusedByName) {
  for (int protocol = 2; protocol <= 5; ++protocol) {
    for (const Compat compat : {Compat::standard, Compat::reference}) {
      ReadHints hints;
      hints.compat = compat;
      PickleWriter system(protocol);
      expect_file_fault(TensorFault::refused, "global os.system is not allowed", file_of(call(system, "os", "system")), hints);
      PickleWriter posix(protocol);
      expect_file_fault(TensorFault::refused, "global posix.system is not allowed", file_of(call(posix, "posix", "system")), hints);
      PickleWriter eval(protocol);
      expect_file_fault(TensorFault::refused, "global builtins.eval is not allowed", file_of(call(eval, "builtins", "eval")), hints);
      PickleWriter bare(protocol);
      expect_file_fault(TensorFault::refused, "global os.system is not allowed", file_of(bare.global("os", "system")), hints);
      PickleWriter load(protocol);
      expect_file_fault(TensorFault::refused, "global torch.load is not allowed", file_of(call(load, "torch", "load")), hints);
      // A module that only begins like an allowed one.
      PickleWriter similar(protocol);
      expect_file_fault(TensorFault::refused, "global torch_evil._rebuild_tensor_v2 is not allowed",
                        file_of(call(similar, "torch_evil", "_rebuild_tensor_v2")), hints);
    }
  }
}

TEST(Pickle, ForeignGlobalsHiddenBehindAllowedOnes) {
  // The function that _rebuild_from_type_v2 is to apply, the class that is to be made, the class of a storage, the dtype.
  PickleWriter applied;
  applied.global("torch._tensor", "_rebuild_from_type_v2").mark().global("os", "system").global("torch", "Tensor");
  applied.mark().text("echo").tuple().none().tuple().reduce();
  expect_file_fault(TensorFault::refused, "global os.system is not allowed", file_of(applied));
  PickleWriter made;
  made.global("subprocess", "Popen").empty_tuple().raw("\x81");
  expect_file_fault(TensorFault::refused, "global subprocess.Popen is not allowed", file_of(made));
  PickleWriter storage;
  storage.mark().text("storage").global("evil", "FloatStorage").text("0").text("cpu").integer(2).tuple().persistent();
  expect_file_fault(TensorFault::refused, "global evil.FloatStorage is not allowed", file_of(storage));
  PickleWriter stack;
  stack.text("os").text("system").raw("\x93").mark().text("echo").tuple().reduce();
  expect_file_fault(TensorFault::refused, "global os.system is not allowed", file_of(stack));
}

TEST(Pickle, ChainsOfFromTypeEnd) {
  // A function that is to apply itself to itself, deeper than any subclass of a tensor.
  PickleWriter out;
  out.global("torch._tensor", "_rebuild_from_type_v2");
  for (int depth = 0; depth < 100; ++depth) {
    out.mark().global("torch._tensor", "_rebuild_from_type_v2").none();
  }
  out.empty_tuple();
  for (int depth = 0; depth < 100; ++depth) {
    out.none().tuple();
  }
  out.reduce();
  expect_file_fault(TensorFault::refused, "in a way that is not known", file_of(out));
}

TEST(Pickle, AnUnknownClassOfATensorDoesNotMatterUnlessStrict) {
  TorchSpec spec = float_view(2, {2}, {1});
  PickleWriter out;
  out.global("torch._tensor", "_rebuild_from_type_v2")
      .mark()
      .global("torch._utils", "_rebuild_tensor_v2")
      .global("my.model", "ScaledTensor");
  out.mark().mark().text("storage").global("torch", "FloatStorage").text("0").text("cpu").integer(2).tuple().persistent();
  out.integer(0).integers({2}).integers({1}).boolean(false).ordered_dict().tuple().raw("}").memoize().tuple().reduce();
  const std::string file = file_of(out);
  EXPECT_THAT(read_values<float>(file), ElementsAre(1, 2));
  ReadHints strict;
  strict.compat = Compat::reference;
  expect_file_fault(TensorFault::refused, "global my.model.ScaledTensor is not allowed", file, strict);
}

TEST(Pickle, OperationsThatNoTensorNeedsAreRefusedByName) {
  const std::vector<std::pair<std::string, std::string_view>> refused = {
      {"0", "POP"},
      {"2", "DUP"},
      {"I1\n", "INT"},
      {"Pid\n", "PERSID"},
      {"(ios\nsystem\n", "INST"},
      {"(o", "OBJ"},
      {"\x82\x01", "EXT1"},
      {std::string("\x96\x01\0\0\0\0\0\0\0a", 10), "BYTEARRAY8"},
      {"\x97", "NEXT_BUFFER"},
      {"\x98", "READONLY_BUFFER"},
      {"\x92", "NEWOBJ_EX"},
      {"\xff", "number 255"},
  };
  for (const auto& [bytes, name] : refused) {
    PickleWriter out(5);
    out.raw(bytes);
    expect_file_fault(TensorFault::refused, "operation " + std::string(name) + ",", file_of(out));
  }
  expect_file_fault(TensorFault::refused, "protocol 6", torch_zip_of("\x80\x06N.", {}));
}

TEST(Pickle, ValuesThatAreNotThere) {
  for (const std::string_view bytes :
       {".", "R", "t", "a", "(a", "s", "u", "e", "b", "\x85", "(K\x01(\x86", "\x93", "Q", "q\x01", "h\x05", "(q\x01"}) {
    PickleWriter out;
    out.raw(bytes);
    expect_file_fault(TensorFault::damaged, "pickle", file_of(out));
  }
}

TEST(Pickle, ValuesOfTheWrongKind) {
  const auto refused = [](PickleWriter& out) { expect_file_fault(TensorFault::refused, "its pickle", file_of(out)); };
  refused(PickleWriter().integer(1).empty_tuple().reduce());                     // a call of a number
  refused(PickleWriter().global("collections", "OrderedDict").none().reduce());  // arguments that are no tuple
  refused(PickleWriter().raw("}").integer(1).raw("a"));                          // append to a dict
  refused(PickleWriter().raw("]").integer(1).integer(2).raw("s"));               // item of a list
  refused(PickleWriter().raw("}(").integer(1).raw("u"));                         // a key without a value
  refused(PickleWriter().raw("]").none().raw("b"));                              // state of a list
  refused(PickleWriter().integer(1).persistent());                               // persistent id
  refused(PickleWriter().mark().text("module").none().none().none().none().tuple().persistent());
  refused(PickleWriter().global("torch", "Tensor").empty_tuple().reduce());  // a class that is only to be named
  refused(PickleWriter().global("_codecs", "encode").mark().text("x").text("rot13").tuple().reduce());
}

TEST(Pickle, LimitsOfOperationsStackAndMemo) {
  std::string many;
  for (std::uint64_t k = 0; k < TensorLimits::max_pickle_operations / 2; ++k) {
    many += k == 0 ? "N\x85" : "\x85\x85";
  }
  expect_file_fault(TensorFault::too_large, "operations", file_of(PickleWriter().raw(many)));
  expect_file_fault(TensorFault::too_large, "stack", file_of(PickleWriter().raw(std::string(TensorLimits::max_pickle_stack + 1, 'N'))));
  expect_file_fault(TensorFault::too_large, "marks", file_of(PickleWriter().raw(std::string(TensorLimits::max_pickle_stack + 1, '('))));
  expect_file_fault(TensorFault::too_large, "remembers", file_of(PickleWriter().raw("Nr\xff\xff\xff\x7f")));
  expect_file_fault(TensorFault::refused, "more than 1024 characters", file_of(PickleWriter().raw("c" + std::string(2000, 'a') + "\nb\n")));
}

TEST(Pickle, LengthsBeyondTheEnd) {
  for (const std::string& bytes : {std::string("X\xff\xff\xff\xff"), std::string("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"),
                                   std::string("\x8e\xff\xff\xff\xff\xff\xff\xff\xff"), std::string("\x8b\xff\xff\xff\x7f"),
                                   std::string("T\xff\xff\xff\xff"), std::string("U\xff"), std::string("cno line")}) {
    PickleWriter out;
    out.raw(bytes);
    expect_file_fault(TensorFault::damaged, "ends early", file_of(out));
  }
}

TEST(Pickle, AListInItselfIsHarmless) {
  PickleWriter out;
  out.raw("]").memoize().raw("h").raw(std::string_view("\0", 1)).raw("a");
  expect_file_fault(TensorFault::not_a_tensor, "a list", file_of(out));
}

TEST(Pickle, NamesInMessagesAreOneLineOfPrintableText) {
  PickleWriter out(4);
  call(out, "o\ns\x1b[31m", std::string(500, 'x'));
  expect_fault(TensorFault::refused, "global o?s?[31m.xxxx", [&] { (void)Loaded(file_of(out)); });
}

TEST(Pickle, LongIntegersAndOldStrings) {
  // Sizes as LONG1 of every length, LONG4, and keys as texts of Python 2.
  for (const std::string& two : {std::string("\x8a\x01\x02", 3), std::string("\x8a\x03\x02\0\0", 5), std::string("\x8b\x02\0\0\0\x02\0", 7),
                                 std::string("\x8a\x08\x02\0\0\0\0\0\0\0", 10)}) {
    PickleWriter out;
    out.global("torch._utils", "_rebuild_tensor_v2").mark().mark().raw("U\x07storage").global("torch", "FloatStorage");
    out.raw("U\x01").raw("0").raw(std::string_view("T\x03\0\0\0cpu", 8)).raw(two).tuple().persistent();
    out.integer(0).raw(two).raw("\x85").integers({1}).boolean(false).ordered_dict().tuple().reduce();
    EXPECT_THAT(read_values<float>(file_of(out)), ElementsAre(1, 2));
  }
  PickleWriter negative;
  negative.global("torch._utils", "_rebuild_tensor").mark().mark().text("storage").global("torch", "FloatStorage");
  negative.text("0").text("cpu").integer(2).tuple().persistent().raw("\x8a\x01\xff");
  negative.integers({2}).integers({1}).tuple().reduce();
  expect_file_fault(TensorFault::damaged, "negative", file_of(negative));
}

}  // namespace
}  // namespace msvis::test
