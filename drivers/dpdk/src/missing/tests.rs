//! Tests the search for missing parts, on imaginary machines in a folder.

use std::os::unix::fs::symlink;

use super::*;

const QAT: &str = "0000:3d:01.0";
const RELEASE: u32 = 23;
const MEMORY: u32 = 64;

/// The files of an imaginary machine.
struct Tree(Machine);

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0.root);
    }
}

impl Tree {
    /// Creates a machine without devices. The process has no privileges, may lock 1 GiB of memory, and can open every file.
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("gantry-dpdk-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let try_open = |path: &Path| std::fs::File::open(path).map(|_| ());
        let tree = Self(Machine { root, try_open });
        tree.write("proc/self/maps", "7f00-7f01 r-xp 0 08:01 5 /usr/lib/librte_common_qat.so.23.0\n");
        tree.write("proc/self/status", "Name:\tgantry\nCapEff:\t0000000000000000\n");
        tree.lock_limit("1073741824");
        tree
    }

    /// Creates a machine with a card that is ready for use.
    fn with_card(name: &str) -> Self {
        let tree = Self::new(name);
        tree.device(QAT, "0x8086", "0x37c9");
        tree.bind(QAT, "vfio-pci");
        tree.group(QAT, "7");
        tree.write("dev/vfio/vfio", "");
        tree.write("dev/vfio/7", "");
        assert_eq!(tree.find_missing(QAT), [""; 0]);
        tree
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.path(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn link(&self, to: &str, file: &str) {
        let path = self.0.path(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = std::fs::remove_file(&path);
        symlink(to, path).unwrap();
    }

    fn remove(&self, file: &str) {
        std::fs::remove_file(self.0.path(file)).unwrap();
    }

    fn device(&self, address: &str, vendor: &str, device: &str) {
        self.write(&format!("sys/bus/pci/devices/{address}/vendor"), &format!("{vendor}\n"));
        self.write(&format!("sys/bus/pci/devices/{address}/device"), &format!("{device}\n"));
    }

    fn bind(&self, address: &str, driver: &str) {
        self.write(&format!("sys/bus/pci/drivers/{driver}/bind"), "");
        self.link(&format!("../../../bus/pci/drivers/{driver}"), &format!("sys/bus/pci/devices/{address}/driver"));
    }

    fn group(&self, address: &str, group: &str) {
        self.link(
            &format!("../../../kernel/iommu_groups/{group}"),
            &format!("sys/bus/pci/devices/{address}/iommu_group"),
        );
        self.write(&format!("sys/kernel/iommu_groups/{group}/devices/{address}"), "");
    }

    fn lock_limit(&self, bytes: &str) {
        let line = format!("Max locked memory         {bytes}              {bytes}              bytes     \n");
        self.write("proc/self/limits", &format!("Limit                     Soft Limit           Hard Limit\n{line}"));
    }

    fn find_missing(&self, name: &str) -> Vec<String> {
        self.0.find_missing(name, RELEASE, MEMORY)
    }
}

#[test]
fn names_the_package_of_a_missing_pmd() {
    let tree = Tree::with_card("package");
    let not_installed = |package: &str| format!("its PMD is not installed (Debian: {package})");
    assert_eq!(tree.find_missing("crypto_aesni_mb0"), [not_installed("librte-crypto-ipsec-mb23")]);
    tree.write("proc/self/maps", "");
    assert_eq!(tree.find_missing(QAT), [not_installed("librte-common-qat23")]);
    assert_eq!(tree.0.find_missing(QAT, 25, MEMORY), [not_installed("librte-common-qat25")]);
    assert_eq!(tree.find_missing("crypto_of_nobody"), ["no known PMD drives a device of this name"]);
    tree.write("proc/self/maps", "/usr/lib/librte_crypto_dpaa2_sec.so.23.0 /usr/lib/librte_crypto_null.so.23.0");
    assert_eq!(tree.find_missing("dpseci.1"), ["DPDK did not find the device on its buses when it started"]);
    assert_eq!(tree.find_missing("crypto_null7"), [""; 0]);
}

#[test]
fn distinguishes_a_missing_device_from_one_without_a_pmd() {
    let tree = Tree::new("address");
    assert_eq!(tree.find_missing(QAT), ["there is no PCI device 0000:3d:01.0; lspci -D lists all"]);
    tree.device(QAT, "0x1af4", "0x1044");
    assert_eq!(tree.find_missing(QAT), ["no known PMD drives a device 1af4:1044"]);
}

#[test]
fn a_physical_function_is_reported_with_its_virtual_functions() {
    let tree = Tree::new("physical");
    tree.device("0000:3d:00.0", "0x8086", "0x37c8");
    tree.write("sys/bus/pci/devices/0000:3d:00.0/sriov_totalvfs", "16\n");
    let expected = "no known PMD drives a device 8086:37c8. Its virtual functions may have one: echo 16 > \
                /sys/bus/pci/devices/0000:3d:00.0/sriov_numvfs, and name one of them";
    assert_eq!(tree.find_missing("0000:3d:00.0"), [expected]);
}

#[test]
fn reports_the_kernel_driver_that_a_device_is_bound_to() {
    let tree = Tree::with_card("bound");
    tree.bind(QAT, "qat_c62xvf");
    let rebind = "and must be bound to vfio-pci: dpdk-devbind.py -b vfio-pci 0000:3d:01.0 (Debian: dpdk)";
    assert_eq!(tree.find_missing(QAT), [format!("it is bound to qat_c62xvf, {rebind}")]);
    tree.remove(&format!("sys/bus/pci/devices/{QAT}/driver"));
    assert_eq!(tree.find_missing(QAT), [format!("it is bound to no kernel driver, {rebind}")]);
}

#[test]
fn suggests_modprobe_if_vfio_pci_is_not_loaded() {
    let tree = Tree::with_card("module");
    tree.bind(QAT, "qat_c62xvf");
    std::fs::remove_dir_all(tree.0.path("sys/bus/pci/drivers/vfio-pci")).unwrap();
    let expected = "it is bound to qat_c62xvf, and must be bound to vfio-pci: modprobe vfio-pci && dpdk-devbind.py -b vfio-pci \
                0000:3d:01.0 (Debian: dpdk)";
    assert_eq!(tree.find_missing(QAT), [expected]);
}

#[test]
fn a_card_of_a_bifurcated_driver_must_keep_its_kernel_driver() {
    let tree = Tree::new("own");
    tree.write("proc/self/maps", "/usr/lib/librte_crypto_mlx5.so.23.0");
    tree.device("0000:03:00.0", "0x15b3", "0xa2d6");
    tree.bind("0000:03:00.0", "mlx5_core");
    assert_eq!(tree.find_missing("0000:03:00.0"), [""; 0]);
    tree.bind("0000:03:00.0", "vfio-pci");
    let expected = "it is bound to vfio-pci, and must be bound to mlx5_core: dpdk-devbind.py -b mlx5_core 0000:03:00.0";
    assert_eq!(tree.find_missing("0000:03:00.0"), [expected]);
}

#[test]
fn a_uio_driver_needs_no_iommu() {
    let tree = Tree::with_card("uio");
    tree.bind(QAT, "uio_pci_generic");
    tree.remove(&format!("sys/bus/pci/devices/{QAT}/iommu_group"));
    assert_eq!(tree.find_missing(QAT), [""; 0]);
}

#[test]
fn reports_that_the_iommu_is_off() {
    let tree = Tree::with_card("iommu");
    tree.remove(&format!("sys/bus/pci/devices/{QAT}/iommu_group"));
    let expected = "the IOMMU is off: boot the kernel with intel_iommu=on or amd_iommu=on, and enable VT-d or AMD-Vi in the firmware";
    assert_eq!(tree.find_missing(QAT), [expected]);
}

#[test]
fn reports_other_bound_devices_of_the_iommu_group_except_bridges() {
    let tree = Tree::with_card("group");
    for (address, driver) in [("0000:3d:00.0", "c6xx"), ("0000:00:01.0", "pcieport")] {
        tree.device(address, "0x8086", "0x37c8");
        tree.bind(address, driver);
        tree.group(address, "7");
    }
    let expected =
        "0000:3d:00.0 is in the same IOMMU group and bound to c6xx: bind every device of the group to vfio-pci";
    assert_eq!(tree.find_missing(QAT), [expected]);
}

#[test]
fn names_the_vfio_file_that_cannot_be_opened() {
    let mut tree = Tree::with_card("permission");
    tree.0.try_open =
        |path| if path.ends_with("vfio/7") { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) };
    assert_eq!(tree.find_missing(QAT), ["/dev/vfio/7 cannot be opened for reading and writing: permission denied"]);
}

#[test]
fn the_limit_of_locked_memory_applies_without_cap_ipc_lock() {
    let tree = Tree::with_card("locked");
    tree.lock_limit("8388608");
    let expected =
        "the process may lock 8 MiB of memory, and DPDK needs 64 MiB: raise ulimit -l, or LimitMEMLOCK= of its unit";
    assert_eq!(tree.find_missing(QAT), [expected]);
    tree.write("proc/self/status", "CapEff:\t000001ffffffffff\n");
    assert_eq!(tree.find_missing(QAT), [""; 0]);
    tree.write("proc/self/status", "CapEff:\t0000000000000000\n");
    tree.lock_limit("unlimited");
    assert_eq!(tree.find_missing(QAT), [""; 0]);
}

#[test]
fn reports_too_few_free_hugepages() {
    let tree = Tree::new("hugepages");
    let eal = |arguments: &[&str]| arguments.iter().map(ToString::to_string).collect::<Vec<_>>();
    let folder = "sys/kernel/mm/hugepages";
    tree.write(&format!("{folder}/hugepages-2048kB/free_hugepages"), "16\n");
    tree.write(&format!("{folder}/hugepages-1048576kB/free_hugepages"), "0\n");
    let expected = "only 32 MiB of hugepages are free, and DPDK needs 64 MiB: echo 32 > /proc/sys/vm/nr_hugepages, or set --no-huge \
                in dpdk.eal";
    assert_eq!(tree.0.find_missing_memory(&eal(&["--in-memory"]), 64).unwrap(), expected);
    assert_eq!(tree.0.find_missing_memory(&eal(&["--no-huge", "--iova-mode=va"]), 64), None);
    tree.write(&format!("{folder}/hugepages-1048576kB/free_hugepages"), "1\n");
    assert_eq!(tree.0.find_missing_memory(&eal(&["--in-memory"]), 64), None);
}

#[test]
fn finds_something_missing_for_a_kernel_bound_device_of_this_machine() {
    let devices = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().filter_map(Result::ok);
    let mut bound = devices.filter(|device| device.path().join("driver").exists());
    let Some(device) = bound.find(|device| !device.path().join("driver").canonicalize().unwrap().ends_with("vfio-pci"))
    else {
        eprintln!("skipped: this machine has no PCI device that the kernel uses");
        return;
    };
    let address = device.file_name().into_string().unwrap();
    assert!(!Machine::default().find_missing(&address, RELEASE, MEMORY).is_empty(), "{address}");
}
