//! Programs that root runs with the variables of another user, as `sudo` does if it keeps the environment.

mod lab;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::Path;

use lab::{CALLER, Home, Lab, Rights};

const RUNTIME: &str = env!("CARGO_BIN_EXE_hostile-runtime");

/// Runs the program as root with this home.
fn run(home: &Home) -> lab::ProgramOutput {
    lab::run(0, Path::new(RUNTIME), &[], &[("HOME", &home.text(""))])
}

#[test]
#[ignore = "needs root"]
fn root_loads_only_files_that_only_root_can_change() {
    let Some(lab) = Lab::new("owners") else { return };
    // Root's own configuration and library are loaded. The cases below change one thing each.
    let root_home = lab.home_of_root();
    let output = run(&root_home);
    assert!(root_home.is_loaded(), "{output}");
    // Root's link to the library is loaded as well.
    let root_home = lab.home_of_root();
    symlink(root_home.path("shim.so"), root_home.path("link.so")).unwrap();
    root_home.configure(&root_home.path("link.so"));
    let output = run(&root_home);
    assert!(root_home.is_loaded(), "{output}");

    // A user's configuration names the user's library, or root's.
    let caller = lab.home();
    let output = run(&caller);
    assert!(!caller.is_loaded() && output.has("error: "), "{output}");
    let (caller, root_home) = (lab.home(), lab.home_of_root());
    caller.configure(&root_home.path("shim.so"));
    let output = run(&caller);
    assert!(!root_home.is_loaded() && output.has("error: "), "{output}");
    // The user's file lies in root's folder.
    let root_home = lab.home_of_root();
    chown(root_home.path(".config/gantry/gantry.toml"), Some(CALLER), None).unwrap();
    let output = run(&root_home);
    assert!(!root_home.is_loaded() && output.has("error: "), "{output}");
    // Others may write to the file.
    let root_home = lab.home_of_root();
    fs::set_permissions(root_home.path(".config/gantry/gantry.toml"), Permissions::from_mode(0o664)).unwrap();
    let output = run(&root_home);
    assert!(!root_home.is_loaded() && output.has("error: "), "{output}");
}

#[test]
#[ignore = "needs root"]
fn root_loads_nothing_from_a_path_that_others_can_change() {
    let Some(lab) = Lab::new("paths") else { return };
    let not_loaded = |root_home: &Home, why: &str| {
        let output = run(root_home);
        assert!(!root_home.is_loaded() && output.has(why), "{why}: {output}");
    };
    // The library belongs to another user.
    let root_home = lab.home_of_root();
    chown(root_home.path("shim.so"), Some(CALLER), None).unwrap();
    not_loaded(&root_home, "belongs to another user");
    // Others may write to the library, or to a folder on the way to it.
    for (name, mode) in [("shim.so", 0o664), ("shim.so", 0o646), ("", 0o775), ("", 0o777), ("", 0o1777)] {
        let root_home = lab.home_of_root();
        fs::set_permissions(root_home.path(name), Permissions::from_mode(mode)).unwrap();
        not_loaded(&root_home, "other users may write to it");
    }
    // A folder on the way belongs to another user.
    let root_home = lab.home_of_root();
    chown(root_home.path("tmp"), Some(CALLER), None).unwrap();
    fs::rename(root_home.path("shim.so"), root_home.path("tmp/shim.so")).unwrap();
    root_home.configure(&root_home.path("tmp/shim.so"));
    not_loaded(&root_home, "belongs to another user");
    // The path passes through another user's folder and back by `..`.
    let root_home = lab.home_of_root();
    chown(root_home.path("tmp"), Some(CALLER), None).unwrap();
    root_home.configure(&root_home.path("tmp/../shim.so"));
    not_loaded(&root_home, "belongs to another user");
    // A link in another user's folder points to root's library; then root's link points to that link.
    for through in [false, true] {
        let (root_home, caller) = (lab.home_of_root(), lab.home());
        symlink(root_home.path("shim.so"), caller.path("link.so")).unwrap();
        symlink(caller.path("link.so"), root_home.path("link.so")).unwrap();
        root_home.configure(&if through { root_home.path("link.so") } else { caller.path("link.so") });
        not_loaded(&root_home, "belongs to another user");
    }
    // The link points to itself.
    let root_home = lab.home_of_root();
    symlink(root_home.path("link.so"), root_home.path("link.so")).unwrap();
    root_home.configure(&root_home.path("link.so"));
    not_loaded(&root_home, "links");
}

