// CPUs add and multiply doubles as fast as floats, and a sum of two floats takes them several times as long.
typedef float Double __attribute__((mode(DF)));  // Metal has no word for it

template <>
struct Sum<float> {
  typedef Double State;
  static State identity() { return 0; }
  static void next(thread State& s, float x, uint) { s += State(x); }
  static State join(State a, State b) { return a + b; }
  static float value(thread const State& s) { return float(s); }
};
template <>
struct Product<float> {
  typedef Double State;
  static State identity() { return 1; }
  static void next(thread State& s, float x, uint) { s *= State(x); }
  static State join(State a, State b) { return a * b; }
  static float value(thread const State& s) { return float(s); }
};
