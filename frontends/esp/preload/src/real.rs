//! The C library's functions that this library overrides, as the next library in symbol order defines them. Each address is
//! looked up at the first call. The ABI is "C-unwind", because the cancellation of a thread unwinds through the functions.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{msghdr, size_t, sockaddr, socklen_t, ssize_t};

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
            static ADDRESS: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            let mut address = ADDRESS.load(Ordering::Relaxed);
            if address.is_null() {
                let name = concat!(stringify!($name), "\0");
                // SAFETY: the name ends in a NUL, and `dlsym` accepts the handle RTLD_NEXT.
                address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast()) };
                if address.is_null() {
                    return crate::fail(libc::ENOSYS) as $result;
                }
                ADDRESS.store(address, Ordering::Relaxed);
            }
            // SAFETY: the symbol is a function of the C library with this prototype.
            let function: unsafe extern "C-unwind" fn($($type),*) -> $result = unsafe { std::mem::transmute(address) };
            // SAFETY: the caller passes valid arguments for the function.
            unsafe { function($($argument),*) }
        }
    )*};
}

functions! {
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    getsockname(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int;
    send(fd: c_int, buffer: *const c_void, length: size_t, flags: c_int) -> ssize_t;
    sendto(fd: c_int, buffer: *const c_void, length: size_t, flags: c_int, to: *const sockaddr, size: socklen_t) -> ssize_t;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t;
    recv(fd: c_int, buffer: *mut c_void, length: size_t, flags: c_int) -> ssize_t;
    recvfrom(fd: c_int, buffer: *mut c_void, length: size_t, flags: c_int, from: *mut sockaddr, size: *mut socklen_t) -> ssize_t;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    read(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t;
    __recv_chk(fd: c_int, buffer: *mut c_void, length: size_t, room: size_t, flags: c_int) -> ssize_t;
    __recvfrom_chk(fd: c_int, buffer: *mut c_void, length: size_t, room: size_t, flags: c_int, from: *mut sockaddr, size: *mut socklen_t) -> ssize_t;
    __read_chk(fd: c_int, buffer: *mut c_void, length: size_t, room: size_t) -> ssize_t;
}
