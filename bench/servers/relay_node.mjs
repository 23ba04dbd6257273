// The gateway of apps/relay.ru on node's own HTTP server and client: node relay_node.mjs PORT
import * as http from "node:http";

const port = Number(process.argv[2]);
const upstream = Number(process.env.UPSTREAM);

const answer = (request, response) => {
  if (request.url === "/ready") return response.end("ready");

  http.get({ host: "127.0.0.1", port: upstream, path: request.url }, (stream) => {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
    stream.pipe(response);
  });
};
http.createServer(answer).listen(port, "127.0.0.1", 4096);
