//! Loads the shim, starts DPDK once in a process, and starts its devices.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::Options;
use crate::engine::{DESCRIPTORS, Engine};
use crate::missing::{Machine, is_pci};
use crate::pmds::package;
use crate::sys::{self, Cryptodev, Shim};

/// DPDK releases whose shim is searched for, by ABI number, newest first: 25.11, 24.11, 23.11, 22.11.
const RELEASES: [u32; 4] = [26, 25, 24, 23];
/// DPDK sessions to configure per device, unless its limit is lower.
const MAX_SESSIONS: u32 = 1024;
/// Bytes of stack for the thread that starts devices.
const STACK_BYTES: usize = 16 << 20;

/// DPDK, once it runs in this process. It starts once, with the options of the first caller.
static STARTED: OnceLock<Result<Shim, String>> = OnceLock::new();
/// Running devices, or the reasons why they do not run. Locked while DPDK adds a device, because DPDK then examines all others.
static ENGINES: Mutex<BTreeMap<String, Result<Arc<Engine>, String>>> = Mutex::new(BTreeMap::new());

/// Starts DPDK, unless it runs already.
pub(crate) fn start(options: &Options) -> Result<Shim, String> {
    STARTED.get_or_init(|| start_now(options)).clone()
}

fn start_now(options: &Options) -> Result<Shim, String> {
    let shim = load(options)?;
    sys::record_process();
    let arguments: Result<Vec<CString>, _> = arguments(options).into_iter().map(CString::new).collect();
    let arguments = arguments.map_err(|_| "an EAL argument contains a zero byte".to_owned())?;
    in_thread(|| shim.start(arguments)).map_err(|reason| {
        let missing = Machine::default().find_missing_memory(&options.eal, options.memory_mib);
        explain("DPDK failed to start", &reason, missing.as_slice())
    })?;
    Ok(shim)
}

/// Runs `work` in a temporary thread, because DPDK binds the thread that starts it to a CPU. The stack has the size of a main
/// thread's: some of DPDK's code needs it (the scheduler of 24.11 has arrays of megabytes).
fn in_thread<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("dpdk-start".to_owned()).stack_size(STACK_BYTES);
        let thread =
            builder.spawn_scoped(scope, work).map_err(|error| format!("cannot start a thread for DPDK: {error}"))?;
        thread.join().unwrap_or_else(|_| Err("the thread that starts DPDK panicked".to_owned()))
    })
}

/// Returns the arguments for starting DPDK.
fn arguments(options: &Options) -> Vec<String> {
    let mut arguments = vec!["gantry".to_owned()];
    // DPDK makes no sockets and no files, and starts no threads for them.
    arguments.extend(["--no-telemetry", "--no-shconf", "--log-level=error"].map(str::to_owned));
    // DPDK gets one lcore, on any CPU that the process may use.
    arguments.push(format!("--lcores=0@({})", allowed_cpus()));
    arguments.extend(["-m".to_owned(), options.memory_mib.to_string()]);
    let pci: Vec<&String> = options.devices.iter().filter(|device| is_pci(device_name(device))).collect();
    if pci.is_empty() {
        arguments.push("--no-pci".to_owned());
    }
    // With a list, DPDK ignores all other devices bound to its drivers. DPDK brings the listed ones up at its start, with their
    // arguments.
    arguments.extend(pci.into_iter().flat_map(|device| ["-a".to_owned(), device.clone()]));
    arguments.extend(options.eal.iter().cloned());
    arguments
}

/// Returns the CPUs that the process may use, in the kernel's notation: `0-3,8`.
fn allowed_cpus() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map_or("0", str::trim).to_owned()
}

