// Work of threads, children and programs that it starts, in memory of its own: $1 MiB. Prints what it found.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 3

static unsigned char *data;
static size_t len;
static volatile sig_atomic_t signals;

static void count(int signal) {
    (void)signal;
    signals++;
}

static unsigned long walk(unsigned long at, int steps) {
    unsigned long sum = 0;
    while (steps--) {
        at = at * 6364136223846793005ul + 1442695040888963407ul;
        sum = sum * 31 + data[(at >> 20) % len];
    }
    return sum;
}

static void *run(void *seed) {
    static __thread unsigned long mine;
    mine = (unsigned long)seed;
    for (int i = 0; i < 20; i++) mine = mine * 7 + walk(mine, 500);
    return (void *)mine;
}

// A server that forks its workers first, which then read the same memory, each a part, and change their copies.
static void serve(int round) {
    int ends[2];
    if (pipe(ends)) abort();
    for (int worker = 0; worker < 3; worker++) {
        if (fork()) continue;
        unsigned long seen = walk(worker, 5000);
        for (size_t i = 0; i < len; i += 4096) data[i] ^= worker + round;
        kill(getpid(), SIGUSR1);
        unsigned long answer[2] = {worker, seen + walk(worker, 5000) + signals};
        if (write(ends[1], answer, sizeof answer) != sizeof answer) abort();
        _exit(worker);
    }
    unsigned long sum = 0;
    for (int worker = 0; worker < 3; worker++) {
        unsigned long answer[2];
        int status;
        if (read(ends[0], answer, sizeof answer) != sizeof answer || wait(&status) < 0) abort();
        sum += answer[0] * 1000003 ^ answer[1];
    }
    close(ends[0]);
    close(ends[1]);
    printf("workers %lu\n", sum);
}

int main(int words, char **word) {
    len = (size_t)(words > 1 ? atoi(word[1]) : 16) << 20;
    data = malloc(len);
    if (!data) return 1;
    for (size_t i = 0; i < len; i++) data[i] = i * 2654435761u >> 13;
    signal(SIGUSR1, count);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        unsigned long sum = 0;
        for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, run, (void *)(i + 10 * round));
        serve(round);
        for (int i = 0; i < THREADS; i++) {
            void *result;
            pthread_join(threads[i], &result);
            sum += (unsigned long)result;
        }
        printf("threads %lu\n", sum);
        fflush(stdout);
        if (system("echo started; exit 3") != 3 << 8) return 1;
        data = realloc(data, len + (1 << 20));
        memset(data + len, round, 1 << 20);
        len += 1 << 20;
    }
    unsigned long sum = 0;
    for (size_t i = 0; i < len; i++) sum = sum * 31 + data[i];
    printf("%lu\n", sum);
    free(data);
}
