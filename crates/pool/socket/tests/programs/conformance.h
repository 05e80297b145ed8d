/* Frame of the conformance program: connections, results by name, and a process for each case. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Longest wait for what has to come, and how long to wait for what must not. */
enum { SOON = 5000, NEVER = 30 };

/* Family of the connections of the cases that run now. */
static __attribute__((unused)) int family;
static __attribute__((unused)) int a = -1, b = -1;

/* Adds a result to the line of this case. */
static __attribute__((unused)) void say(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	putchar(' ');
	vprintf(format, list);
	va_end(list);
	fflush(stdout);
}

/* Says what a call returned, or why it failed. */
static __attribute__((unused)) long result(const char *name, long got)
{
	if (got < 0)
		say("%s=%s", name, strerrorname_np(errno));
	else
		say("%s=%ld", name, got);
	return got;
}

#define DO(call) result(#call, (long)(call))

static __attribute__((unused)) void internet_pair(int *one, int *other)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof name;
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	if (bind(listener, (void *)&name, length) || listen(listener, 1) || getsockname(listener, (void *)&name, &length))
		abort();
	*one = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(*one, (void *)&name, length))
		abort();
	*other = accept(listener, 0, 0);
	close(listener);
	setsockopt(*one, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(*other, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static __attribute__((unused)) void make_pair(int *one, int *other)
{
	int pair[2];
	if (family == AF_INET) {
		internet_pair(one, other);
		return;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		abort();
	*one = pair[0];
	*other = pair[1];
}

/* Passes bytes to and fro, after which a connection below the library is carried both ways. */
static __attribute__((unused)) void warm(int one, int other)
{
	char byte = 'w';
	for (int i = 0; i < 12; i++)
		if (send(one, &byte, 1, 0) != 1 || recv(other, &byte, 1, 0) != 1 || send(other, &byte, 1, 0) != 1 ||
		    recv(one, &byte, 1, 0) != 1)
			abort();
}

static __attribute__((unused)) void fresh(int *one, int *other)
{
	make_pair(one, other);
	warm(*one, *other);
}

/* Sends bytes that count up from a letter. */
static __attribute__((unused)) void put(int fd, const char *text)
{
	if (send(fd, text, strlen(text), MSG_NOSIGNAL) != (ssize_t)strlen(text))
		say("put=%s", strerrorname_np(errno));
}

/* Receives what is there, and says it. */
static __attribute__((unused)) void get(int fd, size_t most)
{
	char text[200] = "";
	long got = recv(fd, text, most < 199 ? most : 199, MSG_DONTWAIT);
	if (got < 0)
		say("get=%s", strerrorname_np(errno));
	else
		say("get='%.*s'", (int)got, text);
}

static __attribute__((unused)) void nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

static __attribute__((unused)) void bits(const char *name, unsigned events)
{
	static const struct { unsigned bit; const char *name; } all[] = {
		{ POLLIN, "IN" }, { POLLPRI, "PRI" }, { POLLOUT, "OUT" }, { POLLERR, "ERR" }, { POLLHUP, "HUP" },
		{ POLLNVAL, "NVAL" }, { POLLRDNORM, "RDNORM" }, { POLLRDBAND, "RDBAND" }, { POLLWRNORM, "WRNORM" },
		{ POLLWRBAND, "WRBAND" }, { POLLRDHUP, "RDHUP" },
	};
	char text[200] = "";
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		if (events & all[i].bit)
			strcat(strcat(text, *text ? "|" : ""), all[i].name);
	say("%s[%s]", name, text);
}

/* Polls one descriptor, and says what holds. */
static __attribute__((unused)) void polled(int fd, short events, int most)
{
	struct pollfd one = { fd, events, 0 };
	int found = poll(&one, 1, most);
	if (found < 0)
		say("poll=%s", strerrorname_np(errno));
	else
		bits(found ? "poll" : "poll0", (unsigned short)one.revents);
}

static __attribute__((unused)) int control(int set, int operation, int fd, unsigned events, unsigned long data)
{
	struct epoll_event event = { .events = events, .data.u64 = data };
	return epoll_ctl(set, operation, fd, &event);
}

static __attribute__((unused)) int compare(const void *one, const void *other)
{
	const struct epoll_event *first = one, *second = other;
	return first->data.u64 < second->data.u64 ? -1 : first->data.u64 > second->data.u64;
}

/* Waits for events, and says them in the order of their data. */
static __attribute__((unused)) int waited(int set, int most)
{
	struct epoll_event found[16];
	int count = epoll_wait(set, found, 16, most);
	if (count < 0)
		return (int)result("wait", count);
	say("wait=%d", count);
	qsort(found, count, sizeof *found, compare);
	for (int i = 0; i < count; i++) {
		char name[30];
		snprintf(name, sizeof name, "%lu:", (unsigned long)found[i].data.u64);
		bits(name, found[i].events);
	}
	return count;
}

static volatile sig_atomic_t caught;
static __attribute__((unused)) void catch(int signal) { (void)signal; caught++; }

/* Has a signal handled; `flags` as of sigaction(2). */
static __attribute__((unused)) void handle(int signal, int flags)
{
	struct sigaction action = { .sa_handler = catch, .sa_flags = flags };
	sigaction(signal, &action, 0);
}

/* Interrupts this process from now on, again and again: one signal could come before the call that it is meant for. */
static __attribute__((unused)) void interrupt(int flags)
{
	struct itimerval often = { { 0, 20000 }, { 0, 50000 } };
	handle(SIGALRM, flags);
	setitimer(ITIMER_REAL, &often, 0);
}

static __attribute__((unused)) void quiet(void)
{
	struct itimerval none = { { 0, 0 }, { 0, 0 } };
	setitimer(ITIMER_REAL, &none, 0);
}

/* Runs a part of a case in a child. */
#define CHILD(...) do { if (!fork()) { __VA_ARGS__; _exit(0); } } while (0)

static __attribute__((unused)) void nap(int milliseconds) { usleep(milliseconds * 1000); }

/* Fills a socket's way out, and returns how many bytes went. */
static __attribute__((unused)) long fill(int fd)
{
	static char bytes[1 << 16];
	long sum = 0, sent;
	while ((sent = send(fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
		sum += sent;
	return sum;
}

static __attribute__((unused)) long drain(int fd, long bytes)
{
	static char to[1 << 16];
	long sum = 0, got;
	while (sum < bytes && (got = recv(fd, to, sizeof to, 0)) > 0)
		sum += got;
	return sum;
}

/* Wake-ups of a case, and those that came late. A busy machine delays one now and then; a wake-up that was lost delays most. */
static int wakeups, late_ones;
static __attribute__((unused)) void is_late(int late) { wakeups++; late_ones += late; }

struct one_case { const char *name; void (*run)(void); };

/* Cases that run at a time: they mostly wait. */
enum { AT_A_TIME = 12 };

struct running { pid_t child; FILE *text; const char *name; int patience; };

/* Runs a case in a process of its own, with its results in a file. */
static __attribute__((unused)) void begin(struct running *one, const struct one_case *what, int of)
{
	one->name = what->name;
	one->text = tmpfile();
	one->patience = 30000;
	one->child = fork();
	if (one->child)
		return;
	setpgid(0, 0);
	dup2(fileno(one->text), 1);
	family = of;
	fresh(&a, &b);
	what->run();
	if (wakeups)
		say("%s", late_ones * 2 > wakeups ? "LATE" : "in time");
	fflush(stdout);
	_exit(0);
}

/* Prints the line of a case that has ended, or that stands still. Returns whether it did. */
static __attribute__((unused)) int ended(struct running *one, const char *of)
{
	int status = 0, c;
	if (waitpid(one->child, &status, WNOHANG) == 0 && --one->patience > 0)
		return 0;
	printf("%s %s:", of, one->name);
	rewind(one->text);
	while ((c = getc(one->text)) != EOF)
		putchar(c);
	if (one->patience <= 0)
		printf(" stands still");
	else if (WIFSIGNALED(status))
		printf(" signal %d", WTERMSIG(status));
	printf("\n");
	fclose(one->text);
	kill(-one->child, SIGKILL);
	if (one->patience <= 0)
		waitpid(one->child, &status, 0);
	one->child = 0;
	return 1;
}

/* Returns whether a case is wanted: all are, or one of a name, or all without some of a family and a name. */
static int is_wanted(char **arguments, const char *of, const char *name)
{
	char whole[200];
	snprintf(whole, sizeof whole, "%s %s", of, name);
	if (!arguments[1])
		return 1;
	if (strcmp(arguments[1], "without"))
		return !strcmp(arguments[1], name);
	for (arguments += 2; *arguments; arguments++)
		if (!strcmp(*arguments, whole))
			return 0;
	return 1;
}

/* Runs cases with a line each. */
static __attribute__((unused)) void run(char **arguments, const struct one_case *cases, int count)
{
	static const struct { int family; const char *name; } families[] = { { AF_INET, "tcp" }, { AF_UNIX, "unix" } };
	for (int f = 0; f < 2; f++) {
		struct running all[AT_A_TIME] = { 0 };
		for (int next = 0, left = 0; next < count || left; nap(1))
			for (int i = 0; i < AT_A_TIME; i++) {
				if (all[i].child)
					left -= ended(all + i, families[f].name);
				while (next < count && !is_wanted(arguments, families[f].name, cases[next].name))
					next++;
				if (!all[i].child && next < count) {
					fflush(stdout);
					begin(all + i, cases + next++, families[f].family);
					left++;
				}
			}
	}
}
