// The extremum rarely changes. A well-predicted branch removes the dependency on the previous comparison.

template <typename C, typename Order>
struct Extremum {
  typedef RunningExtremum<C> State;
  static State identity() { return {C(0), kNone}; }
  static bool replaces(State a, C x) {
    return a.index == kNone || is_nan(x) || (!is_nan(a.value) && Order::beats(x, a.value));
  }
  static void next(thread State& s, C x, uint i) {
    if (__builtin_expect(replaces(s, x), 0)) s = {x, i};
  }
};
