//! Finds the reasons why DPDK cannot use a device: packages, kernel drivers, permissions.

use std::io;
use std::path::{Path, PathBuf};

use crate::pmds::{Binding, Pmd, UIO};

/// The kernel's information about a machine, to find out why DPDK cannot use a device.
pub(crate) struct Machine {
    /// The folder of the machine's files: `/`, except in tests.
    root: PathBuf,
    /// Tries to open a file for reading and writing.
    try_open: fn(&Path) -> io::Result<()>,
}

impl Default for Machine {
    /// Returns this machine, with the rights of this process.
    fn default() -> Self {
        let try_open = |path: &Path| std::fs::File::options().read(true).write(true).open(path).map(|_| ());
        Self { root: "/".into(), try_open }
    }
}

impl Machine {
    /// Returns the missing parts for a device that DPDK did not start, each with the command that adds it. `release` is the number of
    /// DPDK's ABI, and `memory_mib` is DPDK's memory in MiB. Empty if nothing is missing.
    pub(crate) fn find_missing(&self, name: &str, release: u32, memory_mib: u32) -> Vec<String> {
        let maps = self.read_text("proc/self/maps");
        let missing_package = |pmd: &Pmd| {
            let package = || format!("its PMD is not installed (Debian: {})", pmd.package(release));
            (!pmd.is_loaded(&maps)).then(package)
        };
        if is_pci(name) {
            return self.find_missing_for_pci(name, memory_mib, missing_package);
        }
        let Some(pmd) = Pmd::by_name(name) else { return vec!["no known PMD drives a device of this name".to_owned()] };
        let is_absent = || "DPDK did not find the device on its buses when it started".to_owned();
        let absent = (pmd.binding == Binding::Board).then(is_absent);
        missing_package(pmd).or(absent).into_iter().collect()
    }

    /// Returns the reason why DPDK may have found too little memory with these EAL arguments.
    pub(crate) fn find_missing_memory(&self, eal: &[String], memory_mib: u32) -> Option<String> {
        if eal.iter().any(|argument| argument == "--no-huge") {
            return None;
        }
        let mut free = 0;
        for size in self.sorted_names("sys/kernel/mm/hugepages") {
            let kib: u64 = size.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let pages: u64 =
                self.read_text(&format!("sys/kernel/mm/hugepages/{size}/free_hugepages")).trim().parse().unwrap_or(0);
            free += kib * pages / 1024;
        }
        let pages = memory_mib.div_ceil(2);
        (free < u64::from(memory_mib)).then(|| {
            format!(
                "only {free} MiB of hugepages are free, and DPDK needs {memory_mib} MiB: echo {pages} > /proc/sys/vm/nr_hugepages, \
                 or set --no-huge in dpdk.eal"
            )
        })
    }

    fn find_missing_for_pci(
        &self,
        address: &str,
        memory_mib: u32,
        missing_package: impl Fn(&Pmd) -> Option<String>,
    ) -> Vec<String> {
        let device = format!("sys/bus/pci/devices/{address}");
        let number = |file: &str| {
            let text = self.read_text(&format!("{device}/{file}"));
            u16::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
        };
        let (Some(vendor), Some(id)) = (number("vendor"), number("device")) else {
            return vec![format!("there is no PCI device {address}; lspci -D lists all")];
        };
        let Some(pmd) = Pmd::by_id((vendor, id)) else {
            let functions: u32 = self.read_text(&format!("{device}/sriov_totalvfs")).trim().parse().unwrap_or(0);
            let virtual_ones = format!(
                ". Its virtual functions may have one: echo {functions} > /sys/bus/pci/devices/{address}/sriov_numvfs, and name one of them"
            );
            let virtual_ones = if functions > 0 { virtual_ones } else { String::new() };
            return vec![format!("no known PMD drives a device {vendor:04x}:{id:04x}{virtual_ones}")];
        };
        let mut missing: Vec<String> = missing_package(pmd).into_iter().collect();
        let bound_driver = self.link_target_name(&format!("{device}/driver"));
        match pmd.binding {
            Binding::Vfio if bound_driver.as_deref().is_some_and(|driver| UIO.contains(&driver)) => {}
            Binding::Vfio => self.check_vfio(address, bound_driver.as_deref(), memory_mib, &mut missing),
            Binding::Virtual | Binding::Board => {}
            Binding::Kernel(required) if bound_driver.as_deref() == Some(required) => {}
            Binding::Kernel(required) => {
                missing.push(format!(
                    "{}, and must be bound to {required}: dpdk-devbind.py -b {required} {address}",
                    bound_to(bound_driver.as_deref())
                ));
            }
        }
        missing
    }

