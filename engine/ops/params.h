// The parameters of an op, type-erased.
//
// Each op has a plain struct of parameters with one member `template <class V> void visit(V& v)`
// that names every field: `v("strides", strides); v("group", group);`. That one list gives the
// neutral JSON, `etalon judge --params`, the printed form and equality, so that a field is never
// typed twice. Floats are f32, as model files store them: a framework that computes with a double
// epsilon differs, and that difference is a cause that verdicts name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/error.h"

namespace etalon {

using Ints = std::vector<std::int64_t>;

// Reads or writes the fields of a parameter struct. A field is one of these types; an enumeration
// is a string with a closed list of values.
class ParamVisitor {
 public:
  virtual ~ParamVisitor() = default;
  virtual void field(std::string_view name, std::int64_t& value) = 0;
  virtual void field(std::string_view name, float& value) = 0;
  virtual void field(std::string_view name, bool& value) = 0;
  virtual void field(std::string_view name, std::string& value) = 0;
  virtual void field(std::string_view name, Ints& value) = 0;
  virtual void field(std::string_view name, std::vector<float>& value) = 0;
  virtual void field(std::string_view name, std::vector<std::string>& value) = 0;

  template <class T>
  void operator()(std::string_view name, T& value) {
    field(name, value);
  }
  // An enumeration E whose values are 0, 1, ... in the order of `names`.
  template <class E>
  void operator()(std::string_view name, E& value, std::initializer_list<std::string_view> names) {
    value = static_cast<E>(choice(name, static_cast<std::size_t>(value), names));
  }
  void operator()(std::string_view name, DType& value);

 private:
  std::size_t choice(std::string_view name, std::size_t value,
                     std::initializer_list<std::string_view> names);
};

// An op without parameters.
struct NoParams {
  template <class V>
  void visit(V&) {}
};

class Params {
 public:
  Params() : Params(NoParams{}) {}
  template <class P>
    requires requires(P p, ParamVisitor& v) { p.visit(v); }
  explicit(false) Params(P params) : held_(std::make_shared<Model<P>>(std::move(params))) {}

  // The struct itself; asking for another op's struct is an internal Error.
  template <class P>
  const P& as() const {
    if (held_->type() != typeid(P)) throw_other_type(held_->type(), typeid(P));
    return static_cast<const Model<P>&>(*held_).params;
  }
  // Writes through a visitor that only reads; `edited` returns a copy that the visitor changed.
  void visit(ParamVisitor& v) const { held_->clone()->visit(v); }
  Params edited(ParamVisitor& v) const {
    std::shared_ptr<Concept> copy = held_->clone();
    copy->visit(v);
    return Params(std::shared_ptr<const Concept>(std::move(copy)));
  }

 private:
  struct Concept {
    virtual ~Concept() = default;
    virtual const std::type_info& type() const = 0;
    virtual std::shared_ptr<Concept> clone() const = 0;
    virtual void visit(ParamVisitor& v) = 0;
  };
  template <class P>
  struct Model final : Concept {
    explicit Model(P p) : params(std::move(p)) {}
    const std::type_info& type() const override { return typeid(P); }
    std::shared_ptr<Concept> clone() const override { return std::make_shared<Model>(params); }
    void visit(ParamVisitor& v) override { params.visit(v); }
    P params;
  };
  [[noreturn]] static void throw_other_type(const std::type_info& held,
                                            const std::type_info& asked);
  explicit Params(std::shared_ptr<const Concept> held) : held_(std::move(held)) {}
  std::shared_ptr<const Concept> held_;
};

// "strides=[1,1] group=1": the fields in order, for tables and messages.
std::string to_string(const Params& params);

// The inverse: `defaults` with the fields that `text` names changed, e.g. "kernel=[3,3] eps=1e-3".
// Blanks separate fields and cannot stand inside one. A usage Error names the field that is
// unknown, given twice or not of its kind.
Params parse_params(const Params& defaults, std::string_view text);

}  // namespace etalon
