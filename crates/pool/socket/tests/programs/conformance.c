/*
 * What socket(7), epoll(7), poll(2), select(2), send(2), recv(2), splice(2) and sendfile(2) say of stream sockets, case by case.
 *
 * Each case prints a line of results. They are compared between a run by the kernel alone and one below the library, so no case
 * says what is right: the kernel does.
 */
#include "conformance.h"

/* recv(2), read(2) */
static char buffer[1 << 20];

static void recv_empty(void) { DO(recv(a, buffer, 9, MSG_DONTWAIT)); nonblocking(a); DO(read(a, buffer, 9)); DO(recv(a, buffer, 0, 0)); DO(read(a, buffer, 0)); }
static void recv_parts(void) { put(b, "abcdef"); get(a, 2); get(a, 2); get(a, 9); get(a, 9); }
static void recv_none_of_some(void) { put(b, "abc"); DO(recv(a, buffer, 0, 0)); DO(read(a, buffer, 0)); get(a, 9); }
static void recv_peek(void) { put(b, "abcdef"); DO(recv(a, buffer, 3, MSG_PEEK)); DO(recv(a, buffer, 9, MSG_PEEK)); get(a, 4); DO(recv(a, buffer, 9, MSG_PEEK)); get(a, 9); DO(recv(a, buffer, 9, MSG_PEEK | MSG_DONTWAIT)); }
static void recv_truncate(void) { memset(buffer, '-', 9); put(b, "abcdef"); DO(recv(a, buffer, 3, MSG_TRUNC)); say("%.4s", buffer); DO(recv(a, buffer, 2, MSG_TRUNC | MSG_PEEK)); say("%.4s", buffer); get(a, 9); }
static void recv_all_in_parts(void) { CHILD(put(b, "ab"); nap(50); put(b, "cd"); nap(50); put(b, "ef")); DO(recv(a, buffer, 6, MSG_WAITALL)); say("%.6s", buffer); }
static void recv_all_to_the_end(void) { CHILD(put(b, "ab"); nap(50); shutdown(b, SHUT_WR)); DO(recv(a, buffer, 6, MSG_WAITALL)); DO(recv(a, buffer, 6, MSG_WAITALL)); }
static void recv_all_in_time(void) { struct timeval t = { 0, 50000 }; setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t); put(b, "ab"); DO(recv(a, buffer, 6, MSG_WAITALL)); DO(recv(a, buffer, 6, MSG_WAITALL)); DO(read(a, buffer, 6)); }
static void recv_all_interrupted(void) { put(b, "ab"); interrupt(0); DO(recv(a, buffer, 6, MSG_WAITALL)); DO(recv(a, buffer, 6, MSG_WAITALL)); quiet(); }
static void recv_all_nonblocking(void) { put(b, "ab"); DO(recv(a, buffer, 6, MSG_WAITALL | MSG_DONTWAIT)); nonblocking(a); put(b, "ab"); DO(recv(a, buffer, 6, MSG_WAITALL)); DO(recv(a, buffer, 6, MSG_WAITALL)); }
static void recv_peek_all(void) { CHILD(put(b, "ab"); nap(60); put(b, "cde")); nap(20); polled(a, POLLIN, SOON); DO(recv(a, buffer, 5, MSG_PEEK | MSG_WAITALL)); wait(0); DO(recv(a, buffer, 5, MSG_WAITALL)); say("%.5s", buffer); }
static void recv_peek_all_to_the_end(void) { CHILD(put(b, "ab"); nap(50); shutdown(b, SHUT_WR)); polled(a, POLLIN, SOON); DO(recv(a, buffer, 5, MSG_PEEK | MSG_WAITALL)); get(a, 9); }
static void recv_peek_all_in_time(void) { struct timeval t = { 0, 50000 }; setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t); put(b, "ab"); DO(recv(a, buffer, 6, MSG_PEEK | MSG_WAITALL)); get(a, 9); DO(recv(a, buffer, 6, MSG_PEEK | MSG_WAITALL)); }
static void recv_peek_all_interrupted(void) { put(b, "ab"); interrupt(0); DO(recv(a, buffer, 6, MSG_PEEK | MSG_WAITALL)); quiet(); get(a, 9); }
static void recv_restarted(void) { interrupt(SA_RESTART); CHILD(quiet(); nap(120); put(b, "x")); DO(recv(a, buffer, 9, 0)); quiet(); say("caught %d", caught > 0); }
static void recv_interrupted(void) { interrupt(0); DO(recv(a, buffer, 9, 0)); DO(read(a, buffer, 9)); quiet(); }
static void recv_in_time(void) { struct timeval t = { 0, 40000 }; setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t); DO(recv(a, buffer, 9, 0)); DO(read(a, buffer, 9)); interrupt(SA_RESTART); t.tv_sec = 5; setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t); DO(recv(a, buffer, 9, 0)); quiet(); }
static void recv_end(void) { put(b, "last"); shutdown(b, SHUT_WR); get(a, 9); DO(recv(a, buffer, 9, 0)); DO(recv(a, buffer, 9, MSG_PEEK)); DO(recv(a, buffer, 9, MSG_DONTWAIT)); put(a, "still"); get(b, 9); }
static void recv_closed(void) { put(b, "last"); close(b); get(a, 9); DO(recv(a, buffer, 9, 0)); DO(recv(a, buffer, 9, 0)); }
static void recv_reset(void) { put(a, "unread"); close(b); DO(recv(a, buffer, 9, 0)); DO(recv(a, buffer, 9, 0)); DO(send(a, "x", 1, MSG_NOSIGNAL)); }
static void recv_errors(void) { int p[2], s = socket(family, SOCK_STREAM, 0); if (pipe(p)) abort(); DO(recv(-1, buffer, 9, 0)); DO(recv(p[0], buffer, 9, 0)); DO(recv(s, buffer, 9, 0)); DO(recv(s, buffer, 9, MSG_DONTWAIT)); close(s); DO(recv(s, buffer, 9, 0)); DO(recv(a, buffer, 9, MSG_ERRQUEUE | MSG_DONTWAIT)); }
static void recv_of_listener(void) { int s = socket(family, SOCK_STREAM, 0); struct sockaddr_in n = { .sin_family = AF_INET }; if (family == AF_INET) bind(s, (void *)&n, sizeof n); else { struct sockaddr u = { .sa_family = AF_UNIX }; bind(s, &u, sizeof(sa_family_t)); } listen(s, 1); DO(recv(s, buffer, 9, MSG_DONTWAIT)); DO(send(s, buffer, 9, MSG_NOSIGNAL)); polled(s, POLLIN | POLLOUT, 0); }
static void recv_names(void) { struct sockaddr_storage n; socklen_t l = sizeof n; put(b, "abc"); DO(recvfrom(a, buffer, 9, 0, (void *)&n, &l)); say("length %d", (int)l); }
static void recv_flags_unknown(void) { put(b, "abc"); DO(recv(a, buffer, 1, MSG_CMSG_CLOEXEC)); DO(recv(a, buffer, 1, MSG_NOSIGNAL)); DO(recv(a, buffer, 9, MSG_DONTROUTE)); }

