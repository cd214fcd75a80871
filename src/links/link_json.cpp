#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "msvis/links.h"

namespace msvis {
namespace {

void append_quoted(std::string& out, std::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (plain) {
    out += '"';
    out += text;
    out += '"';
  } else {
    out += nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }
}

std::string_view type_text(Link::Type type) {
  switch (type) {
    case Link::Type::send:
      return "send";
    case Link::Type::receive:
      return "receive";
    case Link::Type::send_receive:
      break;
  }
  return "send_receive";
}

}  // namespace

std::string link_json(const Link& link) {
  if (link.peers.empty()) {
    return "{}";
  }
  std::string out = "{\"communications_type\": \"";
  out += type_text(link.type);
  out += "\", \"nodes_info\": {";
  bool first = true;
  for (const Link::Peer& peer : link.peers) {
    out += first ? "\"" : ", \"";
    first = false;
    out += std::to_string(peer.rank);
    out += "\": [";
    append_quoted(out, peer.index);
    out += ", ";
    append_quoted(out, peer.name);
    out += ']';
  }
  out += "}}";
  return out;
}

}  // namespace msvis
