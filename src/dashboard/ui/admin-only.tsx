import type { ComponentChildren } from "preact";
import { useCanChange } from "../lib/session.js";

/** Controls of actions that the service refuses to viewers: absent in their sessions. */
export function AdminOnly({ children }: { readonly children: ComponentChildren }) {
  return useCanChange() ? children : null;
}