/* readv(2), recvmsg(2) */
static void readv_parts(void) { char x[3], y[2], z[9]; struct iovec v[] = { { x, 3 }, { 0, 0 }, { y, 2 }, { z, 9 } }; put(b, "abcdefg"); DO(readv(a, v, 4)); say("%.3s %.2s %.2s", x, y, z); }
static void readv_counts(void) { struct iovec v = { buffer, 9 }, many[1025]; for (int i = 0; i < 1025; i++) many[i] = v; nonblocking(a); DO(readv(a, &v, 0)); DO(readv(a, &v, -1)); DO(readv(a, many, 1025)); DO(readv(a, many, 1024)); v.iov_len = (size_t)-1; DO(readv(a, &v, 1)); put(b, "a"); v.iov_len = 0; DO(readv(a, &v, 1)); }
static void writev_parts(void) { struct iovec v[] = { { "ab", 2 }, { 0, 0 }, { "cde", 3 } }; DO(writev(a, v, 3)); get(b, 9); DO(writev(a, v, 0)); DO(writev(a, v, -1)); DO(writev(a, v + 1, 1)); v[0].iov_len = (size_t)-1; DO(writev(a, v, 1)); }
static void preadv2_is_readv(void) { struct iovec v = { buffer, 9 }, w = { "xyz", 3 }; put(b, "abc"); DO(preadv2(a, &v, 1, -1, 0)); DO(pwritev2(a, &w, 1, -1, 0)); get(b, 9); DO(preadv2(a, &v, 1, 0, 0)); DO(preadv(a, &v, 1, 0)); DO(pread(a, buffer, 1, 0)); DO(pwrite(a, "x", 1, 0)); DO(preadv2(a, &v, 1, -1, RWF_NOWAIT)); }
static void recvmsg_fields(void) { char c[64]; struct iovec v = { buffer, 9 }; struct sockaddr_storage n; struct msghdr m = { .msg_name = &n, .msg_namelen = sizeof n, .msg_iov = &v, .msg_iovlen = 1, .msg_control = c, .msg_controllen = sizeof c, .msg_flags = -1 }; put(b, "abc"); DO(recvmsg(a, &m, 0)); say("%d %d %x", (int)m.msg_namelen, (int)m.msg_controllen, m.msg_flags); m.msg_controllen = sizeof c; DO(recvmsg(a, &m, MSG_DONTWAIT)); m.msg_iovlen = 0; DO(recvmsg(a, &m, MSG_DONTWAIT)); m.msg_iovlen = 1025; DO(recvmsg(a, &m, MSG_DONTWAIT)); DO(sendmsg(a, &m, MSG_NOSIGNAL)); }
static void recvmsg_parts(void) { char x[2], y[3]; struct iovec v[] = { { x, 2 }, { y, 3 } }; struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 }; put(b, "abcdefg"); DO(recvmsg(a, &m, MSG_PEEK)); DO(recvmsg(a, &m, 0)); say("%.2s %.3s", x, y); DO(recvmsg(a, &m, MSG_TRUNC)); say("%x", m.msg_flags); }
static void messages_at_once(void) { struct iovec v[2] = { { "ab", 2 }, { "cde", 3 } }, w[2] = { { buffer, 9 }, { buffer + 9, 9 } }; struct mmsghdr out[2] = { { { .msg_iov = v, .msg_iovlen = 1 }, 0 }, { { .msg_iov = v + 1, .msg_iovlen = 1 }, 0 } }, in[2] = { { { .msg_iov = w, .msg_iovlen = 1 }, 0 }, { { .msg_iov = w + 1, .msg_iovlen = 1 }, 0 } }; DO(sendmmsg(a, out, 2, 0)); say("%u %u", out[0].msg_len, out[1].msg_len); DO(recvmmsg(b, in, 2, MSG_DONTWAIT, 0)); say("%u", in[0].msg_len); DO(recvmmsg(b, in, 2, MSG_DONTWAIT, 0)); }
static void inq(void) { int on = 1; char c[64]; struct iovec v = { buffer, 3 }; struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = c, .msg_controllen = sizeof c }; DO(setsockopt(a, IPPROTO_TCP, TCP_INQ, &on, sizeof on)); put(b, "abcdefgh"); DO(recvmsg(a, &m, 0)); struct cmsghdr *h = CMSG_FIRSTHDR(&m); if (h) say("inq %d of %d.%d", *(int *)CMSG_DATA(h), h->cmsg_level, h->cmsg_type); }

