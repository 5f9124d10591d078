/**
 * Vectors that came one behind the other, each of `native` numbers and of length 1. With fewer `dimensions` each is cut
 * and brought back to length 1 (EMB-8).
 */
export function splitVectors(joined: Float32Array, native: number, dimensions: number): Float32Array[] {
  const vectors: Float32Array[] = [];
  for (let from = 0; from < joined.length; from += native) {
    const vector = joined.slice(from, from + dimensions);
    vectors.push(dimensions === native ? vector : normalised(vector));
  }
  return vectors;
}

function normalised(vector: Float32Array): Float32Array {
  const length = Math.hypot(...vector);
  return length === 0 ? vector : vector.map((value) => value / length);
}
