import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

/** The dashboard: hashed files that a page finds relative to itself, so that it works under any path. */
export default defineConfig({
  root: fileURLToPath(new URL("src/dashboard", import.meta.url)),
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: fileURLToPath(new URL("dist/dashboard", import.meta.url)),
    emptyOutDir: true,
    target: "es2022",
    // Data addresses would need a wider content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