/* Descriptors and credentials beside bytes */
static void pass(int through, int fd, const char *text) { char c[CMSG_SPACE(sizeof fd)] = ""; struct iovec v = { (void *)text, strlen(text) }; struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = c, .msg_controllen = sizeof c }; struct cmsghdr *h = CMSG_FIRSTHDR(&m); h->cmsg_level = SOL_SOCKET; h->cmsg_type = SCM_RIGHTS; h->cmsg_len = CMSG_LEN(sizeof fd); memcpy(CMSG_DATA(h), &fd, sizeof fd); result("pass", sendmsg(through, &m, MSG_NOSIGNAL)); }
static int passed(int fd, int room, int flags) { char c[CMSG_SPACE(sizeof fd)] = ""; struct iovec v = { buffer, 99 }; struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = c, .msg_controllen = room ? sizeof c : 0 }; long got = recvmsg(fd, &m, flags); result("passed", got); say("'%.*s' %x", got > 0 ? (int)got : 0, buffer, m.msg_flags); struct cmsghdr *h = room ? CMSG_FIRSTHDR(&m) : 0; int found = -1; if (h) memcpy(&found, CMSG_DATA(h), sizeof found); if (found >= 0) say("cloexec %d", fcntl(found, F_GETFD)); return found; }
static void rights(void) { int p[2]; if (pipe(p)) abort(); put(a, "before"); pass(a, p[1], "with"); put(a, "after"); get(b, 3); int got = passed(b, 1, 0); if (got >= 0) DO(write(got, "x", 1)); passed(b, 1, MSG_DONTWAIT); passed(b, 1, MSG_DONTWAIT); }
static void rights_dropped(void) { int p[2]; if (pipe(p)) abort(); pass(a, p[1], "with"); passed(b, 0, 0); pass(a, p[1], "with"); get(b, 9); pass(a, p[1], "more"); passed(b, 1, MSG_CMSG_CLOEXEC); }
static void rights_of_a_connection(void) { int c, d; fresh(&c, &d); put(c, "inside"); pass(a, d, "with"); int got = passed(b, 1, 0); close(d); if (got >= 0) { get(got, 99); put(c, "later"); polled(got, POLLIN, SOON); get(got, 99); } }
static void credentials(void) { int on = 1; DO(setsockopt(b, SOL_SOCKET, SO_PASSCRED, &on, sizeof on)); put(a, "abc"); char c[99]; struct iovec v = { buffer, 9 }; struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = c, .msg_controllen = sizeof c }; DO(recvmsg(b, &m, 0)); struct cmsghdr *h = CMSG_FIRSTHDR(&m); say("%d", h ? h->cmsg_type : -1); }

