/* A service in a child process, and a client that tries everything in the header. Usage: calls SOCKET */

#include "unrack_rpc.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
            exit(1); \
        } \
    } while (0)

/* It ends well. */
#define WELL(call) \
    do { \
        unrack_error *error = NULL; \
        if ((call) != UNRACK_STATUS_OK) { \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, unrack_error_text(error)); \
            exit(1); \
        } \
        CHECK(error == NULL); \
    } while (0)

/* It fails with this status, and the error says `what`. */
#define FAILS(call, expected, what) \
    do { \
        unrack_error *error = NULL; \
        CHECK((call) == (expected)); \
        CHECK(unrack_error_status(error) == (expected)); \
        if (!strstr(unrack_error_text(error), what)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, unrack_error_text(error)); \
            exit(1); \
        } \
        unrack_error_free(error); \
    } while (0)

static int32_t sum(void *context, unrack_incoming *incoming)
{
    size_t bytes;
    const uint8_t *request = unrack_incoming_request(incoming, &bytes);
    uint64_t total = *(const uint64_t *)context;
    for (size_t at = 0; at + 8 <= bytes; at += 8) {
        uint64_t word;
        unrack_copy(&word, request + at, 8);
        total += word;
    }
    unrack_copy(NULL, request, 8), unrack_copy(&total, NULL, 8);
    uint8_t *answer = unrack_incoming_answer(incoming, 8);
    if (!answer)
        return 0;
    memcpy(answer, &total, 8);
    return 0;
}

static int32_t end(void *context, unrack_incoming *incoming)
{
    (void)incoming;
    return *(const int32_t *)context;
}

static int32_t nap(void *context, unrack_incoming *incoming)
{
    (void)context, (void)incoming;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    return 0;
}

/* Counts down from the request's word, in parts of a word. */
static int32_t open_count(void *context, unrack_incoming *incoming, void **stream)
{
    size_t bytes;
    const uint8_t *request = unrack_incoming_request(incoming, &bytes);
    uint64_t *left = malloc(sizeof *left);
    if (context || bytes != sizeof *left || !left) {
        free(left);
        return 9;
    }
    memcpy(left, request, sizeof *left);
    *stream = left;
    return 0;
}

static int32_t next_count(void *stream, unrack_incoming *incoming)
{
    uint64_t *left = stream;
    uint8_t *part = unrack_incoming_answer(incoming, sizeof *left);
    if (!part)
        return 0;
    memcpy(part, left, sizeof *left);
    return (*left)-- > 1 ? UNRACK_MORE : 0;
}

static void serve(const char *pool, int ready, int stop)
{
    static uint64_t start = 1000;
    static int32_t refusal = 42, failure = -1;
    char byte = 0;
    unrack_server *server = NULL;
    unrack_server_options options = {.workers = 2};
    WELL(unrack_server_new("adder", &options, &server, &error));
    WELL(unrack_server_method(server, "sum", sum, &start, &error));
    WELL(unrack_server_method(server, "refuse", end, &refusal, &error));
    WELL(unrack_server_method(server, "fail", end, &failure, &error));
    WELL(unrack_server_method(server, "nap", nap, NULL, &error));
    FAILS(unrack_server_method(server, "none", NULL, NULL, &error), UNRACK_STATUS_INVALID, "handler");
    WELL(unrack_server_stream(server, "count", open_count, next_count, free, NULL, &error));
    FAILS(unrack_server_stream(server, "none", NULL, next_count, NULL, NULL, &error), UNRACK_STATUS_INVALID, "open");
    FAILS(unrack_server_stream(server, "none", open_count, NULL, NULL, NULL, &error), UNRACK_STATUS_INVALID, "next");
    WELL(unrack_server_start(server, pool, &error));
    FAILS(unrack_server_start(server, pool, &error), UNRACK_STATUS_INVALID, "already");
    FAILS(unrack_server_method(server, "late", nap, NULL, &error), UNRACK_STATUS_INVALID, "before");
    CHECK(write(ready, &byte, 1) == 1);
    CHECK(read(stop, &byte, 1) >= 0);
    unrack_server_free(server);
}

