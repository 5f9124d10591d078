// Shows the description of the API that this service gives. It contacts no other server.
const { SwaggerUIBundle } = window;

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const followScheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followScheme);
followScheme();

/** Models that the examples of the description name, with the capability that their requests need. */
const examples = {
  "qwen3-0.6b": "chat",
  "all-minilm-l6-v2": "embeddings",
  "bge-reranker-v2-m3": "rerank",
};

/** The description, whose examples name models that this service has: of those for each capability the first. */
function withServedModels(description, models) {
  const served = new Map(
    Object.entries(examples).map(([example, capability]) => {
      const able = models.filter(({ capabilities = [] }) => capabilities.includes(capability));
      return [example, (able.find(({ id }) => id === example) ?? able[0])?.id ?? example];
    }),
  );
  return JSON.parse(JSON.stringify(description), (_name, value) => served.get(value) ?? value);
}

/** The models that the credential may use; none if it is missing or wrong. */
async function readModels(path, options) {
  const response = await fetch(path, options).catch(() => null);
  return response?.ok ? await response.json() : {};
}

/** For a browser that is signed in to the dashboard. */
async function modelsOfSession() {
  const headers = { "content-type": "application/json", "connect-protocol-version": "1" };
  const options = { method: "POST", headers, body: "{}" };
  return (await readModels("../unified.catalog.v1.CatalogService/ListModels", options)).models ?? [];
}

/** For an API key that was entered under “Authorize”. */
async function modelsOfKey(key) {
  return (await readModels("../v1/models", { headers: { authorization: `Bearer ${key}` } })).data ?? [];
}

const address = new URL("../openapi.json", window.location.href);
const file = await (await fetch(address)).json();
// Paths of requests are relative to the file, of which Swagger knows only the content.
const description = {
  ...file,
  servers: file.servers.map(({ url }) => ({ url: new URL(url, address).href.replace(/\/$/, "") })),
};

/** Called with the credentials that were entered. */
const authorize =
  (original, { specActions }) =>
  (credentials) => {
    const key = credentials.apiKey?.value;
    if (typeof key === "string") {
      void modelsOfKey(key).then((models) => {
        specActions.updateSpec(JSON.stringify(withServedModels(description, models)));
      });
    }
    return original(credentials);
  };

SwaggerUIBundle({
  spec: withServedModels(description, await modelsOfSession()),
  dom_id: "#api",
  deepLinking: true,
  presets: [SwaggerUIBundle.presets.apis],
  plugins: [{ statePlugins: { auth: { wrapActions: { authorize } } } }],
  // Swagger's own service would be asked otherwise.
  validatorUrl: null,
});