/* send(2), write(2), shutdown(2) */
static void send_forms(void) { DO(send(a, "ab", 2, 0)); DO(write(a, "cd", 2)); DO(send(a, "", 0, 0)); DO(write(a, "", 0)); DO(sendto(a, "ef", 2, 0, 0, 0)); DO(send(a, "gh", 2, MSG_EOR)); DO(send(a, "ij", 2, MSG_CONFIRM)); DO(send(a, "kl", 2, MSG_DONTROUTE)); DO(send(a, "mn", 2, MSG_MORE)); DO(send(a, "op", 2, 0)); polled(b, POLLIN, SOON); nap(5); get(b, 99); }
static void send_to_a_name(void) { struct sockaddr_in n = { .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }; DO(sendto(a, "ab", 2, MSG_NOSIGNAL, (void *)&n, sizeof n)); get(b, 9); }
static void send_after_shutdown(void) { handle(SIGPIPE, 0); DO(shutdown(a, SHUT_WR)); DO(send(a, "x", 1, MSG_NOSIGNAL)); say("caught %d", caught); DO(send(a, "x", 1, 0)); say("caught %d", caught); DO(write(a, "x", 1)); say("caught %d", caught); DO(write(a, "", 0)); get(b, 9); }
static void send_to_the_closed(void) { handle(SIGPIPE, 0); close(b); nap(5); DO(send(a, "x", 1, MSG_NOSIGNAL)); nap(5); DO(send(a, "x", 1, MSG_NOSIGNAL)); DO(write(a, "x", 1)); say("caught %d", caught); DO(recv(a, buffer, 9, MSG_DONTWAIT)); }
static void send_full(void) { say("some %d", fill(a) > 0); DO(send(a, "x", 1, MSG_DONTWAIT)); polled(a, POLLOUT, 0); nonblocking(a); DO(write(a, "x", 1)); struct iovec v = { "x", 1 }; DO(writev(a, &v, 1)); }
static void send_in_time(void) { struct timeval t = { 0, 50000 }; setsockopt(a, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t); long n = fill(a); long more = send(a, buffer, sizeof buffer, 0); say("in time %d", more < 0 ? errno == EAGAIN : more < (long)sizeof buffer); say("all %d", drain(b, n + (more > 0 ? more : 0)) > 0); }
static void send_interrupted(void) { fill(a); interrupt(0); DO(send(a, "x", 1, 0)); quiet(); }
static void send_interrupted_in_part(void) { interrupt(SA_RESTART); static char big[16 << 20]; long sent = send(a, big, sizeof big, 0); quiet(); say("a part %d", sent > 0 && sent < (long)sizeof big); }
static void send_waits_for_room(void) { long n = fill(a); CHILD(nap(50); drain(b, n)); long sent = 0, put = 0; while (put < 100000 && (sent = send(a, buffer, 100000 - put, 0)) > 0) put += sent; say("%ld", put); }
static void send_waits_and_the_peer_ends(void) { handle(SIGPIPE, 0); fill(a); CHILD(close(a); nap(50)); CHILD(nap(60)); close(b); wait(0); wait(0); long sent = send(a, "x", 1, MSG_NOSIGNAL); say("%s", sent < 0 ? strerrorname_np(errno) : "sent"); }
static void shutdown_forms(void) { int s = socket(family, SOCK_STREAM, 0); DO(shutdown(a, 3)); DO(shutdown(a, -1)); DO(shutdown(s, SHUT_RD)); DO(shutdown(-1, SHUT_RD)); DO(shutdown(0x7ff, SHUT_RD)); DO(shutdown(a, SHUT_RDWR)); DO(shutdown(a, SHUT_RDWR)); DO(recv(a, buffer, 9, 0)); DO(recv(b, buffer, 9, 0)); }
static void shutdown_reading(void) { put(b, "abc"); DO(shutdown(a, SHUT_RD)); polled(a, POLLIN | POLLOUT | POLLRDHUP, 0); get(a, 9); DO(recv(a, buffer, 9, 0)); put(a, "still"); get(b, 9); polled(b, POLLIN | POLLOUT | POLLRDHUP, 0); }
static void shutdown_wakes_a_receiver(void) { CHILD(nap(50); shutdown(a, SHUT_RDWR)); DO(recv(a, buffer, 9, 0)); }
static void *shut(void *x) { (void)x; nap(50); shutdown(a, SHUT_RD); return 0; }
static void shutdown_by_a_thread(void) { pthread_t t; pthread_create(&t, 0, shut, 0); DO(recv(a, buffer, 9, 0)); pthread_join(t, 0); }