static unrack_call *request(unrack_client *client, size_t words)
{
    unrack_call *call = NULL;
    size_t bytes = 0;
    WELL(unrack_call_new(client, words * 8, words < 1 ? 8 : words * 8, &call, &error));
    uint8_t *body = unrack_call_request(call, &bytes);
    CHECK(body && bytes == words * 8 && (uintptr_t)body % 64 == 0);
    for (uint64_t word = 0; word < words; word++)
        memcpy(body + word * 8, &word, 8);
    return call;
}

static void add(unrack_client *client, uint64_t words);

/* A child by fork is refused what its parent made, and frees it without an effect on the parent. */
static void forks(unrack_client *client)
{
    unrack_call *written = request(client, 1), *under_way = request(client, 1), *streamed = request(client, 1);
    const uint64_t count = 5;
    unrack_stream *stream = NULL;
    int status = 0;
    WELL(unrack_call_start(under_way, "sum", &error));
    memcpy(unrack_call_request(streamed, NULL), &count, 8);
    WELL(unrack_call_stream(streamed, "count", 0, &stream, &error));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        unrack_call *call = NULL;
        const uint8_t *part = NULL;
        size_t bytes = 0;
        bool flag = false;
        alarm(20);
        FAILS(unrack_call_new(client, 8, 8, &call, &error), UNRACK_STATUS_INVALID, "fork");
        FAILS(unrack_call_new_within(client, 8, 8, 0, &call, &error), UNRACK_STATUS_INVALID, "fork");
        FAILS(unrack_call_try_start(written, "sum", &flag, &error), UNRACK_STATUS_INVALID, "fork");
        FAILS(unrack_call_start(written, "sum", &error), UNRACK_STATUS_INVALID, "fork");
        WELL(unrack_call_poll(under_way, 1, &flag, &error));
        CHECK(flag);
        FAILS(unrack_call_wait(under_way, UNRACK_NO_TIMEOUT, &error), UNRACK_STATUS_INVALID, "fork");
        FAILS(unrack_stream_next(stream, &part, &bytes, &error), UNRACK_STATUS_INVALID, "fork");
        CHECK(unrack_client_lent(client, 0, 1) == NULL);
        unrack_call_free(written), unrack_call_free(under_way), unrack_stream_free(stream);
        unrack_client_free(client);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    WELL(unrack_call_start(written, "sum", &error));
    WELL(unrack_call_wait(written, UNRACK_NO_TIMEOUT, &error));
    WELL(unrack_call_wait(under_way, UNRACK_NO_TIMEOUT, &error));
    unrack_call_free(written), unrack_call_free(under_way), unrack_call_free(streamed), unrack_stream_free(stream);
    add(client, 3);
}

static void add(unrack_client *client, uint64_t words)
{
    unrack_call *call = request(client, words);
    uint64_t total;
    size_t bytes = 0;
    WELL(unrack_call_start(call, "sum", &error));
    CHECK(unrack_call_request(call, NULL) == NULL);
    WELL(unrack_call_wait(call, words % 2 ? UNRACK_NO_TIMEOUT : 10000000000, &error));
    const uint8_t *answer = unrack_call_response(call, &bytes);
    CHECK(answer && bytes == 8);
    memcpy(&total, answer, 8);
    CHECK(total == 1000 + words * (words - (words > 0)) / 2);
    WELL(unrack_call_wait(call, 0, &error));
    unrack_call_free(call);
}

static void *add_often(void *client)
{
    for (uint64_t words = 0; words < 200; words++)
        add(client, words);
    return NULL;
}

static void fails(unrack_client *client, const char *method, unrack_status status, const char *what)
{
    unrack_call *call = request(client, 1);
    WELL(unrack_call_start(call, method, &error));
    FAILS(unrack_call_wait(call, UNRACK_NO_TIMEOUT, &error), status, what);
    CHECK(unrack_call_response(call, NULL) == NULL);
    FAILS(unrack_call_wait(call, 0, &error), UNRACK_STATUS_INVALID, "over");
    unrack_call_free(call);
}

