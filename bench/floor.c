// The floor of a pager in user space: the least that the kernel's interface allows. It keeps the pages of one memory area in FIFO order
// and nothing else, so it has no books, no accounting, no protection against forks and no memory node. `bench/faults.sh` measures it in the
// same run as Unrack.
//
//   floor blocking|sigbus MIB LOCAL% [THREADS]
//
// blocking: a pager thread reads faults from a userfaultfd; with one thread of the program, both run on the same core.
// sigbus: the faulting thread handles its fault itself, in a handler of SIGBUS (UFFD_FEATURE_SIGBUS).
// In both, the oldest page moves to a store and the wanted page moves back (UFFDIO_MOVE, Linux 6.8), so no byte is copied. The passes are
// those of `unrack-stress touch`: one word of each page is read, compared and written, in random order. Prints one line of JSON; status 3
// if the kernel lacks an operation.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PASSES = 6 };

// Headers before Linux 6.8 lack these.
struct move { uint64_t dst, src, len, mode; int64_t moved; };
#define MOVE _IOWR(UFFDIO, 0x05, struct move)
#define MOVE_DONTWAKE 1

static int uffd;
static bool is_sigbus;
static size_t pages, frames, threads = 1;
static char *base, *store;
// Local pages, oldest first, in a ring of `frames` places.
static uint32_t *fifo;
static size_t first, count;
enum place { NEVER, LOCAL, STORED };
static uint8_t *places;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t *order;
static uint64_t round_number;

static void die(const char *what) {
	fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
	exit(3);
}

static void move(char *to, char *from, uint64_t mode) {
	struct move one = { (uint64_t)to, (uint64_t)from, PAGE, mode, 0 };
	while (ioctl(uffd, MOVE, &one) != 0) {
		// Linux 6.18 may report a page that it has moved as one that exists; its threads then still sleep.
		if (errno == EEXIST) {
			struct uffdio_range range = { (uint64_t)to, PAGE };
			ioctl(uffd, UFFDIO_WAKE, &range);
			return;
		}
		if (errno != EAGAIN) die("UFFDIO_MOVE");
		one.moved = 0;
	}
}

// Makes room, and brings a page.
static void fetch(uint32_t page) {
	char *at = base + (size_t)page * PAGE;
	if (places[page] == LOCAL) {
		struct uffdio_range range = { (uint64_t)at, PAGE };
		ioctl(uffd, UFFDIO_WAKE, &range);
		return;
	}
	if (count == frames) {
		uint32_t oldest = fifo[first];
		first = (first + 1) % frames, count--;
		move(store + (size_t)oldest * PAGE, base + (size_t)oldest * PAGE, MOVE_DONTWAKE);
		places[oldest] = STORED;
	}
	if (places[page] == STORED) {
		move(at, store + (size_t)page * PAGE, is_sigbus ? MOVE_DONTWAKE : 0);
	} else {
		struct uffdio_zeropage zero = { { (uint64_t)at, PAGE }, is_sigbus ? UFFDIO_ZEROPAGE_MODE_DONTWAKE : 0, 0 };
		if (ioctl(uffd, UFFDIO_ZEROPAGE, &zero) != 0) die("UFFDIO_ZEROPAGE");
	}
	places[page] = LOCAL;
	fifo[(first + count++) % frames] = page;
}

static uint32_t page_of(uint64_t address) {
	return (uint32_t)((address - (uint64_t)base) / PAGE);
}

__attribute__((noreturn)) static void *serve(void *unused) {
	(void)unused;
	struct uffd_msg messages[16];
	for (;;) {
		ssize_t bytes = read(uffd, messages, sizeof messages);
		for (ssize_t i = 0; i < bytes / (ssize_t)sizeof *messages; i++) fetch(page_of(messages[i].arg.pagefault.address));
	}
}

static void on_sigbus(int number, siginfo_t *info, void *context) {
	(void)number, (void)context;
	pthread_mutex_lock(&lock);
	uint32_t page = page_of((uint64_t)info->si_addr);
	// Another thread may have brought the page meanwhile.
	if (places[page] != LOCAL) fetch(page);
	pthread_mutex_unlock(&lock);
}

