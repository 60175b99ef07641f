//! The devices of this build, and their defaults.

/// The device that serves if no other does. In a build without it, a device of the caller takes its place.
pub(crate) const FALLBACK_DEVICE: &str = "software";

/// The driver with settings of its own.
pub(crate) const DPDK: &str = "dpdk";

/// A driver. Its name is also the name of its device. If it may find several devices, such as `afalg:cpu`, the name stands for all of them.
struct DriverRow {
    name: &'static str,
    is_built: bool,
    is_on_by_default: bool,
    /// True if requests of its devices make system calls that are not about memory, threads or clocks.
    makes_system_calls: bool,
}

/// All drivers except models.
const DRIVERS: [DriverRow; 6] = [
    DriverRow {
        name: FALLBACK_DEVICE,
        is_built: cfg!(feature = "software"),
        is_on_by_default: true,
        makes_system_calls: false,
    },
    DriverRow { name: "lanes", is_built: cfg!(feature = "lanes"), is_on_by_default: true, makes_system_calls: false },
    // Does not encrypt, so it must be turned on explicitly.
    DriverRow { name: "null", is_built: cfg!(feature = "null"), is_on_by_default: false, makes_system_calls: false },
    // Deprecated by Linux and seldom faster, so it must be turned on explicitly.
    DriverRow { name: "afalg", is_built: cfg!(feature = "afalg"), is_on_by_default: false, makes_system_calls: true },
    // Another interface to the same kernel code. It needs a module that few machines have. Its devices are `devcrypto:cpu` and
    // `devcrypto:engine`.
    DriverRow {
        name: "devcrypto",
        is_built: cfg!(feature = "devcrypto"),
        is_on_by_default: false,
        makes_system_calls: true,
    },
    // Starts DPDK in this process, irreversibly. The name stands for the devices in the list `devices.dpdk`.
    DriverRow { name: DPDK, is_built: cfg!(feature = "dpdk"), is_on_by_default: false, makes_system_calls: true },
];

/// Returns the names of this build's drivers except models, and whether each is on by default. A driver that is on may find no device.
pub fn devices() -> impl Iterator<Item = (&'static str, bool)> {
    DRIVERS.iter().filter(|row| row.is_built).map(|row| (row.name, row.is_on_by_default))
}

/// Returns `true` for a device whose driver this build lacks. One file configures all programs of a machine, so its lines about such a
/// device are ignored. Returns `false` for [`FALLBACK_DEVICE`], because another device takes its place.
pub(crate) fn is_of_another_build(device: &str) -> bool {
    let driver = device.split(':').next().unwrap_or(device);
    driver != FALLBACK_DEVICE && DRIVERS.iter().any(|row| row.name == driver && !row.is_built)
}

/// Returns `true` if requests of a device may make system calls that are not about memory, threads or clocks. Counts devices that are
/// not in [`DRIVERS`], such as models, among those that may.
pub(crate) fn makes_system_calls(device: &str) -> bool {
    let driver = device.split(':').next().unwrap_or(device);
    DRIVERS.iter().find(|row| row.name == driver).is_none_or(|row| row.makes_system_calls)
}
