// The same answer from Bun's own HTTP server, with TLS if there is a certificate:
// bun bun_http.mjs PORT BODY_SIZE [CERTIFICATE KEY]
const [port, size] = process.argv.slice(2, 4).map(Number);
const [cert, key] = process.argv.slice(4).map((path) => Bun.file(path));
const body = size === 12 ? "Hello World\n" : "x".repeat(size);

Bun.serve({
  port,
  hostname: "127.0.0.1",
  tls: cert ? { cert, key } : undefined,
  fetch: () => new Response(body, { headers: { "content-type": "text/plain" } }),
});
