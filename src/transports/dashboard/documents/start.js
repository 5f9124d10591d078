// Shows the description of the API that this very service gives, and asks nobody else for anything.
const { SwaggerUIBundle } = window;

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const followScheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followScheme);
followScheme();

SwaggerUIBundle({
  url: "../openapi.json",
  dom_id: "#api",
  deepLinking: true,
  presets: [SwaggerUIBundle.presets.apis],
  // Swagger's own service would be asked otherwise.
  validatorUrl: null,
});
