//! Sockets under the library behave like those of netlink, also when the server disappears and another one starts.

mod lab;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use gantry_abi_xfrm::constants::group;
use gantry_abi_xfrm::preload::PreloadMessage;
use gantry_lab::wait_until;
use lab::{Lab, Server, is_possible, text};

#[test]
fn a_socket_has_netlink_addresses() {
    let lab = lab();
    let server = Server::new(&lab);
    let output = text(&lab.sh("./netlink open flags bind name join name leave name open-nonblocking flags name"));
    let named = |groups| format!("getsockname 0\nfamily 16 port own groups {groups} of 12\n");
    let expected = [
        "cloexec 1 nonblocking 0\nbind 0\n",
        &named("0x3"),
        "join 0\n",
        &named("0x83"),
        "leave 0\n",
        &named("0x3"),
        "cloexec 1 nonblocking 1\n",
        &named("0"),
    ];
    assert_eq!(output, expected.concat());
    wait_until("the program has its settings", || {
        let groups: Vec<_> = server.state.lock().unwrap().private_messages.iter().map(groups_of).collect();
        // Each connection has its own thread in the server, so that only the order within a connection is fixed.
        let (first, other): (Vec<u32>, Vec<u32>) = groups.into_iter().partition(|&groups| groups != 0);
        first == [3, 0x83, 3] && other == [0, 0]
    });
}

#[test]
fn an_answer_comes_from_the_kernel_and_can_be_peeked() {
    let lab = lab();
    let _server = Server::new(&lab);
    let output = text(&lab.sh("./netlink open request peek peek answer answer-now poll"));
    let answer = "family 16 port 0 of 12, type 0x22 sequence 1\n";
    let expected =
        format!("write 20\nrecvfrom 40: {answer}recvfrom 40: {answer}recvfrom 40: {answer}recvfrom EAGAIN\npoll 0\n");
    assert_eq!(output, expected);
}

#[test]
fn a_non_blocking_receive_gets_its_answer() {
    let lab = lab();
    let server = Server::new(&lab);
    server.state.lock().unwrap().answer_delay = Duration::from_millis(200);
    let output = text(&lab.sh("./netlink open-nonblocking request answer answer-now open request answer-now"));
    let got = |sequence| format!("write 20\nrecvfrom 40: family 16 port 0 of 12, type 0x22 sequence {sequence}\n");
    assert_eq!(output, format!("{}recvfrom EAGAIN\n{}", got(1), got(2)));
}

