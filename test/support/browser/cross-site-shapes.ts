/**
 * Ways in which another site can make a browser send requests to a server with a session. `act` runs inside the other site's
 * page, so it uses nothing from outside its own body.
 */

export interface Aim {
  /** URL of an RPC or route that changes state. */
  readonly url: string;
  /** JSON body of the request. */
  readonly body: string;
}

export interface Shape {
  readonly act: (task: Aim & { readonly detail: string }) => Promise<void> | void;
  /** Distinguishes shapes with the same act. */
  readonly detail: string;
}

/** Submits a form with this encoding into a frame, so that the page stays. */
function submitForm({ url, body, detail }: Aim & { readonly detail: string }): Promise<void> {
  const frame = document.createElement("iframe");
  frame.name = `answer-${Math.random()}`;
  const form = document.createElement("form");
  Object.assign(form, { method: "post", action: url, enctype: detail, target: frame.name });
  const field = document.createElement("input");
  // As text/plain, this is the JSON with one extra member.
  field.name = `${body.slice(0, -1)},"ignored":"`;
  field.value = '"}';
  form.append(field);
  document.body.append(frame, form);
  form.submit();
  return new Promise((resolve) => {
    frame.onload = () => resolve();
    setTimeout(resolve, 500);
  });
}

/** Adds an element that loads a URL; `detail` is its tag and the name of its URL property. */
function loadElement({ url, body, detail }: Aim & { readonly detail: string }): Promise<void> {
  const [tag = "", property = ""] = detail.split(" ");
  const element = document.createElement(tag);
  const address = `${url}?connect=v1&encoding=json&message=${encodeURIComponent(body)}`;
  Object.assign(element, { rel: "stylesheet", [property]: address });
  document.body.append(element);
  return new Promise((resolve) => {
    element.onload = () => resolve();
    element.onerror = () => resolve();
    setTimeout(resolve, 500);
  });
}

/** Sends a request by script, which the browser is expected to block. */
async function fetchWith({ url, body, detail }: Aim & { readonly detail: string }): Promise<void> {
  const init = JSON.parse(detail) as RequestInit;
  const sent = init.method === "GET" ? {} : { body };
  await fetch(url, { credentials: "include", ...sent, ...init }).catch(() => {});
}

const form = (enctype: string): Shape => ({ act: submitForm, detail: enctype });
const element = (detail: string): Shape => ({ act: loadElement, detail });
const fetching = (init: RequestInit): Shape => ({ act: fetchWith, detail: JSON.stringify(init) });
const other = (act: Shape["act"]): Shape => ({ act, detail: "" });

const json = { "content-type": "application/json" };

export const shapes = {
  "a form of text": form("text/plain"),
  "a form of fields": form("application/x-www-form-urlencoded"),
  "a form of parts": form("multipart/form-data"),
  "an image": element("img src"),
  "a frame": element("iframe src"),
  "a script": element("script src"),
  "a style sheet": element("link href"),
  "an object": element("object data"),
  "a video": element("video src"),
  "fetch of JSON": fetching({ method: "POST", headers: json }),
  "fetch without CORS, as text": fetching({ method: "POST", mode: "no-cors" }),
  "fetch without CORS, as JSON": fetching({ method: "POST", mode: "no-cors", headers: json }),
  "fetch with a header of Connect": fetching({ method: "POST", headers: { ...json, "connect-protocol-version": "1" } }),
  "fetch that outlives the page": fetching({ method: "POST", mode: "no-cors", keepalive: true }),
  "fetch with PUT": fetching({ method: "PUT", headers: json }),
  "fetch with DELETE": fetching({ method: "DELETE" }),
  "fetch with GET": fetching({ method: "GET", mode: "no-cors" }),
  "fetch of protobuf": fetching({ method: "POST", headers: { "content-type": "application/proto" } }),
  "a beacon of text": other(({ url, body }) => {
    navigator.sendBeacon(url, body);
  }),
  "a beacon of JSON": other(({ url, body }) => {
    navigator.sendBeacon(url, new Blob([body], { type: "application/json" }));
  }),
  "an XMLHttpRequest": other(
    ({ url, body }) =>
      new Promise((resolve) => {
        const request = new XMLHttpRequest();
        request.open("POST", url);
        request.withCredentials = true;
        request.setRequestHeader("content-type", "application/json");
        request.onloadend = () => resolve();
        request.send(body);
      }),
  ),
  "an EventSource": other(
    ({ url }) =>
      new Promise((resolve) => {
        const source = new EventSource(url, { withCredentials: true });
        source.onerror = () => {
          source.close();
          resolve();
        };
      }),
  ),
  "a WebSocket": other(
    ({ url }) =>
      new Promise((resolve) => {
        const socket = new WebSocket(url.replace(/^http/, "ws"));
        socket.onerror = () => resolve();
      }),
  ),
  "a frame without an origin": other(
    ({ url, body }) =>
      new Promise((resolve) => {
        const frame = document.createElement("iframe");
        frame.setAttribute("sandbox", "allow-scripts allow-forms");
        const init = JSON.stringify({ method: "POST", body, credentials: "include", mode: "no-cors" });
        frame.srcdoc = `<script>fetch(${JSON.stringify(url)}, ${init}).finally(() => parent.postMessage(1, "*"))</script>`;
        window.addEventListener("message", () => resolve(), { once: true });
        setTimeout(resolve, 1_000);
        document.body.append(frame);
      }),
  ),
} satisfies Record<string, Shape>;