/// Loads the shim of the newest installed release.
pub(crate) fn load(options: &Options) -> Result<Shim, String> {
    // The static C library has no dynamic linker.
    if cfg!(target_feature = "crt-static") {
        return Err(
            "this program is statically linked and cannot load DPDK's libraries; use a package, or build with `make`"
                .to_owned(),
        );
    }
    if gantry_rights::has_elevated_rights() {
        return Err(
            "this program has more rights than its caller, and DPDK would read the caller's environment variables"
                .to_owned(),
        );
    }
    if let Some(path) = &options.shim {
        return Shim::load(path).map_err(|reason| with_package_hint(&reason));
    }
    let shim_folders = shim_folders();
    let files = RELEASES
        .iter()
        .flat_map(|release| shim_folders.iter().map(move |folder| folder.join(format!("libgantry_dpdk.so.{release}"))));
    let mut problem = None;
    for file in files.filter(|file| file.exists()) {
        match Shim::load(&file) {
            Ok(shim) => return Ok(shim),
            Err(reason) => problem = problem.or(Some(reason)),
        }
    }
    Err(problem.map_or_else(
        || {
            let shim_folders: Vec<String> = shim_folders.iter().map(|folder| folder.display().to_string()).collect();
            format!(
                "libgantry_dpdk.so.{} to .{} not found in {}; build it with scripts/dpdk (Debian: libdpdk-dev, pkg-config)",
                RELEASES[RELEASES.len() - 1],
                RELEASES[0],
                shim_folders.join(", ")
            )
        },
        |reason| with_package_hint(&reason),
    ))
}

/// Returns the folders to search for the shim: the program's folder, the folder of `make install` under the program's prefix,
/// and the folders of `make install` under the usual prefixes.
fn shim_folders() -> Vec<PathBuf> {
    let program = std::env::current_exe().ok();
    let program_folder = program.as_deref().and_then(Path::parent);
    let installed = program_folder.and_then(Path::parent).map(|prefix| prefix.join("lib/gantry"));
    let mut shim_folders: Vec<PathBuf> = program_folder.map(Path::to_owned).into_iter().chain(installed).collect();
    shim_folders.extend(["/usr/local/lib/gantry", "/usr/lib/gantry"].map(PathBuf::from));
    let mut seen = std::collections::BTreeSet::new();
    shim_folders.retain(|folder| seen.insert(folder.clone()));
    shim_folders
}

/// Returns the dynamic linker's message, with the missing Debian package.
fn with_package_hint(reason: &str) -> String {
    let library = reason.split(['/', ':', ' ']).find(|word| word.starts_with("librte_") && word.contains(".so."));
    match library.and_then(|library| library.split_once(".so.")) {
        Some((name, release)) => format!("{reason} (Debian: {})", package(name, release)),
        None => reason.to_owned(),
    }
}

/// Returns the devices of a line of the configuration by name, started if necessary. Most lines name one device; an Intel card
/// has a second cryptodev, for asymmetric cryptography.
pub(crate) fn start_engines(shim: Shim, line: &str, options: &Options) -> Vec<(String, Result<Arc<Engine>, String>)> {
    let name = device_name(line);
    let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut get_or_start = |name: String, bring_up: &(dyn Fn() -> Result<Engine, String> + Sync)| {
        // Retry a device that failed earlier.
        if !matches!(engines.get(&name), Some(Ok(_))) {
            engines.insert(name.clone(), in_thread(bring_up).map(Arc::new));
        }
        let engine = engines[&name].clone();
        (name, engine)
    };
    let first = get_or_start(name.to_owned(), &|| bring_up(shim, line, options));
    let is_symmetric = first.1.as_ref().is_ok_and(|engine| engine.cryptodev.is_symmetric);
    let has_second = is_symmetric && shim.find(name, true).is_some();
    let second = has_second.then(|| {
        get_or_start(format!("{name}-asym"), &|| {
            start_device(shim.find(name, true).ok_or("the asymmetric cryptodev has disappeared")?, options)
        })
    });
    std::iter::once(first).chain(second).collect()
}

/// Returns the device of this name, if it runs.
pub(crate) fn running(name: &str) -> Option<Arc<Engine>> {
    let engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    engines.get(name).and_then(|engine| engine.clone().ok())
}