static void *touch(void *share) {
	size_t each = (pages + threads - 1) / threads, from = (size_t)share * each;
	for (size_t i = from; i < from + each && i < pages; i++) {
		uint32_t page = order[i];
		volatile uint64_t *word = (uint64_t *)(base + (size_t)page * PAGE);
		uint64_t expected = round_number ? (uint64_t)page << 32 | (round_number - 1) : 0;
		if (*word != expected) fprintf(stderr, "floor: page %u has the wrong word\n", page), exit(1);
		*word = (uint64_t)page << 32 | round_number;
	}
	return NULL;
}

static double now_ns(void) {
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static int by_value(const void *a, const void *b) {
	double one = *(const double *)a, other = *(const double *)b;
	return (one > other) - (one < other);
}

static void *reserve(size_t bytes) {
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED) die("mmap");
	return at;
}

static void watch(void *at, size_t bytes) {
	madvise(at, bytes, MADV_NOHUGEPAGE);
	struct uffdio_register area = { { (uint64_t)at, bytes }, UFFDIO_REGISTER_MODE_MISSING, 0 };
	if (ioctl(uffd, UFFDIO_REGISTER, &area) != 0) die("UFFDIO_REGISTER");
}

int main(int words, char **argument) {
	if (words < 4 || words > 5) return fprintf(stderr, "usage: floor blocking|sigbus MIB LOCAL%% [THREADS]\n"), 2;
	is_sigbus = strcmp(argument[1], "sigbus") == 0;
	pages = strtoul(argument[2], NULL, 10) << 8;
	frames = pages * strtoul(argument[3], NULL, 10) / 100;
	if (words == 5) threads = strtoul(argument[4], NULL, 10);
	if (frames < 1 || threads < 1 || threads > 256) return fprintf(stderr, "floor: too few pages or threads\n"), 2;

	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (uffd < 0) die("userfaultfd");
	struct uffdio_api api = { UFFD_API, is_sigbus ? UFFD_FEATURE_SIGBUS : 0, 0 };
	if (ioctl(uffd, UFFDIO_API, &api) != 0) die("UFFDIO_API");
	size_t bytes = pages * PAGE;
	base = reserve(bytes), store = reserve(bytes);
	watch(base, bytes), watch(store, bytes);
	fifo = calloc(frames, sizeof *fifo), places = calloc(pages, 1), order = calloc(pages, sizeof *order);
	if (!fifo || !places || !order) die("memory");
	uint64_t state = 1;
	for (size_t i = 0; i < pages; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		size_t j = (state >> 33) % (i + 1);
		order[i] = order[j], order[j] = (uint32_t)i;
	}
	if (is_sigbus) {
		struct sigaction action = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_NODEFER };
		sigaction(SIGBUS, &action, NULL);
	}
	if (threads == 1) {
		cpu_set_t one;
		CPU_ZERO(&one);
		CPU_SET(sched_getcpu(), &one);
		sched_setaffinity(0, sizeof one, &one);
	}
	pthread_t pager, workers[256];
	if (!is_sigbus && pthread_create(&pager, NULL, serve, NULL) != 0) die("thread");
	double times[PASSES];
	for (round_number = 0; round_number < PASSES; round_number++) {
		double begin = now_ns();
		for (size_t n = 0; n < threads; n++) pthread_create(&workers[n], NULL, touch, (void *)n);
		for (size_t n = 0; n < threads; n++) pthread_join(workers[n], NULL);
		times[round_number] = (now_ns() - begin) * (double)threads / (double)pages;
	}
	// The first pass only fills the memory.
	qsort(times + 1, PASSES - 1, sizeof *times, by_value);
	printf("{\"pages\":%zu,\"ns_per_page_min\":%.1f,\"ns_per_page_median\":%.1f}\n", pages, times[1], times[PASSES / 2]);
	return 0;
}
