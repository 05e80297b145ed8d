/*
 * Random servers and clients: threads, descriptors, epoll modes, ways to read and write, and processes, all drawn from a seed.
 *
 * A sender sends messages whose sizes the seed gives, and waits for an answer of one byte where the seed says so. Threads of the
 * server share the connections by epoll sets. What a run prints does not depend on time: the bytes of each connection, how it
 * ended, what is left unread, the readiness of each descriptor in the end, and that no wake-up was lost.
 *
 * fuzz SEED [COUNT]: a line for each of COUNT seeds from SEED on.
 */
#include "conformance.h"

enum { MOST = 6, THREADS = 4, LATE_MS = 700, IDLE_MS = 8000 };

struct draw { unsigned long state; };
static unsigned long draw(struct draw *from, unsigned long below)
{
	from->state ^= from->state << 13;
	from->state ^= from->state >> 7;
	from->state ^= from->state << 17;
	return (from->state >> 11) % below;
}
static struct draw drawing(unsigned long seed, unsigned long part)
{
	struct draw made = { (seed * 0x9e3779b97f4a7c15UL) ^ ((part + 1) * 0xbf58476d1ce4e5b9UL) };
	if (!made.state)
		made.state = 1;
	for (int i = 0; i < 8; i++)
		draw(&made, 2);
	return made;
}

/* How a connection is read and written. */
enum reading { TO_EMPTY, ONE_CALL, SHORT_IS_EMPTY, COUNTED, PEEKED, SPLICED, READINGS };
enum writing { BLOCKING, POLLED, EDGES, LISTS, FROM_FILE, FROM_PIPE, WRITINGS };

struct plan {
	int family, messages, window, size, reading, writing, late_add, early_add, ends_by, in_child, unread;
	unsigned mode;
};

struct connection {
	struct plan plan;
	int server, client;
	unsigned long seed;
	/* The server's side. */
	pthread_mutex_t lock;
	long got, wanted, answers;
	unsigned hash;
	int ended, pipe[2], taken[2];
	struct draw boundary;
	long message, next;
};

static struct connection all[MOST];
static int count, threads, own_sets, inside, by_main, set_of[THREADS], outer = -1, pending[2];
static volatile long progress, finished;
static unsigned long now_seed;

static long milliseconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static long size_of(struct draw *from, int most)
{
	static const long sizes[] = { 8, 300, 9000, 70000, 400000 };
	return 1 + (long)draw(from, sizes[draw(from, most + 1)]);
}

static char byte_at(unsigned long seed, long position) { return (char)((seed + position) * 0x9e37 >> 7); }

/* Sends bytes in the connection's way. */
static int send_all(struct connection *one, char *from, long bytes, int set)
{
	for (long done = 0, sent; done < bytes; done += sent) {
		struct iovec list[] = { { from + done, (bytes - done) / 3 }, { from + done + (bytes - done) / 3, (bytes - done) - (bytes - done) / 3 } };
		switch (one->plan.writing) {
		case LISTS: sent = writev(one->client, list, 2); break;
		case FROM_FILE: {
			int f = memfd_create("piece", 0);
			if (write(f, from + done, bytes - done) != bytes - done)
				return -1;
			off_t at = 0;
			sent = sendfile(one->client, f, &at, bytes - done);
			close(f);
			break;
		}
		case FROM_PIPE: {
			long part = bytes - done < 4096 ? bytes - done : 4096;
			if (write(one->pipe[1], from + done, part) != part)
				return -1;
			for (sent = 0; sent < part;) {
				long moved = splice(one->pipe[0], 0, one->client, 0, part - sent, 0);
				if (moved <= 0) {
					fprintf(stderr, "splice %ld %s\n", moved, strerrorname_np(errno));
					return -1;
				}
				sent += moved;
			}
			break;
		}
		default: sent = send(one->client, from + done, bytes - done, MSG_NOSIGNAL);
		}
		if (sent >= 0)
			continue;
		if (errno != EAGAIN)
			return -1;
		sent = 0;
		struct pollfd room = { one->client, POLLOUT, 0 };
		struct epoll_event found;
		int ready = one->plan.writing == EDGES ? epoll_wait(set, &found, 1, IDLE_MS) : poll(&room, 1, IDLE_MS);
		if (ready != 1) {
			say("no room for %ld", bytes - done);
			return -1;
		}
	}
	return 0;
}

