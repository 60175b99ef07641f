//! `gantry serve`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use gantry_core::Priority;
use gantry_vhost_user::{Limits, Socket};
use nix::unistd::{Group, User};

use super::programs::device_name;
use super::size;

/// Serve crypto devices to virtual machines, and /dev/crypto, in one process
///
/// Each --vhost-user creates the socket of one virtual machine's virtio crypto device. Front ends such as QEMU and cloud-hypervisor
/// connect to it; the memory of the machine must be shared. Requests of all machines, and of /dev/crypto with --devcrypto, share
/// devices and batches. Each machine has its own limits and its own share of the devices.
///
/// A machine that reconnects starts with a fresh device. A socket left behind by a dead server is replaced. If another server
/// answers on it, the command fails.
#[derive(Args)]
#[group(required = true, multiple = true)]
#[command(after_help = "\
Examples:
  gantry serve --vhost-user /run/vm1.sock --vhost-user /run/vm2.sock,rate=200M,class=bulk
  gantry serve --devcrypto --vhost-user /run/vm1.sock,owner=libvirt-qemu:kvm,mode=660

Settings of a machine follow its path, separated by commas. Defaults are in brackets:
  mode=OCTAL         permissions of the socket [600]
  owner=USER:GROUP   owner of the socket; USER or GROUP may be empty [the server's]
  sessions=N         maximum number of sessions [1024]
  bytes=SIZE         maximum bytes of requests in flight [16M]
  rate=SIZE          maximum bytes per second, both directions together [no limit]
  weight=N           share within its class: in each turn up to 32 x N requests and 2 MiB x N [1]
  class=CLASS        real-time (served first), normal or bulk (served last) [normal]
SIZE is a number of bytes, such as 1500, 64K, 16M or 1G; K, M and G are powers of 1024.")]
pub(crate) struct ServeAll {
    /// Also serve /dev/NAME, like `gantry devcrypto serve`; without NAME, /dev/crypto
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "crypto", value_parser = device_name)]
    pub(crate) devcrypto: Option<String>,
    /// Create a socket for one virtual machine; may be repeated
    #[arg(long, value_name = "PATH[,KEY=VALUE...]")]
    pub(crate) vhost_user: Vec<Guest>,
}

/// A virtual machine and its partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guest {
    pub(crate) socket: Socket,
    pub(crate) limits: Limits,
}

impl FromStr for Guest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let path = PathBuf::from(parts.next().unwrap_or_default());
        if path.file_name().is_none() {
            return Err("not the path of a file".to_owned());
        }
        let mut socket = Socket { path, mode: 0o600, owner: (None, None) };
        let mut limits = Limits::default();
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(|| format!("{part}: not KEY=VALUE"))?;
            let wrong = |wanted: &str| format!("{key}={value}: not {wanted}");
            match key {
                "mode" => {
                    let mode = u32::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o777);
                    socket.mode = mode.ok_or_else(|| wrong("an octal number up to 777"))?;
                }
                "owner" => socket.owner = owner(value).ok_or_else(|| wrong("a user and a group of this machine"))?,
                "sessions" => limits.sessions = positive(value).ok_or_else(|| wrong("a positive integer"))? as usize,
                "bytes" => limits.bytes = size(value).map_err(|_| wrong("a size"))?.max(1),
                "rate" => limits.rate = Some(size(value).map_err(|_| wrong("a size"))?.max(1) as u64),
                "weight" => limits.weight = positive(value).ok_or_else(|| wrong("a positive integer"))?,
                "class" => {
                    limits.class = match value {
                        "real-time" => Priority::RealTime,
                        "normal" => Priority::Normal,
                        "bulk" => Priority::Bulk,
                        _ => return Err(wrong("real-time, normal or bulk")),
                    };
                }
                _ => return Err(format!("{key}: unknown setting of a virtual machine")),
            }
        }
        Ok(Self { socket, limits })
    }
}

fn positive(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number > 0)
}

/// Parses USER, USER:GROUP or :GROUP, by name or by number.
fn owner(text: &str) -> Option<(Option<u32>, Option<u32>)> {
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    let user_of =
        |name: &str| name.parse().ok().or_else(|| User::from_name(name).ok().flatten().map(|user| user.uid.as_raw()));
    let group_of = |name: &str| {
        name.parse().ok().or_else(|| Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw()))
    };
    let user = if user.is_empty() { None } else { Some(user_of(user)?) };
    let group = if group.is_empty() { None } else { Some(group_of(group)?) };
    (user.is_some() || group.is_some()).then_some((user, group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_follow_the_path() {
        let guest: Guest =
            "/run/vm1.sock,mode=660,owner=0:0,sessions=9,bytes=2M,rate=3M,weight=4,class=bulk".parse().unwrap();
        let limits = Limits { sessions: 9, bytes: 2 << 20, rate: Some(3 << 20), weight: 4, class: Priority::Bulk };
        assert_eq!(guest.limits, limits);
        assert_eq!((guest.socket.mode, guest.socket.owner), (0o660, (Some(0), Some(0))));
        let plain: Guest = "vm2.sock".parse().unwrap();
        assert_eq!((plain.limits, plain.socket.mode), (Limits::default(), 0o600));
        assert_eq!("a,owner=:root".parse::<Guest>().unwrap().socket.owner, (None, Some(0)));
    }

    #[test]
    fn a_wrong_setting_is_named() {
        for (text, named) in [
            ("", "path"),
            ("/", "path"),
            ("vm,weight", "weight"),
            ("vm,weight=0", "weight=0"),
            ("vm,mode=9", "mode=9"),
            ("vm,mode=7777", "mode=7777"),
            ("vm,class=fast", "class=fast"),
            ("vm,owner=nobody-has-this-name", "owner="),
            ("vm,color=red", "color"),
        ] {
            let error = text.parse::<Guest>().unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