static void nulls(const char *pool, unrack_client *client)
{
    unrack_client *none = NULL;
    unrack_call *call = NULL;
    unrack_server *server = NULL;
    FAILS(unrack_client_connect(pool, NULL, NULL, &none, &error), UNRACK_STATUS_INVALID, "service");
    FAILS(unrack_client_connect(pool, "adder", NULL, NULL, &error), UNRACK_STATUS_INVALID, "client");
    FAILS(unrack_client_connect(pool, "\xff", NULL, &none, &error), UNRACK_STATUS_INVALID, "UTF-8");
    unrack_client_options options = {.waiting = 3};
    FAILS(unrack_client_connect(pool, "adder", &options, &none, &error), UNRACK_STATUS_INVALID, "waiting");
    FAILS(unrack_call_new(NULL, 8, 8, &call, &error), UNRACK_STATUS_INVALID, "client");
    FAILS(unrack_call_new(client, 8, 8, NULL, &error), UNRACK_STATUS_INVALID, "call");
    FAILS(unrack_call_start(NULL, "sum", &error), UNRACK_STATUS_INVALID, "call");
    FAILS(unrack_call_send(NULL, NULL, &error), UNRACK_STATUS_INVALID, "method");
    FAILS(unrack_call_try_start(NULL, "sum", NULL, &error), UNRACK_STATUS_INVALID, "call");
    FAILS(unrack_call_deadline(NULL, 1, &error), UNRACK_STATUS_INVALID, "call");
    FAILS(unrack_call_poll(NULL, 0, NULL, &error), UNRACK_STATUS_INVALID, "call");
    FAILS(unrack_call_wait(NULL, 0, &error), UNRACK_STATUS_INVALID, "call");
    FAILS(unrack_server_new(NULL, NULL, &server, &error), UNRACK_STATUS_INVALID, "name");
    FAILS(unrack_server_start(NULL, pool, &error), UNRACK_STATUS_INVALID, "server");
    CHECK(unrack_call_wait(NULL, 0, NULL) == UNRACK_STATUS_INVALID);
    CHECK(!none && !call && !server);
    CHECK(unrack_client_shares_memory(client) && !unrack_client_shares_memory(NULL));
    CHECK(!unrack_client_lent(client, 0, 8) && !unrack_client_lent(client, UINT64_MAX, SIZE_MAX));
    CHECK(!unrack_client_lent(NULL, 0, 0));
    CHECK(!unrack_call_request(NULL, NULL) && !unrack_call_response(NULL, NULL));
    CHECK(!unrack_incoming_request(NULL, NULL) && !unrack_incoming_answer(NULL, 1) && !unrack_incoming_room(NULL));
    CHECK(!unrack_error_peer(NULL) && !unrack_error_number(NULL) && unrack_error_text(NULL));
    unrack_client_free(NULL), unrack_call_free(NULL), unrack_server_free(NULL), unrack_error_free(NULL);
}

static void streams(unrack_client *client)
{
    const uint8_t *part = NULL;
    size_t bytes = 0;
    for (uint64_t count = 1; count < 50; count += 7)
        for (size_t ahead = 0; ahead < 4; ahead += 3) {
            unrack_call *call = request(client, 1);
            unrack_stream *stream = NULL;
            memcpy(unrack_call_request(call, NULL), &count, 8);
            WELL(unrack_call_stream(call, "count", ahead, &stream, &error));
            FAILS(unrack_call_start(call, "count", &error), UNRACK_STATUS_INVALID, "already");
            unrack_call_free(call);
            /* Some are left in the middle. */
            for (uint64_t left = count; left > count % 3; left--) {
                uint64_t word;
                WELL(unrack_stream_next(stream, &part, &bytes, &error));
                CHECK(part && bytes == 8);
                memcpy(&word, part, 8);
                CHECK(word == left);
            }
            if (count % 3 == 0) {
                WELL(unrack_stream_next(stream, &part, &bytes, &error));
                CHECK(!part && !bytes);
            }
            unrack_stream_free(stream);
        }
    unrack_call *call = request(client, 2);
    unrack_stream *stream = NULL;
    WELL(unrack_call_stream(call, "count", 1, &stream, &error));
    FAILS(unrack_stream_next(stream, &part, &bytes, &error), UNRACK_STATUS_REFUSED, "refused");
    FAILS(unrack_stream_next(stream, NULL, &bytes, &error), UNRACK_STATUS_INVALID, "part");
    FAILS(unrack_stream_next(NULL, &part, &bytes, &error), UNRACK_STATUS_INVALID, "stream");
    unrack_call_free(call), unrack_stream_free(stream), unrack_stream_free(NULL);
}