/* Urgent data, options, ioctl(2), fcntl(2) */
static void urgent(void) { DO(recv(a, buffer, 1, MSG_OOB)); put(b, "ab"); DO(send(b, "!", 1, MSG_OOB)); put(b, "cd"); polled(a, POLLPRI | POLLIN, SOON); DO(recv(a, buffer, 1, MSG_OOB)); say("%c", *buffer); get(a, 9); get(a, 9); }
static void urgent_inline(void) { int on = 1; setsockopt(a, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on); put(b, "ab"); DO(send(b, "!", 1, MSG_OOB)); put(b, "cd"); int mark = -1; DO(ioctl(a, SIOCATMARK, &mark)); get(a, 9); DO(ioctl(a, SIOCATMARK, &mark)); get(a, 9); }
static void readable_bytes(void) { int n = -1; DO(ioctl(a, FIONREAD, &n)); say("%d", n); put(b, "abcde"); DO(ioctl(a, FIONREAD, &n)); say("%d", n); get(a, 2); ioctl(a, FIONREAD, &n); say("%d", n); DO(recv(a, buffer, 2, MSG_PEEK)); ioctl(a, FIONREAD, &n); say("%d", n); shutdown(b, SHUT_WR); ioctl(a, FIONREAD, &n); say("%d", n); get(a, 9); ioctl(a, FIONREAD, &n); say("%d", n); }
static void nonblocking_by_ioctl(void) { int on = 1; DO(ioctl(a, FIONBIO, &on)); DO(read(a, buffer, 9)); say("%d", !!(fcntl(a, F_GETFL) & O_NONBLOCK)); int d = dup(a); on = 0; ioctl(d, FIONBIO, &on); say("%d", !!(fcntl(a, F_GETFL) & O_NONBLOCK)); CHILD(nap(30); put(b, "x")); DO(read(a, buffer, 9)); }
static void nonblocking_in_a_child(void) { CHILD(nonblocking(a)); wait(0); DO(read(a, buffer, 9)); }
static void error_option(void) { int e = -1; socklen_t l = sizeof e; put(a, "unread"); close(b); nap(5); DO(getsockopt(a, SOL_SOCKET, SO_ERROR, &e, &l)); say("%d", e); e = -1; getsockopt(a, SOL_SOCKET, SO_ERROR, &e, &l); say("%d", e); DO(recv(a, buffer, 9, MSG_DONTWAIT)); }
static void low_water(void) { int n = 5; DO(setsockopt(a, SOL_SOCKET, SO_RCVLOWAT, &n, sizeof n)); put(b, "abc"); nap(5); polled(a, POLLIN, 0); put(b, "def"); polled(a, POLLIN, SOON); get(a, 99); }
static void nodelay(void) { int v = -1; socklen_t l = sizeof v; DO(getsockopt(a, IPPROTO_TCP, TCP_NODELAY, &v, &l)); say("%d", v); v = 0; DO(setsockopt(a, IPPROTO_TCP, TCP_NODELAY, &v, sizeof v)); v = -1; getsockopt(a, IPPROTO_TCP, TCP_NODELAY, &v, &l); say("%d", v); }
static void linger_zero(void) { struct linger l = { 1, 0 }; DO(setsockopt(b, SOL_SOCKET, SO_LINGER, &l, sizeof l)); put(b, "abc"); close(b); nap(5); polled(a, POLLIN | POLLOUT | POLLRDHUP, 0); DO(recv(a, buffer, 9, 0)); DO(recv(a, buffer, 9, 0)); }
static void signal_for_input(void) { handle(SIGIO, 0); DO(fcntl(a, F_SETOWN, getpid())); DO(fcntl(a, F_SETFL, O_ASYNC | O_NONBLOCK)); caught = 0; put(b, "x"); for (int i = 0; !caught && i < SOON; i++) nap(1); say("caught %d", caught > 0); get(a, 9); fcntl(a, F_SETFL, 0); nap(1); caught = 0; put(b, "y"); nap(5); say("caught %d", caught); get(a, 9); int on = 1; DO(ioctl(a, FIOASYNC, &on)); put(b, "z"); for (int i = 0; !caught && i < SOON; i++) nap(1); say("caught %d", caught > 0); get(a, 9); }
static void signal_for_input_of_a_child(void) { handle(SIGIO, 0); fcntl(a, F_SETOWN, getpid()); fcntl(a, F_SETFL, O_ASYNC); CHILD(put(b, "x")); wait(0); for (int i = 0; !caught && i < SOON; i++) nap(1); say("caught %d", caught > 0); get(a, 9); }
static void not_files(void) { struct stat s; DO(lseek(a, 0, SEEK_SET)); DO(fstat(a, &s)); say("%d", S_ISSOCK(s.st_mode)); DO(fsync(a)); DO(ftruncate(a, 0)); }

