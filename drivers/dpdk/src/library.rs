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

/// Releases of DPDK whose shim is looked for, by the numbers of their ABI, the newest first: 25.11, 24.11, 23.11, 22.11.
const RELEASES: [u32; 4] = [26, 25, 24, 23];
/// Sessions of DPDK that a device has room for, unless it takes fewer.
const SESSIONS: u32 = 1024;
/// Bytes of stack for the code that brings up devices.
const STACK: usize = 16 << 20;

/// DPDK, once it runs in this process. It starts once, with the options of whoever is first.
static STARTED: OnceLock<Result<Shim, String>> = OnceLock::new();
/// Devices that run, or why they do not. Locked while DPDK brings one up, because it looks at all others then.
static ENGINES: Mutex<BTreeMap<String, Result<Arc<Engine>, String>>> = Mutex::new(BTreeMap::new());

/// Starts DPDK, if nobody has.
pub(crate) fn start(options: &Options) -> Result<Shim, String> {
    STARTED.get_or_init(|| start_now(options)).clone()
}

fn start_now(options: &Options) -> Result<Shim, String> {
    let shim = load(options)?;
    sys::starts_here();
    let arguments: Result<Vec<CString>, _> = arguments(options).into_iter().map(CString::new).collect();
    let arguments = arguments.map_err(|_| "an EAL argument with a zero byte".to_owned())?;
    in_thread(|| shim.start(arguments)).map_err(|why| {
        let lacks = Machine::default().lacks_memory(&options.eal, options.memory);
        explain("DPDK does not start", &why, lacks.as_slice())
    })?;
    Ok(shim)
}

/// Runs `work` of DPDK's in a thread that ends: DPDK binds the one that starts it to a CPU. The stack is that of a main thread,
/// which some of its code takes for granted (the scheduler of 24.11 has arrays of megabytes).
fn in_thread<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("dpdk-start".to_owned()).stack_size(STACK);
        let thread = builder.spawn_scoped(scope, work).map_err(|error| format!("no thread for DPDK: {error}"))?;
        thread.join().unwrap_or_else(|_| Err("a panic".to_owned()))
    })
}

/// What DPDK is started with.
fn arguments(options: &Options) -> Vec<String> {
    let mut arguments = vec!["gantry".to_owned()];
    // No sockets, no files, no threads for them.
    arguments.extend(["--no-telemetry", "--no-shconf", "--log-level=error"].map(str::to_owned));
    // One lcore, which may run on every CPU that the process may use.
    arguments.push(format!("--lcores=0@({})", allowed_cpus()));
    arguments.extend(["-m".to_owned(), options.memory.to_string()]);
    let pci: Vec<&String> = options.devices.iter().filter(|device| is_pci(name_of(device))).collect();
    if pci.is_empty() {
        arguments.push("--no-pci".to_owned());
    }
    // A list keeps DPDK away from everything else that is bound to its drivers. It brings these up when it starts, with their
    // arguments.
    arguments.extend(pci.into_iter().flat_map(|device| ["-a".to_owned(), device.clone()]));
    arguments.extend(options.eal.iter().cloned());
    arguments
}

/// CPUs as the kernel writes them: `0-3,8`.
fn allowed_cpus() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map_or("0", str::trim).to_owned()
}

/// The shim of the first release that is installed.
pub(crate) fn load(options: &Options) -> Result<Shim, String> {
    // Its C library has no dynamic linker.
    if cfg!(target_feature = "crt-static") {
        return Err(
            "this is a static program, which cannot load DPDK's libraries; the packages' and what `make` builds can"
                .to_owned(),
        );
    }
    if gantry_rights::borrowed() {
        return Err(
            "the program has rights that its caller has not, and DPDK reads variables of the caller's".to_owned()
        );
    }
    if let Some(path) = &options.shim {
        return Shim::load(path).map_err(|why| explained(&why));
    }
    let places = places();
    let files = RELEASES
        .iter()
        .flat_map(|release| places.iter().map(move |place| place.join(format!("libgantry_dpdk.so.{release}"))));
    let mut problem = None;
    for file in files.filter(|file| file.exists()) {
        match Shim::load(&file) {
            Ok(shim) => return Ok(shim),
            Err(why) => problem = problem.or(Some(why)),
        }
    }
    Err(problem.map_or_else(
        || {
            let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
            format!(
                "there is no libgantry_dpdk.so.{} to .{} in {}; scripts/dpdk builds it (Debian: libdpdk-dev, pkg-config)",
                RELEASES[RELEASES.len() - 1],
                RELEASES[0],
                places.join(", ")
            )
        },
        |why| explained(&why),
    ))
}

/// Folders in which the shim is looked for: beside the program, where `make install` puts it, and where it puts it for programs
/// that lie elsewhere.
fn places() -> Vec<PathBuf> {
    let program = std::env::current_exe().ok();
    let beside = program.as_deref().and_then(Path::parent);
    let installed = beside.and_then(Path::parent).map(|prefix| prefix.join("lib/gantry"));
    let mut places: Vec<PathBuf> = beside.map(Path::to_owned).into_iter().chain(installed).collect();
    places.extend(["/usr/local/lib/gantry", "/usr/lib/gantry"].map(PathBuf::from));
    let mut seen = std::collections::BTreeSet::new();
    places.retain(|place| seen.insert(place.clone()));
    places
}

