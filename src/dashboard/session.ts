/** Who is signed in: asked of the service once, for the cookie cannot be read here. */
import { useEffect, useState } from "preact/hooks";
import { call, onSignedOut } from "./api.js";

export type SignedIn = "unknown" | "no" | "yes";

/** `signedIn` is to be called after a sign-in. */
export function useSession(): { readonly state: SignedIn; readonly signedIn: () => void } {
  const [state, setState] = useState<SignedIn>("unknown");
  useEffect(() => {
    const unsubscribe = onSignedOut(() => setState("no"));
    call("unified.admin.v1.SessionService/ListSessions", {}).then(
      () => setState("yes"),
      () => setState("no"),
    );
    return unsubscribe;
  }, []);
  return { state, signedIn: () => setState("yes") };
}
