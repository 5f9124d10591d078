import { Fragment, h, type VNode } from "preact";
import { useMemo } from "preact/hooks";
import { CodeBlock } from "../../ui/code.js";
import { type MarkdownNode, markdownOf } from "./markdown.js";

/** A text with Markdown. Parsed again only when the text changes. */
export function MarkdownView({ text }: { readonly text: string }) {
  const content = useMemo(() => views(markdownOf(text)), [text]);
  return <div class="markdown">{content}</div>;
}

/** Keys by position: a growing text changes its last elements only. */
function views(nodes: readonly MarkdownNode[]): readonly VNode[] {
  return nodes.map((node, index) => <Fragment key={index}>{viewOf(node)}</Fragment>);
}

function viewOf(node: MarkdownNode) {
  if (typeof node === "string") return node;
  switch (node.tag) {
    case "pre":
      return <CodeBlock title={node.language} code={node.text} copyLabel="Copy code" />;
    case "a":
      return (
        <a href={node.href} title={node.href} target="_blank" rel="noopener noreferrer nofollow">
          {views(node.children)}
        </a>
      );
    case "ol":
      return <ol start={node.start}>{views(node.children)}</ol>;
    case "table":
      return (
        <div class="markdown-table">
          <table>{views(node.children)}</table>
        </div>
      );
    default:
      return h(node.tag, null, ...views(node.children));
  }
}
