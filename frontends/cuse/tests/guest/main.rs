//! The server under a real kernel, in guests: `make lab`.
//!
//! The tests of `answers.rs` hold for the kernel module, too: they also pass with the module's device.

mod answers;
mod client;
mod concurrency;
mod hostile;
mod keys;
#[cfg(target_arch = "x86_64")]
mod narrow;
mod records;
mod second;
mod suite;
mod system;

/// Not a test, but the process of a server.
#[test]
#[ignore = "the process of a server"]
fn serve() {
    if std::env::var_os("SERVE").is_some() {
        client::serve();
    }
}
