//! Programs that filter their system calls, and children of a fork. Each runs in a process of its own.

mod lab;

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use lab::{exit_process, served_by_lanes};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, RootCertStore, ServerConfig, ServerConnection, SideData,
};

const RECORD_LEN: usize = 16_384;

/// Allows only the system calls of threads, memory and clocks. Any other call ends the process.
fn allow_few_calls() {
    let calls = [
        libc::SYS_brk,
        libc::SYS_clock_gettime,
        libc::SYS_exit_group,
        libc::SYS_futex,
        libc::SYS_madvise,
        libc::SYS_mmap,
        libc::SYS_mprotect,
        libc::SYS_mremap,
        libc::SYS_munmap,
    ];
    let step = |code: u32, if_not: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: if_not, k };
    let result = |k| step(libc::BPF_RET | libc::BPF_K, 0, k);
    // The number of the call is the first field of `seccomp_data`.
    let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    for call in calls {
        program.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, u32::try_from(call).unwrap()));
        program.push(result(libc::SECCOMP_RET_ALLOW));
    }
    program.push(result(libc::SECCOMP_RET_KILL_PROCESS));
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: plain numbers, and a program that lives until the call returns.
    let is_filtered = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    assert!(is_filtered);
}

/// Returns the process ID of the child, or 0 in the child.
fn fork() -> libc::pid_t {
    // SAFETY: the child uses the data of this thread only.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    child
}

fn wait_for(child: libc::pid_t) {
    let mut status = -1;
    // SAFETY: a child of this process, and a number to write to.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}

struct ConnectionPair {
    client: ClientConnection,
    server: ServerConnection,
}

impl ConnectionPair {
    fn new(provider: CryptoProvider) -> Self {
        let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = identity.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(identity.signing_key.serialize_der());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let provider = Arc::new(provider);
        let client =
            ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
        let client = client.with_root_certificates(roots).with_no_client_auth();
        let server = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let server = server.with_no_client_auth().with_single_cert(vec![certificate], key.into()).unwrap();
        let mut client = ClientConnection::new(Arc::new(client), "localhost".try_into().unwrap()).unwrap();
        let mut server = ServerConnection::new(Arc::new(server)).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            deliver(&mut client, &mut server);
            deliver(&mut server, &mut client);
        }
        Self { client, server }
    }

    /// Sends a record in each direction, 50 times.
    fn send(&mut self) {
        for _ in 0..50 {
            self.client.writer().write_all(&[7; RECORD_LEN]).unwrap();
            assert_eq!(deliver(&mut self.client, &mut self.server), RECORD_LEN);
            self.server.writer().write_all(&[7; RECORD_LEN]).unwrap();
            assert_eq!(deliver(&mut self.server, &mut self.client), RECORD_LEN);
        }
    }
}

/// Delivers the records of one end to the other, and returns the bytes of content.
fn deliver<A: SideData, B: SideData>(from: &mut ConnectionCommon<A>, to: &mut ConnectionCommon<B>) -> usize {
    let (mut bytes, mut content) = (Vec::new(), vec![0; RECORD_LEN]);
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let (mut bytes, mut arrived) = (&bytes[..], 0);
    while !bytes.is_empty() {
        to.read_tls(&mut bytes).unwrap();
        to.process_new_packets().unwrap();
        while let Ok(read @ 1..) = to.reader().read(&mut content) {
            arrived += read;
        }
    }
    arrived
}

#[test]
fn a_filter_after_the_start_allows_lanes() {
    fn program() -> ! {
        let mut pair = ConnectionPair::new(gantry_rustls::default_provider());
        allow_few_calls();
        pair.send();
        exit_process()
    }
    let served = served_by_lanes("a_filter_after_the_start_allows_lanes", Some("pin:lanes"), program);
    assert!(served.is_none_or(|served| served >= 100), "{served:?}");
}

/// The costs that the start measures choose the routes, with a policy and without.
#[test]
fn a_filter_after_the_start_allows_measured_routes() {
    fn program() -> ! {
        let mut pair = ConnectionPair::new(gantry_rustls::default_provider());
        allow_few_calls();
        (0..20).for_each(|_| pair.send());
        exit_process()
    }
    for policy in [None, Some("latency")] {
        served_by_lanes("a_filter_after_the_start_allows_measured_routes", policy, program);
    }
}

#[test]
fn a_child_of_a_fork_opens_nothing_by_itself() {
    fn program() -> ! {
        let mut pair = ConnectionPair::new(gantry_rustls::default_provider());
        let child = fork();
        if child == 0 {
            allow_few_calls();
            pair.send();
            pair.client.refresh_traffic_keys().unwrap();
            pair.server.refresh_traffic_keys().unwrap();
            pair.send();
            exit_process();
        }
        wait_for(child);
        exit_process()
    }
    let served = served_by_lanes("a_child_of_a_fork_opens_nothing_by_itself", Some("pin:lanes"), program);
    // Only the parent's handshake has records in lanes.
    assert!(served.is_none_or(|served| served < 50), "{served:?}");
}

#[test]
fn a_child_of_a_fork_gets_lanes_from_its_own_call() {
    fn program() -> ! {
        drop(gantry_rustls::default_provider());
        let child = fork();
        if child == 0 {
            ConnectionPair::new(gantry_rustls::default_provider()).send();
            exit_process();
        }
        wait_for(child);
        exit_process()
    }
    let served = served_by_lanes("a_child_of_a_fork_gets_lanes_from_its_own_call", Some("pin:lanes"), program);
    assert!(served.is_none_or(|served| served >= 50), "{served:?}");
}
