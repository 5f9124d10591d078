import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Every page for readers: those in the root folder and all of docs. */
export const pages: readonly string[] = [
  "README.md",
  "SECURITY.md",
  "CONTRIBUTING.md",
  ...readdirSync("docs", { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".md"))
    .map((file) => `docs/${file}`),
];

/** Relative addresses that a page leads to or shows: Markdown's links and pictures, and those of its HTML. */
export function ownLinks(markdown: string): readonly string[] {
  const text = markdown.replaceAll(/^```[\s\S]*?^```$/gm, "");
  const written = [...text.matchAll(/\]\(([^)\s]+)\)/g), ...text.matchAll(/\b(?:src|srcset|href)="([^"\s]+)"/g)];
  return written.map(([, link]) => String(link)).filter((link) => !/^[a-z]+:/.test(link));
}

/** Pictures of a page without a text description. */
export function unnamedPictures(markdown: string): readonly string[] {
  const pictures = [...markdown.matchAll(/<img\b[^>]*>|!\[[^\]]*\]\([^)]*\)/g)].map(([picture]) => picture);
  return pictures.filter((picture) => !/\balt="[^"]{10,}"|^!\[[^\]]{10,}\]/.test(picture));
}

/** Whether a relative address of a page leads to a file and, where it has a fragment, to a heading. */
export function isGoodLink(page: string, link: string): boolean {
  const [path = "", anchor] = link.split("#");
  const target = path === "" ? page : join(dirname(page), path);
  if (!existsSync(target)) return false;
  return anchor === undefined || anchorsOf(target).includes(anchor);
}

/** Anchors of a page's headings, as GitHub generates them. */
function anchorsOf(page: string): readonly string[] {
  return [...readFileSync(page, "utf8").matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    String(heading)
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, "")
      .replaceAll(" ", "-"),
  );
}
