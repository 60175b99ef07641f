use std::io;

use gantry_core::Fault;

/// Returns the error of a system call as a failure of the device.
pub(crate) fn fault(error: &io::Error) -> Fault {
    Fault::failed(format!("AF_ALG: {}", system_message(error)))
}

/// Returns the system's message without the number that `std` appends.
pub(crate) fn system_message(error: &io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}