/* poll(2) */
static void poll_states(void) { short all = POLLIN | POLLOUT | POLLPRI | POLLRDHUP | POLLRDNORM | POLLWRNORM; polled(a, all, 0); put(b, "x"); polled(a, all, SOON); polled(a, 0, 0); polled(a, POLLPRI, 0); get(a, 9); polled(a, POLLIN, 0); shutdown(b, SHUT_WR); polled(a, all, SOON); polled(a, POLLRDHUP, 0); polled(b, all, 0); shutdown(a, SHUT_WR); polled(a, all, 0); polled(a, 0, 0); close(b); polled(a, all, 0); }
static void poll_after_a_reset(void) { put(a, "unread"); close(b); nap(5); polled(a, POLLIN | POLLOUT | POLLRDHUP, SOON); polled(a, 0, 0); }
static void poll_full(void) { long n = fill(a); polled(a, POLLOUT, 0); polled(a, POLLOUT | POLLIN, NEVER); drain(b, n); polled(a, POLLOUT, SOON); }
static void poll_room_by_a_child(void) { long n = fill(a); CHILD(nap(50); drain(b, n)); polled(a, POLLOUT, SOON); }
static void poll_input_by_a_child(void) { CHILD(nap(50); put(b, "x")); polled(a, POLLIN, SOON); get(a, 9); CHILD(nap(50); shutdown(b, SHUT_WR)); polled(a, POLLIN, SOON); }
static void poll_many(void) { int c, d, p[2]; fresh(&c, &d); if (pipe(p)) abort(); struct pollfd f[] = { { a, POLLIN, 0 }, { -1, POLLIN, -1 }, { c, POLLIN | POLLOUT, 0 }, { 0x7ff, POLLIN, 0 }, { p[0], POLLIN, 0 }, { p[1], POLLOUT, 0 }, { a, POLLOUT, 0 } }; put(d, "x"); result("poll", poll(f, 7, 0)); for (int i = 0; i < 7; i++) bits("", (unsigned short)f[i].revents); put(b, "y"); if (write(p[1], "z", 1) != 1) abort(); result("poll", poll(f, 7, SOON)); for (int i = 0; i < 7; i++) bits("", (unsigned short)f[i].revents); }
static void poll_pipe_wakes(void) { int p[2]; if (pipe(p)) abort(); struct pollfd f[] = { { a, POLLIN, 0 }, { p[0], POLLIN, 0 } }; CHILD(nap(50); if (write(p[1], "z", 1) != 1) abort()); result("poll", poll(f, 2, SOON)); bits("", f[0].revents); bits("", f[1].revents); }
static void poll_times(void) { struct pollfd f = { a, POLLIN, 0 }; DO(poll(&f, 1, 0)); DO(poll(&f, 1, NEVER)); DO(poll(&f, 0, NEVER)); struct timespec bad = { 0, 1000000000 }, minus = { -1, 0 }, short_one = { 0, 20000000 }; DO(ppoll(&f, 1, &bad, 0)); DO(ppoll(&f, 1, &minus, 0)); DO(ppoll(&f, 1, &short_one, 0)); say("%ld", short_one.tv_nsec); }
static void poll_interrupted(void) { struct pollfd f = { a, POLLIN, 0 }; interrupt(SA_RESTART); DO(poll(&f, 1, SOON)); quiet(); }
static void poll_with_a_mask(void) { struct pollfd f = { a, POLLIN, 0 }; sigset_t s, none; sigemptyset(&s); sigemptyset(&none); sigaddset(&s, SIGUSR1); sigprocmask(SIG_BLOCK, &s, 0); handle(SIGUSR1, 0); raise(SIGUSR1); DO(poll(&f, 1, NEVER)); DO(ppoll(&f, 1, 0, &none)); say("caught %d", caught); raise(SIGUSR1); put(b, "x"); DO(ppoll(&f, 1, 0, &none)); }
static void poll_bad_pointers(void) { DO(poll((void *)8, 1, 0)); DO(poll(0, 1, 0)); DO(poll(0, 0, 0)); }

