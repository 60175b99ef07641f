//! The server under a real kernel, in guests: `make lab`.
//!
//! The tests of `answers.rs` hold for the kernel module, too: they also pass with the module's device.

/// Every ioctl with right and wrong arguments.
mod answers;
mod client;
/// Many programs, and the end of one of them or of the server.
mod concurrency;
/// Random ioctls.
mod hostile;
/// Keys in the memory of the server.
mod keys;
/// 32-bit programs.
#[cfg(target_arch = "x86_64")]
mod narrow;
/// TLS records and SRTP packets.
mod records;
mod second;
mod suite;
/// The files that install the server.
mod system;

/// Not a test, but the process of a server.
#[test]
#[ignore = "the process of a server"]
fn serve() {
    if std::env::var_os("SERVE").is_some() {
        client::serve();
    }
}
