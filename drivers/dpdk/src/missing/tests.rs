use std::os::unix::fs::symlink;

use super::*;

const QAT: &str = "0000:3d:01.0";
const RELEASE: u32 = 23;
const MEMORY: u32 = 64;

/// Files of a machine that is made up.
struct Tree(Machine);

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0.root);
    }
}

impl Tree {
    /// Without any device. The process has no privileges, may lock a GiB of memory and open every file that there is.
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("gantry-dpdk-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let opens = |path: &Path| std::fs::File::open(path).map(|_| ());
        let tree = Self(Machine { root, opens });
        tree.write("proc/self/maps", "7f00-7f01 r-xp 0 08:01 5 /usr/lib/librte_common_qat.so.23.0\n");
        tree.write("proc/self/status", "Name:\tgantry\nCapEff:\t0000000000000000\n");
        tree.lock_limit("1073741824");
        tree
    }

    /// With a card that is ready to be used.
    fn with_card(name: &str) -> Self {
        let tree = Self::new(name);
        tree.device(QAT, "0x8086", "0x37c9");
        tree.bind(QAT, "vfio-pci");
        tree.group(QAT, "7");
        tree.write("dev/vfio/vfio", "");
        tree.write("dev/vfio/7", "");
        assert_eq!(tree.lacks(QAT), [""; 0]);
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

    fn lacks(&self, name: &str) -> Vec<String> {
        self.0.lacks(name, RELEASE, MEMORY)
    }
}

#[test]
fn a_pmd_that_is_not_installed_is_named_with_its_package() {
    let tree = Tree::with_card("package");
    let lacking = |package: &str| format!("its PMD is not installed (Debian: {package})");
    assert_eq!(tree.lacks("crypto_aesni_mb0"), [lacking("librte-crypto-ipsec-mb23")]);
    tree.write("proc/self/maps", "");
    assert_eq!(tree.lacks(QAT), [lacking("librte-common-qat23")]);
    assert_eq!(tree.0.lacks(QAT, 25, MEMORY), [lacking("librte-common-qat25")]);
    assert_eq!(tree.lacks("crypto_of_nobody"), ["no PMD is known for a device of this name"]);
    tree.write("proc/self/maps", "/usr/lib/librte_crypto_dpaa2_sec.so.23.0 /usr/lib/librte_crypto_null.so.23.0");
    assert_eq!(tree.lacks("dpseci.1"), ["DPDK found it on none of its buses when it started"]);
    assert_eq!(tree.lacks("crypto_null7"), [""; 0]);
}

#[test]
fn an_address_without_a_device_and_one_that_no_pmd_drives_are_told_apart() {
    let tree = Tree::new("address");
    assert_eq!(tree.lacks(QAT), ["there is no PCI device 0000:3d:01.0; lspci -D lists those that there are"]);
    tree.device(QAT, "0x1af4", "0x1044");
    assert_eq!(tree.lacks(QAT), ["no PMD is known for a device 1af4:1044"]);
}

#[test]
fn who_names_the_physical_function_of_a_card_is_told_of_the_virtual_ones() {
    let tree = Tree::new("physical");
    tree.device("0000:3d:00.0", "0x8086", "0x37c8");
    tree.write("sys/bus/pci/devices/0000:3d:00.0/sriov_totalvfs", "16\n");
    let said = "no PMD is known for a device 8086:37c8. It may have virtual functions for it: echo 16 > \
                /sys/bus/pci/devices/0000:3d:00.0/sriov_numvfs, and name one";
    assert_eq!(tree.lacks("0000:3d:00.0"), [said]);
}

#[test]
fn a_device_that_another_kernel_driver_has_is_said_to_be_bound_to_it() {
    let tree = Tree::with_card("bound");
    tree.bind(QAT, "qat_c62xvf");
    let rebind = "and has to be to vfio-pci: dpdk-devbind.py -b vfio-pci 0000:3d:01.0 (Debian: dpdk)";
    assert_eq!(tree.lacks(QAT), [format!("it is bound to qat_c62xvf, {rebind}")]);
    tree.remove(&format!("sys/bus/pci/devices/{QAT}/driver"));
    assert_eq!(tree.lacks(QAT), [format!("it is bound to no kernel driver, {rebind}")]);
}

#[test]
fn the_module_of_vfio_is_loaded_first_where_it_is_not() {
    let tree = Tree::with_card("module");
    tree.bind(QAT, "qat_c62xvf");
    std::fs::remove_dir_all(tree.0.path("sys/bus/pci/drivers/vfio-pci")).unwrap();
    let said = "it is bound to qat_c62xvf, and has to be to vfio-pci: modprobe vfio-pci && dpdk-devbind.py -b vfio-pci \
                0000:3d:01.0 (Debian: dpdk)";
    assert_eq!(tree.lacks(QAT), [said]);
}

#[test]
fn a_card_whose_pmd_works_beside_the_kernels_driver_stays_with_it() {
    let tree = Tree::new("own");
    tree.write("proc/self/maps", "/usr/lib/librte_crypto_mlx5.so.23.0");
    tree.device("0000:03:00.0", "0x15b3", "0xa2d6");
    tree.bind("0000:03:00.0", "mlx5_core");
    assert_eq!(tree.lacks("0000:03:00.0"), [""; 0]);
    tree.bind("0000:03:00.0", "vfio-pci");
    let said = "it is bound to vfio-pci, and has to be to mlx5_core: dpdk-devbind.py -b mlx5_core 0000:03:00.0";
    assert_eq!(tree.lacks("0000:03:00.0"), [said]);
}

#[test]
fn a_driver_that_needs_no_iommu_is_not_asked_for_one() {
    let tree = Tree::with_card("uio");
    tree.bind(QAT, "uio_pci_generic");
    tree.remove(&format!("sys/bus/pci/devices/{QAT}/iommu_group"));
    assert_eq!(tree.lacks(QAT), [""; 0]);
}

#[test]
fn an_iommu_that_is_off_is_said_to_be() {
    let tree = Tree::with_card("iommu");
    tree.remove(&format!("sys/bus/pci/devices/{QAT}/iommu_group"));
    let said = "the IOMMU is off: the kernel needs intel_iommu=on or amd_iommu=on, and the firmware VT-d or AMD-Vi";
    assert_eq!(tree.lacks(QAT), [said]);
}

#[test]
fn a_neighbour_in_the_iommu_group_that_the_kernel_uses_is_named_and_a_bridge_is_not() {
    let tree = Tree::with_card("group");
    for (address, driver) in [("0000:3d:00.0", "c6xx"), ("0000:00:01.0", "pcieport")] {
        tree.device(address, "0x8086", "0x37c8");
        tree.bind(address, driver);
        tree.group(address, "7");
    }
    let said = "0000:3d:00.0 is in the same IOMMU group and bound to c6xx: a group is given away as a whole";
    assert_eq!(tree.lacks(QAT), [said]);
}

#[test]
fn a_file_of_vfio_that_the_user_may_not_open_is_named() {
    let mut tree = Tree::with_card("permission");
    tree.0.opens = |path| if path.ends_with("vfio/7") { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) };
    assert_eq!(tree.lacks(QAT), ["/dev/vfio/7 cannot be opened to read and write: permission denied"]);
}