/* select(2) */
static int selected(int read, int write, int most) { fd_set r, w, e; FD_ZERO(&r); FD_ZERO(&w); FD_ZERO(&e); if (read >= 0) { FD_SET(read, &r); FD_SET(read, &e); } if (write >= 0) FD_SET(write, &w); struct timeval t = { 0, most * 1000 }; int n = select(64, &r, &w, &e, &t); if (n < 0) return result("select", n); say("select=%d r%d w%d e%d", n, read >= 0 && FD_ISSET(read, &r), write >= 0 && FD_ISSET(write, &w), read >= 0 && FD_ISSET(read, &e)); return n; }
static void select_states(void) { selected(a, a, 0); selected(a, -1, NEVER); put(b, "x"); selected(a, a, SOON % 1000); get(a, 9); shutdown(b, SHUT_WR); selected(a, a, 0); selected(b, b, 0); close(b); selected(a, a, 0); }
static void select_full(void) { long n = fill(a); selected(-1, a, NEVER); drain(b, n); selected(-1, a, 900); }
static void select_errors(void) { fd_set r; FD_ZERO(&r); FD_SET(a, &r); struct timeval bad = { -1, 0 }, wide = { 0, 2000000 }, zero = { 0, 0 }; put(b, "x"); DO(select(-1, &r, 0, 0, &zero)); DO(select(a + 1, &r, 0, 0, &bad)); DO(select(a + 1, &r, 0, 0, &wide)); int closed = dup(a); close(closed); FD_ZERO(&r); FD_SET(a, &r); FD_SET(closed, &r); DO(select(closed + 1, &r, 0, 0, &zero)); FD_ZERO(&r); FD_SET(a, &r); DO(select(a, &r, 0, 0, &zero)); struct timespec nano = { 0, 1000000000 }; FD_SET(a, &r); DO(pselect(a + 1, &r, 0, 0, &nano, 0)); }
static void select_leaves_time(void) { fd_set r; FD_ZERO(&r); FD_SET(a, &r); struct timeval t = { 5, 0 }; put(b, "x"); DO(select(a + 1, &r, 0, 0, &t)); say("%d", t.tv_sec <= 5 && t.tv_sec >= 3); get(a, 9); t = (struct timeval){ 0, 20000 }; FD_SET(a, &r); DO(select(a + 1, &r, 0, 0, &t)); say("%ld.%ld %d", (long)t.tv_sec, (long)t.tv_usec, FD_ISSET(a, &r)); }
static void select_large(void) { if (dup2(a, 1000) < 0) { say("none"); return; } unsigned long set[64] = { 0 }; int d = dup2(a, 1023); set[1000 / 64] |= 1UL << 1000 % 64; struct timeval t = { 1, 0 }; put(b, "x"); DO(select(1024, (void *)set, 0, 0, &t)); say("%d %d", (int)(set[1000 / 64] >> 1000 % 64 & 1), d); }
static void select_interrupted(void) { fd_set r; FD_ZERO(&r); FD_SET(a, &r); interrupt(SA_RESTART); DO(select(a + 1, &r, 0, 0, 0)); quiet(); say("%d", FD_ISSET(a, &r)); }
static void select_by_a_child(void) { CHILD(nap(50); put(b, "x")); selected(a, -1, 900); }

