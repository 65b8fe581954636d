/** A repeatable source of integers: `random(limit)` is in 0 … limit − 1. */
export function randomOf(seed) {
  let state = seed >>> 0 || 1;
  return (limit) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % limit;
  };
}
