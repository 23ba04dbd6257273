/* The hooks for what a poller cannot wait for: child processes without a pidfd, names, and
 * blocking operations of extensions (lib/abaca/scheduler/worker_pool.rb). */
#include "rb/scheduler/rb_scheduler.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/hosts.h"
#include "os/process.h"

/* Threads watch children without a pidfd. All may be busy, so each wait also checks by itself. */
#define CHILD_INTERVAL (50 * AB_NSEC_PER_MS)

/* ---- jobs of the pools ---- */

/* A wait for a job; lives on the fiber's stack, and is the job's owner. */
typedef struct job_wait {
  ab_loop *loop;
  enum ab_pool_kind kind;
  ab_blocking_job *job; /* NULL when it is done */
  ab_waiter waiter;
} job_wait;

static void job_done(job_wait *wait) {
  wait->job = NULL;
  ab_loop_wake(wait->loop, &wait->waiter);
}

static void job_end(job_wait *wait) {
  ab_blocking_pool *pool = wait->loop->pools[wait->kind];
  if (wait->job && pool) ab_blocking_abandon(pool, wait->job);
}

/* ---- address_resolve ---- */

typedef struct lookup {
  ab_blocking_job job;
  int error; /* of getaddrinfo */
  struct addrinfo *found;
  char name[];
} lookup;

typedef struct lookup_wait {
  job_wait base;
  int error;
  struct addrinfo *found;
} lookup_wait;

static void lookup_run(ab_blocking_job *job) {
  lookup *lookup = AB_CONTAINER_OF(job, struct lookup, job);
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
  lookup->error = getaddrinfo(lookup->name, NULL, &hints, &lookup->found);
}

static void lookup_fini(ab_blocking_job *job) {
  lookup *lookup = AB_CONTAINER_OF(job, struct lookup, job);
  if (lookup->found) freeaddrinfo(lookup->found);
  free(lookup);
}

/* The texts of all addresses, each once; an IPv6 address keeps its zone. */
static VALUE address_texts(const struct addrinfo *found) {
  VALUE result = rb_ary_new();
  char text[NI_MAXHOST];
  for (; found; found = found->ai_next) {
    if (getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, NULL, 0,
                    NI_NUMERICHOST) != 0)
      continue;
    VALUE string = rb_utf8_str_new_cstr(text);
    if (!RTEST(rb_ary_includes(result, string))) rb_ary_push(result, string);
  }
  return result;
}

static void lookup_done(ab_blocking_job *job) {
  lookup *lookup = AB_CONTAINER_OF(job, struct lookup, job);
  lookup_wait *wait = AB_CONTAINER_OF(job->owner, lookup_wait, base);
  wait->error = lookup->error;
  wait->found = lookup->found;
  lookup->found = NULL;
  job_done(&wait->base);
}

static VALUE lookup_wait_body(VALUE arg) {
  lookup_wait *wait = (lookup_wait *)arg;
  while (wait->base.job) ab_loop_park(wait->base.loop, &wait->base.waiter, 0);
  if (wait->error == EAI_MEMORY) rb_memerror();
  return wait->error == 0 ? address_texts(wait->found) : Qnil;
}

static VALUE lookup_wait_end(VALUE arg) {
  lookup_wait *wait = (lookup_wait *)arg;
  job_end(&wait->base);
  if (wait->found) freeaddrinfo(wait->found);
  return Qnil;
}

/* An address as text needs no resolver, even as the C library alone reads it ("127.1"). */
static int read_address(const char *text, struct addrinfo **found) {
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
  return getaddrinfo(text, NULL, &hints, found);
}

/* While all threads wait, perhaps for a name server that does not answer, names that need no name
 * server have their own thread. The file is small, and only read then. */
static enum ab_pool_kind pool_for(ab_loop *loop, const char *name) {
  ab_blocking_pool *names = loop->pools[AB_POOL_NAMES];
  if (!names || ab_blocking_pending(names) < AB_NAME_THREADS) return AB_POOL_NAMES;
  bool local = strcasecmp(name, "localhost") == 0 || ab_hosts_list(AB_HOSTS_FILE, name);
  return local ? AB_POOL_LOCAL_NAMES : AB_POOL_NAMES;
}

