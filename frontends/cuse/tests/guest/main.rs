//! The server under a real kernel, in guests: `make lab`.
//!
//! What the kernel module answers, the tests of `answers.rs` say of both: they pass with the module's device, too.

/// Every ioctl with right and wrong arguments.
mod answers;
mod client;
/// Many programs, and what happens when one of them or the server ends.
mod crowd;
/// Anything at all.
mod hostile;
/// Keys in the memory of the server.
mod keys;
/// 32-bit programs.
#[cfg(target_arch = "x86_64")]
mod narrow;
/// TLS records and SRTP packets.
mod records;
/// A second descriptor.
mod second;
/// What every device must show.
mod suite;
/// What installs it.
mod system;

/// Not a test, but the process of a server.
#[test]
#[ignore = "the process of a server"]
fn serve() {
    if std::env::var_os("SERVE").is_some() {
        client::serve();
    }
}