#[test]
#[ignore = "needs root"]
fn a_group_of_the_users_own_may_write() {
    let Some(lab) = Lab::new("groups") else { return };
    for (group, is_loaded) in [(CALLER, true), (CALLER - 1, false)] {
        let caller = lab.home();
        for name in ["", "shim.so", ".config/gantry/gantry.toml"] {
            chown(caller.path(name), None, Some(group)).unwrap();
            fs::set_permissions(caller.path(name), Permissions::from_mode(0o775)).unwrap();
        }
        let output = lab::run(CALLER, Path::new(RUNTIME), &[], &[("HOME", &caller.text(""))]);
        assert_eq!(caller.is_loaded(), is_loaded, "{group}: {output}");
    }
}

#[test]
#[ignore = "needs root"]
fn no_argument_of_dpdk_loads_code() {
    let Some(lab) = Lab::new("eal") else { return };
    for eal in ["-d /shim.so", "--no-huge -d/shim.so", "--driver-path=/shim.so", "-vd /shim.so", "--in-memory -- -d"] {
        let root_home = lab.home_of_root();
        let text = format!("[devices]\ndpdk = [\"crypto_openssl\"]\n[dpdk]\neal = \"{eal}\"\n");
        root_home.write(".config/gantry/gantry.toml", &text);
        let output = run(&root_home);
        assert!(output.has("error: ") && output.has("dpdk.eal"), "{eal}: {output}");
    }
}

#[test]
#[ignore = "needs root"]
fn a_planted_link_is_not_followed() {
    let Some(lab) = Lab::new("links") else { return };
    // The first run shows the name of the file of costs.
    let root_home = lab.home_of_root();
    let output = lab::run(0, Path::new(RUNTIME), &[], &[("XDG_CACHE_HOME", &root_home.text("cache"))]);
    let paths = root_home.paths_below("cache");
    let [folder, file] = &paths[..] else { panic!("{paths:?}: {output}") };
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(folder), mode(file)), (0o700, 0o600), "for any umask");
    let costs = file.with_extension("");
    let costs = costs.file_name().unwrap().to_str().unwrap();

    // A folder that an earlier version left writable for all users, with links under predictable names.
    let secret = lab.write("root/secret", "root's");
    for (user, rights) in [(0, Rights::Plain), (CALLER, Rights::SetUser)] {
        let root_home = lab.home_of_root();
        fs::create_dir(root_home.path("cache/gantry")).unwrap();
        fs::set_permissions(root_home.path("cache/gantry"), Permissions::from_mode(0o777)).unwrap();
        let links = [".$$.ThreadId(1)", ".json", ".new"].map(|tail| {
            format!("ln -s '{}' '{}/{costs}'\"{tail}\"\n", secret.display(), root_home.text("cache/gantry"))
        });
        let program = lab.copy_with_rights(Path::new(RUNTIME), rights);
        let output =
            lab::run_after(&links.concat(), user, &program, &[], &[("XDG_CACHE_HOME", &root_home.text("cache"))]);
        assert_eq!(fs::read_to_string(&secret).unwrap(), "root's", "{rights:?}: {output}");
    }
}

#[test]
#[ignore = "needs root"]
fn root_writes_nothing_to_the_home_of_another_user() {
    let Some(lab) = Lab::new("homes") else { return };
    let caller = lab.home();
    caller.write(".config/gantry/gantry.toml", "policy = \"latency\"\n");
    let output = run(&caller);
    assert!(!caller.path(".cache").exists() && output.has("opened"), "{output}");
    // The cache is a link to root's folder.
    symlink(lab.path("root"), caller.path(".cache")).unwrap();
    lchown(caller.path(".cache"), Some(CALLER), None).unwrap();
    let output = run(&caller);
    assert_eq!(fs::read_dir(lab.path("root")).unwrap().count(), 0, "{output}");
    // The caller's configuration names the folder for statistics.
    let root_home = lab.home_of_root();
    let text = format!("stats = \"{}\"\n", root_home.text("stats"));
    caller.write(".config/gantry/gantry.toml", &text);
    let output = run(&caller);
    assert!(root_home.paths_below("stats").is_empty() && output.has("error: "), "{output}");
    root_home.write(".config/gantry/gantry.toml", &text);
    let output = run(&root_home);
    assert!(!root_home.paths_below("stats").is_empty(), "{output}");
}
