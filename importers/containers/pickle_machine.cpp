#include "importers/containers/pickle_machine.h"

#include <cstring>

#include "importers/containers/decimal.h"

namespace etalon {

void PickleMachine::run() {
  for (;;) {
    at_op_ = at_;
    const auto op = static_cast<char>(take(1)[0]);
    if (op == '.') break;
    step(op);
  }
  p_.root_ = pop();
  p_.end_ = at_;
}

void PickleMachine::step(char op) {
  switch (op) {
    case '\x80': {
      const int protocol = number<std::uint8_t>();
      if (protocol > 5) throw bad_input("pickle protocol {}; protocols 0 to 5 are known", protocol);
      return;
    }
    case '\x95':
      static_cast<void>(length8());  // a frame: how much may be read at once
      return;
    // numbers
    case 'N':
      return push(none_);
    case '\x88':
      return push(true_);
    case '\x89':
      return push(false_);
    case 'I': {
      const std::string_view text = line();
      if (text == "01") return push(true_);
      if (text == "00") return push(false_);
      return push_decimal(text);
    }
    case 'L':
      return push_decimal(line());
    case 'J':
      return push_integer(number<std::int32_t>());
    case 'K':
      return push_integer(number<std::uint8_t>());
    case 'M':
      return push_integer(number<std::uint16_t>());
    case '\x8a':
      return push_long(take(number<std::uint8_t>()));
    case '\x8b': {
      const auto n = number<std::int32_t>();
      if (n < 0) throw fault("a negative length");
      return push_long(take(static_cast<std::size_t>(n)));
    }
    case 'F':
    case 'G': {
      Value* v = make(PickleKind::real);
      if (op == 'F') {
        v->real = read_decimal(line()).value;
      } else {
        const auto big_endian = number<std::uint64_t>();
        const std::uint64_t bits = __builtin_bswap64(big_endian);
        std::memcpy(&v->real, &bits, sizeof bits);
      }
      return push(v);
    }
    // texts and bytes
    case 'S':
      return push_text(PickleKind::bytes, keep(unquoted(line())));
    case 'T': {
      const auto n = number<std::int32_t>();
      if (n < 0) throw fault("a negative length");
      return push_text(PickleKind::bytes, chars(static_cast<std::size_t>(n)));
    }
    case 'U':
    case 'C':
      return push_text(PickleKind::bytes, chars(number<std::uint8_t>()));
    case 'B':
      return push_text(PickleKind::bytes, chars(number<std::uint32_t>()));
    case '\x8e':
    case '\x96':
      return push_text(PickleKind::bytes, chars(length8()));
    case 'V':
      return push_text(PickleKind::text, keep(from_raw_unicode(line())));
    case 'X':
      return push_text(PickleKind::text, chars(number<std::uint32_t>()));
    case '\x8c':
      return push_text(PickleKind::text, chars(number<std::uint8_t>()));
    case '\x8d':
      return push_text(PickleKind::text, chars(length8()));
    // containers
    case '(':
      return marks_.push_back(stack_.size());
    case ')':
      return push(empty_tuple());
    case 't':
      return push(collected(PickleKind::tuple));
    case '\x85':
      return push(tuple_of(1));
    case '\x86':
      return push(tuple_of(2));
    case '\x87':
      return push(tuple_of(3));
    case ']':
      return push(make(PickleKind::list));
    case 'l':
      return push(collected(PickleKind::list));
    case '}':
      return push(make(PickleKind::dict));
    case 'd':
      return push(collected(PickleKind::dict));
    case '\x8f':
      return push(make(PickleKind::set));
    case '\x91':
      return push(collected(PickleKind::set));
    case '\x90': {
      const std::vector<Value*> items = pop_mark();
      if (top()->kind != PickleKind::set) throw fault("an element for something that is no set");
      top()->items.insert(top()->items.end(), items.begin(), items.end());
      return;
    }
    case 'a': {
      Value* item = pop();
      return append(top(), item);
    }
    case 'e': {
      const std::vector<Value*> items = pop_mark();
      for (Value* item : items) append(top(), item);
      return;
    }
    case 's': {
      const std::array<Value*, 2> pair_reversed{pop(), pop()};
      const std::array<Value*, 2> pair{pair_reversed[1], pair_reversed[0]};
      return set_items(top(), pair);
    }
    case 'u': {
      const std::vector<Value*> pairs = pop_mark();
      return set_items(top(), pairs);
    }
    // stack and memo
    case '0':
      if (!marks_.empty() && marks_.back() == stack_.size())
        marks_.pop_back();
      else
        pop();
      return;
    case '1':
      static_cast<void>(pop_mark());
      return;
    case '2':
      return push(top());
    case 'p':
      return memo_put(decimal(line()), top());
    case 'q':
      return memo_put(number<std::uint8_t>(), top());
    case 'r':
      return memo_put(number<std::uint32_t>(), top());
    case '\x94':
      return memo_put(memo_.size(), top());
    case 'g':
      return push(memo_get(decimal(line())));
    case 'h':
      return push(memo_get(number<std::uint8_t>()));
    case 'j':
      return push(memo_get(number<std::uint32_t>()));
    // names and objects
    case 'c': {
      const std::string_view module = line();
      return push(global(module, line()));
    }
    case '\x93': {
      const Value* attribute = pop();
      const Value* module = pop();
      return push(global(pickle_text(*module, "a module's name"),
                         pickle_text(*attribute, "a class's name")));
    }
    case 'R': {
      Value* args = pop();
      return construct(pop(), args);
    }
    case 'i': {
      const std::string_view module = line();
      const Value* callable = global(module, line());
      return construct_without_call(callable, pop_mark());
    }
    case 'o': {
      std::vector<Value*> items = pop_mark();
      if (items.empty()) throw fault("an object without a class");
      const Value* callable = items.front();
      items.erase(items.begin());
      return construct_without_call(callable, items);
    }
    case '\x81': {
      Value* args = pop();
      return new_object(pop(), args);
    }
    case '\x92': {
      static_cast<void>(pop());  // keyword arguments
      Value* args = pop();
      return new_object(pop(), args);
    }
    case 'b': {
      const Value* state = pop();
      Value* to = top();
      if (to->kind != PickleKind::object) throw fault("a state for something that is no object");
      to->state = state;
      return;
    }
    case 'P': {
      Value* v = make(PickleKind::persistent);
      Value* id = make(PickleKind::text);
      id->text = line();
      v->args = id;
      return push(v);
    }
    case 'Q': {
      const Value* id = pop();
      Value* v = make(PickleKind::persistent);
      v->args = id;
      return push(v);
    }
    case '\x82':
    case '\x83':
    case '\x84':
      throw bad_input("pickle, byte {}: a class by its number in a registry, which no file holds",
                      at_op_);
    case '\x97':
    case '\x98':
      if (op == '\x98') return;
      throw bad_input(
          "pickle, byte {}: a buffer outside the file; save it without buffer callbacks", at_op_);
    default:
      throw bad_input("pickle, byte {}: no opcode {:#04x}; not a pickle, or damaged", at_op_,
                      static_cast<unsigned char>(op));
  }
}

}  // namespace etalon
