/** What was set, as short texts by name. Closed, it says how many. */
export function Details({ details }: { readonly details: Readonly<Record<string, string>> }) {
  const entries = Object.entries(details).filter(([, text]) => text !== "");
  if (entries.length === 0) return <span class="faint">none</span>;
  return (
    <details class="audit-details">
      <summary>{entries.length === 1 ? "1 detail" : `${entries.length} details`}</summary>
      <dl>
        {entries.map(([name, text]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
