//! The PMDs of DPDK: their devices, and their packages.

/// A PMD of DPDK, with its requirements on a machine.
#[derive(Debug)]
pub(crate) struct Pmd {
    /// Its library, without `librte_`. Debian's package has the same name with dashes.
    library: &'static str,
    /// Prefixes of the names of its devices, on buses other than PCI.
    name_prefixes: &'static [&'static str],
    /// Its PCI devices: vendor and device IDs.
    pci_ids: &'static [(u16, u16)],
    /// The kernel driver that its devices need.
    pub(crate) binding: Binding,
}

/// The kernel driver that a device is bound to while a PMD uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// `vfio-pci`, or another driver of [`UIO`], which works without an IOMMU.
    Vfio,
    /// Its regular driver, which stays bound while the PMD uses the device.
    Kernel(&'static str),
    /// None: DPDK creates the device.
    Virtual,
    /// Unknown to Gantry: the device is on a bus of its board, which DPDK scans when it starts.
    Board,
}

/// Kernel drivers other than `vfio-pci` that expose a device to a program (DPDK's Linux guide, "Linux Drivers").
pub(crate) const UIO: [&str; 2] = ["igb_uio", "uio_pci_generic"];

/// The cryptodevs of DPDK that Debian packages. The names are the ones that each PMD registers. The numbers are from its table of PCI
/// devices (`drivers/crypto` and `drivers/common` of DPDK 22.11 to 25.11).
const PMDS: [Pmd; 14] = [
    vdev("crypto_openssl", &["crypto_openssl"]),
    vdev(
        "crypto_ipsec_mb",
        &[
            "crypto_aesni_mb",
            "crypto_aesni_gcm",
            "crypto_chacha20_poly1305",
            "crypto_kasumi",
            "crypto_snow3g",
            "crypto_zuc",
        ],
    ),
    vdev("crypto_null", &["crypto_null"]),
    vdev("crypto_scheduler", &["crypto_scheduler"]),
    vdev("crypto_caam_jr", &["crypto_caam_jr"]),
    board("crypto_dpaa_sec", &["dpaa_sec"]),
    board("crypto_dpaa2_sec", &["dpseci"]),
    pci(
        "common_qat",
        Binding::Vfio,
        &[
            (INTEL, 0x0443),
            (INTEL, 0x37c9),
            (INTEL, 0x19e3),
            (INTEL, 0x6f55),
            (INTEL, 0x18ef),
            (INTEL, 0x18a1),
            (INTEL, 0x578b),
            (INTEL, 0x4941),
            (INTEL, 0x4943),
            (INTEL, 0x4945),
            (INTEL, 0x4947),
            (INTEL, 0x1454),
            (INTEL, 0x0da5),
        ],
    ),
    pci("crypto_ccp", Binding::Vfio, &[(AMD, 0x1456), (AMD, 0x1468), (AMD, 0x15df)]),
    pci("crypto_cnxk", Binding::Vfio, &[(CAVIUM, 0xa0fe), (CAVIUM, 0xa0f3)]),
    pci("crypto_octeontx", Binding::Vfio, &[(CAVIUM, 0xa041)]),
    pci("crypto_nitrox", Binding::Vfio, &[(CAVIUM, 0x0013)]),
    pci(
        "crypto_mlx5",
        Binding::Kernel("mlx5_core"),
        &[
            (MELLANOX, 0x101b),
            (MELLANOX, 0x101d),
            (MELLANOX, 0x101e),
            (MELLANOX, 0x1021),
            (MELLANOX, 0xa2d6),
            (MELLANOX, 0xa2dc),
        ],
    ),
    pci("crypto_virtio", Binding::Vfio, &[(RED_HAT, 0x1054)]),
];

const INTEL: u16 = 0x8086;
const AMD: u16 = 0x1022;
const CAVIUM: u16 = 0x177d;
const MELLANOX: u16 = 0x15b3;
const RED_HAT: u16 = 0x1af4;

