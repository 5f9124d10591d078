/**
 * How many rounds a repeated test runs: the full count in the tier `long`, a tenth of it and at least three otherwise.
 * `npm test` sets the tier; a test file that is run by hand runs the short count.
 */
export function rounds(longCount: number): number {
  if (process.env["UIS_TEST_TIER"] === "long") return longCount;
  return Math.min(longCount, Math.max(3, Math.ceil(longCount / 10)));
}

/** The value for the tier, where it does not scale by ten, such as the duration of a soak. */
export function byTier<T>(values: { readonly ci: T; readonly long: T }): T {
  return process.env["UIS_TEST_TIER"] === "long" ? values.long : values.ci;
}
