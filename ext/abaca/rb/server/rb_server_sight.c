/* What the page shows of a server's requests, from the beginning of its run to the end. */
#include "rb/page/rb_page.h"
#include "rb/rack/rb_lookup.h"
#include "rb/rack/rb_sight.h"
#include "rb/run/rb_clock.h"
#include "rb/run/rb_routes.h"
#include "rb/server/rb_server.h"

/* Where frameworks leave the pattern of a route: Rails, Sinatra, and others by hand. */
static const char *const route_keys[AB_SIGHT_KEYS] = {
    "abaca.route", "action_dispatch.route_uri_pattern", "sinatra.route", "http.route"};

/* --- what the settings name --- */

static uint8_t state_of(VALUE kind) {
  const char *name = StringValueCStr(kind);
  for (enum ab_state state = AB_STATE_DB; state <= AB_STATE_IO; state++)
    if (strcmp(ab_state_name(state), name) == 0) return (uint8_t)state;
  rb_raise(rb_eArgError, "no service is named %s", name);
}

static void set_place(ab_service_rule *rule, VALUE host, VALUE port) {
  if (NIL_P(port)) {
    rule->path = strdup(StringValueCStr(host));
    if (!rule->path) rb_memerror();
    return;
  }
  if (!NIL_P(host) && !ab_addr_parse(StringValuePtr(host), (size_t)RSTRING_LEN(host), &rule->addr))
    rb_raise(rb_eArgError, "%+" PRIsVALUE " is no address", host);
  rule->addr.port = (uint16_t)NUM2UINT(port);
}

void ab_server_configure_sight(ab_server *server, VALUE options) {
  VALUE list = ab_option(options, "services"), slow = ab_option(options, "slow_after");
  VALUE routes = ab_option(options, "metrics_routes");
  server->slow_after = NIL_P(slow) ? 0 : (ab_nsec)(NUM2DBL(slow) * (double)AB_NSEC_PER_SEC);
  server->metrics_routes = NIL_P(routes) ? AB_PAGE_ROUTES : NUM2UINT(routes);
  ab_routes_init(&server->run.ignored, ab_option(options, "metrics_ignore"));
  if (NIL_P(list)) return;
  Check_Type(list, T_ARRAY);
  ab_services *services = &server->run.services;
  size_t size = (size_t)RARRAY_LEN(list) * sizeof(*services->rules);
  services->rules = ab_alloc_zero(&ab_mem_libc, size ? size : 1);
  if (!services->rules) rb_memerror();
  for (long i = 0; i < RARRAY_LEN(list); i++) {
    VALUE rule = rb_ary_entry(list, i);
    Check_Type(rule, T_ARRAY);
    services->rules[services->count].state = state_of(rb_ary_entry(rule, 0));
    set_place(&services->rules[services->count], rb_ary_entry(rule, 1), rb_ary_entry(rule, 2));
    services->count++;
  }
}

/* --- a run --- */

void ab_server_open_sight(ab_server *server) {
  ab_rack *rack = &server->run.rack;
  ab_page_parts parts = ab_page_parts_of(server->page, ab_slot_index(server->slot));
  ab_nsec after = server->run.stalls.options.stall_after;
  const ab_routes *ignored = &server->run.ignored;
  ab_sight options = {.slow_after = server->slow_after,
                      .stall_after = after < AB_STALLS_NEVER ? after : 0,
                      .routes.most = server->metrics_routes,
                      .ignored = ignored->rules,
                      .ignored_count = ignored->count};
  for (size_t i = 0; i < AB_SIGHT_KEYS; i++) options.keys[i] = rb_interned_str_cstr(route_keys[i]);
  AB_PUT(parts.slot->process.stall_after, options.stall_after);
  if (ab_sight_open(rack, &parts, &options) != AB_OK) rb_memerror();
  rack->guest = server->run.guest != NULL;
  ab_server_begin_history(server);
  ab_clock_listen(&server->run);
}

void ab_server_close_sight(ab_server *server) {
  ab_clock_hush(&server->run);
  ab_sight_close(&server->run.rack);
}
