//! The devices of this build, and their defaults.

/// The device that serves if no other does. In a build without it, a device of the caller takes its place.
pub(crate) const LAST_RESORT: &str = "software";

/// The devices that the drivers of this build find on every machine, and whether they are used by default.
pub const DEVICES: &[(&str, bool)] = &[
    #[cfg(feature = "software")]
    (LAST_RESORT, true),
    #[cfg(feature = "lanes")]
    ("lanes", true),
    // Does not encrypt, so it must be turned on explicitly.
    #[cfg(feature = "null")]
    ("null", false),
    // Deprecated by Linux and seldom faster, so it must be turned on explicitly. The name stands for all devices of the driver, such as
    // `afalg:cpu`.
    #[cfg(feature = "afalg")]
    ("afalg", false),
    // Another interface to the same kernel code, which few machines have: `devcrypto:cpu` and `devcrypto:engine`.
    #[cfg(feature = "devcrypto")]
    ("devcrypto", false),
    // Starts DPDK in this process, irreversibly. The name stands for the devices in its list.
    #[cfg(feature = "dpdk")]
    (super::dpdk::NAME, false),
];

/// The drivers of complete builds, without the last resort.
const DRIVERS: [&str; 5] = ["lanes", "null", "afalg", "devcrypto", "dpdk"];

/// Returns `true` for a device whose driver this build lacks. One file configures all programs of a machine, so its lines about such a device are
/// ignored.
pub(crate) fn is_of_another_build(device: &str) -> bool {
    let driver = device.split(':').next().unwrap_or(device);
    DRIVERS.contains(&driver) && DEVICES.iter().all(|(name, _)| *name != driver)
}
