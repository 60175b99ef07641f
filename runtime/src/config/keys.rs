//! The table of configuration keys, [`KEYS`]. Parsing, messages, `gantry config`, the sample file and the manual page use it.

use std::num::NonZero;

use super::devices::{DPDK, FALLBACK_DEVICE};
use super::stats::StatsChoice;
use super::{Config, Origin, Setting};
use crate::policy::PolicyChoice;
use crate::suggest::{nearest, suggest};

/// A key of the configuration.
#[derive(Debug)]
pub struct Key {
    /// The name in a file.
    pub name: &'static str,
    /// The accepted values.
    pub accepts: &'static str,
    /// The default value.
    pub default: &'static str,
    /// The documentation for operators.
    pub doc: &'static str,
    /// A line of the sample file.
    pub example: &'static str,
    read: fn(&mut Config, RawValue<'_>) -> Result<(), String>,
    show: fn(&Config) -> Vec<ShownSetting>,
}

/// All keys.
pub static KEYS: &[Key] = &[
    Key {
        name: "devices",
        accepts: "on or off for each name; for dpdk a list of devices or off",
        default: "on, but null, afalg, devcrypto, dpdk and model:NAME off",
        doc: "Turns devices on or off. In variables and arguments: NAME=on,NAME=off. afalg and devcrypto stand for \
              all devices of their drivers. dpdk takes a list of DPDK devices, which are vdevs with their arguments \
              or PCI addresses, as in [\"crypto_openssl\", \"0000:3d:01.0\"]. The software device cannot be turned \
              off: requests end up there when all other devices fail.",
        example: "devices.lanes = \"off\"",
        read: read_device,
        show: |config| {
            let row = |(name, setting): (&String, &Setting<bool>)| {
                #[cfg(feature = "dpdk")]
                if name == DPDK {
                    return ShownSetting::new(format!("devices.{name}"), config.dpdk.devices(), &setting.origin);
                }
                ShownSetting::new(format!("devices.{name}"), on_or_off(setting.value).to_owned(), &setting.origin)
            };
            config.devices.iter().map(row).collect()
        },
    },
    Key {
        name: "policy",
        accepts: PolicyChoice::ACCEPTED,
        default: "latency",
        doc: "The policy that chooses a device for each request. The policies latency, throughput and offload use \
              costs measured on this machine. With latency, each request finishes as early as possible. With \
              throughput, as many requests as possible finish in the long run. With offload, the calling thread has \
              as little work as possible. With break-even, the declaration of each device is believed. With pin and \
              failover, the named devices serve the requests that they can serve. With size-threshold, the size of a \
              request selects the device.",
        example: "policy = \"failover:lanes,software\"",
        read: |config, raw| {
            let value =
                raw.value.parse().map_err(|()| raw.invalid_value(PolicyChoice::ACCEPTED, PolicyChoice::NAMES))?;
            config.policy = raw.setting(value)?;
            Ok(())
        },
        show: |config| vec![ShownSetting::new("policy".into(), config.policy.value.to_string(), &config.policy.origin)],
    },
    Key {
        name: "require",
        accepts: "none or validated",
        default: "none",
        doc: "With validated, only devices that say that they are FIPS 140 validated modules get requests: software \
              with an AWS-LC that was built as one, and afalg with a kernel in FIPS mode. Lanes never do. Without such \
              a device, Gantry does not open. Hashes of gantry sum and of libraries without sessions are not affected.",
        example: "require = \"validated\"",
        read: |config, raw| {
            let value = match raw.value {
                "none" => false,
                "validated" => true,
                _ => return Err(raw.invalid_value("none or validated", &["none", "validated"])),
            };
            config.require_validated = raw.setting(value)?;
            Ok(())
        },
        show: |config| {
            let value = if config.require_validated.value { "validated" } else { "none" };
            vec![ShownSetting::new("require".into(), value.to_owned(), &config.require_validated.origin)]
        },
    },
    Key {
        name: "cpu",
        accepts: "auto, avx512, vaes, avx2 or base",
        default: "auto",
        doc: "The highest instruction set that the lanes device may use. auto is the best one of the CPU; base is \
              available on every CPU of the architecture.",
        example: "cpu = \"avx2\"",
        read: |config, raw| {
            const LEVELS: &[&str] = &["auto", "avx512", "vaes", "avx2", "base"];
            let level = LEVELS.iter().find(|level| **level == raw.value);
            config.cpu =
                raw.setting(*level.ok_or_else(|| raw.invalid_value("auto, avx512, vaes, avx2 or base", LEVELS))?)?;
            Ok(())
        },
        show: |config| vec![ShownSetting::new("cpu".into(), config.cpu.value.to_owned(), &config.cpu.origin)],
    },
    Key {
        name: "threads",
        accepts: "auto or a number from 1 on",
        default: "auto",
        doc: "Maximum number of threads of gantry sum, verity and torrent. auto is one per CPU; for sum, at most 16.",
        example: "threads = 4",
        read: |config, raw| {
            let threads = match raw.value {
                "auto" => None,
                number => {
                    let number: Option<NonZero<usize>> = number.parse().ok();
                    Some(number.ok_or_else(|| raw.invalid_value("auto or a number from 1 on", &["auto"]))?)
                }
            };
            config.threads = raw.setting(threads)?;
            Ok(())
        },
        show: |config| {
            let value = config.threads.value.map_or_else(|| "auto".to_owned(), |threads| threads.to_string());
            vec![ShownSetting::new("threads".into(), value, &config.threads.origin)]
        },
    },
    Key {
        name: "verify",
        accepts: "off or 1/N",
        default: "off",
        doc: "Repeats one in N requests of each thread in software and compares the results. If they differ, the \
              caller gets the result of software, and the device is quarantined. Streams are not verified.",
        example: "verify = \"1/1000\"",
        read: |config, raw| {
            let every = match raw.value {
                "off" => None,
                value => {
                    let every: Option<NonZero<u32>> = value.strip_prefix("1/").and_then(|every| every.parse().ok());
                    Some(every.ok_or_else(|| raw.invalid_value("off or 1/N", &["off"]))?)
                }
            };
            config.verify = raw.setting(every)?;
            Ok(())
        },
        show: |config| {
            let value = config.verify.value.map_or_else(|| "off".to_owned(), |every| format!("1/{every}"));
            vec![ShownSetting::new("verify".into(), value, &config.verify.origin)]
        },
    },
    Key {
        name: "stats",
        accepts: StatsChoice::ACCEPTED,
        default: "auto",
        doc: "Publishes the counters of a process for gantry stat, top and exporter. With auto, they are in a page \
              of memory, which root and the same user can read while the process lives. There is no page in a \
              program with more rights than its user, nor under a system call filter (seccomp). With on, there is a \
              page under a filter, too. With a folder, counters are as with auto, and also in a file there, which \
              remains. The file is written at most once a second while there are requests. The folder must be yours \
              and not writable by others. It must be set by a variable, an argument, or a file that only root and \
              you can change.",
        example: "stats = \"off\"",
        read: |config, raw| {
            let stats =
                raw.value.parse().map_err(|()| raw.invalid_value(StatsChoice::ACCEPTED, &["auto", "on", "off"]))?;
            if matches!(stats, StatsChoice::Folder(_)) {
                raw.check_origin()?;
            }
            config.stats = raw.setting(stats)?;
            Ok(())
        },
        show: |config| vec![ShownSetting::new("stats".into(), config.stats.value.to_string(), &config.stats.origin)],
    },
    #[cfg(feature = "dpdk")]
    Key {
        name: "dpdk",
        accepts: super::dpdk::ACCEPTS,
        default: "memory 64, eal --no-huge --iova-mode=va",
        doc: "Settings for starting DPDK, which happens when devices.dpdk lists a device. Its memory in MiB is \
              dpdk.memory. Options of its EAL about memory are in dpdk.eal (with hugepages: --in-memory). The path \
              of libgantry_dpdk.so.N is dpdk.shim, if it is not in its usual place. The number of queue pairs of \
              each device is dpdk.queues; by default one more than CPUs. These keys, and devices.dpdk, load code: a \
              file with them must be one that only root and you can change.",
        example: "dpdk.memory = 128",
        read: |config, raw| {
            let member = raw.member.ok_or("dpdk takes a name: dpdk.memory = 128")?;
            raw.check_origin()?;
            config.dpdk.set(member, raw.value)?;
            let written = Setting { value: raw.value.to_owned(), origin: raw.origin.clone() };
            config.dpdk.as_written.insert(member.to_owned(), written);
            Ok(())
        },
        show: |config| {
            let row = |(name, setting): (&String, &Setting<String>)| {
                ShownSetting::new(format!("dpdk.{name}"), setting.value.clone(), &setting.origin)
            };
            config.dpdk.as_written.iter().map(row).collect()
        },
    },
    #[cfg(feature = "model")]
    Key {
        name: "models",
        accepts: "a profile for each name",
        default: "the built-in profiles",
        doc: "Profiles of modelled devices. models.NAME defines the device model:NAME, which must also be turned on \
              in devices. A profile is like=MODEL and the differences from that model: ring=N, units=N, cap=MBIT, \
              order=kept|any, completion=interrupt|polled, submit=NS, complete=NS, jitter=PERCENT, seed=N, \
              power=IDLE-LOADED, and for each algorithm ALGORITHM=SETUP_NS+MBIT.",
        example: "models.mine = \"like=kirkwood,ring=8,aes-128-cbc=5000+800\"",
        read: |config, raw| {
            const NAMED: &str = "models takes a name: models.NAME = \"like=kirkwood,ring=8\"";
            let name = raw.member.ok_or(NAMED)?;
            let model = super::models::Model::new(name, raw.value)?;
            config.models.insert(name.to_owned(), Setting { value: model, origin: raw.origin.clone() });
            Ok(())
        },
        show: |config| {
            let models = config.models.iter();
            models
                .map(|(name, model)| {
                    ShownSetting::new(format!("models.{name}"), model.value.text.clone(), &model.origin)
                })
                .collect()
        },
    },
    #[cfg(feature = "model")]
    Key {
        name: "faults",
        accepts: "errors=1/N, wrong=1/N, panics=1/N, stalls=1/N, late=1/N, full=1/N, after=N and gone=N, with commas between",
        default: "none",
        doc: "Faults of the device model:faulty. The values of errors, wrong, panics, stalls and late are the \
              chances per request of a fault, a wrong bit, a panic, no answer and a late answer. The value of full \
              is the chance per submission that the device is full. The faults begin after=N requests. After gone=N \
              requests the device disappears.",
        example: "faults = \"errors=1/100,wrong=1/1000,after=500\"",
        read: |config, raw| {
            let plan = super::models::Plan::new(raw.value)?;
            config.faults = raw.setting(plan)?;
            Ok(())
        },
        show: |config| {
            vec![ShownSetting::new("faults".into(), config.faults.value.text.clone(), &config.faults.origin)]
        },
    },
];

impl Key {
    /// Returns the environment variable of the key.
    pub fn variable(&self) -> String {
        format!("GANTRY_{}", self.name.to_uppercase())
    }
}

/// Returns a sample file with every key, explained and commented out.
pub fn sample() -> String {
    let mut text = "# Gantry's configuration. Every key is optional; the values here are examples.\n".to_owned();
    for key in KEYS {
        text += "\n";
        text += &wrap_comment(key.doc);
        text +=
            &wrap_comment(&format!("Accepts {}. Default: {}. Variable: {}.", key.accepts, key.default, key.variable()));
        text += "#";
        text += key.example;
        text += "\n";
    }
    text
}

/// A key with its value, for display.
#[derive(Debug)]
pub struct ShownSetting {
    /// The key; in a table, with the member, as in `devices.null`.
    pub key: String,
    /// The value in the syntax of the configuration.
    pub value: String,
    /// The origin of the value.
    pub origin: Origin,
}

impl ShownSetting {
    fn new(key: String, value: String, origin: &Origin) -> Self {
        Self { key, value, origin: origin.clone() }
    }
}

/// Returns every key with its value.
pub(crate) fn show(config: &Config) -> Vec<ShownSetting> {
    KEYS.iter().flat_map(|key| (key.show)(config)).collect()
}

/// Sets one key. `path` is its name, or name and member (`devices.null`).
pub(crate) fn read(
    config: &mut Config,
    path: &str,
    value: &str,
    origin: &Origin,
    distrust: Option<&str>,
) -> Result<(), String> {
    let (name, member) = path.split_once('.').map_or((path, None), |(name, member)| (name, Some(member)));
    let Some(key) = KEYS.iter().find(|key| key.name == name) else {
        // Ignore settings of a driver that this build lacks.
        if name == DPDK {
            return Ok(());
        }
        let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        return Err(format!("unknown key '{path}'{}", suggest(name, &names)));
    };
    (key.read)(config, RawValue { path, member, value, origin, distrust })
}

/// A value to be read into the configuration.
#[derive(Clone, Copy)]
struct RawValue<'a> {
    path: &'a str,
    member: Option<&'a str>,
    value: &'a str,
    origin: &'a Origin,
    /// The reason why another user may have written the value; `None` if no other user can have.
    distrust: Option<&'a str>,
}