/* Sends what the plan says. Returns how many answers came late, or -1. */
static long client(struct connection *one)
{
	struct draw sizes = drawing(one->seed, 1);
	static __thread char piece[400001];
	long position = 0, late = 0;
	int set = epoll_create1(0);
	if (one->plan.writing == POLLED || one->plan.writing == EDGES)
		nonblocking(one->client);
	if (one->plan.writing == EDGES)
		control(set, EPOLL_CTL_ADD, one->client, EPOLLOUT | EPOLLET, 1);
	for (int i = 0; i < one->plan.messages; i++) {
		long bytes = size_of(&sizes, one->plan.size);
		for (long k = 0; k < bytes; k++)
			piece[k] = byte_at(one->seed, position + k);
		if (send_all(one, piece, bytes, set))
			return -1;
		position += bytes;
		if ((i + 1) % one->plan.window)
			continue;
		char answer;
		long begin = milliseconds();
		struct pollfd input = { one->client, POLLIN, 0 };
		if ((i & 1 || fcntl(one->client, F_GETFL) & O_NONBLOCK) && poll(&input, 1, IDLE_MS) != 1) {
			fprintf(stderr, "no answer to poll: %s\n", strerrorname_np(errno));
			return -1;
		}
		long got = recv(one->client, &answer, 1, 0);
		if (got != 1) {
			fprintf(stderr, "no answer: %ld %s\n", got, strerrorname_np(errno));
			return -1;
		}
		late += milliseconds() - begin >= LATE_MS;
	}
	/* Bytes that the server leaves where they are. */
	if (one->plan.unread && send(one->client, piece, one->plan.unread, MSG_NOSIGNAL) != one->plan.unread)
		return -1;
	close(set);
	if (one->plan.ends_by == 0)
		shutdown(one->client, SHUT_WR);
	else if (one->plan.ends_by == 1)
		close(one->client);
	return late;
}

static volatile long late_answers, failed_clients;
static void *client_thread(void *one)
{
	long late = client(one);
	__atomic_add_fetch(late < 0 ? &failed_clients : &late_answers, late < 0 ? 1 : late, 5);
	return 0;
}

/* Takes bytes that came, and answers where the plan says so. */
static void took(struct connection *one, const char *bytes, long many)
{
	for (long i = 0; i < many; i++, one->got++) {
		if (bytes[i] != byte_at(one->seed, one->got))
			one->hash = 1;
	}
	progress++;
	while (one->message < one->plan.messages && one->got >= one->next) {
		one->message++;
		if (one->message % one->plan.window == 0) {
			if (send(one->server, "k", 1, MSG_NOSIGNAL) == 1)
				one->answers++;
		}
		if (one->message < one->plan.messages)
			one->next += size_of(&one->boundary, one->plan.size);
	}
}

/* Returns how many bytes the server takes at most: it leaves the last ones of some connections. */
static long allowed(struct connection *one, long most)
{
	long left = one->wanted - one->got;
	return one->plan.unread && left < most ? left : most;
}

static void finish(struct connection *one)
{
	if (!one->ended) {
		one->ended = 1;
		__atomic_add_fetch(&finished, 1, 5);
	}
}

/* Reads in the connection's way. */
static void serve(struct connection *one, struct draw *how, int to_the_end)
{
	static __thread char to[100000];
	pthread_mutex_lock(&one->lock);
	while (!one->ended) {
		long most = allowed(one, 1 + draw(how, sizeof to - 1)), got;
		if (most == 0) {
			finish(one);
			break;
		}
		struct iovec list[] = { { to, most / 2 }, { to + most / 2, most - most / 2 } };
		int there = 0;
		switch (one->plan.reading) {
		case SHORT_IS_EMPTY: got = readv(one->server, list, 2); break;
		case COUNTED:
			if (ioctl(one->server, FIONREAD, &there) == 0 && there > 0 && there < most)
				most = there;
			got = recv(one->server, to, most, 0);
			if (there > 0 && got != most)
				one->hash = 2;
			break;
		case PEEKED:
			got = recv(one->server, to, most, MSG_PEEK);
			if (got > 0 && recv(one->server, to, got, 0) != got)
				one->hash = 3;
			break;
		case SPLICED:
			got = splice(one->server, 0, one->taken[1], 0, most < 4096 ? most : 4096, SPLICE_F_NONBLOCK);
			if (got > 0 && read(one->taken[0], to, got) != got)
				one->hash = 4;
			break;
		default: got = recv(one->server, to, most, 0);
		}
		if (got == 0) {
			finish(one);
			break;
		}
		if (got < 0) {
			if (errno != EAGAIN) {
				one->hash = 100 + errno;
				finish(one);
			}
			break;
		}
		took(one, to, got);
		if (one->plan.unread && one->got == one->wanted) {
			finish(one);
			break;
		}
		/* A call that got less than it asked for has taken all. */
		int is_edge = one->plan.mode & EPOLLET;
		if ((one->plan.reading == SHORT_IS_EMPTY && got < most && !to_the_end) || (one->plan.reading == ONE_CALL && !is_edge))
			break;
	}
	pthread_mutex_unlock(&one->lock);
}

