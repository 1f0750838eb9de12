// Opcodes with their arguments are the unit: deleted, doubled, exchanged, moved, or one argument
// set to another number or text of right length.
#include <algorithm>
#include <array>
#include <cstring>

#include "tests/fuzz/mutate.h"

namespace etalon::fuzz {
namespace {

// Bytes of the argument behind an opcode; -1 one line, -2 two lines, -3/-4/-5 a length of 1, 4, 8.
int argument_of(std::uint8_t op) {
  switch (op) {
    case 0x80:
    case 'K':
    case 'q':
    case 'h':
    case 0x82:
      return 1;
    case 'M':
    case 0x83:
      return 2;
    case 'J':
    case 'r':
    case 'j':
    case 0x84:
      return 4;
    case 'G':
    case 0x95:
      return 8;
    case 'I':
    case 'L':
    case 'F':
    case 'S':
    case 'V':
    case 'p':
    case 'g':
    case 'P':
      return -1;
    case 'c':
    case 'i':
      return -2;
    case 'U':
    case 'C':
    case 0x8c:
    case 0x8a:
      return -3;
    case 'T':
    case 'B':
    case 'X':
    case 0x8b:
      return -4;
    case 0x8d:
    case 0x8e:
    case 0x96:
      return -5;
    default:
      return 0;
  }
}

struct Op {
  std::uint8_t code = 0;
  Bytes argument;  // without its length
};

// Up to STOP; `rest` is what stands behind it (a legacy .pt has further pickles and storages
// there).
bool parse(const Bytes& in, std::vector<Op>& ops, Bytes& rest) {
  for (std::size_t at = 0; at < in.size();) {
    Op op;
    op.code = in[at++];
    const int kind = argument_of(op.code);
    std::size_t n = kind > 0 ? static_cast<std::size_t>(kind) : 0;
    if (kind == -1 || kind == -2) {
      for (int lines = -kind; lines > 0; --lines) {
        while (at + n < in.size() && in[at + n] != '\n') ++n;
        ++n;
      }
    } else if (kind < -2) {
      const std::size_t width = kind == -3 ? 1 : kind == -4 ? 4 : 8;
      if (in.size() - at < width) return false;
      std::uint64_t length = 0;
      std::memcpy(&length, in.data() + at, width);
      at += width;
      if (length > in.size()) return false;
      n = length;
    }
    if (n > in.size() - at) return false;
    op.argument.assign(in.begin() + static_cast<std::ptrdiff_t>(at),
                       in.begin() + static_cast<std::ptrdiff_t>(at + n));
    at += n;
    ops.push_back(std::move(op));
    if (ops.back().code == '.') {
      rest.assign(in.begin() + static_cast<std::ptrdiff_t>(at), in.end());
      return true;
    }
  }
  return false;
}

}  // namespace

bool mutate_pickle(Bytes& file, Draw& draw) {
  if (file.size() < 4) return false;
  const bool begins = (file[0] == 0x80 && file[1] <= 5) || file[0] == '(' || file[0] == '}' ||
                      file[0] == ']' || file[0] == 'c';
  if (!begins) return false;
  std::vector<Op> ops;
  Bytes rest;
  if (!parse(file, ops, rest) || ops.size() < 3) return false;
  // A legacy file's own content is its later pickles.
  if (!rest.empty() && rest[0] == 0x80 && !draw.one_in(4)) {
    const std::size_t head = file.size() - rest.size();
    if (mutate_pickle(rest, draw)) {
      file.resize(head);
      file.insert(file.end(), rest.begin(), rest.end());
      return true;
    }
  }
  const std::size_t i = draw.below(ops.size() - 1);
  const auto here = ops.begin() + static_cast<std::ptrdiff_t>(i);
  static constexpr std::array<std::uint8_t, 36> kCodes{
      'N',  '(',  ')', 't', 0x85, 0x86, 0x87, ']',  'l',  '}',  'd', 0x8f,
      0x91, 0x90, 'a', 'e', 's',  'u',  '0',  '1',  '2',  0x94, 'R', 'o',
      0x81, 0x92, 'b', 'Q', 0x88, 0x89, 0x93, 0x97, 0x98, '.',  'R', 'b'};
  switch (draw.below(10)) {
    case 0:
      ops.erase(here);
      break;
    case 1: {
      const Op copy = *here;
      ops.insert(here, copy);
      break;
    }
    case 2:
      std::swap(ops[i], ops[draw.below(ops.size() - 1)]);
      break;
    case 3: {  // a piece elsewhere
      const std::size_t n = 1 + draw.below(std::min<std::size_t>(ops.size() - 1 - i, 12));
      const std::vector<Op> piece(here, here + static_cast<std::ptrdiff_t>(n));
      ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(draw.below(ops.size() - 1)),
                 piece.begin(), piece.end());
      break;
    }
    case 4:
      ops.insert(here, Op{kCodes[draw.below(kCodes.size())], {}});
      break;
    default: {
      // One with an argument, from the drawn place on.
      std::size_t k = i;
      for (std::size_t tries = 0; tries < ops.size() && ops[k].argument.empty(); ++tries)
        k = (k + 1) % ops.size();
      Op& op = ops[k];
      if (op.argument.empty()) break;
      if (op.code == 'c' && draw.one_in(3)) {
        static constexpr std::array<std::string_view, 5> kNames{
            "os\nsystem\n", "numpy.core.multiarray\n_reconstruct\n",
            "torch._utils\n_rebuild_tensor_v2\n", "collections\nOrderedDict\n",
            "_codecs\nencode\n"};
        const std::string_view name = kNames[draw.below(kNames.size())];
        op.argument.assign(name.begin(), name.end());
      } else if (argument_of(op.code) > 0) {
        const std::uint64_t value = draw.number();
        std::memcpy(op.argument.data(), &value, std::min<std::size_t>(op.argument.size(), 8));
      } else if (argument_of(op.code) == -1 && op.code != 'S' && op.code != 'V') {
        const std::string text = std::to_string(static_cast<std::int64_t>(draw.number())) + "\n";
        op.argument.assign(text.begin(), text.end());
      } else if (op.argument.size() <= 8 && draw.one_in(2)) {
        const std::uint64_t value = draw.number();
        std::memcpy(op.argument.data(), &value, op.argument.size());
      } else {
        mutate_bytes(op.argument, draw);
        const int kind = argument_of(op.code);
        if (kind == -3 && op.argument.size() > 255) op.argument.resize(255);
        if (kind == -1 || kind == -2) op.argument.push_back('\n');
      }
    }
  }
  Bytes out;
  for (const Op& op : ops) {
    out.push_back(op.code);
    const int kind = argument_of(op.code);
    if (kind < -2) {
      const std::uint64_t n = op.argument.size();
      const auto* b = reinterpret_cast<const std::uint8_t*>(&n);
      out.insert(out.end(), b, b + (kind == -3 ? 1 : kind == -4 ? 4 : 8));
    }
    out.insert(out.end(), op.argument.begin(), op.argument.end());
  }
  out.insert(out.end(), rest.begin(), rest.end());
  file = std::move(out);
  return true;
}

}  // namespace etalon::fuzz
