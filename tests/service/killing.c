/* Kills the process at its nth write, fsync, truncation, rename or removal of a file below KILL_FOLDER: before it
   (KILL_MOMENT=before), in the middle of a write (torn) or after it. Without KILL_AT it counts into KILL_COUNT. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static long n_done = 0, at = -2;
static int moment = 0; /* 0 before, 1 torn, 2 after */
static char folder[4096];

static void begin(void) {
  if (at != -2) return;
  const char *given = getenv("KILL_AT"), *when = getenv("KILL_MOMENT"), *where = getenv("KILL_FOLDER");
  at = given ? atol(given) : -1;
  moment = !when ? 0 : !strcmp(when, "torn") ? 1 : !strcmp(when, "after") ? 2 : 0;
  snprintf(folder, sizeof folder, "%s", where ? where : "/nowhere");
}

/* For a process that was forked: begin to count anew. */
void armillary_kill_at(long number, int when, const char *where) {
  at = number;
  moment = when;
  n_done = 0;
  snprintf(folder, sizeof folder, "%s", where);
}

long armillary_count(void) { return n_done; }

static int is_ours(int file) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return !strncmp(path, folder, strlen(folder));
}

static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

static int is_last(void) {
  long number = __sync_fetch_and_add(&n_done, 1);
  const char *count = getenv("KILL_COUNT");
  if (count && at < 0) {
    int (*real_open)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    ssize_t (*real_write)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    int (*real_close)(int) = dlsym(RTLD_NEXT, "close");
    int file = real_open(count, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file >= 0) { real_write(file, ".", 1); real_close(file); }
  }
  return number == at;
}

#define AROUND(type, name, parameters, arguments, file, torn)                                   \
  type name parameters {                                                                        \
    static type(*real) parameters;                                                              \
    if (!real) real = dlsym(RTLD_NEXT, #name);                                                  \
    begin();                                                                                    \
    if (!is_ours(file)) return real arguments;                                                  \
    int last = is_last();                                                                       \
    if (last && moment == 0) die();                                                             \
    if (last && moment == 1) { torn; die(); }                                                   \
    type done = real arguments;                                                                 \
    if (last) die();                                                                            \
    return done;                                                                                \
  }

AROUND(ssize_t, pwrite64, (int f, const void *b, size_t n, off64_t o), (f, b, n, o), f, real(f, b, n / 2, o))
AROUND(ssize_t, pwrite, (int f, const void *b, size_t n, off_t o), (f, b, n, o), f, real(f, b, n / 2, o))
AROUND(ssize_t, write, (int f, const void *b, size_t n), (f, b, n), f, real(f, b, n / 2))
AROUND(int, fsync, (int f), (f), f, (void)0)
AROUND(int, fdatasync, (int f), (f), f, (void)0)
AROUND(int, ftruncate64, (int f, off64_t n), (f, n), f, (void)0)
AROUND(int, ftruncate, (int f, off_t n), (f, n), f, (void)0)

#define NAMED(name, parameters, arguments, path)                                                \
  int name parameters {                                                                         \
    static int(*real) parameters;                                                               \
    if (!real) real = dlsym(RTLD_NEXT, #name);                                                  \
    begin();                                                                                    \
    if (strncmp(path, folder, strlen(folder))) return real arguments;                           \
    int last = is_last();                                                                       \
    if (last && moment != 2) die();                                                             \
    int done = real arguments;                                                                  \
    if (last) die();                                                                            \
    return done;                                                                                \
  }

NAMED(rename, (const char *a, const char *b), (a, b), b)
NAMED(unlink, (const char *a), (a), a)