static void register_at(int set, struct connection *one, int operation)
{
	unsigned exclusive = own_sets && operation == EPOLL_CTL_ADD && !(one->plan.mode & EPOLLONESHOT) ? EPOLLEXCLUSIVE : 0;
	control(set, operation, one->server, EPOLLIN | (exclusive ? 0 : EPOLLRDHUP) | one->plan.mode | exclusive, one - all);
}

static void *server_thread(void *number)
{
	long own = (long)number;
	int set = set_of[own_sets ? own : 0];
	struct draw how = drawing(now_seed, 100 + own);
	for (;;) {
		struct epoll_event found[3];
		if (inside && epoll_wait(outer, found, 1, -1) < 0)
			continue;
		int many = epoll_wait(set, found, 1 + draw(&how, 3), inside ? 0 : -1);
		for (int i = 0; i < many; i++) {
			struct connection *one = all + found[i].data.u64;
			/* An edge that came with the end is the last one. Without being asked the end comes unseen. */
			serve(one, &how, own_sets || found[i].events & EPOLLRDHUP);
			if (one->ended && !(one->plan.mode & (EPOLLET | EPOLLONESHOT)))
				control(set, EPOLL_CTL_DEL, one->server, 0, 0);
			else if (one->plan.mode & EPOLLONESHOT && by_main) {
				char index = (char)(one - all), at = (char)(own_sets ? own : 0);
				char pair[2] = { index, at };
				if (write(pending[1], pair, 2) != 2)
					abort();
			} else if (one->plan.mode & EPOLLONESHOT && !one->ended)
				register_at(set, one, EPOLL_CTL_MOD);
		}
	}
	return 0;
}

static void plan(unsigned long seed)
{
	struct draw from = drawing(seed, 0);
	now_seed = seed;
	count = 1 + draw(&from, MOST);
	threads = 1 + draw(&from, THREADS);
	own_sets = draw(&from, 4) == 0;
	inside = !own_sets && draw(&from, 6) == 0;
	by_main = draw(&from, 2);
	for (int i = 0; i < count; i++) {
		struct plan *one = &all[i].plan;
		static const unsigned modes[] = { 0, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT };
		all[i].seed = seed * 31 + i;
		one->family = draw(&from, 2) ? AF_INET : AF_UNIX;
		one->messages = 4 + draw(&from, 60);
		one->window = 1 + draw(&from, 5);
		one->size = draw(&from, 4) ? draw(&from, 3) : draw(&from, 5);
		one->reading = draw(&from, READINGS);
		one->writing = draw(&from, WRITINGS);
		one->mode = modes[draw(&from, 4)];
		one->late_add = draw(&from, 3) == 0;
		one->in_child = draw(&from, 2);
		/* A process may end without a word; a thread shuts its end down or closes it. */
		one->ends_by = draw(&from, 2 + one->in_child);
		one->unread = draw(&from, 4) ? 0 : 1 + draw(&from, 500);
		all[i].boundary = drawing(all[i].seed, 1);
		all[i].next = size_of(&all[i].boundary, one->size);
		struct draw sizes = drawing(all[i].seed, 1);
		for (int k = 0; k < one->messages; k++)
			all[i].wanted += size_of(&sizes, one->size);
		pthread_mutex_init(&all[i].lock, 0);
	}
}

/* Says what the seed has drawn, for a person. */
static void explain(void)
{
	fprintf(stderr, "%d threads, own sets %d, a set in a set %d, registered again by main %d\n", threads, own_sets, inside, by_main);
	for (int i = 0; i < count; i++) {
		struct plan *one = &all[i].plan;
		fprintf(stderr, "%d: %s, %d messages, window %d, size %d, reading %d, writing %d, mode %s%s%s, late %d, ends %d, child %d\n", i,
			one->family == AF_UNIX ? "unix" : "tcp", one->messages, one->window, one->size, one->reading, one->writing,
			one->mode & EPOLLET ? "ET" : "", one->mode & EPOLLONESHOT ? "ONCE" : "", one->mode ? "" : "LT", one->late_add,
			one->ends_by, one->in_child);
	}
}

