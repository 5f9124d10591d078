/** A value that a picker offers. */
export interface Choice {
  readonly value: string;
  /** Shown instead of the value. */
  readonly label?: string;
  /** A second text: an id, an account, a state. */
  readonly detail?: string;
}

export function titleOf({ value, label }: Choice): string {
  return label ?? value;
}

/** Longer lists are cut: typing narrows them. */
const shownMax = 100;

/** The choices that contain each typed word in value, label or detail; at most 100, in the given order. */
export function matching<C extends Choice>(choices: readonly C[], typed: string): readonly C[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const contains = ({ value, label = "", detail = "" }: Choice): boolean => {
    const text = `${value}\n${label}\n${detail}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
  return choices.filter(contains).slice(0, shownMax);
}