    /// Checks a device that programs use through VFIO (the kernel's Documentation/driver-api/vfio.rst).
    fn check_vfio(&self, address: &str, bound_driver: Option<&str>, memory_mib: u32, missing: &mut Vec<String>) {
        if bound_driver != Some("vfio-pci") {
            let module = if self.path("sys/bus/pci/drivers/vfio-pci").exists() { "" } else { "modprobe vfio-pci && " };
            missing.push(format!(
                "{}, and must be bound to vfio-pci: {module}dpdk-devbind.py -b vfio-pci {address} (Debian: dpdk)",
                bound_to(bound_driver)
            ));
        }
        let Some(group) = self.link_target_name(&format!("sys/bus/pci/devices/{address}/iommu_group")) else {
            missing.push(
                "the IOMMU is off: boot the kernel with intel_iommu=on or amd_iommu=on, and enable VT-d or AMD-Vi in the firmware"
                    .to_owned(),
            );
            return;
        };
        for other in self.sorted_names(&format!("sys/kernel/iommu_groups/{group}/devices")) {
            let driver = self.link_target_name(&format!("sys/bus/pci/devices/{other}/driver"));
            // A bridge keeps its driver.
            let is_harmless = driver.as_deref().is_none_or(|driver| driver == "vfio-pci" || driver == "pcieport");
            if other != address && !is_harmless {
                let driver = driver.unwrap_or_default();
                missing.push(format!(
                    "{other} is in the same IOMMU group and bound to {driver}: bind every device of the group to vfio-pci"
                ));
            }
        }
        if bound_driver == Some("vfio-pci") {
            for file in ["dev/vfio/vfio".to_owned(), format!("dev/vfio/{group}")] {
                if let Err(reason) = (self.try_open)(&self.path(&file)) {
                    missing.push(format!("/{file} cannot be opened for reading and writing: {reason}"));
                }
            }
        }
        missing.extend(self.check_locked_memory(memory_mib));
    }

    /// Checks the limit of locked memory (getrlimit(2), `RLIMIT_MEMLOCK`): VFIO locks the memory that a device can reach.
    fn check_locked_memory(&self, memory_mib: u32) -> Option<String> {
        const CAP_IPC_LOCK: u64 = 1 << 14;
        let status = self.read_text("proc/self/status");
        let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        if u64::from_str_radix(capabilities.trim(), 16).ok()? & CAP_IPC_LOCK != 0 {
            return None;
        }
        let limits = self.read_text("proc/self/limits");
        let limit = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
        // `unlimited` does not parse, so it needs no case of its own.
        let mib = limit.split_whitespace().next()?.parse::<u64>().ok()? >> 20;
        (mib < u64::from(memory_mib)).then(|| {
            format!(
                "the process may lock {mib} MiB of memory, and DPDK needs {memory_mib} MiB: raise ulimit -l, or \
                LimitMEMLOCK= of its unit"
            )
        })
    }

    fn path(&self, file: &str) -> PathBuf {
        self.root.join(file)
    }

    /// Returns the content of a file; empty if there is none.
    fn read_text(&self, file: &str) -> String {
        std::fs::read_to_string(self.path(file)).unwrap_or_default()
    }

    /// Returns the last component of a link's target.
    fn link_target_name(&self, file: &str) -> Option<String> {
        let target = std::fs::read_link(self.path(file)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// Returns the sorted names in a folder.
    fn sorted_names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).into_iter().flatten().filter_map(Result::ok);
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }
}

fn bound_to(driver: Option<&str>) -> String {
    driver.map_or_else(|| "it is bound to no kernel driver".to_owned(), |driver| format!("it is bound to {driver}"))
}

/// Returns whether a name is an address: `0000:3d:01.0`.
pub(crate) fn is_pci(name: &str) -> bool {
    name.contains(':')
}

#[cfg(test)]
mod tests;
