// A CPU predicts that an extremum rarely changes, and then need not wait for the comparison with the one before.

template <typename C, typename Order>
struct Extremum {
  typedef Best<C> State;
  static State identity() { return {C(0), kNone}; }
  static bool changes(State a, C x) {
    return a.index == kNone || is_nan(x) || (!is_nan(a.value) && Order::beats(x, a.value));
  }
  static void next(thread State& s, C x, uint i) {
    if (__builtin_expect(changes(s, x), 0)) s = {x, i};
  }
};