static void begin_lookup(lookup_wait *wait, const char *name) {
  ab_loop *loop = wait->base.loop;
  size_t length = strlen(name) + 1;
  lookup *lookup = ab_alloc_zero(&ab_mem_libc, sizeof *lookup + length);
  if (!lookup) rb_memerror();
  memcpy(lookup->name, name, length);
  lookup->job = (ab_blocking_job){
      .run = lookup_run, .done = lookup_done, .fini = lookup_fini, .owner = &wait->base};
  wait->base.kind = pool_for(loop, name);
  ab_blocking_pool *pool = ab__loop_pool(loop, wait->base.kind);
  if (!pool || ab_blocking_submit(pool, &lookup->job) != AB_OK) {
    int error = errno;
    free(lookup);
    if (!pool) rb_memerror();
    rb_syserr_fail(error, "a thread for name resolution");
  }
  wait->base.job = &lookup->job;
}

/* @!method address_resolve(hostname)
 * Resolves the name on a native thread: an Array of address Strings, nil if unknown. */
static VALUE sched_address_resolve(VALUE self, VALUE hostname) {
  ab_loop *loop = ab__loop_get(self);
  const char *name = StringValueCStr(hostname);
  lookup_wait wait = {.base = {.loop = loop}};
  wait.error = read_address(name, &wait.found);
  if (wait.error != 0 && wait.error != EAI_MEMORY) {
    if (AB_UNLIKELY(ab__loop_forked(loop)))
      return ab__in_forked_child("address_resolve", 1, &hostname);
    ab__loop_check(loop);
    wait.base.waiter.kind = AB_WAIT_DNS;
    wait.base.waiter.object = hostname;
    begin_lookup(&wait, name);
  }
  return rb_ensure(lookup_wait_body, (VALUE)&wait, lookup_wait_end, (VALUE)&wait);
}

/* ---- process_wait ---- */

static VALUE status_wait(rb_pid_t pid, int flags) {
#ifdef HAVE_RB_PROCESS_STATUS_WAIT
  return rb_process_status_wait(pid, flags);
#else
  return rb_funcall(rb_path2class("Process::Status"), rb_intern("wait"), 2, PIDT2NUM(pid),
                    INT2NUM(flags));
#endif
}

typedef struct pid_wait {
  ab_loop *loop;
  rb_pid_t pid;
  int flags, pidfd;
} pid_wait;

static VALUE pid_wait_loop(VALUE arg) {
  pid_wait *wait = (pid_wait *)arg;
  for (;;) {
    /* WNOHANG, so that Ruby does not come back to the hook. */
    VALUE status = status_wait(wait->pid, wait->flags | WNOHANG);
    if (!NIL_P(status)) return status;
    ab__fd_wait(wait->loop, wait->pidfd, Qnil, AB_POLL_IN, 0, AB_WAIT_PROCESS, PIDT2NUM(wait->pid));
  }
}

static VALUE pid_wait_end(VALUE arg) {
  pid_wait *wait = (pid_wait *)arg;
  if (!wait->loop->closed) ab__fd_closed(wait->loop, wait->pidfd);
  close(wait->pidfd);
  return Qnil;
}

/* ---- what has no pidfd: any child, a group, stopped children ---- */

/* Waits until there is something to wait for, and leaves the waiting to Ruby. */
typedef struct child_job {
  ab_blocking_job job;
  idtype_t type;
  id_t id;
  int options;
} child_job;

typedef struct child_wait {
  job_wait base;
  rb_pid_t pid;
  int flags;
} child_wait;

static void child_run(ab_blocking_job *job) {
  child_job *child = AB_CONTAINER_OF(job, child_job, job);
  siginfo_t info;
  while (waitid(child->type, child->id, &info, child->options) != 0 && errno == EINTR) continue;
}

static void child_done(ab_blocking_job *job) {
  job_done(job->owner);
}

static void child_fini(ab_blocking_job *job) {
  free(AB_CONTAINER_OF(job, child_job, job));
}

