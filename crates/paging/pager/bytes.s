// The functions on bytes that compiled code calls, for objects that must not call the program's: a sanitizer's look at
// memory that may be remote, which a pager must never wait for; and a static program's cannot be called at all. Hidden, so
// that nobody else gets them.
//
// System V ABI: to, from or byte, length in rdi, rsi, rdx; result in rax.

.text

.p2align 4
.globl memcpy
.hidden memcpy
.type memcpy, @function
memcpy:
    mov rax, rdi
    cmp rdx, 16
    jb 3f
    cmp rdx, 512
    jae 2f
    // The last 16 bytes are copied first read, last written: the rest is whole parts of 16.
    movups xmm1, [rsi + rdx - 16]
    lea rcx, [rdi + rdx - 16]
1:
    movups xmm0, [rsi]
    movups [rdi], xmm0
    add rsi, 16
    add rdi, 16
    cmp rdi, rcx
    jb 1b
    movups [rcx], xmm1
    ret
2:
    mov rcx, rdx
    rep movsb
    ret
3:
    cmp edx, 8
    jae 5f
    cmp edx, 4
    jae 4f
    test edx, edx
    jz 6f
    movzx ecx, byte ptr [rsi + rdx - 1]
    cmp edx, 2
    jbe 7f
    movzx r8d, word ptr [rsi]
    mov [rdi], r8w
    mov [rdi + rdx - 1], cl
6:
    ret
7:
    movzx r8d, byte ptr [rsi]
    mov [rdi], r8b
    mov [rdi + rdx - 1], cl
    ret
4:
    mov ecx, [rsi]
    mov r8d, [rsi + rdx - 4]
    mov [rdi], ecx
    mov [rdi + rdx - 4], r8d
    ret
5:
    mov rcx, [rsi]
    mov r8, [rsi + rdx - 8]
    mov [rdi], rcx
    mov [rdi + rdx - 8], r8
    ret
.size memcpy, . - memcpy

.p2align 4
.globl memmove
.hidden memmove
.type memmove, @function
memmove:
    mov rax, rdi
    mov rcx, rdi
    sub rcx, rsi
    cmp rcx, rdx
    jae 2f
    // Backwards, in parts of 8, then of 1.
1:
    cmp rdx, 8
    jb 3f
    mov rcx, [rsi + rdx - 8]
    mov [rdi + rdx - 8], rcx
    sub rdx, 8
    jmp 1b
3:
    test rdx, rdx
    jz 4f
    movzx ecx, byte ptr [rsi + rdx - 1]
    mov [rdi + rdx - 1], cl
    dec rdx
    jmp 3b
4:
    ret
2:
    // Forwards nothing is overwritten before it is read, by parts of 8 and then of 1.
    xor ecx, ecx
5:
    lea r8, [rcx + 8]
    cmp r8, rdx
    ja 6f
    mov r9, [rsi + rcx]
    mov [rdi + rcx], r9
    mov rcx, r8
    jmp 5b
6:
    cmp rcx, rdx
    jae 4b
    movzx r8d, byte ptr [rsi + rcx]
    mov [rdi + rcx], r8b
    inc rcx
    jmp 6b
.size memmove, . - memmove

.p2align 4
.globl memset
.hidden memset
.type memset, @function
memset:
    mov r8, rdi
    mov eax, esi
    mov rcx, rdx
    rep stosb
    mov rax, r8
    ret
.size memset, . - memset

.p2align 4
.globl memcmp
.hidden memcmp
.type memcmp, @function
.globl bcmp
.hidden bcmp
.type bcmp, @function
memcmp:
bcmp:
    xor ecx, ecx
1:
    cmp rcx, rdx
    jae 2f
    movzx eax, byte ptr [rdi + rcx]
    movzx r8d, byte ptr [rsi + rcx]
    inc rcx
    sub eax, r8d
    jz 1b
    ret
2:
    xor eax, eax
    ret
.size memcmp, . - memcmp
.size bcmp, . - bcmp

.p2align 4
.globl strlen
.hidden strlen
.type strlen, @function
strlen:
    xor eax, eax
1:
    cmp byte ptr [rdi + rax], 0
    je 2f
    inc rax
    jmp 1b
2:
    ret
.size strlen, . - strlen
