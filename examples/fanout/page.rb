# frozen_string_literal: true

module Fanout
  # The page: it asks for /fanout.json and draws a bar for each call.
  PAGE = <<~HTML
    <!doctype html>
    <html lang="en">
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Fan-out on fibers</title>
    <style>
      :root { color-scheme: light dark; --ink: #1d2a2f; --paper: #f6f3ea; --rope: #b3823e; --line: #d9d0bb }
      @media (prefers-color-scheme: dark) { :root { --ink: #ece6d6; --paper: #182125; --rope: #d8a85e; --line: #33424a } }
      body { margin: 0 auto; max-width: 46rem; padding: 3rem 1.5rem; background: var(--paper); color: var(--ink);
             font: 17px/1.6 system-ui, sans-serif }
      h1 { font-size: 2rem; margin: 0 0 .5rem }
      .row { display: grid; grid-template-columns: 6rem 1fr 5rem; align-items: center; gap: 1rem; margin: .5rem 0 }
      .track { background: var(--line); border-radius: 5px; height: 1.5rem; position: relative }
      .bar { position: absolute; top: 0; bottom: 0; background: var(--rope); border-radius: 5px }
      .total { border-top: 1px solid var(--line); padding-top: .6rem; font-weight: 600 }
      .total .bar { background: var(--ink) }
      .ms { font-variant-numeric: tabular-nums; text-align: right }
      button { font: inherit; padding: .4rem 1.1rem; border-radius: 6px; border: 1px solid var(--rope);
               background: none; color: inherit; cursor: pointer }
    </style>
    <h1>Three slow services, one page</h1>
    <p>The app calls all three with <code>Net::HTTP</code>, each on a fiber. While they wait, the server goes on.</p>
    <div id="rows" aria-live="polite"></div>
    <p id="verdict"></p>
    <p><button id="again">Ask again</button></p>
    <script>
      const rows = document.getElementById("rows"), verdict = document.getElementById("verdict")
      function row(name, from, to, scale, extra) {
        const line = document.createElement("div")
        line.className = "row " + extra
        const label = document.createElement("span"), track = document.createElement("div")
        const bar = document.createElement("div"), ms = document.createElement("span")
        label.textContent = name
        track.className = "track"
        bar.className = "bar"
        bar.style.left = 100 * from / scale + "%"
        bar.style.width = Math.max(100 * (to - from) / scale, .5) + "%"
        ms.className = "ms"
        ms.textContent = (to - from) + " ms"
        track.append(bar)
        line.append(label, track, ms)
        rows.append(line)
      }
      async function ask() {
        verdict.textContent = "Asking\\u2026"
        try {
          const data = await (await fetch("fanout.json")).json()
          rows.replaceChildren()
          for (const call of data.calls) row(call.name, call.from, call.to, data.sum, "")
          row("in all", 0, data.total, data.sum, "total")
          verdict.textContent = `${data.total} ms in all; one after the other it would have been ${data.sum} ms.`
        } catch (error) {
          verdict.textContent = "That failed: " + error.message
        }
      }
      document.getElementById("again").addEventListener("click", ask)
      ask()
    </script>
    </html>
  HTML
end
