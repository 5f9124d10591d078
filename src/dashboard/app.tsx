import { type ComponentType, render } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { call, isUnauthenticated, onSignedOut } from "./lib/api.js";
import { go, useLocation } from "./lib/location.js";
import { type Role, RoleContext, roleOf } from "./lib/session.js";
import { Setup, SignIn } from "./pages/sign-in.js";
import { Navigation } from "./shell/navigation.js";
import { type PageEntry, pageNamed } from "./shell/pages.js";
import { Empty, Loading, Problem } from "./ui/feedback.js";
import "./ui/tokens.css";
import "./style.css";
import "./shell/shell.css";
import "./ui/ui.css";
import "./ui/data.css";

/** The sign-in form, or the navigation and one page. */
function App() {
  const { page } = useLocation();
  const { role, error, check } = useSession();
  const enter = (): void => {
    check();
    if (page === "setup" || page === "sign-in") go("", {}, true);
  };
  if (page === "setup") return <Setup onDone={enter} />;
  if (role === "unknown") return error === null ? <Loading /> : <Unreachable error={error} onRetry={check} />;
  if (role === "signed out") return <SignIn onDone={enter} />;
  return (
    <RoleContext.Provider value={role}>
      <Frame page={page} />
    </RoleContext.Provider>
  );
}

interface Session {
  readonly role: "unknown" | "signed out" | Role;
  /** Why the role is still unknown; null while the request is pending and once it is known. */
  readonly error: Error | null;
  /** Call after a successful sign-in, or to try again. */
  readonly check: () => void;
}

/** Reads from the service whether the browser is signed in, and as which user: scripts cannot read the session cookie. */
function useSession(): Session {
  const [role, setRole] = useState<Session["role"]>("unknown");
  const [error, setError] = useState<Error | null>(null);
  const check = useCallback(() => {
    setError(null);
    call("unified.admin.v1.SessionService/ListSessions", {}).then(
      (sessions) => setRole(roleOf(sessions)),
      (thrown: Error) => {
        // Other errors, such as an unavailable store, do not tell whether the session is valid.
        if (isUnauthenticated(thrown)) setRole("signed out");
        else setError(thrown);
      },
    );
  }, []);
  useEffect(() => {
    const unsubscribe = onSignedOut(() => setRole("signed out"));
    check();
    return unsubscribe;
  }, []);
  return { role, error, check };
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

/** The navigation and a page; Ctrl-K or ⌘K opens the palette. */
function Frame({ page }: { readonly page: string }) {
  const [Palette, setPalette] = useState<{ readonly Content: typeof import("./shell/palette.js").Palette } | null>(
    null,
  );
  const search = useCallback(() => {
    if (document.querySelector("dialog[open]:not(.drawer)") !== null) return;
    void import("./shell/palette.js").then(({ Palette: Content }) => setPalette({ Content }));
  }, []);
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if (event.key !== "k" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      search();
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
  return (
    <div class="frame">
      <a class="skip" href="#content">
        Skip to content
      </a>
      <Navigation page={page} onSearch={search} />
      <main id="content" tabIndex={-1}>
        <Page name={page} entry={pageNamed(page)} />
      </main>
      {Palette !== null && <Palette.Content onClose={() => setPalette(null)} />}
    </div>
  );
}

interface ShownPage {
  readonly name: string;
  readonly Content: ComponentType;
  /** Null: the page does not show one account. */
  readonly Switcher: ComponentType<{ readonly page: string }> | null;
}

/** Loads a page's code when it is first shown. */
function Page({ name, entry }: { readonly name: string; readonly entry: PageEntry | null }) {
  const [shown, setShown] = useState<ShownPage | null>(null);
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => {
    setError(null);
    document.title = `${entry?.title ?? "Not found"} · Unified Inference`;
    if (entry === null) return undefined;
    // The code of a page that the user has left may arrive after the code of the next page.
    let isLeft = false;
    const switcher = entry.isOfAccount === true ? import("./shell/account-switcher.js") : null;
    Promise.all([entry.load(), switcher]).then(
      ([Content, loaded]) => {
        if (!isLeft) setShown({ name, Content, Switcher: loaded?.AccountSwitcher ?? null });
      },
      () => {
        const text = "Failed to load this page. Reload the browser tab: the service may have been updated.";
        if (!isLeft) setError(new Error(text));
      },
    );
    return () => {
      isLeft = true;
    };
  }, [name]);
  if (entry === null) return <Empty title="Page not found">Choose a page in the navigation.</Empty>;
  if (error !== null) return <Problem error={error} />;
  if (shown === null || shown.name !== name) return <Loading />;
  const { Content, Switcher } = shown;
  return (
    <>
      <div class="page-head">
        <h1>{entry.title}</h1>
        {Switcher !== null && <Switcher page={name} />}
      </div>
      <Content />
    </>
  );
}

const root = document.getElementById("app");
if (root !== null) render(<App />, root);