/// What the dynamic linker says, with the Debian package that lacks.
fn explained(why: &str) -> String {
    let library = why.split(['/', ':', ' ']).find(|word| word.starts_with("librte_") && word.contains(".so."));
    match library.and_then(|library| library.split_once(".so.")) {
        Some((name, release)) => format!("{why} (Debian: {})", package(name, release)),
        None => why.to_owned(),
    }
}

/// The devices of a line of the configuration by their names, brought up and started if they are not yet. Most lines lead to one; a card
/// of Intel's has a second cryptodev, for asymmetric cryptography.
pub(crate) fn engines(shim: Shim, line: &str, options: &Options) -> Vec<(String, Result<Arc<Engine>, String>)> {
    let name = name_of(line);
    let mut engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut get = |name: String, bring_up: &(dyn Fn() -> Result<Engine, String> + Sync)| {
        // One that could not be brought up before may be there now.
        if !matches!(engines.get(&name), Some(Ok(_))) {
            engines.insert(name.clone(), in_thread(bring_up).map(Arc::new));
        }
        let engine = engines[&name].clone();
        (name, engine)
    };
    let first = get(name.to_owned(), &|| bring_up(shim, line, options));
    let is_symmetric = first.1.as_ref().is_ok_and(|engine| engine.cryptodev.symmetric);
    let has_second = is_symmetric && shim.find(name, true).is_some();
    let second = has_second
        .then(|| get(format!("{name}-asym"), &|| start_device(shim.find(name, true).ok_or("it has gone")?, options)));
    std::iter::once(first).chain(second).collect()
}

/// The device of this name, if it runs.
pub(crate) fn running(name: &str) -> Option<Arc<Engine>> {
    let engines = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    engines.get(name).and_then(|engine| engine.clone().ok())
}

fn bring_up(shim: Shim, line: &str, options: &Options) -> Result<Engine, String> {
    let name = name_of(line);
    let lacking =
        |what: &str, why: &str| explain(what, why, &Machine::default().lacks(name, shim.release(), options.memory));
    let find = || shim.find(name, false).or_else(|| shim.find(name, true));
    // Some buses bring up what is on them when DPDK starts.
    if find().is_none() {
        plug(shim, line).map_err(|why| lacking("DPDK does not bring it up", &why))?;
    }
    let cryptodev = find().ok_or_else(|| lacking("DPDK made no cryptodev of it", ""))?;
    start_device(cryptodev, options)
}

fn start_device(cryptodev: Cryptodev, options: &Options) -> Result<Engine, String> {
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get) as u32;
    // One for each CPU, and one for known-answer tests, which run beside whatever else does.
    let queues = options.queues.unwrap_or(cpus + 1).min(cryptodev.most_queues).max(1);
    let sessions = if cryptodev.most_sessions == 0 { SESSIONS } else { SESSIONS.min(cryptodev.most_sessions) };
    cryptodev
        .configure(queues, DESCRIPTORS, sessions)
        .map_err(|why| format!("DPDK does not start the device: {why}"))?;
    Ok(Engine::new(cryptodev, queues, options.lend_from))
}

/// Has DPDK bring up a device that a scheduler configures and starts.
pub(crate) fn worker(shim: Shim, line: &str, options: &Options) -> Result<(), String> {
    let _turn = ENGINES.lock().unwrap_or_else(PoisonError::into_inner);
    in_thread(|| plug(shim, line)).map_err(|why| {
        let lacks = Machine::default().lacks(name_of(line), shim.release(), options.memory);
        explain("DPDK does not bring it up", &why, &lacks)
    })
}

/// Has DPDK find and bring up a device, without starting it. The error is DPDK's.
fn plug(shim: Shim, line: &str) -> Result<(), String> {
    let (name, arguments) = line.split_once(',').unwrap_or((line, ""));
    shim.plug(if is_pci(name) { c"pci" } else { c"vdev" }, name, arguments)
}

/// What went wrong, what DPDK said of it, and what is missing.
fn explain(what: &str, why: &str, lacks: &[String]) -> String {
    let parts =
        [what, why.trim_end_matches('.')].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
    if lacks.is_empty() { parts } else { format!("{parts}; {}", lacks.join("; ")) }
}

/// The name of a device, without its arguments.
pub(crate) fn name_of(line: &str) -> &str {
    line.split_once(',').map_or(line, |(name, _)| name)
}

/// Whether another line of the configuration gives this device to a scheduler, which configures and starts it.
pub(crate) fn is_worker(name: &str, lines: &[String]) -> bool {
    let workers = lines.iter().flat_map(|line| line.split(','));
    workers.filter_map(|argument| argument.split_once('=')).any(|(key, value)| key == "worker" && value == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_that_lacks_is_named() {
        let linker = "librte_cryptodev.so.23: cannot open shared object file: No such file or directory";
        assert!(explained(linker).ends_with("(Debian: librte-cryptodev23)"));
    }

    #[test]
    fn dpdk_sees_the_pci_devices_that_are_named_with_their_arguments_and_no_other() {
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
    fn workers_belong_to_their_scheduler() {
        let lines =
            ["crypto_openssl1".to_owned(), "crypto_scheduler0,worker=crypto_openssl1,mode=round-robin".to_owned()];
        assert!(is_worker("crypto_openssl1", &lines) && !is_worker("crypto_scheduler0", &lines));
    }
}
