//! Programs that root runs with variables of another user's, as `sudo` does that keeps them.

mod lab;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::Path;

use lab::{CALLER, Home, Lab, Rights};

const RUNTIME: &str = env!("CARGO_BIN_EXE_hostile-runtime");

/// A program of root's in this home.
fn run(home: &Home) -> lab::Said {
    lab::run(0, Path::new(RUNTIME), &[], &[("HOME", &home.text(""))])
}

#[test]
#[ignore = "as root"]
fn root_loads_what_only_root_can_change_and_a_user_what_is_its_own() {
    let Some(lab) = Lab::new("owners") else { return };
    // Root's own configuration, and root's own library: the control of all that follows.
    let own = lab.home_of_root();
    let said = run(&own);
    assert!(own.is_loaded(), "{said}");
    // So does a link of root's.
    let own = lab.home_of_root();
    symlink(own.path("shim.so"), own.path("link.so")).unwrap();
    own.configure(&own.path("link.so"));
    let said = run(&own);
    assert!(own.is_loaded(), "{said}");

    // A user's configuration names a library of the user's, or one of root's.
    let caller = lab.home();
    let said = run(&caller);
    assert!(!caller.is_loaded() && said.has("error: "), "{said}");
    let (caller, roots) = (lab.home(), lab.home_of_root());
    caller.configure(&roots.path("shim.so"));
    let said = run(&caller);
    assert!(!roots.is_loaded() && said.has("error: "), "{said}");
    // The user's file lies in root's folder.
    let own = lab.home_of_root();
    chown(own.path(".config/gantry/gantry.toml"), Some(CALLER), None).unwrap();
    let said = run(&own);
    assert!(!own.is_loaded() && said.has("error: "), "{said}");
    // Others may write to the file.
    let own = lab.home_of_root();
    fs::set_permissions(own.path(".config/gantry/gantry.toml"), Permissions::from_mode(0o664)).unwrap();
    let said = run(&own);
    assert!(!own.is_loaded() && said.has("error: "), "{said}");
}

#[test]
#[ignore = "as root"]
fn root_loads_nothing_from_a_path_that_others_can_change() {
    let Some(lab) = Lab::new("paths") else { return };
    let not_loaded = |own: &Home, why: &str| {
        let said = run(own);
        assert!(!own.is_loaded() && said.has(why), "{why}: {said}");
    };
    // The library belongs to another user.
    let own = lab.home_of_root();
    chown(own.path("shim.so"), Some(CALLER), None).unwrap();
    not_loaded(&own, "belongs to another user");
    // Others may write to it, or to a folder on the way.
    for (name, mode) in [("shim.so", 0o664), ("shim.so", 0o646), ("", 0o775), ("", 0o777), ("", 0o1777)] {
        let own = lab.home_of_root();
        fs::set_permissions(own.path(name), Permissions::from_mode(mode)).unwrap();
        not_loaded(&own, "other users may write to it");
    }
    // A folder on the way belongs to another user.
    let own = lab.home_of_root();
    chown(own.path("tmp"), Some(CALLER), None).unwrap();
    fs::rename(own.path("shim.so"), own.path("tmp/shim.so")).unwrap();
    own.configure(&own.path("tmp/shim.so"));
    not_loaded(&own, "belongs to another user");
    // It leads away and back, through `..`.
    let own = lab.home_of_root();
    chown(own.path("tmp"), Some(CALLER), None).unwrap();
    own.configure(&own.path("tmp/../shim.so"));
    not_loaded(&own, "belongs to another user");
    // A link in another user's folder leads to root's library; and a link of root's leads through such a link.
    for through in [false, true] {
        let (own, caller) = (lab.home_of_root(), lab.home());
        symlink(own.path("shim.so"), caller.path("link.so")).unwrap();
        symlink(caller.path("link.so"), own.path("link.so")).unwrap();
        own.configure(&if through { own.path("link.so") } else { caller.path("link.so") });
        not_loaded(&own, "belongs to another user");
    }
    // A circle.
    let own = lab.home_of_root();
    symlink(own.path("link.so"), own.path("link.so")).unwrap();
    own.configure(&own.path("link.so"));
    not_loaded(&own, "links");
}

