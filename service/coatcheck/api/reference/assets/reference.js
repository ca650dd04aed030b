// The options of Swagger UI that the page's template has no place for. It calls this service, and nothing else.
"use strict";
document.documentElement.lang = "en";
{
  const build = window.SwaggerUIBundle;
  const options = {
    spec: undefined,
    url: "/v1/openapi.json",
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    filter: true,
    persistAuthorization: false, // a key stays in this page's memory
    validatorUrl: null,
  };
  window.SwaggerUIBundle = Object.assign((given) => build({ ...given, ...options }), build);
}
