/**
 * Markdown of models as a tree of permitted elements. The text never becomes markup: HTML in it stays text, links lead only
 * to web pages and mail addresses, and images, whose address would be requested from another server, become links.
 */
import { Lexer, type Token, type Tokens } from "marked";

export type MarkdownTag =
  | ("p" | "blockquote" | "hr" | "br" | "strong" | "em" | "s" | "code")
  | ("h3" | "h4" | "h5" | "h6" | "ul" | "li" | "table" | "thead" | "tbody" | "tr" | "th" | "td");

/** A part of a text: text itself, or an element with its children. */
export type MarkdownNode =
  | string
  | { readonly tag: MarkdownTag; readonly children: readonly MarkdownNode[] }
  | { readonly tag: "ol"; readonly start: number; readonly children: readonly MarkdownNode[] }
  /** `href` is an absolute URL with one of the schemes http, https and mailto. */
  | { readonly tag: "a"; readonly href: string; readonly children: readonly MarkdownNode[] }
  | { readonly tag: "pre"; readonly language: string; readonly text: string };

/** Longer texts are not parsed, because each chunk of a stream parses the whole text again. */
const textCharsMax = 200_000;

/** Deeper nested elements stay text. */
const depthMax = 20;

/** Parses GitHub flavoured Markdown. A text that is too long or nested too deeply is one paragraph. */
export function markdownOf(text: string): readonly MarkdownNode[] {
  if (text.length > textCharsMax) return [element("p", [text])];
  try {
    return blocks(Lexer.lex(text, { gfm: true }), 0);
  } catch (thrown) {
    // The parser recurses: thousands of nested quotes exceed the stack.
    if (thrown instanceof RangeError) return [element("p", [text])];
    throw thrown;
  }
}

function element(tag: MarkdownTag, children: readonly MarkdownNode[]): MarkdownNode {
  return { tag, children };
}

function blocks(tokens: readonly Token[], depth: number): readonly MarkdownNode[] {
  return tokens.flatMap((token) => block(token as Tokens.Generic, depth + 1));
}

function block(token: Tokens.Generic, depth: number): readonly MarkdownNode[] {
  if (depth > depthMax) return [element("p", [token.raw])];
  switch (token.type) {
    case "space":
    case "def":
      return [];
    case "heading":
      return [element(headingTag((token as Tokens.Heading).depth), spans(token.tokens, depth))];
    case "paragraph":
      return [element("p", spans(token.tokens, depth))];
    case "code":
      return [{ tag: "pre", language: languageOf(token as Tokens.Code), text: (token as Tokens.Code).text }];
    case "blockquote":
      return [element("blockquote", blocks(token.tokens ?? [], depth))];
    case "list":
      return [list(token as Tokens.List, depth)];
    case "table":
      return [table(token as Tokens.Table, depth)];
    case "hr":
      return [element("hr", [])];
    case "text":
      return token.tokens === undefined ? [decoded(token.raw)] : spans(token.tokens, depth);
    case "checkbox":
      return [checkbox(token as Tokens.Checkbox)];
    default:
      return [element("p", [token.raw])];
  }
}

/** Headings start at h3, because the page itself uses h1 and h2. */
function headingTag(level: number): MarkdownTag {
  return (["h3", "h4", "h5"] as const)[level - 1] ?? "h6";
}

/** The language of a code block: the first word after the opening fence. */
function languageOf({ lang = "" }: Tokens.Code): string {
  return lang.split(/\s/)[0] ?? "";
}

function list({ ordered, start, items }: Tokens.List, depth: number): MarkdownNode {
  const children = items.map((item) => element("li", blocks(item.tokens, depth)));
  return ordered ? { tag: "ol", start: Number(start || 1), children } : element("ul", children);
}

function table({ header, rows }: Tokens.Table, depth: number): MarkdownNode {
  const row = (tag: "th" | "td", cells: readonly Tokens.TableCell[]): MarkdownNode =>
    element(
      "tr",
      cells.map(({ tokens }) => element(tag, spans(tokens, depth))),
    );
  return element("table", [
    element("thead", [row("th", header)]),
    element(
      "tbody",
      rows.map((cells) => row("td", cells)),
    ),
  ]);
}

function checkbox({ checked }: Tokens.Checkbox): string {
  return checked ? "☑ " : "☐ ";
}

function spans(tokens: readonly Token[] | undefined, depth: number): readonly MarkdownNode[] {
  return (tokens ?? []).map((token) => span(token as Tokens.Generic, depth + 1));
}

function span(token: Tokens.Generic, depth: number): MarkdownNode {
  if (depth > depthMax) return token.raw;
  switch (token.type) {
    case "text":
      return decoded(token.raw);
    case "escape":
      return token.raw.slice(1);
    case "strong":
    case "em":
      return element(token.type, spans(token.tokens, depth));
    case "del":
      return element("s", spans(token.tokens, depth));
    case "codespan":
      return element("code", [token["text"] as string]);
    case "br":
      return element("br", []);
    case "link":
      return link((token as Tokens.Link).href, spans(token.tokens, depth), token.raw);
    case "image":
      return link((token as Tokens.Image).href, [(token as Tokens.Image).text || "Image"], token.raw);
    case "checkbox":
      return checkbox(token as Tokens.Checkbox);
    default:
      return token.raw;
  }
}

const linkedSchemes: ReadonlySet<string> = new Set(["http:", "https:", "mailto:"]);

/** The link, or the source text if it leads elsewhere, for example to a relative address or a script. */
function link(href: string, children: readonly MarkdownNode[], raw: string): MarkdownNode {
  if (!URL.canParse(href) || !linkedSchemes.has(new URL(href).protocol)) return raw;
  return { tag: "a", href, children };
}

const entities: Readonly<Record<string, string>> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#39;": "'",
  "&apos;": "'",
  "&nbsp;": "\u00a0",
};

/** Replaces the character references that models write most. */
function decoded(text: string): string {
  return text.replace(/&(?:amp|lt|gt|quot|#39|apos|nbsp);/g, (reference) => entities[reference] ?? reference);
}
