//! Settings of DPDK.

use std::collections::BTreeMap;
use std::path::Path;

use gantry_driver_dpdk::Options;
use toml::de::{DeTable, DeValue};

use super::Setting;

/// The configuration of DPDK.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) options: Options,
    /// The `dpdk.*` settings as written, by member.
    pub(crate) as_written: BTreeMap<String, Setting<String>>,
}

pub(crate) const ACCEPTS: &str = "a value for each of memory, eal, shim and queues";

impl Settings {
    /// Sets `dpdk.MEMBER`.
    pub(crate) fn set(&mut self, member: &str, value: &str) -> Result<(), String> {
        let number = |min: u32| value.parse().ok().filter(|number| *number >= min);
        match member {
            "memory" => {
                self.options.memory_mib = number(16).ok_or("dpdk.memory is a number of MiB, from 16 on")?;
            }
            "queues" => {
                self.options.queue_pairs = Some(number(1).ok_or("dpdk.queues is a number from 1 on")?);
            }
            "eal" => {
                let words: Vec<&str> = value.split_whitespace().collect();
                if let Some(wrong) = words.iter().find(|word| word.starts_with('-') && !is_memory_option(word)) {
                    return Err(format!("dpdk.eal takes options about memory, and not '{wrong}': {}", EAL.join(", ")));
                }
                self.options.eal = words.into_iter().map(str::to_owned).collect();
            }
            "shim" => {
                let path = Path::new(value);
                if !path.is_absolute() {
                    return Err("dpdk.shim is an absolute path".to_owned());
                }
                self.options.shim = Some(path.to_owned());
            }
            _ => {
                return Err(format!(
                    "unknown key 'dpdk.{member}'{}",
                    crate::suggest(member, &["memory", "eal", "shim", "queues"])
                ));
            }
        }
        Ok(())
    }

    /// Sets `devices.dpdk`: a list of devices, one device, or `off`.
    pub(crate) fn set_devices(&mut self, value: &str) -> Result<(), String> {
        const ACCEPTED: &str = "devices.dpdk is off or a list of devices, as [\"crypto_openssl\", \"0000:3d:01.0\"]";
        let devices = match value {
            "off" => Vec::new(),
            list if list.starts_with('[') => strings(list).ok_or(ACCEPTED)?,
            // A name without these characters could be a misspelt `on` or `off`.
            name if name.contains(['_', ':']) => vec![name.to_owned()],
            _ => return Err(ACCEPTED.to_owned()),
        };
        let first = |line: &String| line.split(',').next().unwrap_or_default().to_owned();
        let mut names: Vec<String> = devices.iter().map(first).collect();
        names.sort_unstable();
        if let Some([duplicate, _]) = names.array_windows().find(|[one, other]| one == other) {
            return Err(format!("devices.dpdk names '{duplicate}' twice"));
        }
        self.options.devices = devices;
        Ok(())
    }

    /// Returns the devices in the syntax of the configuration.
    pub(crate) fn devices(&self) -> String {
        if self.options.devices.is_empty() { "off".to_owned() } else { format!("{:?}", self.options.devices) }
    }
}

/// The accepted options of DPDK's EAL. Nearly all are about memory. Others are refused, because some load code (`-d`). Abbreviations, which
/// the EAL would take, are refused too.
const EAL: [&str; 15] = [
    "--base-virtaddr",
    "--file-prefix",
    "--force-max-simd-bitwidth",
    "--huge-dir",
    "--huge-unlink",
    "--huge-worker-stack",
    "--in-memory",
    "--iova-mode",
    "--legacy-mem",
    "--match-allocations",
    "--no-huge",
    "--single-file-segments",
    "--socket-limit",
    "--socket-mem",
    "--vfio-vf-token",
];

fn is_memory_option(option: &str) -> bool {
    let name = option.split_once('=').map_or(option, |(name, _)| name);
    EAL.contains(&name)
}

/// Parses a list of strings in TOML.
fn strings(list: &str) -> Option<Vec<String>> {
    let text = format!("list = {list}");
    let table = DeTable::parse(&text).ok()?;
    let (_, value) = table.get_ref().iter().next()?;
    let DeValue::Array(values) = value.get_ref() else { return None };
    let string = |value: &toml::Spanned<DeValue<'_>>| match value.get_ref() {
        DeValue::String(text) if !text.is_empty() => Some(text.to_string()),
        _ => None,
    };
    values.iter().map(string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_one_device_or_a_list_with_arguments() {
        let of = |value: &str| {
            let mut settings = Settings::default();
            settings.set_devices(value).map(|()| settings.options.devices)
        };
        let two = "[\"crypto_aesni_mb,max_nb_queue_pairs=4\",\n \"0000:3d:01.0\"]";
        assert_eq!(of(two).unwrap(), ["crypto_aesni_mb,max_nb_queue_pairs=4", "0000:3d:01.0"]);
        assert_eq!(of("crypto_openssl").unwrap(), ["crypto_openssl"]);
        assert!(of("off").unwrap().is_empty());
        for wrong in ["on", "[1]", "[\"\"]", "[\"crypto_null\"", ""] {
            assert!(of(wrong).unwrap_err().starts_with("devices.dpdk is off or a list"), "{wrong}");
        }
        let duplicate = of("[\"crypto_null\", \"crypto_null,socket_id=0\"]").unwrap_err();
        assert_eq!(duplicate, "devices.dpdk names 'crypto_null' twice");
    }

    #[test]
    fn refuses_invalid_settings() {
        let wrong = |member, value| Settings::default().set(member, value).unwrap_err();
        assert_eq!(wrong("memory", "15"), "dpdk.memory is a number of MiB, from 16 on");
        assert_eq!(wrong("queues", "0"), "dpdk.queues is a number from 1 on");
        assert_eq!(wrong("shim", "libgantry_dpdk.so"), "dpdk.shim is an absolute path");
        assert_eq!(wrong("memry", "64"), "unknown key 'dpdk.memry'; did you mean memory?");
        for eal in
            ["-d x.so", "-dx.so", "--in-memory --driver-path=x.so", "--no-hug", "--", "-vd x.so", "--vdev=net_pcap0"]
        {
            let error = wrong("eal", eal);
            assert!(error.starts_with("dpdk.eal takes options about memory, and not '-"), "{error}");
        }
        Settings::default().set("eal", "--in-memory --socket-mem 64 --huge-unlink=never").unwrap();
    }
}