/* One call at a time: a second is told that there is no room, and can be started when there is. */
static void narrow(const char *pool)
{
    unrack_client *client = NULL;
    unrack_client_options options = {.calls = 1};
    WELL(unrack_client_connect(pool, "adder", &options, &client, &error));
    unrack_call *first = request(client, 1), *second = request(client, 1);
    bool started = false;
    WELL(unrack_call_try_start(first, "nap", &started, &error));
    CHECK(started);
    WELL(unrack_call_try_start(second, "sum", &started, &error));
    CHECK(!started && unrack_call_request(second, NULL));
    WELL(unrack_call_wait(first, UNRACK_NO_TIMEOUT, &error));
    unrack_call_free(first);
    WELL(unrack_call_try_start(second, "sum", &started, &error));
    CHECK(started);
    FAILS(unrack_call_try_start(second, "sum", &started, &error), UNRACK_STATUS_INVALID, "already");
    WELL(unrack_call_wait(second, UNRACK_NO_TIMEOUT, &error));
    unrack_call_free(second);
    unrack_client_free(client);
}

/* Several calls under way, and one descriptor to wait for all. */
static void event_loop(unrack_client *client)
{
    static const char *const methods[] = {"nap", "sum", "refuse", "nap"};
    enum { COUNT = sizeof methods / sizeof *methods };
    static const unrack_status ends[COUNT] = {
        UNRACK_STATUS_OK, UNRACK_STATUS_OK, UNRACK_STATUS_REFUSED, UNRACK_STATUS_DEADLINE};
    unrack_call *calls[COUNT];
    bool over[COUNT] = {0}, ready = false;
    int event = eventfd(0, EFD_CLOEXEC), left = COUNT;
    CHECK(event >= 0);
    for (int at = 0; at < COUNT; at++) {
        calls[at] = request(client, 1);
        FAILS(unrack_call_poll(calls[at], event, &ready, &error), UNRACK_STATUS_INVALID, "not started");
        WELL(unrack_call_deadline(calls[at], ends[at] == UNRACK_STATUS_DEADLINE ? 5000000 : 20000000000, &error));
        WELL(unrack_call_start(calls[at], methods[at], &error));
    }
    FAILS(unrack_call_poll(calls[0], -1, &ready, &error), UNRACK_STATUS_INVALID, "eventfd");
    FAILS(unrack_call_poll(calls[0], 9999, &ready, &error), UNRACK_STATUS_INVALID, "eventfd");
    FAILS(unrack_call_poll(calls[0], event, NULL, &error), UNRACK_STATUS_INVALID, "ready");
    while (left) {
        for (int at = 0; at < COUNT; at++) {
            if (over[at])
                continue;
            WELL(unrack_call_poll(calls[at], event, &ready, &error));
            if (!ready)
                continue;
            unrack_error *error = NULL;
            CHECK(unrack_call_wait(calls[at], 0, &error) == ends[at]);
            unrack_error_free(error);
            over[at] = true, left--;
        }
        struct pollfd polled = {.fd = event, .events = POLLIN};
        uint64_t count;
        if (left) {
            CHECK(poll(&polled, 1, 20000) == 1);
            CHECK(read(event, &count, sizeof count) == sizeof count);
        }
    }
    for (int at = 0; at < COUNT; at++)
        unrack_call_free(calls[at]);
    close(event);
}

