/** Under an answer that its limit has ended, so that nobody takes it for the whole. */
export function CutShort() {
  return (
    <div>
      <small>Cut at the limit of tokens.</small>
    </div>
  );
}
