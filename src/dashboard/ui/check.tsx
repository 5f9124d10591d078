import type { ComponentChildren } from "preact";

export interface CheckProps {
  readonly isOn: boolean;
  readonly onChange: (isOn: boolean) => void;
  readonly children: ComponentChildren;
}

/** A choice between yes and no. */
export function Check({ isOn, onChange, children }: CheckProps) {
  return (
    <label class="check">
      <input type="checkbox" checked={isOn} onChange={() => onChange(!isOn)} />
      <span>{children}</span>
    </label>
  );
}
