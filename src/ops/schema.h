// The forms of one aten operator: functional, in-place, out=.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string>

namespace mpsx::ops {

struct Forms {
  std::string name, overload;
  std::string op, in_place;  // qualified: "aten::add", "aten::add_"
  std::string out;           // the overload of the out= form: "<overload>_out", "Out<overload>" or "out"

  Forms(const std::string& n, const std::string& o) : name(n), overload(o), op("aten::" + n), in_place(op + "_") {
    out = "out";
    for (const std::string& candidate : {overload + "_out", "Out" + overload})
      if (!overload.empty() && exists(op, candidate)) out = candidate;
  }

  // False also for operators that PyTorch composes of others (square): a kernel here would cut them off from autograd.
  static bool exists(const std::string& qualified, const std::string& o) {
    const auto op = c10::Dispatcher::singleton().findSchema({qualified, o});
    return op && !op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  }

  // Registers the forms that the operator has.
  template <typename Functional, typename InPlace, typename Out>
  void add(torch::Library& m, Functional functional, InPlace write, Out out_form) const {
    const std::string dot = overload.empty() ? "" : "." + overload;
    if (exists(op, overload)) m.impl((name + dot).c_str(), functional);
    if (exists(in_place, overload)) m.impl((name + "_" + dot).c_str(), write);
    if (exists(op, out)) m.impl((name + "." + out).c_str(), out_form);
  }
};

}  // namespace mpsx::ops
