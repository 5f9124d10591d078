import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, isUnauthenticated } from "./api.js";
import { go, hrefOf, usePlace } from "./location.js";
import { Setup } from "./pages/setup.js";
import { SignIn } from "./pages/sign-in.js";
import { pages } from "./pages.js";
import { useSession } from "./session.js";
import { useAction } from "./ui/action.js";
import { Loading, Problem } from "./ui/feedback.js";

/** Sign-in, or the navigation and one page. */
export function App() {
  const { page } = usePlace();
  const { state, error, signedIn, retry } = useSession();
  const enter = (): void => {
    signedIn();
    if (page === "setup" || page === "sign-in") go("", {}, true);
  };
  if (page === "setup") return <Setup onDone={enter} />;
  if (state === "unknown") return error === null ? <Loading /> : <Unreached error={error} onRetry={retry} />;
  if (state === "no") return <SignIn onDone={enter} />;
  return (
    <div class="frame">
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <Navigation page={page} />
      <main id="content" tabIndex={-1}>
        <Page page={page} />
      </main>
    </div>
  );
}

/** Nobody can tell yet whether somebody is signed in. */
function Unreached(problem: { readonly error: Error; readonly onRetry: () => void }) {
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
    <nav class="navigation" aria-label="Pages" data-open={isOpen}>
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

/** Loads the code of a page when it is first shown. */
function Page({ page }: { readonly page: string }) {
  const [shown, setShown] = useState<{ readonly name: string; readonly Content: ComponentType } | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const entry = pages.find(({ name }) => name === page);
  useEffect(() => {
    setError(null);
    document.title = `${entry?.title ?? "Not found"} · Unified Inference`;
    entry?.load().then(
      (Content) => setShown({ name: page, Content }),
      () => setError(new Error("This page could not be loaded. Reload it: the service may have been updated.")),
    );
  }, [page]);
  if (entry === undefined) return <p class="empty">There is no such page.</p>;
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