#[test]
fn a_limit_of_locked_memory_counts_for_users_without_the_capability() {
    let tree = Tree::with_card("locked");
    tree.lock_limit("8388608");
    let said = "the process may lock 8 MiB of memory, and DPDK has 64: ulimit -l, or LimitMEMLOCK= of its unit";
    assert_eq!(tree.lacks(QAT), [said]);
    tree.write("proc/self/status", "CapEff:\t000001ffffffffff\n");
    assert_eq!(tree.lacks(QAT), [""; 0]);
    tree.write("proc/self/status", "CapEff:\t0000000000000000\n");
    tree.lock_limit("unlimited");
    assert_eq!(tree.lacks(QAT), [""; 0]);
}

#[test]
fn hugepages_are_counted_where_dpdk_is_to_take_some() {
    let tree = Tree::new("hugepages");
    let eal = |arguments: &[&str]| arguments.iter().map(ToString::to_string).collect::<Vec<_>>();
    let folder = "sys/kernel/mm/hugepages";
    tree.write(&format!("{folder}/hugepages-2048kB/free_hugepages"), "16\n");
    tree.write(&format!("{folder}/hugepages-1048576kB/free_hugepages"), "0\n");
    let said = "hugepages of 32 MiB are free, of 64 that it was told to take: echo 32 > /proc/sys/vm/nr_hugepages, or --no-huge \
                in dpdk.eal";
    assert_eq!(tree.0.lacks_memory(&eal(&["--in-memory"]), 64).unwrap(), said);
    assert_eq!(tree.0.lacks_memory(&eal(&["--no-huge", "--iova-mode=va"]), 64), None);
    tree.write(&format!("{folder}/hugepages-1048576kB/free_hugepages"), "1\n");
    assert_eq!(tree.0.lacks_memory(&eal(&["--in-memory"]), 64), None);
}

#[test]
fn a_device_of_this_very_machine_that_dpdk_does_not_have_lacks_something() {
    let devices = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().filter_map(Result::ok);
    let mut bound = devices.filter(|device| device.path().join("driver").exists());
    let Some(device) = bound.find(|device| !device.path().join("driver").canonicalize().unwrap().ends_with("vfio-pci"))
    else {
        eprintln!("skipped: this machine has no PCI device that the kernel uses");
        return;
    };
    let address = device.file_name().into_string().unwrap();
    assert!(!Machine::default().lacks(&address, RELEASE, MEMORY).is_empty(), "{address}");
}