impl Pmd {
    /// Returns the PMD of a device on another bus than PCI, by its name.
    pub(crate) fn by_name(name: &str) -> Option<&'static Pmd> {
        PMDS.iter().find(|pmd| pmd.name_prefixes.iter().any(|prefix| name.starts_with(prefix)))
    }

    /// Returns the PMD of a PCI device, by vendor and device.
    pub(crate) fn by_id(id: (u16, u16)) -> Option<&'static Pmd> {
        PMDS.iter().find(|pmd| pmd.pci_ids.contains(&id))
    }

    /// Returns whether a process has loaded the PMD's library, according to `/proc/self/maps`. DPDK loads every installed PMD when it
    /// starts.
    pub(crate) fn is_loaded(&self, maps: &str) -> bool {
        let file = format!("/librte_{}.so", self.library);
        maps.lines().any(|line| line.contains(&file))
    }

    /// Returns the Debian package for a release of DPDK, by ABI number.
    pub(crate) fn package(&self, release: u32) -> String {
        package(&format!("librte_{}", self.library), &release.to_string())
    }
}

/// Returns the Debian package of a DPDK library, such as `librte_eal`, for an ABI number. A dash separates the two if the name
/// ends with a digit.
pub(crate) fn package(library: &str, release: &str) -> String {
    let name = library.replace('_', "-");
    let dash = if name.ends_with(|last: char| last.is_ascii_digit()) { "-" } else { "" };
    format!("{name}{dash}{release}")
}

const fn vdev(library: &'static str, name_prefixes: &'static [&'static str]) -> Pmd {
    Pmd { library, name_prefixes, pci_ids: &[], binding: Binding::Virtual }
}

const fn board(library: &'static str, name_prefixes: &'static [&'static str]) -> Pmd {
    Pmd { library, name_prefixes, pci_ids: &[], binding: Binding::Board }
}

const fn pci(library: &'static str, binding: Binding, pci_ids: &'static [(u16, u16)]) -> Pmd {
    Pmd { library, name_prefixes: &[], pci_ids, binding }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_named_as_in_debian() {
        let by_name = |name: &str, release| Pmd::by_name(name).unwrap().package(release);
        assert_eq!(by_name("crypto_aesni_mb0", 23), "librte-crypto-ipsec-mb23");
        assert_eq!(by_name("crypto_openssl", 25), "librte-crypto-openssl25");
        assert_eq!(by_name("dpseci.1", 23), "librte-crypto-dpaa2-sec23");
        let by_id = |vendor, device| Pmd::by_id((vendor, device)).unwrap().package(23);
        assert_eq!(by_id(0x8086, 0x37c9), "librte-common-qat23");
        assert_eq!(by_id(0x15b3, 0xa2dc), "librte-crypto-mlx5-23");
        assert!(Pmd::by_name("net_null").is_none() && Pmd::by_id((0x8086, 0x37c8)).is_none());
    }

    #[test]
    fn every_package_of_the_table_exists_in_debian() {
        // A package's documentation folder exists as long as the package is installed. Other systems have other names.
        let is_installed = |package: &str| std::path::Path::new("/usr/share/doc").join(package).exists();
        let release = (23..=26).find(|release| is_installed(&package("librte_eal", &release.to_string())));
        let (Some(release), true) = (release, is_installed("librte-meta-all")) else {
            eprintln!("skipped: no release of DPDK is installed with all of Debian's packages");
            return;
        };
        let all = PMDS.iter().map(|pmd| pmd.package(release));
        let absent: Vec<String> = all.filter(|package| !is_installed(package)).collect();
        assert!(absent.is_empty(), "{absent:?}");
    }

    #[test]
    fn a_pmd_is_loaded_if_its_library_is_mapped() {
        let maps = "7f00-7f01 r-xp 0 08:01 5 /usr/lib/dpdk/pmds-23.0/librte_crypto_openssl.so.23.0\n";
        assert!(Pmd::by_name("crypto_openssl").unwrap().is_loaded(maps));
        assert!(!Pmd::by_name("crypto_null").unwrap().is_loaded(maps));
    }
}
