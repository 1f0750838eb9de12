#include "importers/formats/integer_quotient.h"

namespace etalon {

ValueId floor_quotient(GraphBuilder& g, const std::string& name, ValueId x, ValueId y) {
  const std::string type(etalon::name(g.dtype(x)));
  const ValueId quotient = g.op("div", name + ".cut", {x, y});
  const ValueId same = g.op("equal", name + ".same",
                            {g.op("mod", name + ".floor_mod", {x, y}),
                             g.op("mod", name + ".cut_mod", {x, y}, {{"fmod", true}})});
  const ValueId one =
      g.op("cast", name + ".one", {g.op("not", name + ".differs", {same})}, {{"to", type}});
  return g.op("sub", name, {quotient, one});
}

}  // namespace etalon
