// The gateway of apps/relay.ru on Bun's own HTTP server and client: bun relay_bun.mjs PORT
const headers = { "content-type": "text/event-stream", "cache-control": "no-cache" };

Bun.serve({
  port: Number(process.argv[2]),
  hostname: "127.0.0.1",
  idleTimeout: 0,
  fetch: async (request) => {
    const path = new URL(request.url).pathname;
    if (path === "/ready") return new Response("ready");

    const stream = await fetch(`http://127.0.0.1:${process.env.UPSTREAM}${path}`);
    return new Response(stream.body, { headers });
  },
});
