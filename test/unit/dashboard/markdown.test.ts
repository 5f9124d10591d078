import { describe, expect, it } from "vitest";
import { type MarkdownNode, markdownOf } from "../../../src/dashboard/pages/playground/markdown.js";
import { hostileTexts } from "../../support/browser/hostile-texts.js";

/** The tree in a short form: `p(a strong(b))`. */
function outline(nodes: readonly MarkdownNode[]): string {
  return nodes
    .map((node) => {
      if (typeof node === "string") return node;
      if (node.tag === "pre") return `pre:${node.language}(${node.text})`;
      const mark = node.tag === "a" ? `a:${node.href}` : node.tag;
      return `${mark}(${outline(node.children)})`;
    })
    .join("");
}

const outlineOf = (text: string) => outline(markdownOf(text));

describe("Markdown of an answer", () => {
  it("becomes headings, emphasis, lists, quotes, rules and tables", () => {
    expect(outlineOf("# One\n\n###### Six\n\na **b** *c* ~~d~~ `e < f`  \ng")).toBe(
      "h3(One)h6(Six)p(a strong(b) em(c) s(d) code(e < f)br()g)",
    );
    expect(outlineOf("- a\n- [x] b\n  1. c\n\n> d\n\n---")).toBe("ul(li(a)li(☑ bol(li(c))))blockquote(p(d))hr()");
    expect(markdownOf("3. a\n4. b")).toMatchObject([{ tag: "ol", start: 3 }]);
    expect(outlineOf("|a|b|\n|-|-|\n|1|*2*|")).toBe("table(thead(tr(th(a)th(b)))tbody(tr(td(1)td(em(2)))))");
  });

  it("keeps code unchanged, also before the end of its block has arrived", () => {
    expect(outlineOf("```ts title\nif (a < b) *c*\n```")).toBe("pre:ts(if (a < b) *c*)");
    expect(outlineOf("Look:\n```py\nprint(1)")).toBe("p(Look:)pre:py(print(1))");
  });

  it("shows the characters of HTML character references", () => {
    expect(outlineOf("a &lt;b&gt; &amp;amp; \\*c\\*")).toBe("p(a <b> &amp; *c*)");
  });

  it("links only to web pages and mail addresses, and loads no images", () => {
    expect(outlineOf("[a](https://x.example/b) <m@x.example> https://y.example")).toBe(
      "p(a:https://x.example/b(a) a:mailto:m@x.example(m@x.example) a:https://y.example(https://y.example))",
    );
    for (const target of ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "/keys", "vbscript:x"]) {
      expect(outlineOf(`[a](${target})`)).toBe(`p([a](${target}))`);
    }
    expect(outlineOf("![alt](https://x.example/i.png) ![alt](data:image/png;base64,x)")).toBe(
      "p(a:https://x.example/i.png(alt) ![alt](data:image/png;base64,x))",
    );
  });

  it("shows HTML markup as text (SEC-21)", () => {
    for (const text of hostileTexts) expect(outlineOf(text)).toBe(`p(${text})`);
    expect(outlineOf("<div onclick=x>\n\na <b>c</b>\n\n</div>")).toContain("a <b>c</b>");
  });

  it("stays plain text if it is nested too deeply or too long to parse", () => {
    const quotes = `${">".repeat(20_000)}a`;
    expect(outlineOf(quotes)).toBe(`p(${quotes})`);
    expect(outlineOf(`${"> ".repeat(50)}a`)).toContain("p(> > ");
    const long = "*a* ".repeat(60_000);
    expect(outlineOf(long)).toBe(`p(${long})`);
  });
});
