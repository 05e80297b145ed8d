/* A service and its client: `hello serve`, and `hello call NAME`. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unrack_rpc.h>

enum { LONGEST = 200, ROOM = 256 };

/* Ends the program if a function failed. */
static void check(unrack_status status, unrack_error *error) {
  if (status == UNRACK_STATUS_OK) return;
  fprintf(stderr, "hello: %s\n", unrack_error_text(error));
  exit(1);
}

/* Answers a call. The client could change the request while it is read: it is copied once. */
static int32_t greet(void *context, unrack_incoming *incoming) {
  (void)context;
  size_t length;
  const uint8_t *request = unrack_incoming_request(incoming, &length);
  if (length > LONGEST) return 1;
  char name[LONGEST + 1] = {0}, text[ROOM];
  unrack_copy(name, request, length);
  size_t bytes = (size_t)snprintf(text, sizeof text, "Hello, %s, from C", name);
  uint8_t *answer = unrack_incoming_answer(incoming, bytes);
  if (answer != NULL) memcpy(answer, text, bytes);
  return 0;
}

static void serve(void) {
  unrack_server *server;
  unrack_error *error;
  check(unrack_server_new("hello", NULL, &server, &error), error);
  check(unrack_server_method(server, "greet", greet, NULL, &error), error);
  check(unrack_server_start(server, NULL, &error), error);
  puts("serving");
  fflush(stdout);
  for (;;) pause();
}

static void call_service(const char *name) {
  unrack_client *client;
  unrack_call *call;
  unrack_error *error;
  check(unrack_client_connect(NULL, "hello", NULL, &client, &error), error);
  check(unrack_call_new(client, strlen(name), ROOM, &call, &error), error);
  memcpy(unrack_call_request(call, NULL), name, strlen(name));
  check(unrack_call_start(call, "greet", &error), error);
  check(unrack_call_wait(call, UNRACK_NO_TIMEOUT, &error), error);
  size_t bytes;
  const uint8_t *answer = unrack_call_response(call, &bytes);
  char text[ROOM];
  unrack_copy(text, answer, bytes);
  printf("%.*s\n", (int)bytes, text);
  unrack_call_free(call);
  unrack_client_free(client);
}

int main(int count, char **words) {
  if (count == 2 && strcmp(words[1], "serve") == 0) serve();
  if (count == 3 && strcmp(words[1], "call") == 0) {
    call_service(words[2]);
    return 0;
  }
  fputs("usage: hello serve | call NAME\n", stderr);
  return 2;
}