#[test]
fn a_non_blocking_receive_ends_if_the_server_is_silent() {
    let lab = lab();
    let server = Server::new(&lab);
    server.state.lock().unwrap().is_silent = true;
    let begin = Instant::now();
    assert_eq!(text(&lab.sh("./netlink open-nonblocking request answer")), "write 20\nrecvfrom EAGAIN\n");
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_request_is_refused_if_the_server_disappears_and_poll_loops_sleep() {
    let lab = lab();
    let server = Server::new(&lab);
    server.state.lock().unwrap().is_silent = true;
    let mut program = Program::new(&lab, "open bind request line poll peek answer poll answer-now request");
    program.read_until("ready");
    drop(server);
    program.resume();
    let refused = "recvfrom 36: family 16 port 0 of 12, type 0x2 sequence 1";
    assert_eq!(
        program.rest(),
        format!(
            "poll 1 in hangup\n{refused}\n{refused} error ECONNREFUSED\npoll 0\nrecvfrom EAGAIN\nwrite ECONNREFUSED\n"
        )
    );
}

#[test]
fn lost_events_are_reported_and_a_request_finds_the_next_server() {
    let lab = lab();
    let server = Server::new(&lab);
    let mut program = Program::new(&lab, "open bind join line poll answer poll request line request answer");
    program.read_until("ready");
    drop(server);
    program.resume();
    program.read_until("ready");
    assert_eq!(
        program.lines,
        ["bind 0", "join 0", "ready", "poll 1 in hangup", "recvfrom ENOBUFS", "poll 0", "write ECONNREFUSED", "ready"]
    );
    let server = Server::new(&lab);
    program.resume();
    assert_eq!(program.rest(), "write 20\nrecvfrom 40: family 16 port 0 of 12, type 0x22 sequence 2\n");
    let messages = server.state.lock().unwrap().private_messages.iter().map(groups_of).collect::<Vec<_>>();
    assert_eq!(messages, [0x83], "the next server gets the groups");
}

#[test]
fn a_listening_socket_finds_a_server_that_restarts_at_once() {
    let lab = lab();
    let server = Server::new(&lab);
    let mut program = Program::new(&lab, "open bind line answer poll line poll");
    program.read_until("ready");
    drop(server);
    let server = Server::new(&lab);
    program.resume();
    program.read_until("ready");
    assert_eq!(program.lines, ["bind 0", "ready", "recvfrom ENOBUFS", "poll 0", "ready"]);
    assert_ne!(server.groups() & 1 << (group::EXPIRE - 1), 0);
    server.send_event(&gantry_abi_xfrm::Message::Expire(
        gantry_abi_xfrm::Expire {
            sa: gantry_abi_xfrm::Sa::new(
                gantry_abi_xfrm::SaId { destination: [10, 0, 0, 1].into(), spi: 1, protocol: 50 },
                [10, 0, 0, 2].into(),
            ),
            is_hard: false,
        }
        .into(),
    ));
    program.resume();
    assert_eq!(program.rest(), "poll 1 in\n");
}

#[test]
fn a_request_after_a_restart_needs_no_second_attempt() {
    let lab = lab();
    let server = Server::new(&lab);
    let mut program = Program::new(&lab, "open request answer line request answer");
    program.read_until("ready");
    drop(server);
    let _server = Server::new(&lab);
    program.resume();
    assert_eq!(program.rest(), "write 20\nrecvfrom 40: family 16 port 0 of 12, type 0x22 sequence 2\n");
}

#[test]
fn a_lost_request_is_refused_even_if_another_finds_the_next_server() {
    let lab = lab();
    let server = Server::new(&lab);
    server.state.lock().unwrap().is_silent = true;
    let mut program = Program::new(&lab, "open request line request answer answer");
    program.read_until("ready");
    drop(server);
    let _server = Server::new(&lab);
    program.resume();
    let rest = program.rest();
    assert!(rest.contains("type 0x2 sequence 1 error ECONNREFUSED") && rest.contains("type 0x22 sequence 2"), "{rest}");
}

#[test]
fn a_descriptor_reused_for_another_file_is_ignored() {
    let lab = lab();
    let _server = Server::new(&lab);
    assert_eq!(text(&lab.sh("./netlink open reuse")), "same 1 length 8 name netlink\ngetsockname ENOTSOCK\n");
}

#[test]
fn excess_sockets_are_refused_and_closed_ones_free_rows() {
    let lab = lab();
    let _server = Server::new(&lab);
    assert_eq!(text(&lab.sh("./netlink again many")), "opened 200\nopened 64, then EMFILE\n");
}

#[test]
fn a_child_uses_its_parents_socket() {
    let lab = lab();
    let _server = Server::new(&lab);
    let output = text(&lab.sh("./netlink open fork request answer"));
    let got = "write 20\nrecvfrom 40: family 16 port 0 of 12, type 0x22 sequence 1\n";
    assert_eq!(output, got.repeat(2));
}

#[test]
fn a_shared_port_is_bound_with_reuseport_and_reported() {
    if !is_possible(&["unshare", "root"]) {
        return;
    }
    let lab = lab();
    let server = Server::new(&lab);
    server.state.lock().unwrap().shared_ports = vec![4500];
    let run_udp = |arguments: &str| text(&lab.sh(&format!("unshare -n sh -c 'ip link set lo up; ./udp {arguments}'")));
    let expected = |port| {
        format!("bind done\nreuseport {port}\nencap done 0\ngro done 0\nblock EOPNOTSUPP 0\nallow done 0x47455350\n")
    };
    for (arguments, shared, address) in
        [("4 4500", 1, "127.0.0.1:4500"), ("6 4500", 1, "[::1]:4500"), ("4 500", 0, "127.0.0.1:500")]
    {
        assert_eq!(run_udp(arguments), expected(shared), "{arguments}");
        let address = address.parse().unwrap();
        let mut messages = vec![PreloadMessage::Binding(address)];
        messages.extend((shared == 1).then_some(PreloadMessage::Bound(address, 0)));
        assert_eq!(server.state.lock().unwrap().private_messages.drain(..).collect::<Vec<_>>(), messages);
    }
    // The server is not notified of a port that the kernel chooses. A port taken by another program is an error for
    // the program, and is reported to the server.
    assert_eq!(run_udp("4 0"), expected(0));
    assert!(server.state.lock().unwrap().private_messages.is_empty());
    let output = run_udp("4 4500 taken");
    assert!(output.starts_with("bind EADDRINUSE\n"), "{output}");
    let address = "127.0.0.1:4500".parse().unwrap();
    let messages = server.state.lock().unwrap().private_messages.drain(..).collect::<Vec<_>>();
    assert_eq!(messages, [PreloadMessage::Binding(address), PreloadMessage::Bound(address, 98)]);
}

#[test]
fn without_the_variable_udp_sockets_are_unchanged() {
    if !is_possible(&["unshare", "root"]) {
        return;
    }
    let lab = lab();
    let line = "unshare -n sh -c 'ip link set lo up; ./udp 4 4500'";
    let output = text(&lab.command(line).output().unwrap());
    assert_eq!(output, text(&lab.command(line).env_remove("LD_PRELOAD").output().unwrap()));
    assert!(output.contains("reuseport 0") && output.contains("gro done 1"), "{output}");
}

#[test]
fn without_the_variable_the_system_calls_are_the_same() {
    if !lab::is_installed("strace") {
        return gantry_lab::skip("strace");
    }
    let lab = lab();
    let calls = |preload: bool| {
        // The loader's calls for the library itself precede the program's first call.
        let line = format!(
            "env -u LD_PRELOAD strace -qq -e trace=network,read,write,close,poll,fcntl -o calls {} ./netlink open bind name join answer-now",
            if preload { format!("-E LD_PRELOAD={}", lab::library().display()) } else { String::new() },
        );
        let output = text(&lab.command(&line).output().unwrap());
        let calls = std::fs::read_to_string(lab.path("calls")).unwrap();
        let from = calls.find("socket(").expect("the program opens a socket");
        // The port is the process ID, and memory addresses are random.
        let plain = |call: &str| {
            let call = call.split("nl_pid=").next().unwrap();
            call.split(", ").filter(|argument| !argument.starts_with("0x")).collect::<Vec<_>>().join(", ")
        };
        let calls = calls[from..].lines().map(plain).collect::<Vec<_>>();
        (output, calls)
    };
    let (output, without) = calls(false);
    assert!(output.contains("bind 0") && without.len() >= 5, "{output}{without:?}");
    assert_eq!(calls(true), (output, without));
}

/// A running program of `tests/programs/netlink.c`.
struct Program {
    running: lab::Running,
    output: BufReader<std::process::ChildStdout>,
    lines: Vec<String>,
}

impl Program {
    fn new(lab: &Lab, actions: &str) -> Self {
        let mut command = lab.command(&format!("exec ./netlink {actions}"));
        command.env("GANTRY_XFRM", lab.socket()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = lab::Running(command.spawn().unwrap());
        let output = BufReader::new(running.0.stdout.take().unwrap());
        Self { running, output, lines: Vec::new() }
    }

    /// Reads until the program prints the line `end`.
    fn read_until(&mut self, end: &str) {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it ended after {:?}", self.lines);
            self.lines.push(line.trim_end().to_owned());
            if self.lines.last().unwrap() == end {
                return;
            }
        }
    }

    fn resume(&mut self) {
        self.running.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// Reads the rest of the output.
    fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        rest
    }
}

fn lab() -> Lab {
    let lab = Lab::new();
    lab.compile("netlink");
    lab.compile("udp");
    lab
}

fn groups_of(message: &PreloadMessage) -> u32 {
    match message {
        PreloadMessage::Socket { groups, .. } => *groups,
        other => panic!("{other:?}"),
    }
}