impl RawValue<'_> {
    /// Refuses a value that another user may have written. Used for keys that load code or write files.
    fn check_origin(&self) -> Result<(), String> {
        self.distrust.map_or(Ok(()), |why| {
            Err(format!(
                "{} must be in a file that only root and the user of this process can change: {why}",
                self.path
            ))
        })
    }

    /// Returns a value with its origin, for a key without members. Fails for a path with a member, such as `cpu.level`.
    fn setting<T>(&self, value: T) -> Result<Setting<T>, String> {
        match self.member {
            None => Ok(Setting { value, origin: self.origin.clone() }),
            Some(_) => Err(format!("unknown key '{}'", self.path)),
        }
    }

    fn invalid_value(&self, accepts: &str, words: &[&str]) -> String {
        let word = self.value.split(':').next().unwrap_or_default();
        let suggestion = nearest(word, words).filter(|near| *near != word);
        let suggestion = suggestion.map_or(String::new(), |near| format!("; did you mean {near}?"));
        format!("{} cannot be '{}': it is {accepts}{suggestion}", self.path, self.value)
    }
}

/// Reads `devices.NAME = "on"`, or `devices = "NAME=on,NAME=off"`.
fn read_device(config: &mut Config, raw: RawValue<'_>) -> Result<(), String> {
    let Some(name) = raw.member else {
        for part in raw.value.split(',') {
            let (name, value) = part.split_once('=').ok_or("devices takes NAME=on or NAME=off, with commas between")?;
            let path = format!("devices.{name}");
            read_device(config, RawValue { path: &path, member: Some(name), value, ..raw })?;
        }
        return Ok(());
    };
    if name == DPDK {
        // Takes a list. Builds without the driver ignore it.
        #[cfg(feature = "dpdk")]
        read_dpdk_devices(config, raw)?;
        return Ok(());
    }
    let value = match raw.value {
        "on" => true,
        "off" if name == FALLBACK_DEVICE => {
            return Err(format!("{name} cannot be turned off: requests end up there when all other devices fail"));
        }
        "off" => false,
        _ => return Err(raw.invalid_value("on or off", &["on", "off"])),
    };
    config.devices.insert(name.to_owned(), Setting { value, origin: raw.origin.clone() });
    Ok(())
}

/// Reads `devices.dpdk`: a list of devices, one device, or `off`.
#[cfg(feature = "dpdk")]
fn read_dpdk_devices(config: &mut Config, raw: RawValue<'_>) -> Result<(), String> {
    config.dpdk.set_devices(raw.value)?;
    let is_on = !config.dpdk.options.devices.is_empty();
    if is_on {
        raw.check_origin()?;
    }
    config.devices.insert(DPDK.to_owned(), Setting { value: is_on, origin: raw.origin.clone() });
    Ok(())
}

fn on_or_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

/// Formats `text` as comment lines of at most 80 columns.
fn wrap_comment(text: &str) -> String {
    let mut lines = String::from("#");
    let mut width = 1;
    for word in text.split(' ') {
        if width + 1 + word.len() > 80 {
            lines += "\n#";
            width = 1;
        }
        lines += " ";
        lines += word;
        width += 1 + word.len();
    }
    lines + "\n"
}