/* Has a thread check, unless all are busy. */
static void submit_look(child_wait *wait) {
  ab_loop *loop = wait->base.loop;
  ab_blocking_pool *children = ab__loop_pool(loop, AB_POOL_CHILDREN);
  if (!children || ab_blocking_pending(children) >= AB_CHILD_THREADS) return;
  child_job *child = ab_alloc_zero(&ab_mem_libc, sizeof *child);
  if (!child) return;
  child->job = (ab_blocking_job){
      .run = child_run, .done = child_done, .fini = child_fini, .owner = &wait->base};
  child->type = wait->pid == -1 ? P_ALL : wait->pid > 0 ? P_PID : P_PGID;
  /* The caller's own group by its number: kernels before 5.4 do not accept 0. */
  child->id = (id_t)(wait->pid > 0 ? wait->pid : wait->pid == 0 ? getpgrp() : -wait->pid);
  child->options = WEXITED | WNOWAIT | (wait->flags & WUNTRACED ? WSTOPPED : 0);
  if (ab_blocking_submit(children, &child->job) != AB_OK) {
    free(child);
    return;
  }
  wait->base.job = &child->job;
}

static VALUE child_wait_loop(VALUE arg) {
  child_wait *wait = (child_wait *)arg;
  for (;;) {
    VALUE status = status_wait(wait->pid, wait->flags | WNOHANG);
    if (!NIL_P(status)) return status;
    if (!wait->base.job) submit_look(wait);
    ab_loop_park(wait->base.loop, &wait->base.waiter, ab__deadline_after(CHILD_INTERVAL));
  }
}

static VALUE child_wait_end(VALUE arg) {
  job_end(&((child_wait *)arg)->base);
  return Qnil;
}

static VALUE wait_for_child(ab_loop *loop, rb_pid_t pid, int flags) {
  child_wait wait = {.base = {.loop = loop, .kind = AB_POOL_CHILDREN}, .pid = pid, .flags = flags};
  wait.base.waiter.kind = AB_WAIT_PROCESS;
  wait.base.waiter.object = PIDT2NUM(pid);
  return rb_ensure(child_wait_loop, (VALUE)&wait, child_wait_end, (VALUE)&wait);
}

/* @!method process_wait(pid, flags)
 * Waits for a child process without blocking other fibers. Returns its Process::Status. */
static VALUE sched_process_wait(VALUE self, VALUE pid, VALUE flags) {
  ab_loop *loop = ab__loop_get(self);
  pid_wait wait = {.loop = loop, .pid = NUM2PIDT(pid), .flags = NUM2INT(flags), .pidfd = -1};
  if (wait.flags & WNOHANG) return status_wait(wait.pid, wait.flags);
  if (ab__loop_forked(loop)) return ab__in_forked_child("process_wait", 2, (VALUE[]){pid, flags});
  ab__loop_check(loop);
  /* A pidfd reports only the end, not a stop. */
  if (wait.pid > 0 && !(wait.flags & WUNTRACED)) {
    wait.pidfd = ab_os_child_fd(wait.pid);
    /* No such process: let waitpid say so. */
    if (wait.pidfd < 0 && errno == ESRCH) return status_wait(wait.pid, wait.flags | WNOHANG);
  }
  if (wait.pidfd < 0) return wait_for_child(loop, wait.pid, wait.flags);
  return rb_ensure(pid_wait_loop, (VALUE)&wait, pid_wait_end, (VALUE)&wait);
}

/* Parks until #unblock; for lib/abaca/scheduler/worker_pool.rb. */
static VALUE sched_await_operation(VALUE self, VALUE job) {
  ab_loop *loop = ab_loop_of(self);
  ab_waiter waiter = {.kind = AB_WAIT_OPERATION, .object = job};
  ab_loop_park(loop, &waiter, 0);
  return Qnil;
}

void ab__init_sched_process(VALUE klass) {
  rb_define_private_method(klass, "await_operation", sched_await_operation, 1);
  rb_define_method(klass, "address_resolve", sched_address_resolve, 1);
  rb_define_method(klass, "process_wait", sched_process_wait, 2);
}
