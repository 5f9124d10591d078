/** Who is signed in: asked of the service once, for the cookie cannot be read here. */
import { useCallback, useEffect, useState } from "preact/hooks";
import { call, isUnauthenticated, onSignedOut } from "./api.js";

export type SignedIn = "unknown" | "no" | "yes";

export interface Session {
  readonly state: SignedIn;
  /** Why it is still unknown; null: the answer is on its way, or there. */
  readonly error: Error | null;
  /** To be called after a sign-in. */
  readonly signedIn: () => void;
  /** Asks again. */
  readonly retry: () => void;
}

export function useSession(): Session {
  const [state, setState] = useState<SignedIn>("unknown");
  const [error, setError] = useState<Error | null>(null);
  const ask = useCallback(() => {
    setError(null);
    call("unified.admin.v1.SessionService/ListSessions", {}).then(
      () => setState("yes"),
      (thrown: Error) => {
        // A service in trouble says nothing about who is signed in.
        if (isUnauthenticated(thrown)) setState("no");
        else setError(thrown);
      },
    );
  }, []);
  useEffect(() => {
    const unsubscribe = onSignedOut(() => setState("no"));
    ask();
    return unsubscribe;
  }, []);
  return { state, error, signedIn: () => setState("yes"), retry: ask };
}