#include "conformance_epoll.h"
#include "conformance_files.h"

#define C(name) { #name, name }
static const struct one_case cases[] = {
	C(recv_empty), C(recv_parts), C(recv_none_of_some), C(recv_peek), C(recv_truncate), C(recv_all_in_parts), C(recv_all_to_the_end),
	C(recv_all_in_time), C(recv_all_interrupted), C(recv_all_nonblocking), C(recv_peek_all), C(recv_peek_all_to_the_end),
	C(recv_peek_all_in_time), C(recv_peek_all_interrupted), C(recv_restarted), C(recv_interrupted), C(recv_in_time), C(recv_end),
	C(recv_closed), C(recv_reset), C(recv_errors), C(recv_of_listener), C(recv_names), C(recv_flags_unknown), C(readv_parts),
	C(readv_counts), C(writev_parts), C(preadv2_is_readv), C(recvmsg_fields), C(recvmsg_parts), C(messages_at_once), C(inq),
	C(rights), C(rights_dropped), C(rights_of_a_connection), C(credentials), C(send_forms), C(send_to_a_name), C(send_after_shutdown),
	C(send_to_the_closed), C(send_full), C(send_in_time), C(send_interrupted), C(send_interrupted_in_part), C(send_waits_for_room),
	C(send_waits_and_the_peer_ends), C(shutdown_forms), C(shutdown_reading), C(shutdown_wakes_a_receiver), C(shutdown_by_a_thread),
	C(urgent), C(urgent_inline), C(readable_bytes), C(nonblocking_by_ioctl), C(nonblocking_in_a_child), C(error_option), C(low_water),
	C(nodelay), C(linger_zero), C(signal_for_input), C(signal_for_input_of_a_child), C(not_files), C(poll_states), C(poll_after_a_reset),
	C(poll_full), C(poll_room_by_a_child), C(poll_input_by_a_child), C(poll_many), C(poll_pipe_wakes), C(poll_times), C(poll_interrupted),
	C(poll_with_a_mask), C(poll_bad_pointers), C(select_states), C(select_full), C(select_errors), C(select_leaves_time), C(select_large),
	C(select_interrupted), C(select_by_a_child),
	EPOLL_CASES FILE_CASES
};

/* conformance [NAME | without "FAMILY NAME"..] */
int main(int count, char **arguments)
{
	(void)count;
	signal(SIGPIPE, SIG_IGN);
	run(arguments, cases, sizeof cases / sizeof *cases);
	return 0;
}
