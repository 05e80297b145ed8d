// Two endpoints of one process lend each other buffers. Arguments: the pool's socket.

#include "unrack_rpc.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND 1000000000ull

static void check(unrack_status status, unrack_error *error, const char *what) {
  if (status == UNRACK_STATUS_OK) return;
  fprintf(stderr, "%s: %s\n", what, unrack_error_text(error));
  exit(1);
}

static void need(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "not so: %s\n", what);
  exit(1);
}

struct reference {
  uint64_t offset;
  uint64_t bytes;
};

static void tell(unrack_link *link, struct reference reference) {
  unrack_error *error = NULL;
  int stream = -1;
  check(unrack_link_stream(link, &stream, &error), error, "stream");
  need(write(stream, &reference, sizeof reference) == sizeof reference, "the stream takes a reference");
  close(stream);
}

static struct reference hear(unrack_link *link) {
  unrack_error *error = NULL;
  struct reference reference;
  int stream = -1;
  check(unrack_link_stream(link, &stream, &error), error, "stream");
  need(read(stream, &reference, sizeof reference) == sizeof reference, "the stream has a reference");
  close(stream);
  return reference;
}

// Lends `text`, and has it received: its bytes are right, and stay when link and buffer are freed.
static void pass(unrack_link *near, unrack_link *far, unrack_buffer *buffer, const char *text, bool writable) {
  unrack_error *error = NULL;
  unrack_loan *loan = NULL;
  struct reference told = {0, strlen(text)};
  memcpy(unrack_buffer_bytes(buffer), text, told.bytes);
  check(unrack_link_lend(near, buffer, &told.offset, &error), error, "lend");
  unrack_buffer_free(buffer);
  tell(near, told);
  struct reference heard = hear(far);
  check(unrack_link_receive(far, heard.offset, heard.bytes, writable, &loan, &error), error, "receive");
  need(unrack_link_lent(near) == 1, "one buffer is lent");
  need(memcmp(unrack_loan_bytes(loan), text, heard.bytes) == 0, "it is the same");
  if (writable) unrack_loan_bytes(loan)[0] = '!';
  unrack_loan_free(loan);
  while (unrack_link_lent(near) > 0) sched_yield();
}

int main(int count, char **arguments) {
  need(count == 2, "one argument");
  unrack_error *error = NULL;
  unrack_endpoint *owner = NULL, *reader = NULL;
  unrack_listener *listener = NULL;
  unrack_link *near = NULL, *far = NULL;
  unrack_buffer *buffer = NULL;
  check(unrack_endpoint_connect(arguments[1], &owner, &error), error, "connect");
  check(unrack_endpoint_connect(arguments[1], &reader, &error), error, "connect");
  check(unrack_endpoint_listen(owner, "lends", &listener, &error), error, "listen");
  check(unrack_listener_accept(listener, 0, &near, &error), error, "accept");
  need(near == NULL, "nobody has asked yet");
  struct pollfd readable = {unrack_listener_descriptor(listener), POLLIN, 0};
  need(poll(&readable, 1, 0) == 0, "the descriptor is quiet");
  check(unrack_endpoint_open(reader, "lends", 10 * SECOND, &far, &error), error, "open");
  need(poll(&readable, 1, 10000) == 1, "the descriptor says that there is a link");
  check(unrack_listener_accept(listener, 10 * SECOND, &near, &error), error, "accept");
  need(near != NULL && unrack_link_process(near) == (uint32_t)getpid(), "it is this process");
  need(poll(&readable, 1, 0) == 0, "the descriptor is quiet again");

  check(unrack_endpoint_buffer(owner, 5, false, &buffer, &error), error, "buffer");
  pass(near, far, buffer, "hello", false);
  check(unrack_endpoint_buffer(reader, 9, true, &buffer, &error), error, "buffer");
  pass(far, near, buffer, "and back.", true);

  unrack_loan *loan = NULL;
  need(unrack_link_receive(far, 1 << 20, 1, false, &loan, &error) == UNRACK_STATUS_PROTOCOL && loan == NULL,
       "nothing is lent there");
  unrack_error_free(error);
  need(unrack_endpoint_open(reader, "nobody", SECOND, &far, &error) == UNRACK_STATUS_NO_SERVICE, "nobody is there");
  unrack_error_free(error);
  need(unrack_endpoint_open(NULL, "lends", SECOND, &far, &error) == UNRACK_STATUS_INVALID, "null is an error");
  unrack_error_free(error);

  // In any order.
  unrack_endpoint_free(owner);
  unrack_listener_free(listener);
  unrack_endpoint_free(reader);
  unrack_link_free(near);
  unrack_link_free(far);
  unrack_link_free(NULL);
  puts("all is well");
}
