// Bytes of a socket where they lie, without a copy: for programs that run below libunrack_sockets.so (docs/sockets.md).
//
// The functions are weak: without the library they are null, and a program calls recv(2) and send(2) as ever.
#ifndef UNRACK_SOCKETS_H
#define UNRACK_SOCKETS_H

#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// Has *bytes point to what can be received, waiting for it as recv(2) does with these flags. Returns how many bytes lie there,
// 0 at the end, or -1 and errno: EOPNOTSUPP while the kernel carries the connection, where recv(2) is used. The bytes stay
// until unrack_recv_done. The other end can change what it has sent: check a copy, or trust it.
ssize_t unrack_recv_ref(int fd, const void **bytes, int flags) __attribute__((weak));

// Gives back so many bytes of those that unrack_recv_ref pointed to: the first ones.
void unrack_recv_done(int fd, size_t bytes) __attribute__((weak));

// Has a function put bytes where the other end will find them, at most `most`. It gets the context, the address and the room,
// returns how many bytes it put there, 0 if there are no more, and makes no call on the same socket. Returns as send(2) does;
// -1 and EOPNOTSUPP while the kernel carries the connection.
ssize_t unrack_send_ref(int fd, size_t most, ssize_t (*filler)(void *context, void *room, size_t bytes), void *context, int flags)
    __attribute__((weak));

#ifdef __cplusplus
}
#endif

#endif
