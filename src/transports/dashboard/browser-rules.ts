/**
 * What pages of this server forbid browsers to do with them (SEC-21). `x-content-type-options` is not here: the listener
 * sets it on every answer of every door.
 */

const nothingForeign = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
];

/** For our own pages: no text ever becomes markup or a script, not even by mistake. */
export const dashboardPolicy = [...nothingForeign, "require-trusted-types-for 'script'", "trusted-types 'none'"].join(
  "; ",
);

/** For Swagger UI, which makes markup of texts after cleaning them, so that trusted types would stop it. */
export const documentsPolicy = nothingForeign.join("; ");

/** The headers of every answer of this door, beside its policy. */
export const browserRules: Readonly<Record<string, string>> = {
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
};
