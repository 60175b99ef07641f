use std::io;
use std::path::{Path, PathBuf};

use crate::pmds::{Binding, Pmd, UIO};

/// What the kernel tells of a machine, for finding out why DPDK cannot use a device of it.
pub(crate) struct Machine {
    /// `/`, but in tests.
    root: PathBuf,
    /// Opens a file to read and write it.
    opens: fn(&Path) -> io::Result<()>,
}

impl Default for Machine {
    /// This one, as this process may use it.
    fn default() -> Self {
        let opens = |path: &Path| std::fs::File::options().read(true).write(true).open(path).map(|_| ());
        Self { root: "/".into(), opens }
    }
}

impl Machine {
    /// What a device lacks that DPDK did not bring up, for the operator: each with the command that helps. `release` is the number
    /// of DPDK's ABI, and `memory` what DPDK has, in MiB. Empty where nothing was found.
    pub(crate) fn lacks(&self, name: &str, release: u32, memory: u32) -> Vec<String> {
        let maps = self.text("proc/self/maps");
        let lacking = |pmd: &Pmd| {
            let package = || format!("its PMD is not installed (Debian: {})", pmd.package(release));
            (!pmd.is_loaded(&maps)).then(package)
        };
        if is_pci(name) {
            return self.pci(name, memory, lacking);
        }
        let Some(pmd) = Pmd::of_name(name) else { return vec!["no PMD is known for a device of this name".to_owned()] };
        let is_absent = || "DPDK found it on none of its buses when it started".to_owned();
        let absent = (pmd.binding == Binding::Board).then(is_absent);
        lacking(pmd).or(absent).into_iter().collect()
    }

    /// Why DPDK may have found no memory, with these arguments of its EAL.
    pub(crate) fn lacks_memory(&self, eal: &[String], memory: u32) -> Option<String> {
        if eal.iter().any(|argument| argument == "--no-huge") {
            return None;
        }
        let mut free = 0;
        for size in self.names("sys/kernel/mm/hugepages") {
            let kib: u64 = size.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let pages: u64 =
                self.text(&format!("sys/kernel/mm/hugepages/{size}/free_hugepages")).trim().parse().unwrap_or(0);
            free += kib * pages / 1024;
        }
        let pages = memory.div_ceil(2);
        (free < u64::from(memory)).then(|| {
            format!(
                "hugepages of {free} MiB are free, of {memory} that it was told to take: echo {pages} > /proc/sys/vm/nr_hugepages, \
                 or --no-huge in dpdk.eal"
            )
        })
    }

    fn pci(&self, address: &str, memory: u32, lacking: impl Fn(&Pmd) -> Option<String>) -> Vec<String> {
        let device = format!("sys/bus/pci/devices/{address}");
        let number = |file: &str| {
            let text = self.text(&format!("{device}/{file}"));
            u16::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
        };
        let (Some(vendor), Some(id)) = (number("vendor"), number("device")) else {
            return vec![format!("there is no PCI device {address}; lspci -D lists those that there are")];
        };
        let Some(pmd) = Pmd::of_id((vendor, id)) else {
            let functions: u32 = self.text(&format!("{device}/sriov_totalvfs")).trim().parse().unwrap_or(0);
            let virtual_ones = format!(
                ". It may have virtual functions for it: echo {functions} > /sys/bus/pci/devices/{address}/sriov_numvfs, and name one"
            );
            let virtual_ones = if functions > 0 { virtual_ones } else { String::new() };
            return vec![format!("no PMD is known for a device {vendor:04x}:{id:04x}{virtual_ones}")];
        };
        let mut lacks: Vec<String> = lacking(pmd).into_iter().collect();
        let bound = self.link(&format!("{device}/driver"));
        match pmd.binding {
            Binding::Vfio if bound.as_deref().is_some_and(|driver| UIO.contains(&driver)) => {}
            Binding::Vfio => self.vfio(address, bound.as_deref(), memory, &mut lacks),
            Binding::Virtual | Binding::Board => {}
            Binding::Kernel(own) if bound.as_deref() == Some(own) => {}
            Binding::Kernel(own) => {
                lacks.push(format!(
                    "{}, and has to be to {own}: dpdk-devbind.py -b {own} {address}",
                    bound_to(bound.as_deref())
                ));
            }
        }
        lacks
    }

