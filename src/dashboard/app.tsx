import { type ComponentType, render } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { call, isUnauthenticated, onSignedOut } from "./lib/api.js";
import { go, hrefOf, useLocation } from "./lib/location.js";
import { Setup, SignIn } from "./pages/sign-in.js";
import { useAction } from "./ui/action.js";
import { Loading, Problem } from "./ui/feedback.js";
import "./ui/tokens.css";
import "./style.css";
import "./shell.css";
import "./ui/ui.css";
import "./ui/data.css";

/** The sign-in form, or the navigation and one page. */
function App() {
  const { page } = useLocation();
  const { state, error, signedIn, retry } = useSession();
  const enter = (): void => {
    signedIn();
    if (page === "setup" || page === "sign-in") go("", {}, true);
  };
  if (page === "setup") return <Setup onDone={enter} />;
  if (state === "unknown") return error === null ? <Loading /> : <Unreachable error={error} onRetry={retry} />;
  if (state === "signed out") return <SignIn onDone={enter} />;
  return (
    <div class="frame">
      <a class="skip" href="#content">
        Skip to content
      </a>
      <Navigation page={page} />
      <main id="content" tabIndex={-1}>
        <Page page={page} />
      </main>
    </div>
  );
}

interface PageEntry {
  /** Last segment of its path. */
  readonly name: string;
  readonly title: string;
  /** Fetches the page's code, when the page is first shown. */
  readonly load: () => Promise<ComponentType>;
}

/** In the order of the navigation. */
const pages: readonly PageEntry[] = [
  { name: "", title: "Overview", load: async () => (await import("./pages/overview/overview.js")).Overview },
  { name: "models", title: "Models", load: async () => (await import("./pages/models/models.js")).Models },
  {
    name: "playground",
    title: "Playground",
    load: async () => (await import("./pages/playground/playground.js")).Playground,
  },
  {
    name: "upstreams",
    title: "Upstreams",
    load: async () => (await import("./pages/upstreams/upstreams.js")).Upstreams,
  },
  { name: "usage", title: "Usage", load: async () => (await import("./pages/usage/usage.js")).Usage },
  {
    name: "deliveries",
    title: "Deliveries",
    load: async () => (await import("./pages/deliveries/deliveries.js")).Deliveries,
  },
  { name: "keys", title: "API keys", load: async () => (await import("./pages/keys/keys.js")).Keys },
  { name: "webhooks", title: "Webhooks", load: async () => (await import("./pages/webhooks/webhooks.js")).Webhooks },
  { name: "audit", title: "Audit", load: async () => (await import("./pages/audit/audit.js")).Audit },
];

interface Session {
  readonly state: "unknown" | "signed out" | "signed in";
  /** Why the state is still unknown; null while the request is pending and once it is known. */
  readonly error: Error | null;
  /** Call after a successful sign-in. */
  readonly signedIn: () => void;
  readonly retry: () => void;
}

/** Asks the service whether the browser is signed in: scripts cannot read the session cookie. */
function useSession(): Session {
  const [state, setState] = useState<Session["state"]>("unknown");
  const [error, setError] = useState<Error | null>(null);
  const ask = useCallback(() => {
    setError(null);
    call("unified.admin.v1.SessionService/ListSessions", {}).then(
      () => setState("signed in"),
      (thrown: Error) => {
        // Other errors, such as an unavailable store, do not tell whether the session is valid.
        if (isUnauthenticated(thrown)) setState("signed out");
        else setError(thrown);
      },
    );
  }, []);
  useEffect(() => {
    const unsubscribe = onSignedOut(() => setState("signed out"));
    ask();
    return unsubscribe;
  }, []);
  return { state, error, signedIn: () => setState("signed in"), retry: ask };
}

/** Shown while the session state cannot be determined. */
function Unreachable(problem: { readonly error: Error; readonly onRetry: () => void }) {
  return (
    <main class="gate">
      <div class="card stack">
        <h1>Unified Inference</h1>
        <Problem {...problem} />
      </div>
    </main>
  );
}

function Navigation({ page }: { readonly page: string }) {
  const [isOpen, setOpen] = useState(false);
  const signOut = useAction(async () => {
    try {
      await call("unified.admin.v1.SessionService/SignOut", {});
    } catch (thrown) {
      if (!isUnauthenticated(thrown)) throw thrown;
    }
    window.location.assign(hrefOf(""));
  });
  return (
    <nav class="navigation" aria-label="Main" data-open={isOpen}>
      <div class="brand">
        <span>Unified Inference</span>
        <button type="button" class="quiet menu" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          Menu
        </button>
      </div>
      <ul>
        {pages.map(({ name, title }) => (
          <li key={name}>
            <a
              href={hrefOf(name)}
              aria-current={name === page ? "page" : undefined}
              onClick={(event) => {
                if (event.ctrlKey || event.metaKey || event.shiftKey) return;
                event.preventDefault();
                setOpen(false);
                go(name);
              }}
            >
              {title}
            </a>
          </li>
        ))}
        <li class="last">
          <button type="button" class="quiet" disabled={signOut.isRunning} onClick={signOut.start}>
            Sign out
          </button>
          <Problem error={signOut.error} />
        </li>
      </ul>
    </nav>
  );
}

/** Loads a page's code when it is first shown. */
function Page({ page }: { readonly page: string }) {
  const [shown, setShown] = useState<{ readonly name: string; readonly Content: ComponentType } | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const entry = pages.find(({ name }) => name === page);
  useEffect(() => {
    setError(null);
    document.title = `${entry?.title ?? "Not found"} · Unified Inference`;
    entry?.load().then(
      (Content) => setShown({ name: page, Content }),
      () => setError(new Error("Failed to load this page. Reload the browser tab: the service may have been updated.")),
    );
  }, [page]);
  if (entry === undefined) return <p class="empty">Page not found.</p>;
  if (error !== null) return <Problem error={error} />;
  if (shown === null || shown.name !== page) return <Loading />;
  const { Content } = shown;
  return (
    <>
      <h1>{entry.title}</h1>
      <Content />
    </>
  );
}

const root = document.getElementById("app");
if (root !== null) render(<App />, root);
