//! A kernel that lacks `FUTEX_LOCK_PI2`, as those before Linux 5.14 do, for one thread.

/// `FUTEX_LOCK_PI2` of the kernel's interface.
const LOCK_PI2: u32 = 13;
/// The operation in a futex call, without its flags.
const OPERATION: u32 = 0x7f;

/// Makes the kernel answer ENOSYS to `FUTEX_LOCK_PI2` on the calling thread from now on. Says
/// whether it does: a sandbox may allow no filter.
pub fn lose_lock_pi2() -> bool {
    // Offsets in `struct seccomp_data`: the number of the call, and the low half of its second
    // argument.
    let low_half = if cfg!(target_endian = "little") { 0 } else { 4 };
    let (number, operation) = (0, 16 + 8 + low_half);
    let load = |offset| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0);
    let equals = |value, then, otherwise| {
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, then, otherwise)
    };
    let and = |mask| instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask, 0, 0);
    let end = |action| instruction(libc::BPF_RET | libc::BPF_K, action, 0, 0);
    let mut filter = [
        load(number),
        equals(libc::SYS_futex as u32, 0, 4),
        load(operation),
        and(OPERATION),
        equals(LOCK_PI2, 0, 1),
        end(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        end(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel reads the program and the filter during the call; both live until then. A
    // kernel that takes the lock after all writes the thread's id to the word, which no other
    // thread has.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program);
        let mut word = 0u32;
        libc::syscall(libc::SYS_futex, &raw mut word, LOCK_PI2, 0, 0) == -1
            && *libc::__errno_location() == libc::ENOSYS
    }
}

fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}
