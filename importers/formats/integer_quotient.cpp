#include "importers/formats/integer_quotient.h"

namespace etalon {

ValueId floor_quotient(GraphBuilder& g, const std::string& name, ValueId x, ValueId y) {
  const ValueId quotient = g.op("div", name + ".cut", {x, y});
  const ValueId same = g.op("equal", name + ".same",
                            {g.op("mod", name + ".floor_mod", {x, y}),
                             g.op("mod", name + ".cut_mod", {x, y}, {{"fmod", true}})});
  const ValueId differs = g.op("not", name + ".differs", {same});
  // A type that is known only in the run is that of the quotient.
  const ValueId one = g.known(x) ? g.op("cast", name + ".one", {differs},
                                        {{"to", std::string(etalon::name(g.dtype(x)))}})
                                 : g.op("cast_like", name + ".one", {differs, quotient});
  return g.op("sub", name, {quotient, one});
}

}  // namespace etalon