#[test]
#[ignore = "as root"]
fn a_group_of_the_users_own_may_write() {
    let Some(lab) = Lab::new("groups") else { return };
    for (group, is_loaded) in [(CALLER, true), (CALLER - 1, false)] {
        let caller = lab.home();
        for name in ["", "shim.so", ".config/gantry/gantry.toml"] {
            chown(caller.path(name), None, Some(group)).unwrap();
            fs::set_permissions(caller.path(name), Permissions::from_mode(0o775)).unwrap();
        }
        let said = lab::run(CALLER, Path::new(RUNTIME), &[], &[("HOME", &caller.text(""))]);
        assert_eq!(caller.is_loaded(), is_loaded, "{group}: {said}");
    }
}

#[test]
#[ignore = "as root"]
fn no_argument_of_dpdk_loads_code() {
    let Some(lab) = Lab::new("eal") else { return };
    for eal in ["-d /shim.so", "--no-huge -d/shim.so", "--driver-path=/shim.so", "-vd /shim.so", "--in-memory -- -d"] {
        let own = lab.home_of_root();
        let text = format!("[devices]\ndpdk = [\"crypto_openssl\"]\n[dpdk]\neal = \"{eal}\"\n");
        own.write(".config/gantry/gantry.toml", &text);
        let said = run(&own);
        assert!(said.has("error: ") && said.has("dpdk.eal"), "{eal}: {said}");
    }
}

#[test]
#[ignore = "as root"]
fn a_planted_link_is_not_followed() {
    let Some(lab) = Lab::new("links") else { return };
    // The name of the file of costs, from one that is written.
    let own = lab.home_of_root();
    let said = lab::run(0, Path::new(RUNTIME), &[], &[("XDG_CACHE_HOME", &own.text("cache"))]);
    let kept = own.left_in("cache");
    let [folder, file] = &kept[..] else { panic!("{kept:?}: {said}") };
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(folder), mode(file)), (0o700, 0o600), "whatever the mask is");
    let costs = file.with_extension("");
    let costs = costs.file_name().unwrap().to_str().unwrap();

    // A folder that an earlier version left open to all, and in it links, under names that can be known before.
    let secret = lab.write("root/secret", "root's");
    for (user, rights) in [(0, Rights::Plain), (CALLER, Rights::SetUser)] {
        let own = lab.home_of_root();
        fs::create_dir(own.path("cache/gantry")).unwrap();
        fs::set_permissions(own.path("cache/gantry"), Permissions::from_mode(0o777)).unwrap();
        let links = [".$$.ThreadId(1)", ".json", ".new"]
            .map(|tail| format!("ln -s '{}' '{}/{costs}'\"{tail}\"\n", secret.display(), own.text("cache/gantry")));
        let program = lab.with(Path::new(RUNTIME), rights);
        let said = lab::run_after(&links.concat(), user, &program, &[], &[("XDG_CACHE_HOME", &own.text("cache"))]);
        assert_eq!(fs::read_to_string(&secret).unwrap(), "root's", "{rights:?}: {said}");
    }
}

#[test]
#[ignore = "as root"]
fn root_keeps_nothing_in_the_home_of_another_user() {
    let Some(lab) = Lab::new("homes") else { return };
    let caller = lab.home();
    caller.write(".config/gantry/gantry.toml", "policy = \"latency\"\n");
    let said = run(&caller);
    assert!(!caller.path(".cache").exists() && said.has("opened"), "{said}");
    // The cache is a link to a folder of root's.
    symlink(lab.path("root"), caller.path(".cache")).unwrap();
    lchown(caller.path(".cache"), Some(CALLER), None).unwrap();
    let said = run(&caller);
    assert_eq!(fs::read_dir(lab.path("root")).unwrap().count(), 0, "{said}");
    // Statistics, too: the caller names the folder.
    let roots = lab.home_of_root();
    let text = format!("stats = \"{}\"\n", roots.text("stats"));
    caller.write(".config/gantry/gantry.toml", &text);
    let said = run(&caller);
    assert!(roots.left_in("stats").is_empty() && said.has("error: "), "{said}");
    roots.write(".config/gantry/gantry.toml", &text);
    let said = run(&roots);
    assert!(!roots.left_in("stats").is_empty(), "{said}");
}
