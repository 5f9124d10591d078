/** Sets `window.__ran` and opens an alert. */
const script = "window.__ran=1;alert(1)";

/** Each runs the script when a browser parses it as markup. */
const vectors: readonly string[] = [
  `<script>${script}</script>`,
  `<img src=x onerror="${script}">`,
  `<svg onload="${script}">`,
  `<svg><script href="data:,${script}"/></svg>`,
  `<iframe srcdoc="<script>parent.${script}</script>"></iframe>`,
  `<iframe src="javascript:parent.${script}"></iframe>`,
  `<details open ontoggle="${script}">`,
  `<input autofocus onfocus="${script}">`,
  `<video><source onerror="${script}"></video>`,
  `<object data="javascript:${script}"></object>`,
  `<embed src="javascript:${script}">`,
  `<style onload="${script}">@import "//evil.example";</style>`,
  `<link rel=stylesheet href="//evil.example/x.css" onerror="${script}">`,
  `<math><mtext><img src=x onerror="${script}"></mtext></math>`,
  `<base href="//evil.example/"><form><button formaction="javascript:${script}">x</button></form>`,
];

/** Prefixes that close the context into which a text may be written. */
const escapes: readonly string[] = [
  "",
  '">',
  "'>",
  "</p>",
  "</title>",
  "</textarea>",
  "</script>",
  "-->",
  "]]>",
  "{{x}}",
];

/** 150 texts that must stay text, each with a number to find it by. */
export const hostileTexts: readonly string[] = escapes
  .flatMap((before) => vectors.map((vector) => before + vector))
  .map((text, i) => `${i}:${text}`);
