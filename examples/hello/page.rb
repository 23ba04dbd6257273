# frozen_string_literal: true

require "cgi"

module Hello
  # The HTML of the hello example.
  module Page
    STYLE = <<~CSS
      :root { color-scheme: light dark; --ink: #1d2a2f; --paper: #f6f3ea; --rope: #b3823e; --line: #d9d0bb }
      @media (prefers-color-scheme: dark) { :root { --ink: #ece6d6; --paper: #182125; --rope: #d8a85e; --line: #33424a } }
      body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--paper);
             color: var(--ink); font: 17px/1.6 system-ui, sans-serif }
      main { max-width: 34rem; padding: 2rem }
      h1 { font-size: 2.6rem; margin: 0; letter-spacing: -.02em }
      h1 span { color: var(--rope) }
      dl { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1.5rem; margin: 2rem 0;
           border-top: 1px solid var(--line); padding-top: 1.2rem }
      dt { opacity: .65 } dd { margin: 0; font-variant-numeric: tabular-nums }
      code { font-size: .92em; background: var(--line); padding: .1em .4em; border-radius: 4px }
    CSS

    module_function

    # @param env [Hash] the request's env
    # @param requests [Integer] how many there were
    # @return [String] the page
    def html(env, requests)
      <<~HTML
        <!doctype html>
        <html lang="en">
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>Hello from Abaca</title>
        <style>#{STYLE}</style>
        <main>
          <h1>Hello from <span>Abaca</span></h1>
          <p>Your server runs. This request was answered on a fiber of its own.</p>
          <dl>#{rows(env, requests)}</dl>
          <p>Serve your own app: <code>bin/serve path/to/config.ru</code></p>
        </main>
        </html>
      HTML
    end

    def rows(env, requests)
      { "Server" => "Abaca #{Abaca::VERSION}", "Ruby" => "#{RUBY_VERSION} (#{RUBY_PLATFORM})", "Rack" => Rack.release,
        "Process" => Process.pid, "Requests so far" => requests,
        "You asked for" => "#{env['REQUEST_METHOD']} #{env['PATH_INFO']} (#{env['SERVER_PROTOCOL']})",
        "Your client" => env["HTTP_USER_AGENT"] || "does not say" }
        .map { |name, value| "<dt>#{name}</dt><dd>#{CGI.escapeHTML(value.to_s)}</dd>" }.join
    end
  end
end
