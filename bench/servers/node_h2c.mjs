// The same answer from node's own HTTP/2 server: node node_h2c.mjs PORT BODY_SIZE
import { createServer } from "node:http2";

const [port, size] = process.argv.slice(2).map(Number);
const body = size === 12 ? "Hello World\n" : "x".repeat(size);
const head = { "content-type": "text/plain", "content-length": size };

createServer((_request, response) => {
  response.writeHead(200, head);
  response.end(body);
}).listen(port, "127.0.0.1", 4096);
