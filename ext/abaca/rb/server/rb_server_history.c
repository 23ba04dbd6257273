/* What a server writes in its slot each second: the history, by the standby's thread, so that it
 * goes on while Ruby hangs; what the process is as a whole, by the heartbeat's, with the GVL. A
 * guest has no standby: there the heartbeat writes both. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "os/cpu_time.h"
#include "os/process.h"
#include "page/look.h"
#include "rb/rack/rb_sight.h"
#include "rb/run/rb_spare.h"
#include "rb/run/rb_thread_pool.h"
#include "rb/server/rb_server.h"

/* Collections are an event if they have taken this long within a second. */
#define LONG_COLLECTIONS (100 * AB_NSEC_PER_MS)

/* --- events --- */

static void note(const ab_server *server, ab_page_event facts, const char *text) {
  const ab_page_parts *parts = &server->run.rack.sight->parts;
  facts.pid = (uint32_t)server->run.rack.owner;
  ab_page_event_write(parts->events, parts->event_count, &parts->slot->events, &facts,
                      (ab_view){text, strlen(text)});
}

/* "12 requests: queue_full 10, queue_timeout 2". What is too long for an event is cut off. */
static void put_rejections(char *text, size_t size, const uint64_t *counts, uint64_t sum) {
  int len = snprintf(text, size, "%" PRIu64 " request%s:", sum, sum == 1 ? "" : "s");
  const char *before = " ";
  for (enum ab_rejection why = 0; why < AB_REJECT_COUNT; why++) {
    if (counts[why] == 0 || (size_t)len >= size) continue;
    const char *name = ab_rejection_name(why);
    len += snprintf(text + len, size - (size_t)len, "%s%s %" PRIu64, before, name, counts[why]);
    before = ", ";
  }
}

/* One event for all of a second. */
static void note_rejections(ab_server *server, ab_nsec now) {
  uint64_t counts[AB_REJECT_COUNT], sum = 0;
  for (unsigned i = 0; i < AB_REJECT_COUNT; i++) {
    uint64_t rejected = AB_GET(server->part->figures.rejected[i]);
    counts[i] = rejected - server->second.rejected[i];
    server->second.rejected[i] = rejected;
    sum += counts[i];
  }
  if (sum == 0) return;
  char text[AB_PAGE_EVENT_TEXT + 1];
  put_rejections(text, sizeof(text), counts, sum);
  note(server, (ab_page_event){.kind = AB_PAGE_EVENT_REJECT, .when = now, .status = 503}, text);
}

/* --- the history --- */

/* The computing time is asked for anew: the slot's is of the last heartbeat. */
static ab_history_totals totals_of(const ab_page_parts *parts) {
  ab_history_totals totals = ab_page_totals(parts);
  totals.cpu = ab_os_process_cpu_time();
  return totals;
}

void ab_server_begin_history(ab_server *server) {
  const ab_page_parts *parts = &server->run.rack.sight->parts;
  ab_cells requests = {.sum = 0};
  ab_page_requests(parts, &requests);
  ab_history_totals totals = totals_of(parts);
  ab_history_over(&server->second.history, parts->seconds, parts->second_count, parts->tens,
                  parts->ten_count, &totals, &requests);
  ab_words_get(server->second.rejected, parts->slot->figures.rejected,
               sizeof(server->second.rejected));
}

static void show_opens(const ab_run *run) {
  const ab_sight *sight = run->rack.sight;
  if (!sight->opens) return;
  ab_engine_lock(run->rack.engine);
  ab_opens_show(sight->opens, sight->parts.clients, sight->parts.client_count);
  ab_engine_unlock(run->rack.engine);
}

/* Of those that have asked for nothing yet, too. */
static void introduce_opens(ab_sight *sight, ab_engine *engine) {
  if (!sight || !sight->opens) return;
  ab_engine_lock(engine);
  ab_opens_introduce(sight->opens, &sight->clients);
  ab_engine_unlock(engine);
}

void ab_server_second(ab_run *run, ab_nsec now) {
  ab_server *server = AB_CONTAINER_OF(run, ab_server, run);
  if (!server->part) return;
  const ab_page_parts *parts = &run->rack.sight->parts;
  ab_cells requests = {.sum = 0};
  ab_page_requests(parts, &requests);
  ab_history_totals totals = totals_of(parts);
  ab_history_tick(&server->second.history, now, &totals, &requests);
  show_opens(run);
  note_rejections(server, now);
}

/* --- the process --- */

/* Megabytes; 0: not known. */
static uint32_t resident(void) {
  return (uint32_t)(ab_os_resident() >> 20);
}

static size_t gc_stat(const char *name) {
  return rb_gc_stat(ID2SYM(rb_intern(name)));
}

/* Counters go on from those of earlier processes: what this one has added since it looked last. */
static void count_collections(ab_server *server, ab_page_process *process, ab_nsec now) {
  ab_collections *seen = &server->second.collections;
  ab_collections is = {.time = gc_stat("time"),
                       .minor = gc_stat("minor_gc_count"),
                       .major = gc_stat("major_gc_count")};
  ab_nsec time = (is.time - seen->time) * AB_NSEC_PER_MS;
  AB_ADD(process->gc_time, time);
  AB_ADD(process->gc_minor, is.minor - seen->minor);
  AB_ADD(process->gc_major, is.major - seen->major);
  if (time >= LONG_COLLECTIONS && seen->looked) {
    char text[64];
    snprintf(text, sizeof(text), "%zu minor, %zu major", is.minor - seen->minor,
             is.major - seen->major);
    note(server, (ab_page_event){.kind = AB_PAGE_EVENT_GC, .when = now, .time = time}, text);
  }
  *seen = is;
  seen->looked = true;
}

static void put_now_and_most(uint32_t *now, uint32_t *most, size_t count) {
  uint32_t value = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
  AB_PUT(*now, value);
  if (value > AB_GET(*most)) AB_PUT(*most, value);
}

static size_t fibers_of(const ab_server *server) {
  const ab_run *run = &server->run;
  if (run->guest) return ab_engine_get_stats(run->rack.engine).in_app;
  return run->main.pool ? ab_spares_busy(run) : 0;
}

/* What others may have written over. */
static void show_again(const ab_sight *sight, ab_page_process *process) {
  AB_PUT(process->stall_after, sight->stall_after);
  ab_rows_show(&sight->rows);
}

void ab_server_look_at_process(ab_server *server, uint32_t offloads, ab_nsec now) {
  ab_page_process *process = &server->part->process;
  ab_run *run = &server->run;
  if (run->rack.sight) show_again(run->rack.sight, process);
  count_collections(server, process, now);
  AB_PUT(process->cpu, ab_os_process_cpu_time());
  AB_PUT(process->rss, resident());
  put_now_and_most(&process->fibers, &process->fibers_most, fibers_of(server));
  size_t threads = run->threads ? ab_thread_pool_get_stats(run->threads).threads : 0;
  put_now_and_most(&process->threads, &process->threads_most, threads);
  AB_PUT(process->offloads, offloads);
  introduce_opens(run->rack.sight, run->rack.engine);
  ab_sight_show_routes(&run->rack);
}
