//! Parsing, messages, `gantry config`, the sample file and the manual page are all made from [`KEYS`].

use std::num::NonZero;

use crate::config::{Config, Origin, Setting};
use crate::drivers;
use crate::policy::PolicyChoice;
use crate::stats::StatsChoice;
use crate::suggest::{nearest, suggest};

/// A key of the configuration.
#[derive(Debug)]
pub struct Key {
    /// As it is written in a file.
    pub name: &'static str,
    /// What a value may be.
    pub accepts: &'static str,
    /// What it is when nobody says anything.
    pub default: &'static str,
    /// What it does, in sentences for operators.
    pub doc: &'static str,
    /// A line of the sample file.
    pub example: &'static str,
    read: fn(&mut Config, Entry<'_>) -> Result<(), String>,
    show: fn(&Config) -> Vec<Shown>,
}

/// Every key.
pub static KEYS: &[Key] = &[
    Key {
        name: "devices",
        accepts: "on or off for each name; for dpdk a list of devices or off",
        default: "on, but null, afalg, devcrypto, dpdk and model:NAME off",
        doc: "Whether a device is used. In variables and arguments: NAME=on,NAME=off. afalg and devcrypto stand for all \
              devices of their drivers. dpdk is a list of DPDK's devices, vdevs with their arguments or PCI addresses, as \
              [\"crypto_openssl\", \"0000:3d:01.0\"]. The software device cannot be turned off: it is where every request ends up when \
              all others fail.",
        example: "devices.lanes = \"off\"",
        read: read_device,
        show: |config| {
            let row = |(name, setting): (&String, &Setting<bool>)| {
                #[cfg(feature = "dpdk")]
                if name == crate::dpdk::NAME {
                    return Shown::new(format!("devices.{name}"), config.dpdk.devices(), &setting.origin);
                }
                Shown::new(format!("devices.{name}"), on_off(setting.value).to_owned(), &setting.origin)
            };
            config.devices.iter().map(row).collect()
        },
    },
    Key {
        name: "policy",
        accepts: PolicyChoice::ACCEPTED,
        default: "latency",
        doc: "What chooses between the devices. latency, throughput and offload go by what was measured on this machine: \
              requests are done as early as possible, as many as possible are done in the long run, or the calling thread \
              has as little to do as possible. break-even believes what each device declares; pin and failover keep to \
              the named devices as far as these can serve a request; size-threshold parts requests by their size.",
        example: "policy = \"failover:lanes,software\"",
        read: |config, entry| {
            let value = entry.value.parse().map_err(|()| entry.refuse(PolicyChoice::ACCEPTED, PolicyChoice::NAMES))?;
            config.policy = entry.setting(value)?;
            Ok(())
        },
        show: |config| vec![Shown::new("policy".into(), config.policy.value.to_string(), &config.policy.origin)],
    },
    Key {
        name: "cpu",
        accepts: "auto, avx512, vaes, avx2 or base",
        default: "auto",
        doc: "The highest instruction set that the lanes device may use. auto is the best that the CPU has, base what every \
              CPU of its architecture has.",
        example: "cpu = \"avx2\"",
        read: |config, entry| {
            const LEVELS: &[&str] = &["auto", "avx512", "vaes", "avx2", "base"];
            let level = LEVELS.iter().find(|level| **level == entry.value);
            config.cpu =
                entry.setting(*level.ok_or_else(|| entry.refuse("auto, avx512, vaes, avx2 or base", LEVELS))?)?;
            Ok(())
        },
        show: |config| vec![Shown::new("cpu".into(), config.cpu.value.to_owned(), &config.cpu.origin)],
    },
    Key {
        name: "threads",
        accepts: "auto or a number from 1 on",
        default: "auto",
        doc: "The most threads that gantry sum works with. auto is one for each CPU, and 16 at most.",
        example: "threads = 4",
        read: |config, entry| {
            let threads = match entry.value {
                "auto" => None,
                number => {
                    let number: Option<NonZero<usize>> = number.parse().ok();
                    Some(number.ok_or_else(|| entry.refuse("auto or a number from 1 on", &["auto"]))?)
                }
            };
            config.threads = entry.setting(threads)?;
            Ok(())
        },
        show: |config| {
            let value = config.threads.value.map_or_else(|| "auto".to_owned(), |threads| threads.to_string());
            vec![Shown::new("threads".into(), value, &config.threads.origin)]
        },
    },
    Key {
        name: "verify",
        accepts: "off or 1/N",
        default: "off",
        doc: "Computes one in N requests of each thread a second time, on software, and compares. Where they differ the caller \
              gets what software says, and the device is quarantined. Messages in pieces are not verified.",
        example: "verify = \"1/1000\"",
        read: |config, entry| {
            let every = match entry.value {
                "off" => None,
                value => {
                    let every: Option<NonZero<u32>> = value.strip_prefix("1/").and_then(|every| every.parse().ok());
                    Some(every.ok_or_else(|| entry.refuse("off or 1/N", &["off"]))?)
                }
            };
            config.verify = entry.setting(every)?;
            Ok(())
        },
        show: |config| {
            let value = config.verify.value.map_or_else(|| "off".to_owned(), |every| format!("1/{every}"));
            vec![Shown::new("verify".into(), value, &config.verify.origin)]
        },
    },
    Key {
        name: "stats",
        accepts: StatsChoice::ACCEPTED,
        default: "auto",
        doc: "Where a process counts so that gantry stat, top and exporter see it. auto: in a page of memory, which root and the \
              same user can read while the process lives; but not in a program with rights that its user has not, nor within a \
              filter of system calls (seccomp). on: within a filter, too. A folder, which must be yours and writable by nobody \
              else: also in a file there, which stays, written at most once a second while requests come. It is named in a \
              variable, an argument, or a file that only root and you can change.",
        example: "stats = \"off\"",
        read: |config, entry| {
            let stats =
                entry.value.parse().map_err(|()| entry.refuse(StatsChoice::ACCEPTED, &["auto", "on", "off"]))?;
            if matches!(stats, StatsChoice::Folder(_)) {
                entry.must_be_ours()?;
            }
            config.stats = entry.setting(stats)?;
            Ok(())
        },
        show: |config| vec![Shown::new("stats".into(), config.stats.value.to_string(), &config.stats.origin)],
    },
    #[cfg(feature = "dpdk")]
    Key {
        name: "dpdk",
        accepts: crate::dpdk::ACCEPTS,
        default: "memory 64, eal --no-huge --iova-mode=va",
        doc: "How DPDK is started, once devices.dpdk lists a device. dpdk.memory is its memory in MiB, dpdk.eal what its EAL is \
              told of memory (with hugepages: --in-memory), dpdk.shim the path of libgantry_dpdk.so.N where it does not lie in \
              its usual place, and dpdk.queues the queue pairs of each device, otherwise one more than CPUs. These keys, and \
              devices.dpdk, load code: they count in files that only root and you can change.",
        example: "dpdk.memory = 128",
        read: |config, entry| {
            let member = entry.member.ok_or("dpdk takes a name: dpdk.memory = 128")?;
            entry.must_be_ours()?;
            config.dpdk.set(member, entry.value)?;
            let written = Setting { value: entry.value.to_owned(), origin: entry.origin.clone() };
            config.dpdk.written.insert(member.to_owned(), written);
            Ok(())
        },
        show: |config| {
            let row = |(name, setting): (&String, &Setting<String>)| {
                Shown::new(format!("dpdk.{name}"), setting.value.clone(), &setting.origin)
            };
            config.dpdk.written.iter().map(row).collect()
        },
    },
    #[cfg(feature = "model")]
    Key {
        name: "models",
        accepts: "a profile for each name",
        default: "those that are built in",
        doc: "Profiles of modelled devices. models.NAME is the device model:NAME, once devices turns that on. A profile is \
              like=MODEL and what differs from it: ring=N, units=N, cap=MBIT, order=kept|any, \
              completion=interrupt|polled, submit=NS, complete=NS, jitter=PERCENT, seed=N, power=IDLE-LOADED, and for \
              each algorithm ALGORITHM=SETUP_NS+MBIT.",
        example: "models.mine = \"like=kirkwood,ring=8,aes-128-cbc=5000+800\"",
        read: |config, entry| {
            const NAMED: &str = "models takes a name: models.NAME = \"like=kirkwood,ring=8\"";
            let name = entry.member.ok_or(NAMED)?;
            let model = crate::models::Model::new(name, entry.value)?;
            config.models.insert(name.to_owned(), Setting { value: model, origin: entry.origin.clone() });
            Ok(())
        },
        show: |config| {
            let models = config.models.iter();
            models
                .map(|(name, model)| Shown::new(format!("models.{name}"), model.value.text.clone(), &model.origin))
                .collect()
        },
    },
    #[cfg(feature = "model")]
    Key {
        name: "faults",
        accepts: "errors=1/N, wrong=1/N, panics=1/N, stalls=1/N, late=1/N, full=1/N, after=N and gone=N, with commas between",
        default: "none",
        doc: "What goes wrong with the device model:faulty: chances for each request of a fault, a wrong bit, a panic, no answer \
              at all, a late answer, and for each submission of a device that says that it is full; after so many requests \
              that go well. After gone=N requests it has disappeared.",
        example: "faults = \"errors=1/100,wrong=1/1000,after=500\"",
        read: |config, entry| {
            let plan = crate::models::Plan::new(entry.value)?;
            config.faults = entry.setting(plan)?;
            Ok(())
        },
        show: |config| vec![Shown::new("faults".into(), config.faults.value.text.clone(), &config.faults.origin)],
    },
];

impl Key {
    /// The variable that sets it.
    pub fn variable(&self) -> String {
        format!("GANTRY_{}", self.name.to_uppercase())
    }
}

/// A file with every key, each explained and commented out.
pub fn sample() -> String {
    let mut text = "# Gantry's configuration. Every key is optional; what stands here are examples.\n".to_owned();
    for key in KEYS {
        text += "\n";
        text += &wrapped(key.doc);
        text += &wrapped(&format!("Accepts {}. Default: {}. Variable: {}.", key.accepts, key.default, key.variable()));
        text += "#";
        text += key.example;
        text += "\n";
    }
    text
}

/// A key with its value, as the configuration shows it.
#[derive(Debug)]
pub struct Shown {
    /// The key, with the member of a table.
    pub key: String,
    /// The value, as it would be written.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

impl Shown {
    fn new(key: String, value: String, origin: &Origin) -> Self {
        Self { key, value, origin: origin.clone() }
    }
}

/// Every key with its value.
pub(crate) fn show(config: &Config) -> Vec<Shown> {
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
        let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        return Err(format!("unknown key '{path}'{}", suggest(name, &names)));
    };
    (key.read)(config, Entry { path, member, value, origin, distrust })
}

/// A value on its way into the configuration.
#[derive(Clone, Copy)]
struct Entry<'a> {
    path: &'a str,
    member: Option<&'a str>,
    value: &'a str,
    origin: &'a Origin,
    /// Why another user may have written it, if one may.
    distrust: Option<&'a str>,
}