    /// A device that a program gets through VFIO (the kernel's Documentation/driver-api/vfio.rst).
    fn vfio(&self, address: &str, bound: Option<&str>, memory: u32, lacks: &mut Vec<String>) {
        if bound != Some("vfio-pci") {
            let module = if self.path("sys/bus/pci/drivers/vfio-pci").exists() { "" } else { "modprobe vfio-pci && " };
            lacks.push(format!(
                "{}, and has to be to vfio-pci: {module}dpdk-devbind.py -b vfio-pci {address} (Debian: dpdk)",
                bound_to(bound)
            ));
        }
        let Some(group) = self.link(&format!("sys/bus/pci/devices/{address}/iommu_group")) else {
            lacks.push(
                "the IOMMU is off: the kernel needs intel_iommu=on or amd_iommu=on, and the firmware VT-d or AMD-Vi"
                    .to_owned(),
            );
            return;
        };
        for other in self.names(&format!("sys/kernel/iommu_groups/{group}/devices")) {
            let driver = self.link(&format!("sys/bus/pci/devices/{other}/driver"));
            // A bridge stays with its driver.
            let is_harmless = driver.as_deref().is_none_or(|driver| driver == "vfio-pci" || driver == "pcieport");
            if other != address && !is_harmless {
                let driver = driver.unwrap_or_default();
                lacks.push(format!(
                    "{other} is in the same IOMMU group and bound to {driver}: a group is given away as a whole"
                ));
            }
        }
        if bound == Some("vfio-pci") {
            for file in ["dev/vfio/vfio".to_owned(), format!("dev/vfio/{group}")] {
                if let Err(why) = (self.opens)(&self.path(&file)) {
                    lacks.push(format!("/{file} cannot be opened to read and write: {why}"));
                }
            }
        }
        lacks.extend(self.locked_memory(memory));
    }

    /// VFIO locks the memory that a device reaches, as far as the process may (getrlimit(2), `RLIMIT_MEMLOCK`).
    fn locked_memory(&self, memory: u32) -> Option<String> {
        const CAP_IPC_LOCK: u64 = 1 << 14;
        let status = self.text("proc/self/status");
        let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        if u64::from_str_radix(capabilities.trim(), 16).ok()? & CAP_IPC_LOCK != 0 {
            return None;
        }
        let limits = self.text("proc/self/limits");
        let limit = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
        // `unlimited` is no number.
        let mib = limit.split_whitespace().next()?.parse::<u64>().ok()? >> 20;
        (mib < u64::from(memory)).then(|| {
            format!("the process may lock {mib} MiB of memory, and DPDK has {memory}: ulimit -l, or LimitMEMLOCK= of its unit")
        })
    }

    fn path(&self, file: &str) -> PathBuf {
        self.root.join(file)
    }

    /// What is in a file; nothing where there is none.
    fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.path(file)).unwrap_or_default()
    }

    /// The last part of where a link leads.
    fn link(&self, file: &str) -> Option<String> {
        let target = std::fs::read_link(self.path(file)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }

    /// What is in a folder, in order.
    fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).into_iter().flatten().filter_map(Result::ok);
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }
}

fn bound_to(driver: Option<&str>) -> String {
    driver.map_or_else(|| "it is bound to no kernel driver".to_owned(), |driver| format!("it is bound to {driver}"))
}

/// Whether a name is an address: `0000:3d:01.0`.
pub(crate) fn is_pci(name: &str) -> bool {
    name.contains(':')
}

#[cfg(test)]
mod tests;
