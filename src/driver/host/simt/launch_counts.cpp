#include "driver/host/simt/launch_counts.h"

#include <initializer_list>

namespace mpsx::driver::host::simt {
namespace {

void quote(std::string& out, const std::string& text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
}

void numbers(std::string& out, std::initializer_list<uint64_t> values) {
  bool first = true;
  for (const uint64_t v : values) {
    if (!first) out += ", ";
    first = false;
    out += std::to_string(v);
  }
}

void size(std::string& out, const char* name, const unsigned* s) {
  out.append("\"").append(name).append("\": [");
  numbers(out, {s[0], s[1], s[2]});
  out += "], ";
}

void direction(std::string& out, const char* name, const DirectionCounts& d) {
  out.append("\"").append(name).append("\": {\"distinct\": ").append(std::to_string(d.distinct));
  out.append(", \"moved\": ").append(std::to_string(d.moved));
  out.append(", \"shared\": ").append(std::to_string(d.shared)).append("}, ");
}

// Starts the next row in a JSON list.
void row(std::string& out) { out += out.back() == '[' ? "[" : ", ["; }

}  // namespace

std::string LaunchCounts::text(const std::string& library, const mpsx_launch& launch) const {
  std::string out = "{\"library\": ";
  quote(out, library);
  out += ", ";
  size(out, "threads", launch.threads);
  size(out, "groups", launch.groups);
  size(out, "group", launch.group);
  out.append("\"simdgroups\": ").append(std::to_string(simdgroups)).append(", ");
  out.append("\"threadgroup_bytes\": ").append(std::to_string(threadgroup_bytes)).append(", ");
  direction(out, "read", memory.counts(false));
  direction(out, "written", memory.counts(true));
  out += "\"sites\": [";
  for (size_t i = 0; i < sites.size(); ++i)
    for (size_t space = 0; space < kSpaces; ++space) {
      const AccessCounts& c = sites[i][space];
      if (!c.requests) continue;
      row(out);
      numbers(out, {i, space, c.requests, c.lanes, c.bytes, c.transactions, c.min_transactions, c.repeated});
      out += "]";
    }
  out += "], \"blocks\": [";
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (!blocks[i].steps) continue;
    row(out);
    numbers(out, {i, blocks[i].steps, blocks[i].lanes});
    out += "]";
  }
  out += "], \"calls\": [";
  for (const auto& [where, call] : calls) {
    row(out);
    quote(out, std::get<0>(where));
    out += ", ";
    quote(out, std::get<1>(where));
    out += ", ";
    numbers(out, {uint64_t(std::get<2>(where)), call.times, call.lanes});
    out += "]";
  }
  return out + "]}";
}

}  // namespace mpsx::driver::host::simt