impl Entry<'_> {
    /// Of keys by which code is loaded, or files are written.
    fn must_be_ours(&self) -> Result<(), String> {
        self.distrust.map_or(Ok(()), |why| {
            Err(format!("{} counts in a file that only root and the user of this process can change: {why}", self.path))
        })
    }

    /// The value of a key that has no members.
    fn setting<T>(&self, value: T) -> Result<Setting<T>, String> {
        match self.member {
            None => Ok(Setting { value, origin: self.origin.clone() }),
            Some(_) => Err(format!("unknown key '{}'", self.path)),
        }
    }

    fn refuse(&self, accepts: &str, words: &[&str]) -> String {
        let word = self.value.split(':').next().unwrap_or_default();
        let meant = nearest(word, words).filter(|near| *near != word);
        let meant = meant.map_or(String::new(), |near| format!("; did you mean {near}?"));
        format!("{} cannot be '{}': it is {accepts}{meant}", self.path, self.value)
    }
}

/// `devices.NAME = "on"`, or `devices = "NAME=on,NAME=off"`.
fn read_device(config: &mut Config, entry: Entry<'_>) -> Result<(), String> {
    let Some(name) = entry.member else {
        for part in entry.value.split(',') {
            let (name, value) = part.split_once('=').ok_or("devices takes NAME=on or NAME=off, with commas between")?;
            let path = format!("devices.{name}");
            read_device(config, Entry { path: &path, member: Some(name), value, ..entry })?;
        }
        return Ok(());
    };
    #[cfg(feature = "dpdk")]
    if name == crate::dpdk::NAME {
        config.dpdk.set_devices(entry.value)?;
        if !config.dpdk.options.devices.is_empty() {
            entry.must_be_ours()?;
        }
        let on = !config.dpdk.options.devices.is_empty();
        config.devices.insert(name.to_owned(), Setting { value: on, origin: entry.origin.clone() });
        return Ok(());
    }
    let value = match entry.value {
        "on" => true,
        "off" if name == drivers::LAST_RESORT => {
            return Err(format!(
                "{name} cannot be turned off: it is where requests end up when all other devices fail"
            ));
        }
        "off" => false,
        _ => return Err(entry.refuse("on or off", &["on", "off"])),
    };
    config.devices.insert(name.to_owned(), Setting { value, origin: entry.origin.clone() });
    Ok(())
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// `text` as comment lines.
fn wrapped(text: &str) -> String {
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
