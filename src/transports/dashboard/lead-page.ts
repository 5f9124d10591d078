import { toWebFile, type WebFile } from "./web-file.js";

/**
 * A page that leads the browser on to `to`, which is relative: only such an address holds below a proxy's path. No redirect,
 * because no answer of this service is one: programs follow them, and lose their request on the way.
 */
export function leadPage(to: string): WebFile {
  const html = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta http-equiv="refresh" content="0; url=${to}" />
    <title>Unified Inference</title>
  </head>
  <body>
    <a href="${to}">Go on</a>
  </body>
</html>
`;
  return toWebFile("index.html", Buffer.from(html), new Map(), false);
}