static int start(void)
{
	int children = 0;
	for (int i = 0; i < count; i++) {
		family = all[i].plan.family;
		make_pair(&all[i].server, &all[i].client);
		if (pipe(all[i].pipe) || pipe(all[i].taken))
			abort();
	}
	for (int i = 0; i < count; i++) {
		if (!all[i].plan.in_child)
			continue;
		children++;
		if (!fork()) {
			for (int k = 0; k < count; k++) {
				close(all[k].server);
				if (k != i)
					close(all[k].client);
			}
			long late = client(all + i);
			_exit(late < 0 ? 99 : late > 90 ? 90 : late);
		}
		close(all[i].client);
	}
	for (int i = 0; i < count; i++)
		nonblocking(all[i].server);
	return children;
}

/* Registers again what threads asked for, until all is done. Returns 0 if nothing happened for long. */
static int oversee(void)
{
	long seen = -1, since = milliseconds();
	while (finished < count) {
		struct pollfd asked = { pending[0], POLLIN, 0 };
		char pair[2];
		if (poll(&asked, 1, 5) == 1 && read(pending[0], pair, 2) == 2 && !all[(int)pair[0]].ended)
			register_at(set_of[(int)pair[1]], all + pair[0], EPOLL_CTL_MOD);
		if (progress + finished != seen) {
			seen = progress + finished;
			since = milliseconds();
		}
		if (milliseconds() - since > IDLE_MS)
			return 0;
	}
	return 1;
}

static void report(int children, int is_done)
{
	long late = late_answers, failed = failed_clients;
	for (int status; is_done && children-- && wait(&status) > 0;) {
		failed += !WIFEXITED(status) || WEXITSTATUS(status) == 99;
		late += WIFEXITED(status) && WEXITSTATUS(status) < 99 ? WEXITSTATUS(status) : 0;
	}
	for (int i = 0; i < count; i++) {
		struct connection *one = all + i;
		int left = 0;
		say("[%ld of %ld, %ld answers, %u", one->got, one->wanted, one->answers, one->hash);
		if (!one->ended)
			say("STANDS STILL");
		/* Sent by a process that has ended, or by a thread that is done: it is there. */
		for (int k = 0; one->plan.unread && k < SOON && left < one->plan.unread; k++, nap(left < one->plan.unread))
			ioctl(one->server, FIONREAD, &left);
		say("left %d", left);
		if (one->ended)
			polled(one->server, POLLRDHUP, SOON);
		say("]");
	}
	say("failed %ld, %s", failed, late > 2 ? "LATE" : "in time");
}

static void scenario(unsigned long seed)
{
	plan(seed);
	if (getenv("EXPLAIN"))
		explain();
	int children = start();
	if (pipe(pending))
		abort();
	for (int i = 0; i < (own_sets ? threads : 1); i++)
		set_of[i] = epoll_create1(0);
	if (inside) {
		outer = epoll_create1(0);
		control(outer, EPOLL_CTL_ADD, set_of[0], EPOLLIN, 1);
	}
	for (int late = 0; late < 2; late++) {
		for (int i = 0; i < count; i++)
			for (int s = 0; s < (own_sets ? threads : 1); s++)
				if (all[i].plan.late_add == late)
					register_at(set_of[s], all + i, EPOLL_CTL_ADD);
		pthread_t thread;
		for (long i = 0; !late && i < threads; i++)
			pthread_create(&thread, 0, server_thread, (void *)i);
		for (int i = 0; !late && i < count; i++)
			if (!all[i].plan.in_child)
				pthread_create(&thread, 0, client_thread, all + i);
		nap(draw(&(struct draw){ seed | 1 }, 20));
	}
	int is_done = oversee();
	report(children, is_done);
}

int main(int arguments, char **values)
{
	unsigned long seed = arguments > 1 ? strtoul(values[1], 0, 10) : 1, runs = arguments > 2 ? strtoul(values[2], 0, 10) : 1;
	signal(SIGPIPE, SIG_IGN);
	for (; runs--; seed++) {
		printf("%lu:", seed);
		fflush(stdout);
		pid_t child = fork();
		if (!child) {
			setpgid(0, 0);
			alarm(60);
			scenario(seed);
			fflush(stdout);
			_exit(0);
		}
		int status;
		waitpid(child, &status, 0);
		if (WIFSIGNALED(status))
			printf(" signal %d", WTERMSIG(status));
		kill(-child, SIGKILL);
		printf("\n");
	}
	return 0;
}
