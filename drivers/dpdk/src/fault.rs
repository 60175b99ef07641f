use gantry_core::Fault;
use gantry_core::driver::{Refusal, Unsupported};

/// Returns the fault of every call in a child of `fork`: the child shares DPDK's rings and memory with its parent, which DPDK does not
/// support.
pub(crate) fn fault_in_child() -> Fault {
    Fault::failed("DPDK belongs to the parent process")
}

/// Returns the refusal of a session for this reason.
pub(crate) fn unsupported(reason: &'static str) -> Refusal {
    Unsupported::because(reason).into()
}
