// Measures round trips and streams between two processes over one connection.
//
//   roundtrip tcp|unix BYTES COUNT          prints the microseconds per round trip
//   roundtrip tcp|unix BYTES COUNT stream   prints the gigabytes per second in one direction
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void check(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void get(int fd, char *to, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t got = read(fd, to + done, bytes - done);
        check(got > 0, "read");
        done += (size_t)got;
    }
}

static void put(int fd, const char *from, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t sent = write(fd, from + done, bytes - done);
        check(sent > 0, "write");
        done += (size_t)sent;
    }
}

// Forks, and returns this process's end of a connection between the two processes.
static int connected(int is_tcp, int *is_child) {
    int pair[2], one = 1;
    if (!is_tcp) {
        check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
        *is_child = fork() == 0;
        close(pair[!*is_child]);
        return pair[*is_child];
    }
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof to;
    int listener = socket(AF_INET, SOCK_STREAM, 0), end;
    check(bind(listener, (void *)&to, length) == 0 && listen(listener, 1) == 0, "listen");
    getsockname(listener, (void *)&to, &length);
    *is_child = fork() == 0;
    if (*is_child) {
        end = accept(listener, NULL, NULL);
    } else {
        end = socket(AF_INET, SOCK_STREAM, 0);
        check(connect(end, (void *)&to, length) == 0, "connect");
    }
    setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return end;
}

int main(int count, char **words) {
    if (count < 4) {
        fprintf(stderr, "usage: roundtrip tcp|unix BYTES COUNT [stream]\n");
        return 2;
    }
    size_t bytes = strtoul(words[2], NULL, 10);
    long rounds = strtol(words[3], NULL, 10);
    int is_child, is_stream = count > 4, end = connected(!strcmp(words[1], "tcp"), &is_child);
    char *buffer = calloc(1, bytes);
    double begin = now();
    for (long i = 0; i < rounds; i++) {
        if (is_child || !is_stream) is_child ? get(end, buffer, bytes) : put(end, buffer, bytes);
        if (is_stream && !is_child) put(end, buffer, bytes);
        if (!is_stream) is_child ? put(end, buffer, bytes) : get(end, buffer, bytes);
    }
    if (is_stream) is_child ? put(end, buffer, 1) : get(end, buffer, 1);
    if (is_child) return 0;
    double each = (now() - begin) / (double)rounds;
    wait(NULL);
    printf("%.3f\n", is_stream ? (double)bytes / each * 1e-9 : each * 1e6);
}
