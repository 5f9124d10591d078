import { fileURLToPath } from "node:url";

const at = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

/**
 * The program that Node runs as `uis`: the build if `npm test` has just created one, which starts in half the time and is the
 * code that users get; otherwise the sources, through tsx.
 */
export const uisProgram: readonly string[] =
  process.env["UIS_TEST_BUILD"] === "1"
    ? [at("dist/app/cli.js")]
    : ["--import", at("node_modules/tsx/dist/loader.mjs"), at("src/app/cli.ts")];