fn bring_up(shim: Shim, line: &str, options: &Options) -> Result<Engine, String> {
    let name = device_name(line);
    let explain_missing = |failure: &str, reason: &str| {
        explain(failure, reason, &Machine::default().find_missing(name, shim.release(), options.memory_mib))
    };
    let find = || shim.find(name, false).or_else(|| shim.find(name, true));
    // Some buses start their devices when DPDK starts, so the cryptodev may exist already.
    if find().is_none() {
        plug(shim, line).map_err(|reason| explain_missing("DPDK cannot start the device", &reason))?;
    }
    let cryptodev = find().ok_or_else(|| explain_missing("DPDK created no cryptodev for the device", ""))?;
    start_device(cryptodev, options)
}

fn start_device(cryptodev: Cryptodev, options: &Options) -> Result<Engine, String> {
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get) as u32;
    // A queue pair for each CPU, and one for known-answer tests, which run at the same time as other requests.
    let queue_pairs = options.queue_pairs.unwrap_or(cpus + 1).min(cryptodev.max_queue_pairs).max(1);
    let sessions = if cryptodev.max_sessions == 0 { MAX_SESSIONS } else { MAX_SESSIONS.min(cryptodev.max_sessions) };
    cryptodev
        .configure(queue_pairs, DESCRIPTORS, sessions)
        .map_err(|reason| format!("DPDK cannot start the device: {reason}"))?;
    Ok(Engine::new(cryptodev, queue_pairs, options.lend_from))
}

/// Makes DPDK bring up a device that its scheduler will configure and start.
pub(crate) fn plug_worker(shim: Shim, line: &str, options: &Options) -> Result<(), String> {
    let _turn = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    in_thread(|| plug(shim, line)).map_err(|reason| {
        let missing = Machine::default().find_missing(device_name(line), shim.release(), options.memory_mib);
        explain("DPDK cannot start the device", &reason, &missing)
    })
}

/// Makes DPDK find and bring up a device, without starting it. Errors are DPDK's.
fn plug(shim: Shim, line: &str) -> Result<(), String> {
    let (name, arguments) = line.split_once(',').unwrap_or((line, ""));
    shim.plug(if is_pci(name) { c"pci" } else { c"vdev" }, name, arguments)
}

/// Returns a message with the failure, the reason that DPDK gave, and the missing parts.
fn explain(failure: &str, reason: &str, missing: &[String]) -> String {
    let parts = [failure, reason.trim_end_matches('.')]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(": ");
    if missing.is_empty() { parts } else { format!("{parts}; {}", missing.join("; ")) }
}

/// Returns the name of a device without its arguments.
pub(crate) fn device_name(line: &str) -> &str {
    line.split_once(',').map_or(line, |(name, _)| name)
}

/// Returns whether another line of the configuration gives this device to a scheduler, which configures and starts it.
pub(crate) fn is_worker(name: &str, lines: &[String]) -> bool {
    let workers = lines.iter().flat_map(|line| line.split(','));
    workers.filter_map(|argument| argument.split_once('=')).any(|(key, value)| key == "worker" && value == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_missing_package() {
        let linker = "librte_cryptodev.so.23: cannot open shared object file: No such file or directory";
        assert!(with_package_hint(linker).ends_with("(Debian: librte-cryptodev23)"));
    }

    #[test]
    fn only_the_named_pci_devices_are_allowed_with_their_arguments() {
        let of = |devices: &[&str]| {
            arguments(&Options { devices: devices.iter().map(ToString::to_string).collect(), ..Options::default() })
        };
        assert!(of(&["crypto_openssl"]).contains(&"--no-pci".to_owned()));
        let with = of(&["crypto_openssl", "0000:3d:01.0", "0000:03:00.0,class=crypto,algo=1"]);
        assert!(!with.contains(&"--no-pci".to_owned()));
        for allowed in ["0000:3d:01.0", "0000:03:00.0,class=crypto,algo=1"] {
            assert!(with.windows(2).any(|pair| pair == ["-a", allowed]), "{with:?}");
        }
    }

    #[test]
    fn finds_the_workers_of_a_scheduler() {
        let lines =
            ["crypto_openssl1".to_owned(), "crypto_scheduler0,worker=crypto_openssl1,mode=round-robin".to_owned()];
        assert!(is_worker("crypto_openssl1", &lines) && !is_worker("crypto_scheduler0", &lines));
    }
}
