/** Pixels between a control and its popover, and between a popover and the window's edge. */
const gap = 4;
const margin = 12;

export interface Placement {
  /** The edge of the control that the popover is aligned with. */
  readonly align: "start" | "end";
  /** Makes the popover at least as wide as the control. */
  readonly isAsWide?: boolean;
}

/** Places a popover below its control, or above it where there is more room. */
export function place(popover: HTMLElement, control: Element, { align, isAsWide = false }: Placement): void {
  const { top, bottom, left, right, width } = control.getBoundingClientRect();
  const { clientWidth, clientHeight } = document.documentElement;
  const below = clientHeight - bottom;
  const isAbove = below < 240 && top > below;
  Object.assign(popover.style, {
    top: isAbove ? "auto" : `${bottom + gap}px`,
    bottom: isAbove ? `${clientHeight - top + gap}px` : "auto",
    left: align === "start" ? `${left}px` : "auto",
    right: align === "start" ? "auto" : `${clientWidth - right}px`,
    minWidth: isAsWide ? `${width}px` : "",
    maxWidth: `${(align === "start" ? clientWidth - left : right) - margin}px`,
    maxHeight: `${(isAbove ? top : below) - gap - margin}px`,
  });
}