static void call_all(const char *pool, pid_t server)
{
    unrack_client *client = NULL;
    FAILS(unrack_client_connect("/nowhere/pool", "adder", NULL, &client, &error), UNRACK_STATUS_NO_POOL, "/nowhere");
    FAILS(unrack_client_connect(pool, "nobody", NULL, &client, &error), UNRACK_STATUS_NO_SERVICE, "nobody");
    WELL(unrack_client_connect(pool, "adder", NULL, &client, &error));
    nulls(pool, client);

    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, add_often, client) == 0);
    add_often(client);
    pthread_join(thread, NULL);

    fails(client, "nothing", UNRACK_STATUS_UNKNOWN_METHOD, "method");
    fails(client, "fail", UNRACK_STATUS_FAILED, "failed");
    unrack_call *call = request(client, 1);
    unrack_error *refused = NULL;
    char process[40];
    snprintf(process, sizeof process, "process %d", server);
    WELL(unrack_call_start(call, "refuse", &error));
    CHECK(unrack_call_wait(call, UNRACK_NO_TIMEOUT, &refused) == UNRACK_STATUS_REFUSED);
    CHECK(unrack_error_number(refused) == 42 && strstr(unrack_error_peer(refused), process));
    unrack_error_free(refused);
    unrack_call_free(call);

    /* No room for the sum. */
    WELL(unrack_call_new(client, 4, 4, &call, &error));
    WELL(unrack_call_start(call, "sum", &error));
    unrack_error *no_room = NULL;
    CHECK(unrack_call_wait(call, UNRACK_NO_TIMEOUT, &no_room) == UNRACK_STATUS_NO_ROOM);
    CHECK(unrack_error_number(no_room) == 8 && strstr(unrack_error_text(no_room), "8 bytes"));
    unrack_error_free(no_room);
    unrack_call_free(call);
    FAILS(unrack_call_new(client, SIZE_MAX, 0, &call, &error), UNRACK_STATUS_TOO_LONG, "longer than the limit");

    /* A timeout leaves the call under way; nothing is to be sent twice, or waited for before. */
    call = request(client, 1);
    FAILS(unrack_call_wait(call, 0, &error), UNRACK_STATUS_INVALID, "not started");
    WELL(unrack_call_start(call, "nap", &error));
    FAILS(unrack_call_start(call, "nap", &error), UNRACK_STATUS_INVALID, "already");
    FAILS(unrack_call_wait(call, 0, &error), UNRACK_STATUS_DEADLINE, "within");
    FAILS(unrack_call_wait(call, 1000000, &error), UNRACK_STATUS_DEADLINE, "within 1ms");
    WELL(unrack_call_wait(call, UNRACK_NO_TIMEOUT, &error));
    unrack_call_free(call);

    /* A deadline of its own ends it, while it is under way and for good. */
    call = request(client, 1);
    WELL(unrack_call_deadline(call, 1000000, &error));
    WELL(unrack_call_start(call, "nap", &error));
    FAILS(unrack_call_deadline(call, 1, &error), UNRACK_STATUS_INVALID, "before");
    FAILS(unrack_call_wait(call, UNRACK_NO_TIMEOUT, &error), UNRACK_STATUS_DEADLINE, "within 1ms");
    FAILS(unrack_call_wait(call, UNRACK_NO_TIMEOUT, &error), UNRACK_STATUS_INVALID, "over");
    unrack_call_free(call);
    call = request(client, 1);
    WELL(unrack_call_deadline(call, 20000000000, &error));
    WELL(unrack_call_start(call, "nap", &error));
    WELL(unrack_call_wait(call, UNRACK_NO_TIMEOUT, &error));
    unrack_call_free(call);
    event_loop(client);
    narrow(pool);
    streams(client);
    forks(client);

    /* More one-way and cancelled calls than can be under way. */
    for (int number = 0; number < 2000; number++) {
        call = request(client, 2);
        if (number % 2)
            WELL(unrack_call_send(call, "sum", &error));
        else
            WELL(unrack_call_start(call, "sum", &error));
        unrack_call_free(call);
    }
    add(client, 3);

    /* A call outlives its client; the server dies under it. */
    call = request(client, 1);
    WELL(unrack_call_start(call, "nap", &error));
    unrack_client_free(client);
    CHECK(kill(server, SIGKILL) == 0);
    unrack_error *gone = NULL;
    CHECK(unrack_call_wait(call, UNRACK_NO_TIMEOUT, &gone) == UNRACK_STATUS_GONE);
    CHECK(strstr(unrack_error_peer(gone), process));
    unrack_error_free(gone);
    unrack_call_free(call);
}

int main(int count, char **arguments)
{
    int ready[2], stop[2];
    char byte;
    CHECK(count == 2 && pipe(ready) == 0 && pipe(stop) == 0);
    pid_t server = fork();
    CHECK(server >= 0);
    if (server == 0) {
        close(ready[0]), close(stop[1]);
        serve(arguments[1], ready[1], stop[0]);
        return 0;
    }
    close(ready[1]), close(stop[0]);
    CHECK(read(ready[0], &byte, 1) == 1);
    call_all(arguments[1], server);
    CHECK(waitpid(server, NULL, 0) == server);
    puts("all is well");
    return 0;
}
