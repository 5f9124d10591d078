/** What it makes, or why it cannot. */
export function tried<T>(make: () => T): T | Error {
  try {
    return make();
  } catch (thrown) {
    return thrown instanceof Error ? thrown : new Error(String(thrown));
  }
}
