// The same answer from node's own HTTP/2 server, with TLS if there is a certificate:
// node node_http2.mjs PORT BODY_SIZE [CERTIFICATE KEY]
import { readFileSync } from "node:fs";
import { createSecureServer, createServer } from "node:http2";

const [port, size] = process.argv.slice(2, 4).map(Number);
const [cert, key] = process.argv.slice(4).map((path) => readFileSync(path));
const body = size === 12 ? "Hello World\n" : "x".repeat(size);
const head = { "content-type": "text/plain", "content-length": size };

const answer = (_request, response) => {
  response.writeHead(200, head);
  response.end(body);
};
const server = cert ? createSecureServer({ cert, key }, answer) : createServer(answer);
server.listen(port, "127.0.0.1", 4096);
